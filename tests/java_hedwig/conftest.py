"""Fixtures of the tests against the running original: one stack, which starts where only our code has written."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from kazoo.client import KazooClient

from hedwig.metadata import MetadataStore, format_metadata, open_metadata
from hedwig.model import LedgerRanges, MessageSeqId, SubscriberId, SubscriptionData, SubscriptionState, Topic
from hedwig.versions import NEW
from tests.java_hedwig.support.escaped_names import ESCAPED_SUBSCRIBER, ESCAPED_TOPICS
from tests.java_hedwig.support.stack import JavaStack

__all__: list[str] = []


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaStack]:
    """The original, first started where only our code has written."""
    with JavaStack(tmp_path_factory.mktemp("java-hedwig") / "servers") as started:
        started.start_stores()
        with asyncio.Runner() as runner:
            runner.run(_lay_out(started.metadata_url))
        started.start_hub()
        yield started


async def _lay_out(url: str) -> None:
    await format_metadata(url)
    data = SubscriptionData(state=SubscriptionState(MessageSeqId(3)))
    async with await open_metadata(url) as store:
        for topic in (Topic(b"made-before-the-hub"), *ESCAPED_TOPICS):
            await store.persistence.write(topic, LedgerRanges(), NEW)
            for name in (SubscriberId(b"s"), ESCAPED_SUBSCRIBER):
                await store.subscriptions.create(topic, name, data)


@pytest.fixture
async def shared(stack: JavaStack) -> AsyncIterator[MetadataStore]:
    """The hub's metadata, which our code opens while the hub runs."""
    async with await open_metadata(stack.metadata_url) as opened:
        yield opened


@pytest.fixture
def raw(stack: JavaStack) -> Iterator[KazooClient]:
    """A client of the hub's ZooKeeper, past the code under test."""
    with stack.znodes() as client:
        yield client
