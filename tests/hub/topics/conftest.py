"""A hub with topics that are not durable."""

import pytest

from hedwig.hub.hub import Hub
from tests.hub.conftest import StartHub


@pytest.fixture
async def fleeting(start_hub: StartHub) -> Hub:
    """A hub with some topics that are not durable."""
    return await start_hub(non_durable_topics=("live.*", "nobody"), cache_bytes=10_000)
