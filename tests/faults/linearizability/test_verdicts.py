"""Prove what a reader of a verdict relies on: limits are never a pass, and a refusal shows where the history ends."""

import itertools
import random
from dataclasses import replace

import pytest

from tests.faults.linearizability import Limits, NotLinearizableError, Operation, UndecidedError, Verdict, check
from tests.faults.linearizability.support.classic_models import (
    Applied,
    CasRegister,
    Get,
    Got,
    Put,
    RegisterInput,
    RegisterOutput,
)
from tests.faults.linearizability.support.simulation import KINDS, random_script, simulate
from tests.faults.linearizability.support.versioned_register import (
    NEW,
    CasInput,
    CasOperation,
    CasOutput,
    Delete,
    Deleted,
    Read,
    Record,
    Returned,
    VersionedRegister,
    Write,
    Written,
)

MS = 1_000_000


def _call(process: str, start: int, end: int, asked: CasInput, output: CasOutput, key: str = "t") -> CasOperation:
    return Operation(process=process, key=key, start=start * MS, end=end * MS, input=asked, output=output)


GOOD = [_call("hub-1", 0, 1, Write("hub-1", NEW), Written("v1")), _call("hub-2", 2, 3, Read(), Returned(None), key="u")]
BAD = [
    _call("hub-1", 0, 2, Write("hub-1", NEW), Written("v1")),
    _call("hub-1", 3, 9, Write("hub-1", "v1"), Written("v2")),
    _call("hub-2", 4, 8, Write("hub-2", "v1"), Written("v3")),
    _call("hub-3", 5, 20, Read(), Returned(Record("hub-2", "v3"))),
    _call("hub-4", 6, 30, Delete("v9"), Deleted()),
    _call("hub-3", 21, 22, Read(), Returned(Record("hub-1", "v2"))),
]


def test_an_accepted_history_passes() -> None:
    report = check(GOOD, VersionedRegister())
    assert (report.verdict, report.keys, report.operations) == (Verdict.LINEARIZABLE, 2, 2)
    report.require()
    check([], VersionedRegister()).require()


def test_a_refusal_shows_the_order_the_operation_and_what_was_concurrent() -> None:
    with pytest.raises(NotLinearizableError) as refused:
        check(BAD, VersionedRegister()).require()
    order, blocked, waiting = str(refused.value).split("could not be placed:\n")[0], *_parts(str(refused.value))
    assert str(refused.value).startswith("key 't': no order explains these 6 operations.")
    assert "Written(version='v1')   => hub-1 at v1" in order
    assert "Written(version='v3')   => hub-2 at v3" in order
    assert "[    3.000 -     9.000 ms] hub-1 Write(value='hub-1', at='v1') -> Written(version='v2')" in blocked
    assert "hub-4 Delete(at='v9') -> Deleted()   (impossible there, or without effect)" in waiting
    assert "v2'))" not in waiting, "it started later"


def test_every_refused_key_is_told_on_request() -> None:
    both = [*BAD, *(replace(one, key="u") for one in BAD)]
    assert len(check(both, VersionedRegister()).refusals) == 1
    report = check(both, VersionedRegister(), all_keys=True)
    assert {refusal.key for refusal in report.refusals} == {"t", "u"}
    with pytest.raises(NotLinearizableError, match="1 more keys are refused too"):
        report.require()


def _hard() -> list[Operation[RegisterInput, RegisterOutput]]:
    """Return a history that has many orders, none of which explains it."""
    history: list[Operation[RegisterInput, RegisterOutput]] = [
        Operation(process=f"p{number}", key="k", start=0, end=1000, input=Put(number), output=Applied())
        for number in range(12)
    ]
    history.append(Operation(process="r", key="k", start=1001, end=1002, input=Get(), output=Got(99)))
    return history


def test_too_many_configurations_are_no_verdict() -> None:
    report = check(_hard(), CasRegister(), Limits(configurations_max=1000))
    assert report.verdict is Verdict.UNKNOWN
    with pytest.raises(UndecidedError, match="1 of 1 keys"):
        report.require()
    assert check(_hard(), CasRegister()).verdict is Verdict.NOT_LINEARIZABLE


def test_a_deadline_that_passed_is_no_verdict() -> None:
    seconds = itertools.count()
    report = check(_hard(), CasRegister(), Limits(deadline_s=0.5), monotonic=lambda: float(next(seconds)))
    assert report.verdict is Verdict.UNKNOWN
    with pytest.raises(UndecidedError):
        report.require()


def test_a_refused_key_decides_though_another_is_undecided() -> None:
    long = [replace(one, key="z") for one in _hard()]
    short: list[Operation[RegisterInput, RegisterOutput]] = [
        Operation(process="p", key="short", start=0, end=1, input=Get(), output=Got(5))
    ]
    report = check(long + short, CasRegister(), Limits(configurations_max=1000), all_keys=True)
    assert (report.verdict, report.undecided) == (Verdict.NOT_LINEARIZABLE, ("z",))


def test_an_operation_cannot_end_before_it_starts() -> None:
    with pytest.raises(ValueError, match="ends before it starts"):
        _call("p", 2, 1, Read(), Returned(None))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.label)
def test_a_hundred_thousand_operations_are_judged_within_the_usual_limits(kind: object) -> None:
    """Five hundred keys, twelve processes, lost answers: the limits are minutes, and the check takes seconds."""
    chosen = next(one for one in KINDS if one is kind)
    history = simulate(chosen, random_script(random.Random(1), processes=12, steps=300_000), keys=500, lost=0.02)
    report = check(history, chosen.model)
    report.require()
    assert report.keys == 500
    assert report.operations > 90_000


def _parts(text: str) -> tuple[str, str]:
    blocked, _, waiting = text.split("could not be placed:\n")[1].partition("  Not placed either")
    return blocked, waiting
