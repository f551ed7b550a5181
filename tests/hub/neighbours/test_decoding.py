"""Prove that requests that are costly to decode hold up no other client."""

import asyncio
import re
import time
from contextlib import AsyncExitStack
from typing import Final

import pytest

from hedwig.status import StatusCode
from hedwig.wire import HUB_FRAME_BYTES_MAX, Answer, encode_frame
from hedwig.wire import pubsub_pb2 as pb
from tests.hub.neighbours.support.clients import crowded, open_channel
from tests.hub.neighbours.support.good_topic import GoodTopic
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.running import RunningHub
from tests.hub.support.wire_client import raw_request

CONNECTIONS: Final = 40
HELD_UP_S: Final = 8.0
"""Without a bound, a hub that decodes these frames in full is held up for at least half a minute."""


@pytest.mark.parametrize("kind", ["options", "consumed", "published", "properties"])
async def test_forty_frames_of_empty_elements_are_refused_and_hold_up_nobody(
    hub: RunningHub, good: GoodTopic, opened: AsyncExitStack, kind: str
) -> None:
    body = crowded(kind)
    channels = [await open_channel(opened, hub) for _ in range(CONNECTIONS)]
    for channel in channels:
        channel.write_frame(body)
    began = time.monotonic()
    await good.exchange(5)
    for channel in channels:
        answer = await channel.answer(1)
        assert answer.status is StatusCode.MALFORMED_REQUEST
        assert answer.text is not None
        assert "4096 fields" in answer.text
    assert time.monotonic() - began < HELD_UP_S
    # The connection still works.
    assert (await channels[0].answer(await channels[0].publish(b"t", b"m"))).status is StatusCode.SUCCESS


async def test_a_frame_that_cannot_be_answered_ends_its_connection_only(
    hub: RunningHub, good: GoodTopic, opened: AsyncExitStack
) -> None:
    channel = await open_channel(opened, hub)
    channel.write_frame(crowded("tried"))
    with pytest.raises(OSError, match=r"closed|reset"):
        await channel.receive()
    await good.exchange(5)
    assert "a request has more than 4096 fields, and its txnId is not among the first of them" in hub.log


async def test_thousands_of_tiny_requests_in_one_read_hold_up_nobody(
    hub: RunningHub, good: GoodTopic, opened: AsyncExitStack
) -> None:
    """The hub serves a client with few requests while it still handles those of clients with many."""
    tiny = encode_frame(raw_request(topic=b"t", txnId=1, type=pb.START_DELIVERY), HUB_FRAME_BYTES_MAX)
    count = 6_000  # A quick hub needs fifty turns of its loop for those of all channels, and few for the good topic.
    channels = [await open_channel(opened, hub) for _ in range(30)]
    for channel in channels:
        channel.writer.write(tiny * count)
    await good.exchange(1)
    metrics = (await asyncio.to_thread(AdminClient(hub.admin).ask, "GET", "/metrics")).text
    match = re.search(r"^hedwig_hub_refused_requests_total (\S+)$", metrics, re.MULTILINE)
    assert match is not None
    assert float(match[1]) < 0.5 * count * len(channels)
    for channel in channels[::15]:
        for _ in range(count):
            heard = await channel.receive()
            assert isinstance(heard, Answer)
            assert heard.status is StatusCode.MALFORMED_REQUEST
