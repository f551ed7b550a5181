"""Prove that the store reports a failed or ended session by its own errors."""

import asyncio
import time

import pytest

from hedwig.errors import MetadataUnavailableError, UncertainStateError
from hedwig.metadata import MetadataStore, StoreOptions, open_metadata
from hedwig.model import LedgerRanges, Topic
from hedwig.versions import ANY, NEW
from tests.support.servers import RunningServers
from tests.zookeeper.support.silence import kazoo_threads, nobody_listens, paused, unanswered


async def test_unreachable_hosts_are_named_in_time() -> None:
    before = kazoo_threads()
    host = f"127.0.0.1:{nobody_listens()}"
    start = time.monotonic()
    with pytest.raises(MetadataUnavailableError, match=host):
        await open_metadata(f"zookeeper://{host}/hedwig/standalone", StoreOptions(operation_timeout_s=0.5))
    assert time.monotonic() - start >= 0.5
    assert kazoo_threads() <= before


async def test_close_ends_what_is_under_way_at_once(store: MetadataStore, servers: RunningServers) -> None:
    ranges, topic = store.persistence, Topic(b"t")
    version = await ranges.write(topic, LedgerRanges(), NEW)
    with paused(servers):
        read = await unanswered(lambda: ranges.read(topic))
        write = asyncio.create_task(ranges.write(topic, LedgerRanges(), version))
        delete = asyncio.create_task(ranges.delete(topic, version))
        await asyncio.wait([write, read, delete], timeout=0.3)
        closing = asyncio.create_task(store.close())
        with pytest.raises(UncertainStateError):
            await write
        with pytest.raises(UncertainStateError):
            await delete
        with pytest.raises(MetadataUnavailableError) as unread:
            await read
        assert unread.value.happened == "no"
    await closing
    for version in (NEW, ANY):
        with pytest.raises(MetadataUnavailableError) as refusal:
            await ranges.write(topic, LedgerRanges(), version)
        assert refusal.value.happened == "no"
