"""Prove the models by hand: each row of their tables, and what the outcomes show of versions and owners."""

from typing import Any

import pytest

from tests.faults.linearizability import NOT_APPLIED, UNKNOWN, Operation, Verdict, check
from tests.faults.linearizability.support.ownership import (
    Claim,
    Claimed,
    Look,
    Lost,
    Owner,
    Ownership,
    Release,
    Released,
    Saw,
    aged,
    as_ownership,
)
from tests.faults.linearizability.support.versioned_register import (
    ANY,
    NEW,
    Delete,
    Deleted,
    Exists,
    Gone,
    Read,
    Record,
    Returned,
    Stale,
    VersionedRegister,
    Write,
    Written,
)

A, B = Owner("a:1:-1", 1), Owner("b:1:-1", 1)
A_AGAIN = Owner("a:1:-1", 2)


def _one_after_another(*calls: tuple[Any, Any]) -> list[Operation[Any, Any]]:
    return [
        Operation(process="p", key="k", start=10 * number, end=10 * number + 5, input=asked, output=output)
        for number, (asked, output) in enumerate(calls)
    ]


_MADE = (Write("x", NEW), Written("1"))
_REMADE = (Write("y", "1"), Written("2"))
_DELETED = (Delete("1"), Deleted())
_OPEN = (Write("x", NEW), UNKNOWN)

CAS_GOOD = {
    "new on absent": [_MADE],
    "new on present": [_MADE, (Write("y", NEW), Exists(Record("x", "1")))],
    "current version": [_MADE, _REMADE, (Read(), Returned(Record("y", "2")))],
    "stale version": [_MADE, _REMADE, (Write("z", "1"), Stale(Record("y", "2")))],
    "stale version to delete": [_MADE, _REMADE, (Delete("1"), Stale(Record("y", "2")))],
    "a refusal that does not show the record": [_MADE, _REMADE, (Write("z", "1"), Stale(None))],
    "version on absent": [_MADE, _DELETED, (Write("z", "1"), Gone()), (Delete("1"), Gone())],
    "any on absent": [(Write("x", ANY), Written("1")), (Read(), Returned(Record("x", "1")))],
    "any on present": [_MADE, (Write("y", ANY), Written("2")), (Delete(ANY), Deleted())],
    "delete any on absent": [(Delete(ANY), Gone())],
    "an open write, never applied": [_OPEN, (Read(), Returned(None)), _MADE],
    "an open write, applied late": [_OPEN, (Read(), Returned(None)), (Read(), Returned(Record("x", "7")))],
    "an open write whose version a read tells": [_OPEN, (Read(), Returned(Record("x", "7"))), (Delete("7"), Deleted())],
    "an open write whose version a refusal tells": [_OPEN, (Write("y", NEW), Exists(Record("x", "7")))],
    "an open write whose version a writer knows": [_OPEN, (Write("y", "7"), Written("8"))],
    "an open delete, applied": [_MADE, (Delete("1"), UNKNOWN), (Read(), Returned(None))],
    "an open delete, not applied": [_MADE, (Delete("1"), UNKNOWN), (Read(), Returned(Record("x", "1")))],
    "a write that surely failed": [(Write("y", NEW), NOT_APPLIED), _MADE],
}

CAS_BAD = {
    "new on present": [_MADE, (Write("y", NEW), Written("2"))],
    "exists on absent": [(Write("y", NEW), Exists(Record("x", "1")))],
    "exists on absent, not shown": [(Write("y", NEW), Exists(None))],
    "new refused as stale": [_MADE, (Write("y", NEW), Stale(Record("x", "1")))],
    "stale refused as existing": [_MADE, _REMADE, (Write("z", "1"), Exists(Record("y", "2")))],
    "stale, and done": [_MADE, _REMADE, (Write("z", "1"), Written("3"))],
    "stale, and deleted": [_MADE, _REMADE, (Delete("1"), Deleted())],
    "current, and refused": [_MADE, (Write("y", "1"), Stale(Record("x", "1")))],
    "current, and refused without showing why": [_MADE, (Write("y", "1"), Stale(None))],
    "gone, though present": [_MADE, (Write("y", "1"), Gone())],
    "version on absent, and done": [_MADE, _DELETED, (Write("z", "1"), Written("2"))],
    "any on absent, and deleted": [(Delete(ANY), Deleted())],
    "any on absent, and gone": [(Write("x", ANY), Gone())],
    "a version that repeats": [_MADE, _DELETED, (Write("z", NEW), Written("1"))],
    "a value that is not what was written": [_MADE, (Read(), Returned(Record("y", "1")))],
    "a version that is not what was told": [_MADE, (Read(), Returned(Record("x", "2")))],
    "a lost write": [_MADE, (Read(), Returned(None))],
    "a write that surely failed, and is seen": [(Write("x", NEW), NOT_APPLIED), (Read(), Returned(Record("x", "1")))],
    "an open write of two versions": [
        _OPEN,
        (Read(), Returned(Record("x", "7"))),
        (Read(), Returned(Record("x", "8"))),
    ],
    "an open write with the version of another": [_MADE, _DELETED, _OPEN, (Read(), Returned(Record("x", "1")))],
    "an open write that came, went and came again": [
        _OPEN,
        (Read(), Returned(Record("x", "7"))),
        (Read(), Returned(None)),
    ],
    "two open writes with one version": [
        (Write("x", NEW), UNKNOWN),
        (Read(), Returned(Record("x", "7"))),
        (Delete("7"), Deleted()),
        (Write("x", NEW), UNKNOWN),
        (Read(), Returned(Record("x", "7"))),
    ],
    "an answer to another question": [(Read(), Written("1"))],
}

OWNERSHIP_GOOD = {
    "claim, release, claim": [
        (Claim(A, None), Claimed()),
        (Look(), Saw(A)),
        (Release(A), Released()),
        (Claim(B, None), Claimed()),
    ],
    "lost to the winner": [(Claim(A, None), Claimed()), (Claim(B, None), Lost(A))],
    "taken over from an incarnation that is dead": [
        (Claim(A, None), Claimed()),
        (Claim(A_AGAIN, A), Claimed()),
        (Claim(B, A), Lost(A_AGAIN)),
        (Release(A), Lost(A_AGAIN)),
    ],
    "released before it was taken over": [
        (Claim(A, None), Claimed()),
        (Release(A), Released()),
        (Claim(B, A), Lost(None)),
    ],
    "an open claim, applied": [(Claim(A, None), UNKNOWN), (Look(), Saw(A))],
    "an open claim over somebody who had gone": [
        (Claim(A, None), Claimed()),
        (Release(A), Released()),
        (Claim(B, A), UNKNOWN),
        (Look(), Saw(None)),
    ],
    "an open release, applied": [(Claim(A, None), Claimed()), (Release(A), UNKNOWN), (Look(), Saw(None))],
}

OWNERSHIP_BAD = {
    "two owners": [(Claim(A, None), Claimed()), (Claim(B, None), Claimed())],
    "two heirs": [(Claim(A, None), Claimed()), (Claim(B, A), Claimed()), (Claim(A_AGAIN, A), Claimed())],
    "redirected to who was deposed": [(Claim(A, None), Claimed()), (Claim(B, A), Claimed()), (Look(), Saw(A))],
    "released by who was deposed": [(Claim(A, None), Claimed()), (Claim(B, A), Claimed()), (Release(A), Released())],
    "lost to nobody": [(Claim(A, None), Lost(None))],
    "lost to who never claimed": [(Claim(A, None), Lost(B))],
    "an epoch for another": [(Claim(A, None), Claimed()), (Look(), Saw(A_AGAIN))],
    "an open claim over somebody who had gone, applied": [
        (Claim(A, None), Claimed()),
        (Release(A), Released()),
        (Claim(B, A), UNKNOWN),
        (Look(), Saw(B)),
    ],
}


@pytest.mark.parametrize("calls", CAS_GOOD.values(), ids=CAS_GOOD)
def test_a_register_may_do_this(calls: list[Any]) -> None:
    assert check(_one_after_another(*calls), VersionedRegister()).verdict is Verdict.LINEARIZABLE


@pytest.mark.parametrize("calls", CAS_BAD.values(), ids=CAS_BAD)
def test_a_register_may_not_do_this(calls: list[Any]) -> None:
    assert check(_one_after_another(*calls), VersionedRegister()).verdict is Verdict.NOT_LINEARIZABLE


@pytest.mark.parametrize("calls", OWNERSHIP_GOOD.values(), ids=OWNERSHIP_GOOD)
def test_owners_may_do_this(calls: list[Any]) -> None:
    assert check(_one_after_another(*calls), Ownership()).verdict is Verdict.LINEARIZABLE


@pytest.mark.parametrize("calls", OWNERSHIP_BAD.values(), ids=OWNERSHIP_BAD)
def test_owners_may_not_do_this(calls: list[Any]) -> None:
    assert check(_one_after_another(*calls), Ownership()).verdict is Verdict.NOT_LINEARIZABLE


def test_a_redirect_from_a_cache_may_be_as_old_as_the_cache_allows() -> None:
    history = _one_after_another((Claim(A, None), Claimed()), (Claim(B, A), Claimed()), (Look(), Saw(A)))
    assert check([*history[:2], aged(history[2], 4)], Ownership()).verdict is Verdict.NOT_LINEARIZABLE
    assert check([*history[:2], aged(history[2], 8)], Ownership()).verdict is Verdict.LINEARIZABLE


def test_calls_on_owner_records_are_claims_releases_and_looks() -> None:
    calls = _one_after_another(
        (Write(A, NEW), Written("1")),
        (Write(B, NEW), Exists(Record(A, "1"))),
        (Write(B, "1"), UNKNOWN),
        (Read(), Returned(Record(B, "2"))),
        (Write(A_AGAIN, "1"), Stale(Record(B, "2"))),
        (Delete("2"), Deleted()),
        (Delete("2"), Gone()),
        (Write(A, NEW), NOT_APPLIED),
    )
    claims = as_ownership(calls)
    assert [(one.input, one.output) for one in claims] == [
        (Claim(A, None), Claimed()),
        (Claim(B, None), Lost(A)),
        (Claim(B, A), UNKNOWN),
        (Look(), Saw(B)),
        (Claim(A_AGAIN, A), Lost(B)),
        (Release(B), Released()),
        (Release(B), Lost(None)),
        (Claim(A, None), NOT_APPLIED),
    ]
    assert check(calls, VersionedRegister()).verdict is Verdict.LINEARIZABLE
    assert check(claims, Ownership()).verdict is Verdict.LINEARIZABLE
    with pytest.raises(ValueError, match="names no owner"):
        as_ownership(_one_after_another((Write(A, "3"), Written("4"))))
