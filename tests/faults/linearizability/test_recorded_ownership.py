"""Prove that calls of processes on owner records are linearizable on real stores, and that faulty stores are found.

Properties: claims, releases and looks of several processes have one order; a process killed in the middle leaves only
calls with unknown outcomes, and no other harm; no fault put into a store on purpose passes unseen.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from hedwig.errors import BadVersionError, MetadataUnavailableError, UncertainStateError
from hedwig.metadata import (
    Delete,
    MetadataStore,
    Operation,
    Outcome,
    Read,
    RecordKey,
    TopicOwnershipManager,
    Write,
    format_metadata,
    open_metadata,
)
from hedwig.metadata.testing.subject import Subject
from hedwig.model import HubInfo, Topic
from hedwig.names import as_topic
from hedwig.versions import ANY, NEW, Version, Versioned
from tests.faults.linearizability import (
    NOT_APPLIED,
    UNKNOWN,
    NotLinearizableError,
    Unanswered,
    Verdict,
    check,
)
from tests.faults.linearizability.support.contender import contend
from tests.faults.linearizability.support.ownership import Owner, Ownership, as_ownership
from tests.faults.linearizability.support.recorder import RecordedOwnership, read_recorded
from tests.faults.linearizability.support.versioned_register import (
    Deleted,
    Exists,
    Gone,
    Returned,
    Stale,
    VersionedRegister,
    Written,
)
from tests.faults.support.waiting import until_blocking
from tests.faults.support.workforce import set_off, workers

THROUGH_THE_GATEWAY: Final[tuple[str, ...]] = ()

PROCESSES: Final = 6
ROUNDS: Final = 120
TOPICS: Final = 4
TIMEOUT_S: Final = 240.0


def test_ownership_among_processes_is_linearizable_though_one_is_killed(
    subject: Subject, seed: int, tmp_path: Path
) -> None:
    print(f"who does what comes from seed {seed}")
    records = [tmp_path / f"{worker}.record" for worker in range(PROCESSES)]
    shared = {"url": subject.url, "seed": seed, "topics": [f"owned-{n}" for n in range(TOPICS)], "rounds": ROUNDS}
    settings = [{**shared, "worker": worker, "record": str(path)} for worker, path in enumerate(records)]
    # The process to be killed has more rounds than it can finish before.
    settings[0]["rounds"] = 1_000_000
    with workers("contend_for_ownership", settings, tmp_path) as crew:
        set_off(crew)
        until_blocking(lambda: _calls_in(records[0]) > ROUNDS, "calls of the process to be killed", TIMEOUT_S)
        crew[0].kill()
        for worker in crew[1:]:
            worker.finish(TIMEOUT_S)
    history = read_recorded(records)
    check(history, VersionedRegister()).require()
    check(as_ownership(history), Ownership()).require()
    kinds = Counter("open" if isinstance(one.output, Unanswered) else type(one.output).__name__ for one in history)
    print(dict(kinds))
    assert {one.process for one in history} == {f"hub-{worker}" for worker in range(PROCESSES)}
    # There must be every kind of refusal and of success: otherwise the processes did not contend.
    assert set(kinds) >= {"Returned", "Written", "Deleted", "Stale", "Gone"}
    assert sum(kinds.values()) >= (PROCESSES - 1) * ROUNDS


def _calls_in(record: Path) -> int:
    return record.read_bytes().count(b'"call"') if record.exists() else 0


class PassedOn:
    """A manager that passes every call on; each subclass does one thing wrong."""

    def __init__(self, manager: TopicOwnershipManager, rng: random.Random) -> None:
        self._manager = manager
        self._rng = rng
        self.faults = 0

    async def read(self, topic: Topic) -> Versioned[HubInfo] | None:
        return await self._manager.read(topic)

    async def write(self, topic: Topic, hub: HubInfo, version: Version) -> Version:
        return await self._manager.write(topic, hub, version)

    async def delete(self, topic: Topic, version: Version) -> None:
        await self._manager.delete(topic, version)

    async def apply(self, operations: Sequence[Operation[HubInfo]]) -> list[Outcome[HubInfo]]:
        return await self._manager.apply(operations)

    def topics(self, prefix: bytes | None = None, start_after: Topic | None = None) -> Any:
        return self._manager.topics(prefix, start_after)

    def _errs(self) -> bool:
        wrong = self._rng.random() < 0.1
        self.faults += wrong
        return wrong


class IgnoresVersions(PassedOn):
    """Sometimes writes without a look at the version."""

    async def write(self, topic: Topic, hub: HubInfo, version: Version) -> Version:
        return await self._manager.write(topic, hub, ANY if self._errs() else version)


class ReadsOfOld(PassedOn):
    """Sometimes answers a read with the record of an earlier read."""

    def __init__(self, manager: TopicOwnershipManager, rng: random.Random) -> None:
        super().__init__(manager, rng)
        self._before: dict[Topic, Versioned[HubInfo] | None] = {}

    async def read(self, topic: Topic) -> Versioned[HubInfo] | None:
        record = await self._manager.read(topic)
        before = self._before.setdefault(topic, record)
        self._before[topic] = record
        return before if self._errs() else record


class DeniesWhatItDid(PassedOn):
    """Sometimes writes, and then reports that it surely did not."""

    async def write(self, topic: Topic, hub: HubInfo, version: Version) -> Version:
        written = await self._manager.write(topic, hub, version)
        if self._errs():
            raise MetadataUnavailableError("the store could not be asked")
        return written


class ForgetsWhatItDid(PassedOn):
    """Sometimes deletes the record that it has just written, without a report."""

    async def write(self, topic: Topic, hub: HubInfo, version: Version) -> Version:
        written = await self._manager.write(topic, hub, version)
        if self._errs():
            await self._manager.delete(topic, written)
        return written


class LosesAnswers(PassedOn):
    """Sometimes writes or does not write, and reports an unknown outcome. That is no fault."""

    async def write(self, topic: Topic, hub: HubInfo, version: Version) -> Version:
        if self._errs():
            if self._rng.random() < 0.5:
                await self._manager.write(topic, hub, version)
            raise UncertainStateError("sent, no answer")
        return await self._manager.write(topic, hub, version)


async def _history_over(make: Callable[[TopicOwnershipManager, random.Random], PassedOn], directory: Path) -> Any:
    """Let four clients contend over one store, each through a manager from `make`; return the recorded calls."""
    url = f"sqlite://{directory / 'store.db'}"
    await format_metadata(url)
    topics = [as_topic(b"one"), as_topic(b"two")]
    paths = [directory / f"{client}.record" for client in range(4)]
    async with await open_metadata(url) as store:
        between = make(store.ownership, random.Random(6))
        with ExitStack() as stack:
            async with asyncio.TaskGroup() as group:
                for client, path in enumerate(paths):
                    records = stack.enter_context(RecordedOwnership(between, f"hub-{client}", path))
                    hub = HubInfo(host=f"hub-{client}", port=4080, epoch=1)
                    group.create_task(contend(records, hub, topics, random.Random(client), rounds=150, at_once=1))
    return between.faults, read_recorded(paths)


@pytest.mark.parametrize("make", [PassedOn, LosesAnswers])
async def test_a_store_without_fault_passes(make: type[PassedOn], tmp_path: Path) -> None:
    faults, history = await _history_over(make, tmp_path)
    check(history, VersionedRegister()).require()
    check(as_ownership(history), Ownership()).require()
    assert (faults > 10) == (make is LosesAnswers)
    assert (UNKNOWN in [one.output for one in history]) == (make is LosesAnswers)


@pytest.mark.parametrize("make", [IgnoresVersions, ReadsOfOld, DeniesWhatItDid, ForgetsWhatItDid])
async def test_a_store_with_a_fault_is_refused(make: type[PassedOn], tmp_path: Path) -> None:
    faults, history = await _history_over(make, tmp_path)
    assert faults > 10
    report = check(history, VersionedRegister(), all_keys=True)
    assert report.verdict is Verdict.NOT_LINEARIZABLE
    with pytest.raises(NotLinearizableError, match="this one could not be placed"):
        report.require()


class Answers(PassedOn):
    """Fails a read with a given error."""

    error: BaseException | None = None

    async def read(self, topic: Topic) -> Versioned[HubInfo] | None:
        if self.error is not None:
            raise self.error
        return await super().read(topic)


@pytest.fixture
async def store(tmp_path: Path) -> Any:
    url = f"sqlite://{tmp_path / 'store.db'}"
    await format_metadata(url)
    async with await open_metadata(url) as store:
        yield store


async def test_every_answer_is_written_down_as_what_it_was(store: MetadataStore, tmp_path: Path) -> None:
    topic, me, other = (
        as_topic(b"t\xff"),
        HubInfo(host="me", port=1, epoch=3),
        HubInfo(host="other", port=2, ssl_port=5),
    )
    path = tmp_path / "record"
    manager = Answers(store.ownership, random.Random(1))
    with RecordedOwnership(manager, "p", path) as records:
        first = await records.write(topic, me, NEW)
        with pytest.raises(BadVersionError):
            await records.write(topic, other, NEW)
        second = await records.write(topic, other, first)
        outcomes = await records.apply(
            [Read(RecordKey(topic)), Write(RecordKey(topic), me, first), Delete(RecordKey(topic), first)]
        )
        assert [outcome.error is None for outcome in outcomes] == [True, False, False]
        await records.delete(topic, second)
        [gone] = await records.apply([Delete(RecordKey(topic), second)])
        assert gone.error is not None
        assert await records.read(topic) is None
        for error in (MetadataUnavailableError("no"), UncertainStateError("who knows"), asyncio.CancelledError()):
            manager.error = error
            with pytest.raises(type(error)):
                await records.read(topic)
        manager.error = None
        assert [name async for name in records.topics()] == []
    owner = Owner("other:2:5", 0)
    history = read_recorded([path])
    seen = [one.output for one in history]
    assert [type(output) for output in seen[:8]] == [Written, Exists, Written, Returned, Stale, Stale, Deleted, Gone]
    assert [getattr(output, "record", None) or getattr(output, "current", None) for output in seen[3:6]] == [
        next(output.record for output in seen if isinstance(output, Returned))
    ] * 3
    assert isinstance(seen[3], Returned)
    assert seen[3].record is not None
    assert (seen[3].record.value, seen[3].record.version) == (owner, str(second))
    assert seen[8:] == [Returned(None), NOT_APPLIED, UNKNOWN, UNKNOWN]
    assert {one.key for one in history} == {topic}
    assert all(one.start <= one.end for one in history)
    check(history, VersionedRegister()).require()


async def test_half_a_line_of_a_killed_process_counts_as_not_written(store: MetadataStore, tmp_path: Path) -> None:
    path = tmp_path / "record"
    topic, me = as_topic(b"t"), HubInfo(host="me", port=1)
    with RecordedOwnership(store.ownership, "p", path) as records:
        await records.write(topic, me, NEW)
    whole = path.read_bytes()
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        history = read_recorded([path])
        outputs = [one.output for one in history]
        lines = whole[:size].count(b"\n")
        assert len(outputs) == min(lines, 1)
        assert (UNKNOWN in outputs) == (lines == 1)
        check(history, VersionedRegister()).require()


async def test_each_process_has_a_file_of_its_own(store: MetadataStore, tmp_path: Path) -> None:
    with RecordedOwnership(store.ownership, "p", tmp_path / "record"), pytest.raises(FileExistsError):
        RecordedOwnership(store.ownership, "q", tmp_path / "record")


def test_what_no_recorder_wrote_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "record"
    for wrong in ({"do": "rename"}, {"do": "write", "hub": ["a", 1]}):
        path.write_text(json.dumps({"call": 1, "at": 0, "process": "p", "topic": "00", **wrong}) + "\n")
        with pytest.raises(ValueError, match="no recorder wrote"):
            read_recorded([path])
