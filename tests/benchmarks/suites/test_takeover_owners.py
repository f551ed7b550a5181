"""Prove that the topics of a storm have the owners that were written."""

import asyncio
from pathlib import Path

from hedwig.benchmarks.suites.takeover.owners import read_owners, write_owners
from hedwig.metadata import open_metadata
from hedwig.model import HubInfo

HUBS = {each.name: each for each in (HubInfo(host="hub", port=4080 + number, epoch=7) for number in range(3))}


def test_owners_are_written_in_turn_and_read_back(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/metadata.sqlite"

    async def owners() -> None:
        async with await open_metadata(url):
            pass
        written = await write_owners(url, "storm", range(100, 1_000), HUBS)
        assert [len(own) for own in written.topics.values()] == [300] * 3
        assert sorted(topic for own in written.topics.values() for topic in own) == list(range(100, 1_000))
        assert await read_owners(url, "storm", range(1_100)) == written
        # As after a lost answer to a batch: the records that are there are right.
        assert await write_owners(url, "storm", range(100, 1_000), HUBS) == written

    asyncio.run(owners())
