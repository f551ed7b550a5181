"""Prove the search: it accepts histories of true objects, agrees with the bare definition, and shows how far it got."""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.linearizability import UNKNOWN, Operation, Unanswered, Verdict, by_key, check
from tests.faults.linearizability.support.brute_force import explains, prepared, some_order_explains
from tests.faults.linearizability.support.limits import Budget, Limits
from tests.faults.linearizability.support.mutations import WAYS, mutated
from tests.faults.linearizability.support.search import Explained, search
from tests.faults.linearizability.support.simulation import CHOICES, KINDS, Kind, Step, random_script, simulate

_SMALL = 6
_kinds = st.sampled_from(KINDS)


def _scripts(steps_max: int) -> st.SearchStrategy[list[Step]]:
    return st.lists(st.tuples(st.integers(0, 3), st.integers(0, CHOICES - 1)), max_size=steps_max)


_changes = st.lists(st.tuples(st.integers(0, WAYS - 1), st.integers(0, 99), st.integers(0, 99)), max_size=3)


@settings(max_examples=300, deadline=None)
@given(kind=_kinds, script=_scripts(300), keys=st.integers(1, 3), lost=st.sampled_from((0.0, 0.1, 0.4)))
def test_what_a_true_object_did_is_accepted_in_an_order_that_holds(
    kind: Kind, script: list[Step], keys: int, lost: float
) -> None:
    history = simulate(kind, script, keys=keys, lost=lost)
    assert check(history, kind.model).verdict is Verdict.LINEARIZABLE
    for part in by_key(history).values():
        result = search(part, kind.model, Budget(Limits()))
        assert isinstance(result, Explained)
        assert Counter(map(id, result.order)).most_common(1)[0][1] == 1 if result.order else True
        assert {id(one) for one in part if one.output is not UNKNOWN} <= {id(one) for one in result.order}
        assert explains(result.order, prepared(part, kind.model))


@settings(max_examples=400, deadline=None)
@given(kind=_kinds, script=_scripts(24), changes=_changes, keys=st.integers(1, 2), lost=st.sampled_from((0.0, 0.3)))
def test_the_verdict_is_that_of_the_bare_definition(
    kind: Kind, script: list[Step], changes: list[tuple[int, int, int]], keys: int, lost: float
) -> None:
    history = _changed(simulate(kind, script, keys=keys, lost=lost), changes)[:_SMALL]
    expected = some_order_explains(history, kind.model)
    assert check(history, kind.model).verdict is (Verdict.LINEARIZABLE if expected else Verdict.NOT_LINEARIZABLE)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.label)
def test_the_verdict_is_that_of_the_bare_definition_on_many_small_histories(kind: Kind) -> None:
    """The same property over seeds, so that the test can count the histories of either verdict."""
    verdicts: Counter[tuple[bool, bool]] = Counter()
    for seed in range(1500):
        rng = random.Random(seed)
        script = random_script(rng, processes=3, steps=24)
        history = simulate(kind, script, keys=rng.choice((1, 1, 2)), lost=rng.choice((0.0, 0.3)))
        changes = [(rng.randrange(WAYS), rng.randrange(99), rng.randrange(99)) for _ in range(rng.randrange(3))]
        history = _changed(history, changes)[:_SMALL]
        expected = some_order_explains(history, kind.model)
        has_open = any(one.output is UNKNOWN for one in history)
        verdicts[expected, has_open] += 1
        verdict = check(history, kind.model).verdict
        assert verdict is (Verdict.LINEARIZABLE if expected else Verdict.NOT_LINEARIZABLE), f"seed {seed}: {history}"
    assert min(verdicts[case] for case in ((True, True), (True, False), (False, True), (False, False))) >= 30, verdicts


@settings(max_examples=300, deadline=None)
@given(kind=_kinds, script=_scripts(150), changes=_changes, lost=st.sampled_from((0.0, 0.3)))
def test_a_refusal_explains_all_that_ended_before(
    kind: Kind, script: list[Step], changes: list[tuple[int, int, int]], lost: float
) -> None:
    history = _changed(simulate(kind, script, lost=lost), changes)
    for refusal in check(history, kind.model).refusals:
        result = refusal.result
        models = {refusal.key: refusal.model}
        assert explains(result.order, models)
        ended = [one for one in history if not isinstance(one.output, Unanswered) and one.end < result.blocked.end]
        assert {id(one) for one in ended} <= {id(one) for one in result.order}
        assert not explains([*result.order, result.blocked], models)
        assert id(result.blocked) not in {id(one) for one in result.order}
        assert all(one.start <= result.blocked.end for one in result.waiting)
        # The history up to that end is linearizable if the calls that end then or later have no answers.
        until = [one for one in history if one.start < result.blocked.end]
        cut = [one if one in ended else _left_open(one) for one in until]
        assert check(cut, kind.model).verdict is Verdict.LINEARIZABLE
        assert repr(refusal.key) in str(refusal)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.label)
def test_one_key_that_everybody_wants_is_judged_though_answers_are_lost(kind: Kind) -> None:
    """Eight processes use one key without pause: there are too many orders to try, but few configurations."""
    for seed in range(5):
        history = simulate(kind, random_script(random.Random(seed), processes=8, steps=700), lost=0.03)
        assert check(history, kind.model).verdict is Verdict.LINEARIZABLE


def _left_open(one: Operation[Any, Any]) -> Operation[Any, Any]:
    return one if isinstance(one.output, Unanswered) else replace(one, output=UNKNOWN)


def _changed(history: list[Operation[Any, Any]], changes: list[tuple[int, int, int]]) -> list[Operation[Any, Any]]:
    for way, one, other in changes:
        history = mutated(history, way, one, other)
    return history
