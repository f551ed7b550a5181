"""Servers that say nothing, and what a session leaves behind."""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.servers import RunningServers

__all__ = ["kazoo_threads", "nobody_listens", "paused", "unanswered"]


@contextmanager
def paused(servers: RunningServers) -> Iterator[None]:
    (name,) = [server.name for server in servers.launcher.status() if server.kind == "zookeeper"]
    servers.launcher.pause(name)
    try:
        yield
    finally:
        servers.launcher.resume(name)


async def unanswered(ask: Callable[[], Coroutine[Any, Any, Any]]) -> "asyncio.Task[Any]":
    """Ask until the server, told to stop, really has, and return the request that it did not answer."""
    while True:
        request = asyncio.create_task(ask())
        done, _ = await asyncio.wait([request], timeout=0.3)
        if not done:
            return request


def kazoo_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread is not threading.main_thread()}


def nobody_listens() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
