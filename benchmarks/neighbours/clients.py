"""What neighbours connect with, and the names of topics that they share."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.client.channel import Channel
from hedwig.model import SubscriberId, SubscriptionPreferences, Topic
from hedwig.wire import (
    HUB_FRAME_BYTES_MAX,
    Action,
    Delivery,
    Event,
    Request,
    Subscribe,
    encode_frame,
    encode_request,
)

__all__ = [
    "ANSWER_S",
    "BUSY",
    "KIB",
    "MIB",
    "Neighbour",
    "connect",
    "options",
    "publish_at",
    "read_some",
    "request",
    "subscribed",
]

KIB: Final = 1 << 10
MIB: Final = 1 << 20
BUSY: Final = Topic(b"busy")
ANSWER_S: Final = 60.0

Neighbour: TypeAlias = Callable[[int, Callable[[], None]], Awaitable[None]]
"""Works on the hub at a port until it is killed; it calls what it is given once it is in full swing."""


async def connect(port: int, take: Callable[[Delivery | Event], None] = lambda _: None) -> Channel:
    """Open a channel to the hub; `take` is given what it delivers."""
    return await Channel.open(options(port).hub, options(port), take, lambda _: None)


def options(port: int) -> ClientOptions:
    """Return how to reach the hub, with patience."""
    return ClientOptions(hub=HubAddress("127.0.0.1", port), answer_timeout_s=ANSWER_S)


def request(topic: Topic, action: Action, txn_id: int = 1, padding: bytes = b"") -> Request:
    """Return a request; `padding` makes it longer."""
    return Request(topic=topic, txn_id=txn_id, action=action, tried=(padding,) if padding else ())


async def subscribed(
    port: int,
    subscriber: bytes,
    *,
    window: int | None = None,
    receive_bytes: int | None = None,
    preferences: SubscriptionPreferences | None = None,
) -> socket.socket:
    """Return a connection on which a subscription to the busy topic is served; its answer is the first to be read."""
    connection = socket.socket()
    if receive_bytes is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(connection, ("127.0.0.1", port))
    wanted = preferences or SubscriptionPreferences(message_window_size=window)
    action = Subscribe(subscriber=SubscriberId(subscriber), preferences=wanted, force_attach=True)
    await loop.sock_sendall(connection, encode_frame(encode_request(request(BUSY, action)), HUB_FRAME_BYTES_MAX))
    await loop.sock_recv(connection, 1)  # The answer has begun to come, so the subscription is attached.
    return connection


def read_some(connection: socket.socket, size: int) -> None:
    """Read what has come, at most `size` bytes."""
    with suppress(BlockingIOError):
        connection.recv(size)


async def publish_at(client: HedwigClient, rate: float, size: int) -> None:
    """Publish to the busy topic, at most so many a second."""
    while True:
        began = time.perf_counter()
        await asyncio.gather(*(client.publish(BUSY, bytes(size)) for _ in range(int(rate / 10))))
        await asyncio.sleep(max(0.0, 0.1 - (time.perf_counter() - began)))
