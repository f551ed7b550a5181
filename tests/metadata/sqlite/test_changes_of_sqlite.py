"""Prove how SQLite reports changes: by triggers in the file, for one reader, which the end of the feed removes."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from hedwig.errors import MetadataUnavailableError
from hedwig.metadata import MetadataStore, RecordKey, open_metadata
from hedwig.metadata.contract.changes import ChangedRecord, Changes
from hedwig.metadata.contract.kinds import SUBSCRIPTIONS
from hedwig.model import LedgerRanges, SubscriberId, SubscriptionData, Topic
from hedwig.versions import NEW

NEWS: Final = Topic(b"news\x00'")
READER: Final = SubscriberId(b"reader\xff")
_ALL: Final = 1000


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[MetadataStore]:
    async with await open_metadata(f"sqlite://{tmp_path}/store.db") as store:
        yield store


@pytest.fixture
async def changes(store: MetadataStore) -> Changes:
    await store.persistence.write(Topic(b"before"), LedgerRanges(), NEW)
    changes = store.changes()
    assert changes is not None
    await changes.begin()
    return changes


async def test_changes_of_other_processes_are_told(store: MetadataStore, changes: Changes, tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    with closing(sqlite3.connect(file)) as other:
        other.execute("UPDATE persistence SET topic = CAST('renamed' AS BLOB)")
        # The conflict clause of a statement must not lose the recorded changes.
        other.execute("INSERT OR REPLACE INTO persistence SELECT * FROM persistence")
        other.commit()
    topics = {each.key.topic for each in await changes.take(_ALL)}
    assert topics == {b"before", b"renamed"}
    async with await open_metadata(store.url.text) as other_store:
        await other_store.subscriptions.create(NEWS, READER, SubscriptionData())
    assert await changes.take(_ALL) == [ChangedRecord(SUBSCRIPTIONS, RecordKey(NEWS, READER))]


async def test_two_who_take_from_each_other_find_out(store: MetadataStore, changes: Changes) -> None:
    second = store.changes()
    assert second is not None
    await second.begin()
    await store.persistence.write(NEWS, LedgerRanges(), NEW)
    with pytest.raises(MetadataUnavailableError, match="another migration"):
        await changes.take(_ALL)
    await changes.end()  # The first reader must not end the feed of the second.
    assert len(await second.take(_ALL)) == 1
    await second.end()
    with pytest.raises(MetadataUnavailableError):
        await second.take(_ALL)


async def test_nothing_is_left_behind(store: MetadataStore, changes: Changes, tmp_path: Path) -> None:
    await store.persistence.write(NEWS, LedgerRanges(), NEW)
    await changes.end()
    with closing(sqlite3.connect(tmp_path / "store.db")) as other:
        assert not other.execute("SELECT name FROM sqlite_master WHERE name LIKE 'changed%'").fetchall()
    await store.persistence.write(Topic(b"after"), LedgerRanges(), NEW)
