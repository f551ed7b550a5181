"""What the clients of these tests do to a hub, and the settings of that hub."""

from contextlib import AsyncExitStack
from pathlib import Path
from textwrap import indent
from typing import Final

from hedwig.status import StatusCode
from hedwig.wire import Answer, Delivery
from hedwig.wire import pubsub_pb2 as pb
from tests.hub.support.running import RunningHub
from tests.hub.support.wire_channel import WireChannel
from tests.hub.support.wire_client import raw_request
from tests.support.checkout import CHECKOUT

__all__ = [
    "BOUNDLESS",
    "KIB",
    "MEMORY_MAX",
    "MIB",
    "SETTINGS",
    "attach",
    "before_hub",
    "crowded",
    "flood",
    "open_channel",
    "received_ids",
]

KIB: Final = 1 << 10
MIB: Final = 1 << 20

SETTINGS: Final = (
    f"cache_bytes={4 * MIB}",
    f"channel_unsent_bytes={64 * KIB}",
    f"channel_bytes_max={256 * KIB}",
    "channel_requests_max=1000",
    f"request_bytes_max={4 * MIB}",
    "topic_requests_max=2000",
    f"read_bytes_max={256 * KIB}",
)

MEMORY_MAX: Final = 224 * MIB
"""The most memory that a hub with these settings may use.

It is a sum. The interpreter with all modules takes 80 MiB, and the cache and the publishes on their way take 8 MiB. The
queue of the ledgers takes 64 MiB: it holds 32 MiB, and is copied as it is written. Each of at most 100 connections that
are not idle takes 0.7 MiB: 256 KiB of one read, as much of requests, and twice 64 KiB unsent. Each test sends more
than all of that, so a queue without bound shows.
"""

BOUNDLESS: Final = 320 * MIB
"""The least that a test of a memory bound sends, or has delivered."""

_GIVE_UP: Final = """
import os, traceback
traceback.print_exc()
os._exit(70)
"""

CROWD: Final = 200_000
"""The number of elements in a crowded frame."""


async def open_channel(
    stack: AsyncExitStack, hub: RunningHub, *, receive_bytes: int | None = None, source: str = ""
) -> WireChannel:
    """Open a connection that ends with `stack`; see WireChannel.open."""
    channel = await WireChannel.open(hub.port, receive_bytes=receive_bytes, source=source)
    return await stack.enter_async_context(channel)


def crowded(kind: str) -> bytes:
    """Return the body of a request with 200,000 empty elements of one kind."""
    message = pb.Message(body=b"m")
    match kind:
        case "options":
            subscribe = pb.SubscribeRequest(subscriberId=b"s")
            subscribe.preferences.options.entries.extend([pb.Map.Entry()] * CROWD)
            return raw_request(topic=b"t", txnId=1, type=pb.SUBSCRIBE, subscribeRequest=subscribe)
        case "consumed":
            consume = pb.ConsumeRequest(subscriberId=b"s", msgId=pb.MessageSeqId(localComponent=1))
            consume.msgId.remoteComponents.extend([pb.RegionSpecificSeqId(region=b"", seqId=0)] * CROWD)
            return raw_request(topic=b"t", txnId=1, type=pb.CONSUME, consumeRequest=consume)
        case "published":
            message.msgId.remoteComponents.extend([pb.RegionSpecificSeqId(region=b"", seqId=0)] * CROWD)
        case "properties":
            message.header.properties.entries.extend([pb.Map.Entry()] * CROWD)
    tried = [b""] * CROWD if kind == "tried" else []
    return raw_request(
        topic=b"t", txnId=1, type=pb.PUBLISH, triedServers=tried, publishRequest=pb.PublishRequest(msg=message)
    )


async def attach(channel: WireChannel, topic: bytes, subscriber: bytes, window: int | None = None) -> None:
    """Subscribe, and attach."""
    answer = await channel.answer(await channel.subscribe(topic, subscriber, window=window))
    assert answer.status is StatusCode.SUCCESS


async def flood(channel: WireChannel, topic: bytes, size: int, count: int, in_flight: int = 50) -> None:
    """Publish `count` messages of `size` bytes, at most `in_flight` at a time; the hub must accept all."""
    body, waiting = bytes(size), 0
    for number in range(count):
        await channel.publish(topic, body)
        waiting += 1
        while waiting >= in_flight or (number == count - 1 and waiting):
            heard = await channel.receive()
            assert isinstance(heard, Answer)
            assert heard.status is StatusCode.SUCCESS
            waiting -= 1


async def received_ids(channel: WireChannel, count: int) -> list[int]:
    """Return the ids of the next `count` deliveries; no other response may come."""
    ids: list[int] = []
    while len(ids) < count:
        heard = await channel.receive()
        assert isinstance(heard, Delivery)
        assert heard.message.seq_id is not None
        ids.append(heard.message.seq_id.local)
    return ids


def before_hub(directory: Path, program: str) -> dict[str, str]:
    """Return an environment in which the interpreter runs `program` before the hub. If it fails, there is no hub."""
    # The interpreter goes on after an exception in this module, and the test would be one of a hub as it always is.
    guarded = f"try:\n{indent(program, '    ')}\nexcept BaseException:\n{indent(_GIVE_UP, '    ')}"
    (directory / "sitecustomize.py").write_text(guarded)
    return {"PYTHONPATH": f"{directory}:{CHECKOUT}"}
