"""Prove that this checker and `tests.faults` agree: on its examples, and on histories made at random."""

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from tests.faults.linearizability import NOT_APPLIED, UNKNOWN, Operation, Unanswered, Verdict, check
from tests.faults.linearizability.support import versioned_register as cas
from tests.faults.linearizability.support.mutations import WAYS, mutated
from tests.faults.linearizability.support.simulation import Kind, TrueRecord, random_script, simulate
from tests.faults.support import history as older
from tests.faults.test_history_checker import BAD, GOOD


def _from_older(call: older.Call) -> cas.CasOperation:
    """Return a call of the older kind, in which the number of a write is both its version and its value."""
    asked, output = call.operation, call.outcome
    shown = None
    if isinstance(output, older.Saw) and output.state is not None:
        shown = cas.Record(output.state, str(output.state))
    given: cas.CasInput = cas.Read()
    if isinstance(asked, older.Put):
        given = cas.Write(asked.number, cas.NEW if asked.expected is None else str(asked.expected))
    elif isinstance(asked, older.Delete):
        given = cas.Delete(str(asked.expected))
    answer: cas.CasOutput | Unanswered = UNKNOWN
    if isinstance(output, older.Done):
        answer = cas.Written(str(asked.number)) if isinstance(asked, older.Put) else cas.Deleted()
    elif isinstance(output, older.Saw):
        if isinstance(given, cas.Read):
            answer = cas.Returned(shown)
        elif shown is None:
            answer = cas.Gone()
        else:
            answer = cas.Exists(shown) if given.at is cas.NEW else cas.Stale(shown)
    return Operation(process=call.client, key=call.key, start=call.start, end=call.end, input=given, output=answer)


@pytest.mark.parametrize("calls", GOOD.values(), ids=GOOD)
def test_the_good_examples_are_accepted(calls: list[older.Call]) -> None:
    assert check(map(_from_older, calls), cas.VersionedRegister()).verdict is Verdict.LINEARIZABLE


@pytest.mark.parametrize("calls", BAD.values(), ids=BAD)
def test_the_bad_examples_are_refused(calls: list[older.Call]) -> None:
    assert check(map(_from_older, calls), cas.VersionedRegister()).verdict is Verdict.NOT_LINEARIZABLE


@dataclass(slots=True)
class _NumberedRecord(TrueRecord):
    """A record as the older checker knows it: each write has a number, and no write is unconditional."""

    numbers: int = 0

    def ask(self, process: int, choice: int) -> cas.CasInput:
        asked = TrueRecord.ask(self, process, choice)
        if isinstance(asked, cas.Read):
            return asked
        at = cas.NEW if asked.at is cas.ANY else asked.at
        if isinstance(asked, cas.Delete):
            return cas.Delete(at) if at is not cas.NEW else cas.Read()
        self.numbers += 1
        return cas.Write(self.numbers, at)


_NUMBERED = Kind("numbered record", cas.VersionedRegister(), _NumberedRecord)


def test_random_histories_get_the_same_verdict() -> None:
    verdicts: Counter[bool] = Counter()
    for seed in range(3000):
        rng = random.Random(seed)
        history = simulate(_NUMBERED, random_script(rng, processes=4, steps=rng.randrange(100)))
        for _ in range(rng.randrange(3)):
            history = mutated(history, rng.randrange(WAYS), rng.randrange(99), rng.randrange(99))
        history = [one for one in history if isinstance(one.output, Unanswered) or _answers(one)]
        expected = _is_explained_by_the_older(history)
        if expected is None:
            continue
        verdicts[expected] += 1
        verdict = check(history, cas.VersionedRegister()).verdict
        assert verdict is (Verdict.LINEARIZABLE if expected else Verdict.NOT_LINEARIZABLE), f"seed {seed}: {history}"
    assert min(verdicts[True], verdicts[False]) > 300, verdicts


def _answers(one: Operation[Any, Any]) -> bool:
    """Say whether such an input can have this output: the older checker cannot express others."""
    match one.input, one.output:
        case (cas.Read(), cas.Returned()) | (cas.Write(), cas.Written()) | (cas.Delete(), cas.Deleted()):
            return True
        case cas.Write(at=at), cas.Exists():
            return at is cas.NEW
        case cas.Write(at=at) | cas.Delete(at=at), cas.Stale() | cas.Gone():
            return not isinstance(at, cas.Given)
    return False


def _is_explained_by_the_older(history: list[Operation[Any, Any]]) -> bool | None:
    """Return the older verdict; None if a call gave a version that no call ever showed, so that it has no number.

    Like the older recorder, refuse a history in which a version belongs to two writes, or a write has two versions.
    """
    numbers: dict[str, int] = {}
    versions: dict[int, str] = {}
    for one in history:
        for version, number in _shown(one):
            if numbers.setdefault(version, number) != number or versions.setdefault(number, version) != version:
                return False
    calls = []
    for one in history:
        if one.output is NOT_APPLIED:
            continue
        at = getattr(one.input, "at", None)
        if isinstance(at, str) and at not in numbers:
            return None
        expected = numbers[at] if isinstance(at, str) else older.ABSENT
        asked: older.Operation = older.Read()
        if isinstance(one.input, cas.Write):
            assert isinstance(one.input.value, int)
            asked = older.Put(one.input.value, expected)
        elif isinstance(one.input, cas.Delete):
            assert expected is not None
            asked = older.Delete(expected)
        calls.append(older.Call(one.process, one.key, one.start, one.end, asked, _older_outcome(one)))
    return older.unexplained(calls) == []


def _older_outcome(one: Operation[Any, Any]) -> older.Outcome:
    if one.output is UNKNOWN:
        return older.Unknown()
    if isinstance(one.output, cas.Written | cas.Deleted):
        return older.Done()
    return older.Saw(next((number for _, number in _shown(one)), older.ABSENT))


def _shown(one: Operation[Any, Any]) -> list[tuple[str, int]]:
    match one.output:
        case cas.Written(version):
            assert isinstance(one.input.value, int)
            return [(version, one.input.value)]
        case cas.Returned(record) | cas.Exists(record) | cas.Stale(record) if record is not None:
            assert isinstance(record.value, int)
            return [(record.version, record.value)]
    return []
