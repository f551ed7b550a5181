"""Fixtures of the client tests: a hub of ours in a separate process."""

import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from hedwig.client import HubAddress
from hedwig.model import Topic
from tests.client.support.wire import Wire
from tests.hub.support.running import RunningHub

__all__: list[str] = []


@pytest.fixture(scope="session")
def own_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAddress]:
    """Run a hub for tests that leave it running. Each test uses topics of its own."""
    with RunningHub(tmp_path_factory.mktemp("client-hub")) as hub:
        yield HubAddress.parse(hub.address)


@pytest.fixture
async def wire(own_hub: HubAddress) -> AsyncIterator[Wire]:
    """A wire to the hub, which a test can look at, hold and cut."""
    async with Wire(own_hub) as made:
        yield made


@pytest.fixture
def topic() -> Topic:
    """A topic that no other test uses."""
    return Topic(b"client/" + uuid.uuid4().hex.encode())
