"""Clients that record every call that they make, and the check of all recorded calls."""

import itertools
import time
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hedwig.errors import BadVersionError, MetadataUnavailableError, NoRecordError, UncertainStateError
from hedwig.metadata import MetadataStore
from hedwig.metadata.testing.doors import Door
from hedwig.versions import NEW, Version, Versioned
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
    unexplained,
)
from tests.faults.support.numbers import number_of, shown
from tests.faults.support.waiting import TIMEOUT_S

__all__ = ["NotDone", "Recorder", "RecordingClient"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NotDone:
    """The store could not be asked: the call surely was not applied."""


@dataclass(slots=True)
class Recorder:
    """The calls of all clients of one test, and which version belongs to which write.

    Raises while recording: AssertionError - a version of a record was seen with two writes, or a write with two
    versions.
    """

    calls: list[Call] = field(default_factory=list)
    versions: dict[int, Version] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    _writes: dict[tuple[bytes, Version], int] = field(default_factory=dict)

    def new_number(self) -> int:
        """Return a number that no write had yet."""
        return next(self._numbers)

    def client(self, name: str, store: MetadataStore, door: Door) -> "RecordingClient":
        """Return a client that records."""
        return RecordingClient(self, name, store, door)

    def note(self, topic: bytes, number: int, version: Version) -> None:
        """Remember the version of a write to a topic's record; two records may have the same version."""
        assert self.versions.setdefault(number, version) == version, f"write {number} has two versions"
        assert self._writes.setdefault((topic, version), number) == number, f"{version} stands for two writes"

    def check(self) -> None:
        """Raise AssertionError, with the calls on one key, unless some order explains all that was recorded."""
        wrong = unexplained(self.calls)
        assert not wrong, "no order explains:\n" + "\n".join(map(str, wrong[0]))


class RecordingClient:
    """A client of a store that identifies records by the numbers of their writes."""

    def __init__(self, recorder: Recorder, name: str, store: MetadataStore, door: Door) -> None:
        self._recorder = recorder
        self._name = name
        self._store = store
        self._door = door

    def new_number(self) -> int:
        """Return a number that no write had yet."""
        return self._recorder.new_number()

    async def read(self, topic: bytes) -> int | None:
        """Return the number of the write that the record holds, None without a record."""
        key = self._door.key(topic)
        start = time.monotonic_ns()
        state = self._sighted(topic, await self._door.read(self._store, key))
        self._record(topic, start, Read(), Saw(state))
        return state

    async def read_at_last(self, topic: bytes, timeout_s: float = TIMEOUT_S) -> int | None:
        """Read as `read` does, again and again until the store answers. Raises MetadataUnavailableError - too late."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return await self.read(topic)
            except MetadataUnavailableError:
                if time.monotonic() > deadline:
                    raise

    async def put(self, topic: bytes, expected: int | None, number: int | None = None) -> Outcome | NotDone:
        """Write over the write `expected` (None: create); return the outcome."""
        number = number or self._recorder.new_number()
        version = NEW if expected is None else self._recorder.versions[expected]
        call = self._door.write(self._store, self._door.key(topic), self._door.value(number), version)
        return await self._outcome(topic, Put(number, expected), self._noted(topic, number, call))

    async def delete(self, topic: bytes, expected: int) -> Outcome | NotDone:
        """Delete the write `expected`; return the outcome."""
        version = self._recorder.versions[expected]
        call = self._door.delete(self._store, self._door.key(topic), version)
        return await self._outcome(topic, Delete(expected), call)

    async def _noted(self, topic: bytes, number: int, call: Coroutine[Any, Any, Version]) -> None:
        self._recorder.note(topic, number, await call)

    async def _outcome(self, topic: bytes, operation: Operation, call: Coroutine[Any, Any, None]) -> Outcome | NotDone:
        start = time.monotonic_ns()
        outcome: Outcome = Done()
        try:
            await call
        except UncertainStateError:
            outcome = Unknown()
        except MetadataUnavailableError:
            self._recorder.outcomes["NotDone"] += 1
            return NotDone()
        except BadVersionError as refusal:
            outcome = Saw(self._sighted(topic, shown(refusal)))
        except NoRecordError:
            outcome = Saw(ABSENT)
        self._record(topic, start, operation, outcome)
        return outcome

    def _sighted(self, topic: bytes, record: Versioned[Any] | None) -> int | None:
        if record is None:
            return ABSENT
        number = number_of(record.value)
        self._recorder.note(topic, number, record.version)
        return number

    def _record(self, topic: bytes, start: int, operation: Operation, outcome: Outcome) -> None:
        if not isinstance(operation, Read):
            self._recorder.outcomes[type(outcome).__name__] += 1
        key = (self._door.kind.name, topic)
        self._recorder.calls.append(Call(self._name, key, start, time.monotonic_ns(), operation, outcome))
