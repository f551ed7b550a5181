"""The register that a metadata manager offers for each record: changed by compare-and-set on versions.

    given      record                    outcome
    NEW        absent                    Written
    NEW        present                   Exists (shows the record)
    a version  the same                  Written, Deleted
    a version  another, present          Stale (shows the record)
    a version  absent                    Gone
    ANY        any                       Written, Deleted; deleting what is absent is Gone

A version never repeats. The version of a write with an unknown outcome is learned from the first call that shows it. It
must be one that no other write of the key had.

Source: design.md, section 4, the tables of the managers.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, Self, TypeAlias

from tests.faults.linearizability.support.model import REFUSED, Model, Refused
from tests.faults.linearizability.support.operations import Operation

__all__ = [
    "ANY",
    "NEW",
    "CasInput",
    "CasOperation",
    "CasOutput",
    "Delete",
    "Deleted",
    "Exists",
    "Given",
    "Gone",
    "Read",
    "Record",
    "Returned",
    "Stale",
    "VersionedRegister",
    "Write",
    "Written",
]


class Given(Enum):
    """A condition of a write in place of a version."""

    NEW = "NEW"
    ANY = "ANY"


NEW: Final = Given.NEW
ANY: Final = Given.ANY

Version: TypeAlias = str


@dataclass(frozen=True, slots=True)
class Record:
    """A record as a caller sees it: a value, and the version of the write that stored it."""

    value: Hashable
    version: Version


@dataclass(frozen=True, slots=True)
class Read:
    """Look at the record."""


@dataclass(frozen=True, slots=True)
class Write:
    """Store `value` if the record is as `at` says."""

    value: Hashable
    at: Version | Given


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the record if it is as `at` says."""

    at: Version | Given


@dataclass(frozen=True, slots=True)
class Returned:
    """A read returned `record`; None: there was none."""

    record: Record | None


@dataclass(frozen=True, slots=True)
class Written:
    """The write was applied and made `version`."""

    version: Version


@dataclass(frozen=True, slots=True)
class Deleted:
    """The delete was applied."""


@dataclass(frozen=True, slots=True)
class Exists:
    """Refused: NEW, but `current` is there (None: not shown)."""

    current: Record | None


@dataclass(frozen=True, slots=True)
class Stale:
    """Refused: `current` is there, of another version (None: not shown)."""

    current: Record | None


@dataclass(frozen=True, slots=True)
class Gone:
    """Refused: there is no record."""


CasInput: TypeAlias = Read | Write | Delete
CasOutput: TypeAlias = Returned | Written | Deleted | Exists | Stale | Gone
CasOperation: TypeAlias = Operation[CasInput, CasOutput]


# Named tuples, since the search hashes very many states, and named tuples hash fastest.
class Held(NamedTuple):
    """The content of the register; version None is one that no caller has learned yet."""

    value: Hashable
    version: Version | None


class Register(NamedTuple):
    """The state: the content, None without one, and the versions learned of writes with unknown outcomes."""

    held: Held | None
    learned: frozenset[Version]


@dataclass(frozen=True, slots=True)
class VersionedRegister(Model[Register, CasInput, CasOutput]):
    """One record. `acknowledged` are the versions that known writes made, `repeated` those that several made."""

    acknowledged: frozenset[Version] = field(default=frozenset())
    repeated: frozenset[Version] = field(default=frozenset())

    @property
    def initial(self) -> Register:
        return Register(None, frozenset())

    def prepared(self, operations: Sequence[Operation[CasInput, CasOutput]]) -> Self:
        made = Counter(one.output.version for one in operations if isinstance(one.output, Written))
        return type(self)(frozenset(made), frozenset(version for version, times in made.items() if times > 1))

    def step(self, state: Register, input: CasInput, output: CasOutput) -> Register | Refused:
        if isinstance(input, Read):
            return self._seen(state, output.record) if isinstance(output, Returned) else REFUSED
        held, at = state.held, input.at
        match output:
            case Written(version):
                admitted = self._admitted(state, at)
                if not isinstance(input, Write) or admitted is None or version in self.repeated:
                    return REFUSED
                return Register(Held(input.value, version), admitted.learned)
            case Deleted():
                admitted = self._admitted(state, at)
                if not isinstance(input, Delete) or admitted is None or held is None:
                    return REFUSED
                return Register(None, admitted.learned)
            case Exists(current):
                if not isinstance(input, Write) or at is not NEW or held is None:
                    return REFUSED
                return state if current is None else self._seen(state, current)
            case Stale(current):
                if isinstance(at, Given) or held is None or held.version == at:
                    return REFUSED
                if current is None:
                    return state
                return REFUSED if current.version == at else self._seen(state, current)
            case Gone():
                refusable = not isinstance(at, Given) or (at is ANY and isinstance(input, Delete))
                return state if refusable and held is None else REFUSED
        return REFUSED

    def effect(self, state: Register, input: CasInput) -> Register | Refused:
        if isinstance(input, Read) or (admitted := self._admitted(state, input.at)) is None:
            return REFUSED
        if isinstance(input, Write):
            return Register(Held(input.value, None), admitted.learned)
        return REFUSED if state.held is None else Register(None, admitted.learned)

    def _admitted(self, state: Register, at: Version | Given) -> Register | None:
        """Return the state if a write at `at` is applied to it, else None; the writer may be the first to know `at`."""
        held = state.held
        if isinstance(at, Given):
            return state if at is ANY or held is None else None
        if held is None or held.version is not None:
            return state if held is not None and held.version == at else None
        seen = self._seen(state, Record(held.value, at))
        return None if seen is REFUSED else seen

    def _seen(self, state: Register, record: Record | None) -> Register | Refused:
        """Return the state after a caller saw `record`; that caller may be the first to learn its version."""
        held = state.held
        if record is None or held is None:
            return state if record is None and held is None else REFUSED
        if held.value != record.value:
            return REFUSED
        if held.version is not None:
            return state if held.version == record.version else REFUSED
        if record.version in self.acknowledged or record.version in state.learned:
            return REFUSED
        return Register(Held(record.value, record.version), state.learned | {record.version})

    def describe_state(self, state: Register) -> str:
        if state.held is None:
            return "absent"
        return f"{state.held.value} at {state.held.version or 'a version nobody has seen'}"
