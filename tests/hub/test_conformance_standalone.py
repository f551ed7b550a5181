"""Standalone hubs, over the wire: one hub for a directory and a store, its epochs, and its end."""

import asyncio

import pytest

from hedwig.errors import LedgerStoreLockedError, StandaloneHubExistsError
from hedwig.hub.hub import Hub
from hedwig.metadata import format_metadata, open_metadata
from hedwig.status import StatusCode
from hedwig.wire import Message, Publish
from tests.hub.conftest import Connect, StartHub
from tests.hub.support.topic_records import T
from tests.hub.support.wire_client import ChannelClosedError, WireClient


async def test_two_hubs_cannot_use_one_directory(hub: Hub, start_hub: StartHub) -> None:
    with pytest.raises(LedgerStoreLockedError):
        await start_hub()


async def test_two_hubs_cannot_use_one_metadata_store(
    start_hub: StartHub, connect: Connect, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("shared")
    url = f"sqlite://{directory / 'metadata.db'}"
    await format_metadata(url)
    first = await start_hub(metadata=url)
    client = await connect(first)
    await client.publish(T, b"m")
    with pytest.raises(StandaloneHubExistsError):
        await start_hub(metadata=url, data_directory=directory / "other")
    await first.close()
    second = await start_hub(metadata=url, data_directory=directory / "other", replace_standalone=True)
    assert second.me.epoch > first.me.epoch
    async with await open_metadata(url) as store:
        registered = await store.standalone_hub()
    assert registered is not None
    assert registered.starts == second.me.epoch


async def test_every_start_is_another_epoch(start_hub: StartHub) -> None:
    epochs = []
    for _ in range(3):
        async with await start_hub() as hub:
            epochs.append(hub.me.epoch)
    assert epochs == sorted(set(epochs))


async def test_requests_during_the_shutdown_are_answered_or_their_channel_ends(hub: Hub, client: WireClient) -> None:
    await client.publish(T, b"1")
    closing = asyncio.create_task(hub.close())
    sent = [client.send(b"T%d" % number, Publish(Message(b"m"))) for number in range(20)]
    answers = []
    for txn_id in sent:
        try:
            answers.append(await client.answer(txn_id))
        except ChannelClosedError:
            break
    await closing
    assert {each.status for each in answers} <= {StatusCode.SUCCESS, StatusCode.SERVICE_DOWN}
