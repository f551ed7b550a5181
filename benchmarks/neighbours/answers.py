"""Clients that ask for large answers with small requests, and read none of them."""

import asyncio
from collections.abc import Callable
from typing import Final

from hedwig.benchmarks.neighbours.clients import BUSY, KIB, request, subscribed
from hedwig.model import SubscriberId, SubscriptionPreferences
from hedwig.wire import HUB_FRAME_BYTES_MAX, Subscribe, encode_frame, encode_request

__all__ = ["deaf_askers"]

_ASKERS: Final = 200
_ASKED: Final = 128
_PREFERENCES: Final = SubscriptionPreferences(options={"big": bytes(500_000)})


async def deaf_askers(port: int, ready: Callable[[], None]) -> None:
    """200 ask 128 times each for preferences of half a megabyte with 30 bytes, and read none."""
    for number in range(_ASKERS):
        (await subscribed(port, b"asker %d" % number, preferences=_PREFERENCES)).close()
    loop = asyncio.get_running_loop()
    connections = []
    for number in range(_ASKERS):
        again = Subscribe(subscriber=SubscriberId(b"asker %d" % number))
        frame = encode_frame(encode_request(request(BUSY, again)), HUB_FRAME_BYTES_MAX)
        connections.append(await subscribed(port, b"asker %d" % number, receive_bytes=4 * KIB))
        await loop.sock_sendall(connections[-1], frame * (_ASKED - 1))
    ready()
    await asyncio.Event().wait()
