"""Ownership of one topic as hubs and their clients see it: which hub owns it, and which one it replaced.

It is coarser than the versioned register beneath: a hub that owned the topic twice is the same owner both times. It is
for histories without versions, such as those of redirects.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from tests.faults.linearizability.support import versioned_register as cas
from tests.faults.linearizability.support.model import REFUSED, Model, Refused
from tests.faults.linearizability.support.operations import Operation, Unanswered

__all__ = [
    "Claim",
    "Claimed",
    "Look",
    "Lost",
    "Owner",
    "Ownership",
    "OwnershipInput",
    "OwnershipOperation",
    "OwnershipOutput",
    "Release",
    "Released",
    "Saw",
    "aged",
    "as_ownership",
]


class Owner(NamedTuple):
    """A hub as owner: its address and the epoch of one incarnation."""

    address: str
    epoch: int

    def __str__(self) -> str:
        return f"{self.address}#{self.epoch}"


@dataclass(frozen=True, slots=True)
class Claim:
    """`hub` wants to become owner in place of `over`; None: of no owner."""

    hub: Owner
    over: Owner | None


@dataclass(frozen=True, slots=True)
class Release:
    """`hub` stops being owner."""

    hub: Owner


@dataclass(frozen=True, slots=True)
class Look:
    """A hub reads the owner, or a client is redirected to it."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """The claim was applied."""


@dataclass(frozen=True, slots=True)
class Released:
    """The release was applied."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Refused: `owner` owns the topic; None: no hub does."""

    owner: Owner | None


@dataclass(frozen=True, slots=True)
class Saw:
    """`owner` was seen to own the topic; None: no hub did."""

    owner: Owner | None


OwnershipInput: TypeAlias = Claim | Release | Look
OwnershipOutput: TypeAlias = Claimed | Released | Lost | Saw
OwnershipOperation: TypeAlias = Operation[OwnershipInput, OwnershipOutput]


@dataclass(frozen=True, slots=True)
class Ownership(Model[Owner | None, OwnershipInput, OwnershipOutput]):
    """One topic. The state is its owner. There is at most one, since a claim replaces a given owner, or none."""

    @property
    def initial(self) -> Owner | None:
        return None

    def step(self, state: Owner | None, input: OwnershipInput, output: OwnershipOutput) -> Owner | Refused | None:
        match input, output:
            case Claim(hub, over), Claimed():
                return hub if state == over else REFUSED
            case Release(hub), Released():
                return None if state == hub else REFUSED
            case Claim(_, over), Lost(owner):
                # Without an owner to replace, only an owner refuses the claim. With one, the same hub may have become
                # owner again.
                refusable = owner is not None or over is not None
                return state if refusable and state == owner else REFUSED
            case (Release(), Lost(owner)) | (Look(), Saw(owner)):
                return state if state == owner else REFUSED
        return REFUSED

    def effect(self, state: Owner | None, input: OwnershipInput) -> Owner | Refused | None:
        match input:
            case Claim(hub, over) if state == over != hub:
                return hub
            case Release(hub) if state == hub:
                return None
        return REFUSED

    def describe_state(self, state: Owner | None) -> str:
        return f"owned by {state}" if state else "no owner"


def aged(operation: OwnershipOperation, age_ns: int) -> OwnershipOperation:
    """Return an observation that may be up to `age_ns` old, as a redirect answered from a cache may be."""
    return replace(operation, start=operation.start - age_ns)


def as_ownership(operations: Iterable[cas.CasOperation]) -> list[OwnershipOperation]:
    """Return calls on ownership records, whose values are Owners, as claims, releases and looks.

    Raises: ValueError - a write was given ANY, or a version that no operation of its key made or saw.
    """
    operations = list(operations)
    owners = {}
    for one in operations:
        if isinstance(one.output, cas.Written) and isinstance(one.input, cas.Write):
            owners[one.key, one.output.version] = _owner(one.input.value)
        elif record := _shown(one.output):
            owners[one.key, record.version] = _owner(record.value)

    def owner_at(one: cas.CasOperation, at: str | cas.Given) -> Owner:
        if isinstance(at, cas.Given) or (one.key, at) not in owners:
            raise ValueError(f"{one.process} wrote at {at} of {one.key!r}, which names no owner known to the history")
        return owners[one.key, at]

    def asked(one: cas.CasOperation) -> OwnershipInput:
        match one.input:
            case cas.Write(value, at):
                return Claim(_owner(value), None if at is cas.NEW else owner_at(one, at))
            case cas.Delete(at):
                return Release(owner_at(one, at))
        return Look()

    return [
        Operation(
            process=one.process,
            key=one.key,
            start=one.start,
            end=one.end,
            input=asked(one),
            output=_output_of(one.output),
        )
        for one in operations
    ]


def _output_of(output: cas.CasOutput | Unanswered) -> OwnershipOutput | Unanswered:
    match output:
        case cas.Written():
            return Claimed()
        case cas.Deleted():
            return Released()
        case cas.Returned(record):
            return Saw(None if record is None else _owner(record.value))
        case cas.Exists(current) | cas.Stale(current):
            if current is None:
                raise ValueError("a refusal that does not show the owner")
            return Lost(_owner(current.value))
        case cas.Gone():
            return Lost(None)
    return output


def _shown(output: cas.CasOutput | Unanswered) -> cas.Record | None:
    match output:
        case cas.Returned(record) | cas.Exists(record) | cas.Stale(record):
            return record
    return None


def _owner(value: object) -> Owner:
    if not isinstance(value, Owner):
        raise ValueError(f"{value!r} is not an owner")
    return value
