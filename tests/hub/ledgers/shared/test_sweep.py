"""Prove that the sweep frees what no topic refers to, in the logs of all hubs, and nothing else."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from hedwig.clock import SystemClock
from hedwig.errors import CorruptRecordError
from hedwig.hub.ledgers import LocalLedgerStore
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from hedwig.hub.log_sweep import LogSweep
from hedwig.metadata import NEW, MetadataStore, format_metadata, open_metadata
from hedwig.metadata.logs.record import LogRecord, LogState
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.model import HubInfo, LedgerRange, LedgerRanges, MessageSeqId, Topic
from tests.hub.ledgers.conftest import OpenStore
from tests.hub.ledgers.support.contents import fill, payload, read_all

ONE = HubInfo(host="one", port=4080, epoch=1)
OTHER = HubInfo(host="other", port=4080, epoch=2)
OPTIONS = SharedLogOptions(segment_bytes=8 << 10, roll_pause_s=0.0, upkeep_interval_s=3600.0, grace_s=0.0)


class Deployment:
    """Hubs with shared logs on one metadata store."""

    def __init__(self, below: LocalLedgerStore, metadata: MetadataStore) -> None:
        self.below = below
        self.metadata = metadata
        self.records = KeptLogRecords(metadata.named_records)
        self.dead: set[str] = set()
        self.stores: list[SharedLedgerStore] = []

    async def is_alive(self, hub: HubInfo) -> bool:
        return hub.host not in self.dead

    async def start(self, hub: HubInfo) -> SharedLedgerStore:
        store = await SharedLedgerStore.open(
            self.below, self.records, hub, SystemClock(), OPTIONS, is_alive=self.is_alive
        )
        self.stores.append(store)
        return store

    def sweeper(self, store: SharedLedgerStore, me: HubInfo = OTHER, interval_s: float = 3600.0) -> LogSweep:
        return LogSweep(store, self.records, self.metadata, me, SystemClock(), interval_s, lambda: True)

    async def record(self, store: SharedLedgerStore) -> LogRecord | None:
        assert store.log is not None
        return await self.records.read(store.log)

    async def name_ranges(self, topic: bytes, ledgers: list[int], entries: int) -> None:
        """Store the ranges of a topic that has these ledgers, each with so many entries."""
        ranges = tuple(
            LedgerRange(ledger_id=each, start=1 + number * entries, end=MessageSeqId(local=(number + 1) * entries))
            for number, each in enumerate(ledgers)
        )
        await self.metadata.persistence.write(Topic(topic), LedgerRanges(ranges), NEW)


@pytest.fixture
async def deployment(open_store: OpenStore, tmp_path: Path) -> AsyncIterator[Deployment]:
    url = f"sqlite://{tmp_path / 'metadata.db'}"
    await format_metadata(url)
    async with await open_metadata(url) as metadata:
        made = Deployment(await open_store(segment_bytes=1 << 20), metadata)
        yield made
        for each in made.stores:
            await each.abandon()


async def _written(store: SharedLedgerStore, count: int, entries: int) -> list[int]:
    """Return ledgers with entries, all in sealed segments."""
    ledgers = [await store.create() for _ in range(count)]
    await fill(store, ledgers, range(entries))
    for each in ledgers:
        await store.close(each)
    await store.settle(ledgers)
    return ledgers


async def test_segments_of_a_living_hub_that_no_range_names_go_after_two_readings(deployment: Deployment) -> None:
    """Another hub has served the topics since, and deleted their ledgers, of which the first hub knows nothing."""
    one, other = await deployment.start(ONE), await deployment.start(OTHER)
    ledgers = await _written(one, 20, 20)
    await deployment.name_ranges(b"kept", ledgers[:1], 20)
    for each in ledgers[1:]:
        await other.delete(each)
    sweeper = deployment.sweeper(other)
    before = await deployment.record(one)
    assert before is not None
    await sweeper.sweep()
    assert await deployment.record(one) == before, "one reading frees nothing"
    await sweeper.sweep()
    record = await deployment.record(one)
    assert record is not None
    assert record.state is LogState.OPEN
    assert 0 < sum(each.size for each in record.segments) < sum(each.size for each in before.segments) / 2
    listed = await deployment.record(other)
    assert listed is not None
    assert {each async for each in deployment.below.ledgers()} == record.ledgers | listed.ledgers
    for store in (one, other):
        assert await read_all(store, ledgers[0]) == [payload(ledgers[0], entry) for entry in range(20)]
    assert len(await _written(one, 2, 100)) == 2, "its own hub goes on with the changed record"


async def test_the_log_of_a_dead_hub_is_closed_and_goes_with_the_last_that_names_it(deployment: Deployment) -> None:
    one, other = await deployment.start(ONE), await deployment.start(OTHER)
    ledgers = await _written(one, 5, 20)
    unsealed = await one.create()
    await fill(one, [unsealed], range(3))
    await deployment.name_ranges(b"news", [unsealed], 3)
    await deployment.metadata.ownership.write(Topic(b"idle"), HubInfo(host="one", port=4080, epoch=1, log=one.log), NEW)
    await one.abandon()
    deployment.dead.add("one")
    sweeper = deployment.sweeper(other)
    for _ in range(3):
        await sweeper.sweep()
    record = await deployment.record(one)
    assert record is not None
    assert record.state is LogState.CLOSED
    assert await read_all(other, unsealed) == [payload(unsealed, entry) for entry in range(3)]
    assert await read_all(other, ledgers[0]) == []
    ranges = await deployment.metadata.persistence.read(Topic(b"news"))
    assert ranges is not None
    emptied = LedgerRanges((LedgerRange(ledger_id=unsealed, start=4, end=MessageSeqId(local=3)),))
    await deployment.metadata.persistence.write(Topic(b"news"), emptied, ranges.version)
    for _ in range(3):
        await sweeper.sweep()
    record = await deployment.record(one)
    assert record is not None, "an owner names the log"
    assert record.segments == (), "an emptied range names no slot"
    owner = await deployment.metadata.ownership.read(Topic(b"idle"))
    assert owner is not None
    await deployment.metadata.ownership.delete(Topic(b"idle"), owner.version)
    for _ in range(2):
        await sweeper.sweep()
    assert await deployment.record(one) is None
    mine = await deployment.record(other)
    assert mine is not None
    assert {each async for each in deployment.below.ledgers()} == mine.ledgers


async def test_a_record_that_cannot_be_read_could_name_anything(deployment: Deployment, tmp_path: Path) -> None:
    one, other = await deployment.start(ONE), await deployment.start(OTHER)
    await _written(one, 5, 20)
    await deployment.name_ranges(b"damaged", [], 1)
    with closing(sqlite3.connect(tmp_path / "metadata.db")) as tables, tables:
        assert tables.execute("UPDATE persistence SET record = x'c1'").rowcount == 1
    before = await deployment.record(one)
    sweeper = deployment.sweeper(other)
    for _ in range(3):
        with pytest.raises(CorruptRecordError):
            await sweeper.sweep()
    assert await deployment.record(one) == before


async def test_sweep_frees_nothing_beside_a_damaged_record_of_a_log(deployment: Deployment) -> None:
    one, other = await deployment.start(ONE), await deployment.start(OTHER)
    await _written(one, 5, 20)
    damaged = f"log-{(await deployment.records.create(ONE)).number:010}"
    names = deployment.metadata.named_records
    present = await names.read(damaged)
    assert present is not None
    assert await names.replace(damaged, present, present[:-1])
    before = await deployment.record(one)
    sweeper = deployment.sweeper(other)
    for _ in range(3):
        with pytest.raises(CorruptRecordError):
            await sweeper.sweep()
    assert await deployment.record(one) == before
    assert await names.replace(damaged, present[:-1], present)
    for _ in range(3):
        await sweeper.sweep()
    assert await deployment.record(one) != before, "it has what no range names"


async def test_topics_are_not_read_without_logs(deployment: Deployment, tmp_path: Path) -> None:
    """Each hub of a cluster sweeps, also where all topics have ledgers of their own."""
    store = SharedLedgerStore.without_log(
        deployment.below, deployment.records, SystemClock(), OPTIONS, is_alive=deployment.is_alive
    )
    await deployment.name_ranges(b"damaged", [], 1)
    with closing(sqlite3.connect(tmp_path / "metadata.db")) as tables, tables:
        assert tables.execute("UPDATE persistence SET record = x'c1'").rowcount == 1
    await deployment.sweeper(store).sweep()


async def test_a_log_whose_ledgers_are_gone_goes_all_the_same(deployment: Deployment) -> None:
    """As one does that an old export has brought back."""
    one, other = await deployment.start(ONE), await deployment.start(OTHER)
    ledgers = [(await _written(one, 1, 20))[0] for _ in range(3)]
    await deployment.name_ranges(b"kept", ledgers[2:], 20)
    before = await deployment.record(one)
    assert before is not None
    gone, unneeded, _ = before.segments
    await one.abandon()
    deployment.dead.add("one")
    await deployment.below.delete(gone.ledger)
    sweeper = deployment.sweeper(other)
    for _ in range(2):
        await sweeper.sweep()
    record = await deployment.record(one)
    assert record is not None
    assert gone in record.segments
    assert unneeded not in record.segments, "the others go as always"
    assert await read_all(other, ledgers[2]) == [payload(ledgers[2], entry) for entry in range(20)]
    stored = await deployment.metadata.persistence.read(Topic(b"kept"))
    assert stored is not None
    await deployment.metadata.persistence.delete(Topic(b"kept"), stored.version)
    for _ in range(2):
        await sweeper.sweep()
    assert await deployment.record(one) is None
