"""Clients that ask for more than a hub can do, or do not read what it answers."""

import asyncio
import socket
from collections.abc import Callable

from hedwig.benchmarks.neighbours.clients import BUSY, KIB, options, request, subscribed
from hedwig.client import HedwigClient
from hedwig.errors import ServiceError
from hedwig.model import SubscriberId, SubscriptionPreferences, Topic
from hedwig.wire import HUB_FRAME_BYTES_MAX, Subscribe, encode_frame, encode_request
from hedwig.wire import pubsub_pb2 as pb

__all__ = ["crowded_frames", "fast_publishers", "new_topics", "readers_of_nothing"]


async def fast_publishers(port: int, ready: Callable[[], None]) -> None:
    """8 clients with 1,000 unanswered messages of 4 KiB each: more than the disk takes."""
    ready()

    async def publish(number: int) -> None:
        async with HedwigClient(options(port)) as client:
            while True:
                try:
                    async for _ in client.publish_many(
                        Topic(b"fast %d" % number), (bytes(4 * KIB) for _ in range(5000))
                    ):
                        pass
                except ServiceError:
                    await asyncio.sleep(0.1)

    await asyncio.gather(*(publish(number) for number in range(8)))


async def new_topics(port: int, ready: Callable[[], None]) -> None:
    """One client with 64 first messages at a time, each to a topic that did not exist."""
    ready()
    async with HedwigClient(options(port)) as client:

        async def publish(first: int) -> None:
            number = first
            while True:
                await client.publish(Topic(b"new %d" % number), b"first")
                number += 64

        await asyncio.gather(*(publish(first) for first in range(64)))


async def readers_of_nothing(port: int, ready: Callable[[], None]) -> None:
    """50 send requests that have large answers, as long as the hub takes any, and read none."""
    preferences = SubscriptionPreferences(options={"big": bytes(32 * KIB)})
    connections = [
        await subscribed(port, b"deaf %d" % number, receive_bytes=4 * KIB, preferences=preferences)
        for number in range(50)
    ]
    ready()
    loop = asyncio.get_running_loop()

    async def send(connection: socket.socket, subscriber: bytes) -> None:
        again = Subscribe(subscriber=SubscriberId(subscriber))
        frame = encode_frame(encode_request(request(BUSY, again, padding=bytes(16 * KIB))), HUB_FRAME_BYTES_MAX)
        while True:
            await loop.sock_sendall(connection, frame)

    await asyncio.gather(*(send(each, b"deaf %d" % number) for number, each in enumerate(connections)))


async def crowded_frames(port: int, ready: Callable[[], None]) -> None:
    """40 send frames of 1.2 MB, each a SUBSCRIBE with 200,000 options without a value, and read every answer."""
    loop = asyncio.get_running_loop()
    subscribe = pb.SubscribeRequest(subscriberId=b"s")
    subscribe.preferences.options.entries.extend([pb.Map.Entry(key="kk")] * 200_000)
    crowded = pb.PubSubRequest(protocolVersion=pb.VERSION_ONE, type=pb.SUBSCRIBE, txnId=1, topic=BUSY)
    crowded.subscribeRequest.CopyFrom(subscribe)
    frame = encode_frame(crowded.SerializeToString(), HUB_FRAME_BYTES_MAX)
    ready()

    async def send() -> None:
        with socket.socket() as connection:
            connection.setblocking(False)
            await loop.sock_connect(connection, ("127.0.0.1", port))
            while True:
                await loop.sock_sendall(connection, frame)
                await loop.sock_recv(connection, KIB)

    await asyncio.gather(*(send() for _ in range(40)))
