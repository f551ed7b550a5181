"""Prove the checker itself on histories made by hand: it must accept possible histories and refuse impossible ones."""

import itertools
import random

import pytest

from tests.faults.support.history import (
    ABSENT,
    Call,
    Delete,
    Done,
    Operation,
    Outcome,
    Put,
    Read,
    Saw,
    Unknown,
    explain,
    unexplained,
)


def _call(client: str, start: int, end: int, operation: Operation, outcome: Outcome, key: str = "k") -> Call:
    return Call(client, key, start, end, operation, outcome)


GOOD = {
    "nothing": [],
    "a read of nothing": [_call("a", 0, 1, Read(), Saw(ABSENT))],
    "one after another": [
        _call("a", 0, 1, Put(1, ABSENT), Done()),
        _call("b", 2, 3, Put(2, 1), Done()),
        _call("a", 4, 5, Read(), Saw(2)),
        _call("a", 6, 7, Delete(2), Done()),
        _call("b", 8, 9, Read(), Saw(ABSENT)),
        _call("b", 10, 11, Put(3, ABSENT), Done()),
    ],
    "two at once, one wins and the other is told": [
        _call("a", 0, 10, Put(1, ABSENT), Done()),
        _call("b", 0, 10, Put(2, ABSENT), Saw(1)),
    ],
    "concurrent reads see either side": [
        _call("a", 0, 1, Put(1, ABSENT), Done()),
        _call("a", 2, 9, Put(2, 1), Done()),
        _call("b", 3, 4, Read(), Saw(1)),
        _call("b", 5, 6, Read(), Saw(2)),
        _call("c", 3, 8, Read(), Saw(1)),
    ],
    "calls that touch are concurrent": [
        _call("a", 0, 5, Put(1, ABSENT), Done()),
        _call("b", 5, 6, Read(), Saw(ABSENT)),
    ],
    "an open write that never happened": [
        _call("a", 0, 1, Put(1, ABSENT), Unknown()),
        _call("b", 2, 3, Put(2, ABSENT), Done()),
        _call("b", 4, 5, Read(), Saw(2)),
    ],
    "an open write that happened long after its caller gave up": [
        _call("a", 0, 1, Put(1, ABSENT), Unknown()),
        _call("b", 2, 3, Read(), Saw(ABSENT)),
        _call("b", 4, 5, Read(), Saw(1)),
    ],
    "open writes that others built upon": [
        _call("a", 0, 1, Put(1, ABSENT), Unknown()),
        _call("a", 2, 3, Put(2, 1), Unknown()),
        _call("b", 4, 5, Put(3, 2), Done()),
    ],
    "an open delete between two creations": [
        _call("a", 0, 1, Put(1, ABSENT), Done()),
        _call("a", 2, 3, Delete(1), Unknown()),
        _call("b", 4, 5, Put(2, ABSENT), Done()),
    ],
    "refused by what is there": [
        _call("a", 0, 1, Put(1, ABSENT), Done()),
        _call("a", 2, 3, Put(2, 1), Done()),
        _call("b", 4, 5, Put(3, 1), Saw(2)),
        _call("b", 6, 7, Delete(1), Saw(2)),
    ],
    "refused because it is gone": [
        _call("a", 0, 1, Put(1, ABSENT), Done()),
        _call("a", 2, 3, Delete(1), Done()),
        _call("b", 4, 5, Put(2, 1), Saw(ABSENT)),
    ],
}

BAD = {
    "a read of what nobody wrote": [_call("a", 0, 1, Read(), Saw(7))],
    "a lost acknowledged write": [
        _call("a", 0, 1, Put(1, ABSENT), Done()),
        _call("b", 2, 3, Read(), Saw(ABSENT)),
    ],
    "a lost update: two writes over the same version": [
        _call("a", 0, 1, Put(1, ABSENT), Done()),
        _call("a", 2, 9, Put(2, 1), Done()),
        _call("b", 2, 9, Put(3, 1), Done()),
    ],
    "two owners": [
        _call("a", 0, 9, Put(1, ABSENT), Done()),
        _call("b", 0, 9, Put(2, ABSENT), Done()),
    ],
    "refused, though it was applied": [
        _call("a", 0, 1, Put(1, ABSENT), Done()),
        _call("a", 2, 3, Put(2, 1), Saw(1)),
    ],
    "refused, applied all the same, and then overtaken": [
        _call("a", 0, 1, Put(1, ABSENT), Done()),
        _call("b", 2, 9, Put(2, 1), Saw(3)),
        _call("a", 3, 4, Read(), Saw(2)),
        _call("a", 5, 6, Put(3, 2), Done()),
    ],
    "applied, though it was not": [
        _call("a", 0, 1, Put(1, ABSENT), Done()),
        _call("b", 2, 3, Put(2, 1), Done()),
        _call("b", 4, 5, Read(), Saw(1)),
    ],
    "a refusal that shows what the write asked for": [
        _call("a", 0, 1, Put(1, ABSENT), Done()),
        _call("b", 2, 3, Delete(1), Saw(1)),
    ],
    "an open write that is seen, unseen and seen again": [
        _call("a", 0, 1, Put(1, ABSENT), Unknown()),
        _call("b", 2, 3, Read(), Saw(1)),
        _call("b", 4, 5, Read(), Saw(ABSENT)),
    ],
    "an open write that took effect twice": [
        _call("a", 0, 1, Put(1, ABSENT), Unknown()),
        _call("b", 2, 3, Read(), Saw(1)),
        _call("b", 4, 5, Delete(1), Done()),
        _call("b", 6, 7, Read(), Saw(1)),
    ],
    "an open write that took effect before it began": [
        _call("b", 0, 1, Read(), Saw(1)),
        _call("a", 2, 3, Put(1, ABSENT), Unknown()),
    ],
    "a stale read after the write had ended": [
        _call("a", 0, 1, Put(1, ABSENT), Done()),
        _call("a", 2, 3, Put(2, 1), Done()),
        _call("b", 4, 5, Read(), Saw(1)),
    ],
    "two readers who disagree about the order": [
        _call("a", 0, 1, Put(1, ABSENT), Done()),
        _call("a", 2, 9, Put(2, 1), Done()),
        _call("b", 3, 4, Read(), Saw(2)),
        _call("c", 5, 6, Read(), Saw(1)),
    ],
    "a deleted record that comes back by itself": [
        _call("a", 0, 1, Put(1, ABSENT), Done()),
        _call("a", 2, 3, Delete(1), Done()),
        _call("b", 4, 5, Read(), Saw(1)),
    ],
}


@pytest.mark.parametrize("calls", GOOD.values(), ids=GOOD)
def test_what_can_have_happened_is_explained(calls: list[Call]) -> None:
    for order in itertools.islice(itertools.permutations(calls), 200):
        explained = explain(order)
        assert explained is not None
        assert {call for call in calls if not isinstance(call.outcome, Unknown)} <= set(explained)
        _assert_times_agree(explained)
    assert unexplained(calls) == []


@pytest.mark.parametrize("calls", BAD.values(), ids=BAD)
def test_what_cannot_have_happened_is_refused(calls: list[Call]) -> None:
    for order in itertools.islice(itertools.permutations(calls), 200):
        assert explain(order) is None
    assert unexplained(calls) == [sorted(calls, key=lambda call: call.start)]


def test_keys_are_judged_each_alone() -> None:
    good = [_call("a", 0, 1, Put(1, ABSENT), Done(), key="good"), _call("b", 2, 3, Read(), Saw(1), key="good")]
    bad = [_call("a", 0, 1, Put(2, ABSENT), Done(), key="bad"), _call("b", 2, 3, Read(), Saw(1), key="bad")]
    assert unexplained(good + bad) == [bad]


@pytest.mark.parametrize("seed", range(20))
def test_random_runs_of_a_true_register_are_explained_and_a_forged_answer_is_not(seed: int) -> None:
    """Eight clients at once, a tenth of the answers lost: so long that only a search with a cache ends."""
    rng = random.Random(seed)
    calls = _simulated(rng, clients=8, steps=400)
    assert unexplained(calls) == []
    reads = [
        index for index, call in enumerate(calls) if isinstance(call.operation, Read) and call.outcome != Saw(ABSENT)
    ]
    forged = list(calls)
    victim = forged[rng.choice(reads)]
    never_written = Saw(10**9)
    forged[forged.index(victim)] = Call(
        victim.client, victim.key, victim.start, victim.end, victim.operation, never_written
    )
    assert len(unexplained(forged)) == 1


def _assert_times_agree(order: list[Call]) -> None:
    for earlier, later in itertools.combinations(order, 2):
        assert isinstance(later.outcome, Unknown) or later.end >= earlier.start


def _simulated(rng: random.Random, *, clients: int, steps: int) -> list[Call]:
    """Return the calls that clients of one real register report; each takes effect at a random moment of its own."""
    calls = []
    state: int | None = ABSENT
    now = 0
    knows: list[int | None] = [ABSENT] * clients
    waiting: dict[int, tuple[int, Operation]] = {}
    for number in range(1, steps):
        now += 1
        client = rng.randrange(clients)
        if client not in waiting:
            kind = rng.random()
            expected = knows[client]
            operation: Operation = Put(number, expected)
            if kind < 0.3:
                operation = Read()
            elif kind < 0.4 and expected is not None:
                operation = Delete(expected)
            waiting[client] = (now, operation)
            continue
        start, operation = waiting.pop(client)
        if isinstance(operation, Read) or state != operation.expected:
            outcome: Outcome = Saw(state)
        else:
            state = operation.number if isinstance(operation, Put) else ABSENT
            outcome = Done()
        knows[client] = state
        if not isinstance(operation, Read) and rng.random() < 0.1:
            outcome = Unknown()
        calls.append(Call(str(client), "k", start, now + rng.randrange(3), operation, outcome))
    return calls
