"""A flush writes a whole table to files. Only there does HBase skip old cells."""

from pathlib import Path

import pytest

from hedwig.metadata import open_metadata
from hedwig.metadata.calls.attempts import Attempts
from hedwig.metadata.contract.kinds import PERSISTENCE
from hedwig.metadata.hbase.recent_rows import RecentTable
from hedwig.metadata.hbase.schema import Tables, columns_of
from hedwig.model import LedgerRanges, Topic
from hedwig.outcomes import AbortedError
from hedwig.versions import NEW
from tests.metadata.hbase.native.conftest import OPTIONS, Doors, Namespace, soon
from tests.support.servers import RunningServers


def _files(servers: RunningServers, table: str) -> list[Path]:
    """Return the store files of a table. Only the region server knows where they are."""
    namespace, _, name = table.partition(":")
    (family,) = columns_of(PERSISTENCE).families
    files = servers.launcher.directory.glob(f"**/data/{namespace}/{name}/*/{family.decode()}/*")
    return [each for each in files if not each.name.startswith(".")]


async def test_what_was_written_is_in_files(doors: Doors, namespace: Namespace, servers: RunningServers) -> None:
    table = Tables(namespace.name).name(PERSISTENCE)
    async with await open_metadata(namespace.url, OPTIONS) as store:
        for number in range(40):
            await store.persistence.write(Topic(b"t-%d" % number), LedgerRanges(), NEW)
    assert not _files(servers, table)
    driver = await doors.driver()
    await Attempts(OPTIONS, "flush").read(lambda deadline: driver.flush_table(table, deadline))
    assert len(_files(servers, table)) == len(await (await doors.administrator()).regions(table))


async def test_whoever_cannot_have_it_goes_on_without(doors: Doors, namespace: Namespace) -> None:
    table = Tables(namespace.name).name(PERSISTENCE)
    driver = await doors.driver()
    await driver.close()
    with pytest.raises(AbortedError):
        await driver.flush_table(table, soon())
    await RecentTable(PERSISTENCE, table, driver, OPTIONS).write_files()
