"""Prove that a reader of a store's changes misses none when the region server that reports them is killed.

Property: a record is reported at least once after its last acknowledged change.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

import pytest

from hedwig.metadata import Delete, MetadataStore, RecordKey, StoreOptions, Write
from hedwig.metadata.contract.changes import ChangedRecord, Changes
from hedwig.metadata.contract.kinds import OWNERSHIP
from hedwig.metadata.testing import samples
from hedwig.metadata.testing.clients import Clients, Names
from hedwig.metadata.testing.subject import Subject
from hedwig.model import Topic
from hedwig.versions import ANY, NEW
from tests.faults.support.network import NETWORKED, Networked
from tests.metadata.support.backends import Surroundings
from tests.support.servers import RunningServers, own_servers

VICTIM: Final = "regionserver-1"
OPTIONS: Final = StoreOptions(operation_timeout_s=300.0, page_rows=20)
RECORDS: Final = 600
PART: Final = 50


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(each, id=each.label, marks=pytest.mark.full if each.label != "hbase" else ())
        for each in NETWORKED
        if each.label.startswith("hbase")
    ],
)
def networked(request: pytest.FixtureRequest) -> Networked:
    """Each way to HBase in turn."""
    chosen: Networked = request.param
    return chosen


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surroundings]:
    """Servers of their own."""
    with own_servers(tmp_path_factory) as servers:
        yield Surroundings(servers, tmp_path_factory.mktemp("stores"))


async def _take_all(changes: Changes, reported: set[ChangedRecord]) -> None:
    while part := await changes.take(PART):
        reported.update(part)


async def _change(store: MetadataStore, keys: list[RecordKey]) -> None:
    """Delete every third of the records, and write the others."""
    operations = [
        Delete(key, ANY) if number % 3 == 0 else Write(key, samples.hub(number), ANY) for number, key in enumerate(keys)
    ]
    for outcome in await store.ownership.apply(operations):
        assert outcome.error is None, outcome.error


@pytest.mark.timeout(600)
async def test_no_change_is_missed_when_the_server_is_killed_in_the_middle_of_taking(
    networked_subject: Subject,
    faulty_servers: RunningServers,
    clients: Clients,
    names: Names,
) -> None:
    launcher = faulty_servers.launcher
    store = await clients.open(networked_subject, OPTIONS)
    keys = [RecordKey(Topic(names(b"%d" % number))) for number in range(RECORDS)]
    for outcome in await store.ownership.apply([Write(key, samples.hub(0), NEW) for key in keys]):
        assert outcome.error is None
    changes = store.changes()
    assert changes is not None
    await changes.begin()
    await _change(store, keys)
    reported = set(await changes.take(PART))
    assert len(reported) == PART
    taking = asyncio.create_task(_take_all(changes, reported))
    pid = launcher.pid(VICTIM)
    await asyncio.to_thread(launcher.kill, VICTIM)
    await asyncio.to_thread(launcher.start, VICTIM)
    assert launcher.pid(VICTIM) != pid
    await taking
    assert reported == {ChangedRecord(OWNERSHIP, key) for key in keys}
    await _change(store, keys[1::3])
    reported.clear()
    await _take_all(changes, reported)
    assert reported == {ChangedRecord(OWNERSHIP, key) for key in keys[1::3]}
    await changes.end()
