"""Clients that ask for more topics than a hub can acquire, or for those that do not exist."""

import asyncio
import itertools
import socket
from collections.abc import Callable
from contextlib import suppress

from hedwig.benchmarks.neighbours.clients import KIB, MIB, request
from hedwig.model import MessageSeqId, SubscriberId, Topic
from hedwig.wire import (
    HUB_FRAME_BYTES_MAX,
    Action,
    CloseSubscription,
    Consume,
    Message,
    Publish,
    Unsubscribe,
    encode_frame,
    encode_request,
)

__all__ = ["consumes_of_nothing", "names_of_nothing", "thousands_of_new_topics"]

_NOBODY = SubscriberId(b"nobody")


async def thousands_of_new_topics(port: int, ready: Callable[[], None]) -> None:
    """10 have 10,000 first messages waiting each, as long as the hub takes any, and read the answers."""
    await _flood(port, 10, lambda name: _frame(name, Publish(Message(b"first"))), ready)


async def consumes_of_nothing(port: int, ready: Callable[[], None]) -> None:
    """10 send CONSUMEs of 256 KiB as fast as the hub takes them, each of a topic that does not exist."""
    consume = Consume(subscriber=_NOBODY, seq_id=MessageSeqId(1))
    await _flood(port, 10, lambda name: _frame(name, consume, bytes(256 * KIB)), ready)


async def names_of_nothing(port: int, ready: Callable[[], None]) -> None:
    """10 send UNSUBSCRIBEs and CLOSESUBSCRIPTIONs as fast as the hub takes them, each to a name of its own."""
    await _flood(
        port, 10, lambda name: _frame(name, Unsubscribe(_NOBODY)) + _frame(name, CloseSubscription(_NOBODY)), ready
    )


def _frame(name: bytes, action: Action, padding: bytes = b"") -> bytes:
    return encode_frame(encode_request(request(Topic(name), action, padding=padding)), HUB_FRAME_BYTES_MAX)


async def _flood(port: int, connections: int, frame: Callable[[bytes], bytes], ready: Callable[[], None]) -> None:
    """Send frames, each with a name of its own, over so many connections, and read whatever comes back."""
    loop = asyncio.get_running_loop()
    ready()

    async def send(number: int) -> None:
        with socket.socket() as connection:
            connection.setblocking(False)
            await loop.sock_connect(connection, ("127.0.0.1", port))
            for count in itertools.count():
                await loop.sock_sendall(connection, frame(b"%d of %d" % (count, number)))
                with suppress(BlockingIOError):
                    connection.recv(MIB)

    await asyncio.gather(*(send(number) for number in range(connections)))
