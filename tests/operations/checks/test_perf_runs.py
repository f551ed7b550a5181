"""Prove that runs of `check perf` that end in the middle write nothing after their records were removed."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import pytest

from hedwig.errors import MetadataUnavailableError
from hedwig.metadata import MetadataStore, StoreOptions, format_metadata, open_metadata
from hedwig.operations.checks.perf_runs import PerfRuns
from hedwig.operations.checks.perf_terms import PerfSize
from hedwig.operations.checks.scratch_topics import ScratchTopics
from hedwig.operations.deployment.deployment import Deployment
from tests.faults.support.waiting import until

SIZE = PerfSize(topics=1000, operations=200, callers=64)


async def records_of(store: MetadataStore) -> int:
    managers = (store.ownership, store.persistence, store.subscriptions)
    return sum([1 for manager in managers async for _ in manager.topics()])


def nothing(_: int) -> None:
    """Ignore the progress."""


@pytest.mark.parametrize("operation", ["create topic", "claim", "subscribe"])
async def test_what_is_on_its_way_when_a_run_is_cancelled_is_removed_too(tmp_path: Path, operation: str) -> None:
    path = tmp_path / "metadata.db"
    url = f"sqlite://{path}"
    await format_metadata(url)
    async with await open_metadata(url, StoreOptions(gather=True)) as store:
        topics = ScratchTopics()
        runs = PerfRuns(store, topics, SIZE)
        if operation != "create topic":
            await runs.run("create topic", nothing)
        used = topics.used

        async def measure() -> None:
            try:
                await runs.run(operation, nothing)
            finally:
                await topics.remove(Deployment(command="check perf", timeout_s=10.0), store, nothing)

        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            measuring = asyncio.create_task(measure())
            if operation == "create topic":
                await until(lambda: topics.used > used, "the run has begun")
            for _ in range(5):
                assert await store.ownership.read(topics.topic(0)) is None  # The writes of the run are on their way.
            measuring.cancel()
            # If the removal did not wait, it would have looked before this moment.
            asyncio.get_running_loop().call_later(0.5, other.rollback)
            await asyncio.wait([measuring])
        assert measuring.cancelled()
        assert await records_of(store) == 0


async def test_a_run_whose_store_fails_ends_with_that(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    url = f"sqlite://{path}"
    await format_metadata(url)
    async with await open_metadata(url, StoreOptions(gather=True, operation_timeout_s=0.2)) as store:
        runs = PerfRuns(store, ScratchTopics(), SIZE)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(MetadataUnavailableError):
                await runs.run("create topic", nothing)
