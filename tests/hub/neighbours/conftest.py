"""A hub with small bounds, and a topic on it whose clients behave."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.hub.neighbours.support.clients import MEMORY_MAX, SETTINGS
from tests.hub.neighbours.support.good_topic import GoodTopic, memory_peak
from tests.hub.support.running import RunningHub


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[RunningHub]:
    """Run a hub with small bounds, and check its memory at the end."""
    with RunningHub(tmp_path, *SETTINGS) as running:
        yield running
        assert memory_peak(running.pid) < MEMORY_MAX
        running.stop()
        assert "Traceback" not in running.log


@pytest.fixture
async def good(hub: RunningHub) -> AsyncIterator[GoodTopic]:
    """Return a topic beside the bad clients, after some messages went through it."""
    async with await GoodTopic.open(hub.port) as topic:
        await topic.exchange(5)
        yield topic
        await topic.exchange(20)


@pytest.fixture
async def opened() -> AsyncIterator[AsyncExitStack]:
    """Return a stack that ends the connections of this test."""
    async with AsyncExitStack() as stack:
        yield stack
