"""A recorder around a TopicOwnershipManager: each process records its own calls, and a reader joins them.

Each process has a file of JSON lines. It writes each line to the system at once, so that the line outlives a kill -9:

    {"call": 7, "at": NS, "process": "hub-1", "topic": HEX, "do": "write", "hub": [ADDRESS, EPOCH], "given": "NEW"}
    {"return": 7, "at": NS, "came": "written", "version": VERSION}

The recorder writes the line of a call before it makes the call. A call without a return has an unknown outcome. The
times are of CLOCK_MONOTONIC, which all processes of one machine share.
"""

import itertools
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from hedwig.errors import BadVersionError, HedwigError, InvalidArgumentError, MetadataUnavailableError, NoRecordError
from hedwig.metadata import Delete, Operation, Outcome, Read, TopicOwnershipManager, Write
from hedwig.model import HubInfo, Topic
from hedwig.versions import Version, Versioned
from tests.faults.linearizability.support import versioned_register as cas
from tests.faults.linearizability.support.operations import NOT_APPLIED, UNKNOWN, Unanswered
from tests.faults.linearizability.support.operations import Operation as Recorded
from tests.faults.linearizability.support.ownership import Owner

__all__ = ["RecordedOwnership", "read_recorded"]

_NOT_APPLIED: Final = "not applied"


class RecordedOwnership:
    """A TopicOwnershipManager that records every call and every answer; it passes listings on.

    Raises: FileExistsError - `path` exists: each process, and each start of one, has a file of its own.
    """

    def __init__(
        self, manager: TopicOwnershipManager, process: str, path: Path, now_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._manager = manager
        self._process = process
        self._now_ns = now_ns
        self._numbers = itertools.count(1)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    async def read(self, topic: Topic) -> Versioned[HubInfo] | None:
        """Read, as the manager does."""
        number = self._called(topic, do="read")
        try:
            record = await self._manager.read(topic)
        except HedwigError as error:
            self._failed(number, error)
            raise
        self._returned(number, came="found", record=_record(record))
        return record

    async def write(self, topic: Topic, hub: HubInfo, version: Version) -> Version:
        """Write, as the manager does."""
        number = self._called(topic, do="write", hub=_hub(hub), given=str(version))
        try:
            written = await self._manager.write(topic, hub, version)
        except HedwigError as error:
            self._failed(number, error)
            raise
        self._returned(number, came="written", version=str(written))
        return written

    async def delete(self, topic: Topic, version: Version) -> None:
        """Delete, as the manager does."""
        number = self._called(topic, do="delete", given=str(version))
        try:
            await self._manager.delete(topic, version)
        except HedwigError as error:
            self._failed(number, error)
            raise
        self._returned(number, came="deleted")

    async def apply(self, operations: Sequence[Operation[HubInfo]]) -> list[Outcome[HubInfo]]:
        """Run all operations, as the manager does; each counts as a call of its own."""
        numbers = [self._called(one.key.topic, **_asked(one)) for one in operations]
        outcomes = await self._manager.apply(operations)
        for number, one, outcome in zip(numbers, operations, outcomes, strict=True):
            if outcome.error is not None:
                self._failed(number, outcome.error)
            elif isinstance(one, Read):
                self._returned(number, came="found", record=_record(outcome.record))
            elif isinstance(one, Write):
                self._returned(number, came="written", version=str(outcome.written()))
            else:
                self._returned(number, came="deleted")
        return outcomes

    def topics(self, prefix: bytes | None = None, start_after: Topic | None = None) -> AsyncIterator[Topic]:
        """List, as the manager does."""
        return self._manager.topics(prefix, start_after)

    def _called(self, topic: Topic, **asked: Any) -> int:
        number = next(self._numbers)
        self._write({"call": number, "at": self._now_ns(), "process": self._process, "topic": topic.hex(), **asked})
        return number

    def _returned(self, number: int, **answer: Any) -> None:
        self._write({"return": number, "at": self._now_ns(), **answer})

    def _failed(self, number: int, error: HedwigError) -> None:
        """Record a refusal or a sure failure; after any other error the call stays open."""
        match error:
            case BadVersionError():
                self._returned(number, came="refused", record=_record(error.current))
            case NoRecordError():
                self._returned(number, came="gone")
            case MetadataUnavailableError() | InvalidArgumentError() if error.happened == "no":
                self._returned(number, came=_NOT_APPLIED)

    def _write(self, fact: dict[str, Any]) -> None:
        os.write(self._file, f"{json.dumps(fact)}\n".encode())


def read_recorded(paths: Iterable[Path]) -> list[cas.CasOperation]:
    """Return all calls that processes recorded, with topics as keys, and hubs as Owners.

    The last line of a killed process may be incomplete; it counts as not written.
    Raises: ValueError - a line that no recorder wrote.
    """
    calls: list[cas.CasOperation] = []
    for path in paths:
        facts = [json.loads(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
        returns = {fact["return"]: fact for fact in facts if "return" in fact}
        calls += [_recorded(fact, returns.get(fact["call"])) for fact in facts if "call" in fact]
    return calls


def _recorded(call: dict[str, Any], answer: dict[str, Any] | None) -> cas.CasOperation:
    asked = _read_asked(call)
    return Recorded(
        process=call["process"],
        key=bytes.fromhex(call["topic"]),
        start=call["at"],
        end=call["at"] if answer is None else answer["at"],
        input=asked,
        output=UNKNOWN if answer is None else _read_answer(asked, answer),
    )


def _read_asked(call: dict[str, Any]) -> cas.CasInput:
    match call:
        case {"do": "read"}:
            return cas.Read()
        case {"do": "write", "hub": hub, "given": given}:
            return cas.Write(Owner(*hub), _given(given))
        case {"do": "delete", "given": given}:
            return cas.Delete(_given(given))
    raise ValueError(f"no recorder wrote {call!r}")


def _read_answer(asked: cas.CasInput, answer: dict[str, Any]) -> cas.CasOutput | Unanswered:
    match answer:
        case {"came": "found", "record": record}:
            return cas.Returned(_read_record(record))
        case {"came": "written", "version": version}:
            return cas.Written(version)
        case {"came": "deleted"}:
            return cas.Deleted()
        case {"came": "refused", "record": record}:
            is_new = isinstance(asked, cas.Write) and asked.at is cas.NEW
            return cas.Exists(_read_record(record)) if is_new else cas.Stale(_read_record(record))
        case {"came": "gone"}:
            return cas.Gone()
        case {"came": "not applied"}:
            return NOT_APPLIED
    raise ValueError(f"no recorder wrote {answer!r}")


def _asked(operation: Operation[HubInfo]) -> dict[str, Any]:
    match operation:
        case Write(record=hub, version=version):
            return {"do": "write", "hub": _hub(hub), "given": str(version)}
        case Delete(version=version):
            return {"do": "delete", "given": str(version)}
    return {"do": "read"}


def _hub(hub: HubInfo) -> list[Any]:
    return [hub.address, hub.epoch]


def _record(versioned: Versioned[HubInfo] | None) -> list[Any] | None:
    return None if versioned is None else [_hub(versioned.value), str(versioned.version)]


def _read_record(record: list[Any] | None) -> cas.Record | None:
    return None if record is None else cas.Record(Owner(*record[0]), record[1])


def _given(text: str) -> str | cas.Given:
    return cas.Given(text) if text in ("NEW", "ANY") else text
