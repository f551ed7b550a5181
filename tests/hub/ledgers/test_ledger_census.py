"""Prove that the census counts ledgers from outside correctly, and deletes a ledger only as it was seen."""

import time
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from kazoo.client import KazooClient

from hedwig.clock import SystemClock
from hedwig.errors import NoSuchLedgerError
from hedwig.hub.ledgers import LocalLedgerStore
from hedwig.hub.ledgers.bookkeeper.census import BookkeeperLedgerCensus
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import Ensemble, LedgerMetadata, LedgerState
from hedwig.hub.ledgers.bookkeeper.records.znode_paths import LedgerLayout, layout_text
from hedwig.hub.ledgers.bookkeeper.records.zookeeper_metadata import ZookeeperLedgerMetadata
from hedwig.hub.ledgers.bookkeeper.wire.digests import DigestKind
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums
from hedwig.hub.ledgers.census import LedgerCensus, LedgerEntry
from hedwig.hub.ledgers.local.census import LocalLedgerCensus
from tests.hub.ledgers.bookkeeper.support.sessions import session_with
from tests.support.servers import RunningServers

RECORD: Final = LedgerMetadata(
    quorums=Quorums(ensemble=1, write=1, ack=1),
    state=LedgerState.OPEN,
    ensembles=(Ensemble(first_entry_id=0, bookies=("127.0.0.1:3181",)),),
    digest=DigestKind.CRC32C,
    password=b"pw",
    custom={"application": b"hedwig", "topic": b"news"},
)


@pytest.fixture
def raw(servers: RunningServers) -> Iterator[KazooClient]:
    """Return a client beside the code under test."""
    client = KazooClient(servers.address("zookeeper"))
    client.start(30)
    yield client
    client.stop()
    client.close()


@pytest.fixture
def root(raw: KazooClient) -> str:
    path = f"/ledgers-{uuid.uuid4().hex}"
    raw.create(path)
    raw.create(f"{path}/LAYOUT", layout_text(LedgerLayout.HIERARCHICAL))
    return path


@pytest.fixture
async def metadata(servers: RunningServers, root: str) -> AsyncIterator[ZookeeperLedgerMetadata]:
    async with session_with(servers.address("zookeeper")) as session:
        yield await ZookeeperLedgerMetadata.open(session, root, SystemClock())


async def _all(census: LedgerCensus) -> list[LedgerEntry]:
    return [entry async for page in census.pages() for entry in page]


async def test_ledgers_on_bookies_say_what_their_metadata_say(metadata: ZookeeperLedgerMetadata) -> None:
    before_ms = int(time.time() * 1000) - 60_000
    await metadata.create(3, RECORD)
    await metadata.create(5, replace(RECORD, created_ms=77, custom={}).closed(4, 20))
    census = BookkeeperLedgerCensus(metadata)
    opened, closed = await _all(census)
    assert (opened.ledger_id, opened.last_entry_id, opened.about) == (3, None, RECORD.custom)
    # The record has no creation time, but ZooKeeper does.
    assert opened.made_ms is not None
    assert before_ms < opened.made_ms < before_ms + 120_000
    assert (closed.ledger_id, closed.last_entry_id, closed.made_ms, closed.about) == (5, 4, 77, {})
    assert await census.find([5, 4, 3, 1 << 63, 5]) == [closed, None, opened, None, closed]
    assert await census.find([]) == []


async def test_time_is_that_by_which_ledgers_are_dated(
    metadata: ZookeeperLedgerMetadata, raw: KazooClient, root: str
) -> None:
    census = BookkeeperLedgerCensus(metadata)
    before_ms = await census.now_ms()
    await metadata.create(3, RECORD)
    (entry,) = await _all(census)
    assert entry.made_ms is not None
    assert before_ms <= entry.made_ms <= await census.now_ms()
    assert sorted(raw.get_children(root)) == ["00", "LAYOUT"]


async def test_many_ledgers_come_page_by_page_in_order(metadata: ZookeeperLedgerMetadata) -> None:
    ids = [*range(300), (1 << 40) + 1, (1 << 40) + 2]
    for ledger_id in ids:
        await metadata.create(ledger_id, RECORD)
    census = BookkeeperLedgerCensus(metadata)
    sizes = [len(page) async for page in census.pages()]
    assert len(sizes) > 2
    assert [entry.ledger_id for entry in await _all(census)] == ids
    assert [entry is not None for entry in await census.find([*ids, 301])] == [True] * len(ids) + [False]


async def test_damaged_metadata_are_told_and_are_no_absence(
    metadata: ZookeeperLedgerMetadata, raw: KazooClient, root: str
) -> None:
    await metadata.create(7, RECORD)
    raw.set(f"{root}/{LedgerLayout.HIERARCHICAL.path(7)}", b"damaged")
    census = BookkeeperLedgerCensus(metadata)
    (entry,) = await _all(census)
    assert (entry.ledger_id, entry.version) == (7, None)
    assert "format" in str(entry.error)
    assert await census.find([7]) == [entry]


async def test_ledger_is_deleted_only_as_it_was_seen(metadata: ZookeeperLedgerMetadata) -> None:
    first = await metadata.create(3, RECORD)
    assert first is not None
    census = BookkeeperLedgerCensus(metadata)
    (seen,) = await _all(census)
    await metadata.write(3, RECORD.closed(4, 20), first)
    assert not await census.delete(seen)
    assert (await metadata.read(3)).value.state is LedgerState.CLOSED
    (seen,) = await _all(census)
    assert await census.delete(seen)
    with pytest.raises(NoSuchLedgerError):
        await metadata.read(3)
    assert await census.delete(seen)  # The ledger is gone, whichever client deleted it.
    assert await _all(census) == []


async def test_ledgers_in_a_directory_are_counted_beside_their_store(tmp_path: Path) -> None:
    store = await LocalLedgerStore.open(tmp_path)
    opened, closed, gone = [await store.create() for _ in range(3)]
    for entry_id in range(3):
        await store.append(closed, entry_id, b"entry")
    await store.close(closed)
    await store.delete(gone)
    census = await LocalLedgerCensus.open(tmp_path)
    assert await _all(census) == [LedgerEntry(ledger_id=opened), LedgerEntry(ledger_id=closed)]
    assert await census.find([closed, gone, opened]) == [
        LedgerEntry(ledger_id=closed, last_entry_id=2),
        None,
        LedgerEntry(ledger_id=opened),
    ]
    later = await store.create()  # The census looks again before it reports a ledger as missing.
    assert await census.find([later, gone]) == [LedgerEntry(ledger_id=later), None]
    assert not await census.delete(LedgerEntry(ledger_id=closed))
    assert await store.last_entry_id(closed) == 2
    await store.aclose()
