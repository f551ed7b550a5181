"""Measure what clients that do not behave do to others: `python -m benchmarks.neighbours --dir DIRECTORY [NAME ...]`.

For each neighbour a fresh hub serves one good topic, to which a message is published at a fixed rate, and the
neighbour, which runs in a process of its own. Latencies count from when a message should have been published to its
answer and to its delivery. On a machine with few CPUs the neighbour's own work is part of what is measured.
"""

import argparse
import asyncio
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks.connections_target import hold_connections
from benchmarks.descriptors import raise_descriptor_limit
from benchmarks.environment import sync_rate
from benchmarks.hub_process import HubProcess
from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.client.channel import Channel
from hedwig.errors import ServiceError
from hedwig.model import SubscriberId, SubscriptionPreferences, Topic
from hedwig.wire import (
    HUB_FRAME_BYTES_MAX,
    Action,
    Delivery,
    Event,
    Message,
    Publish,
    Request,
    Subscribe,
    encode_frame,
    encode_request,
)

__all__ = ["main"]

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
_GOOD: Final = Topic(b"good")
_BUSY: Final = Topic(b"busy")
_SETTLE_S: Final = 2.0
_ANSWER_S: Final = 60.0

Neighbour: TypeAlias = Callable[[int, Callable[[], None]], Awaitable[None]]
"""Works on the hub at a port until it is killed; it calls what it is given once it is in full swing."""


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description="Measure a good topic beside bad neighbours.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(_NEIGHBOURS)}")
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="a folder on the hub's disk")
    parser.add_argument("--seconds", type=float, default=15.0, help="length of one measurement")
    parser.add_argument("--rate", type=float, default=50.0, help="messages a second on the good topic")
    parser.add_argument("--be", metavar="PORT", type=int, help="be the one neighbour named, at a hub on this port")
    arguments = parser.parse_args()
    raise_descriptor_limit()
    if unknown := set(arguments.names) - set(_NEIGHBOURS):
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    if arguments.be is not None:
        asyncio.run(_be(_NEIGHBOURS[arguments.names[0]], arguments.be))
        return
    directory = Path(tempfile.mkdtemp(prefix="hedwig-neighbours-", dir=arguments.dir))
    try:
        print(f"sync: {sync_rate(directory):,.0f} appends of 4 KiB a second\n")
        print("| neighbour | published p50 | p99 | max | delivered p50 | p99 | max | hub memory before | at most |")
        print("|---|---|---|---|---|---|---|---|---|", flush=True)
        for name in arguments.names or _NEIGHBOURS:
            row = _measure(name, directory / name, arguments.rate, arguments.seconds)
            print(row, flush=True)
            shutil.rmtree(directory / name)
    finally:
        shutil.rmtree(directory)


# ------------------------------------------------------------------------------------------------------------ measuring


@dataclass(slots=True)
class _Latencies:
    """Seconds from when each message should have been published."""

    published: list[float]
    delivered: list[float]


def _measure(name: str, directory: Path, rate: float, seconds: float) -> str:
    with HubProcess(directory) as hub:
        port = int(hub.address.rpartition(":")[2])
        asyncio.run(_run_good_topic(port, rate, 1.0))  # What is imported or allocated once belongs to no neighbour.
        before = _memory(hub.pid, "VmRSS")
        with _neighbour(name, port):
            found = asyncio.run(_run_good_topic(port, rate, seconds))
            most = _memory(hub.pid, "VmHWM")
        cells = [*_milliseconds(found.published), *_milliseconds(found.delivered)]
        return f"| {name} | {' | '.join(cells)} | {before / _MIB:.0f} MiB | {most / _MIB:.0f} MiB |"


def _milliseconds(latencies: Sequence[float]) -> Iterator[str]:
    ordered = sorted(latencies)
    for share in (0.5, 0.99, 1.0):
        yield f"{1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]:.1f} ms"


@contextmanager
def _neighbour(name: str, port: int) -> Iterator[None]:
    """Have the neighbour at work meanwhile."""
    command = [sys.executable, "-m", "benchmarks.neighbours", name, "--be", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise SystemExit(f"error: the neighbour {name} did not get to work")
        yield
        if process.poll() is not None:
            raise SystemExit(f"error: the neighbour {name} gave up with {process.returncode}")
    finally:
        process.kill()
        process.wait()


def _memory(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) << 10
    raise SystemExit("error: the hub has ended")


async def _run_good_topic(port: int, rate: float, seconds: float) -> _Latencies:
    """Publish at a fixed rate, whatever the hub does, and wait for all answers and deliveries."""
    due: list[float] = []
    found = _Latencies([], [])
    complete = asyncio.Event()

    def take(news: Delivery | Event) -> None:
        if isinstance(news, Delivery) and (number := int(news.message.body)) >= 0:
            found.delivered.append(time.perf_counter() - due[number])
            if len(found.delivered) == int(rate * seconds):
                complete.set()

    subscriber = await _connect(port, take)
    publisher = await _connect(port)
    # A name of its own each time: it gets what is published from now on.
    name = SubscriberId(b"good %d" % time.monotonic_ns())
    await subscriber.ask(_request(_GOOD, Subscribe(subscriber=name)), _ANSWER_S)

    async def publish(number: int) -> None:
        await publisher.ask(_request(_GOOD, Publish(Message(b"%d" % number)), number + 2), _ANSWER_S)
        found.published.append(time.perf_counter() - due[number])

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * seconds)):
            due.append(began + number / rate)
            await asyncio.sleep(max(0.0, due[number] - time.perf_counter()))
            group.create_task(publish(number))
    async with asyncio.timeout(_ANSWER_S):
        await complete.wait()
    await publisher.close()
    await subscriber.close()
    return found


async def _connect(port: int, take: Callable[[Delivery | Event], None] = lambda _: None) -> Channel:
    return await Channel.open(_options(port).hub, _options(port), take, lambda _: None)


def _options(port: int) -> ClientOptions:
    return ClientOptions(hub=HubAddress("127.0.0.1", port), answer_timeout_s=_ANSWER_S)


def _request(topic: Topic, action: Action, txn_id: int = 1, padding: bytes = b"") -> Request:
    return Request(topic=topic, txn_id=txn_id, action=action, tried=(padding,) if padding else ())


# ----------------------------------------------------------------------------------------------------------- neighbours


async def _be(neighbour: Neighbour, port: int) -> None:
    await neighbour(port, lambda: print("ready", flush=True))


async def _nobody(_: int, ready: Callable[[], None]) -> None:
    ready()
    await asyncio.Event().wait()


async def _publish_at(client: HedwigClient, rate: float, size: int) -> None:
    """Publish to the busy topic, at most so many a second."""
    while True:
        began = time.perf_counter()
        await asyncio.gather(*(client.publish(_BUSY, bytes(size)) for _ in range(int(rate / 10))))
        await asyncio.sleep(max(0.0, 0.1 - (time.perf_counter() - began)))


async def _slow_subscribers(port: int, ready: Callable[[], None]) -> None:
    """50 read 4 KiB every tenth of a second each, of 200 messages of 16 KiB a second."""
    slow = [await _subscribed(port, b"slow %d" % number, receive_bytes=4 * _KIB) for number in range(50)]
    ready()
    async with HedwigClient(_options(port)) as client:
        publishing = asyncio.create_task(_publish_at(client, 200, 16 * _KIB))
        while not publishing.done():
            await asyncio.sleep(0.1)
            for connection in slow:
                _read_some(connection, 4 * _KIB)


async def _subscribers_that_never_consume(port: int, ready: Callable[[], None]) -> None:
    """200 with a window of 10, and 20 with none that read all, of 100 messages of 1 KiB a second."""
    for number in range(200):
        await _subscribed(port, b"window %d" % number, window=10)
    reading = [await _subscribed(port, b"none %d" % number) for number in range(20)]
    ready()
    async with HedwigClient(_options(port)) as client:
        publishing = asyncio.create_task(_publish_at(client, 100, _KIB))
        while not publishing.done():
            await asyncio.sleep(0.02)
            for connection in reading:
                _read_some(connection, 256 * _KIB)


async def _readers_of_a_backlog(port: int, ready: Callable[[], None]) -> None:
    """10 read 64 MiB of messages of 4 KiB from the ledgers, again and again, as fast as they can."""
    await _subscribed(port, b"owner")
    readers = [await _subscribed(port, b"reader %d" % number, window=1) for number in range(10)]
    async with HedwigClient(_options(port)) as client:
        async for _ in client.publish_many(_BUSY, (bytes(4 * _KIB) for _ in range(16 * _KIB))):
            pass
    for connection in readers:
        connection.close()
    ready()
    loop = asyncio.get_running_loop()

    async def read(name: bytes) -> None:
        while True:
            connection = await _subscribed(port, name, window=0)
            got = 0
            while got < 64 * _MIB:
                got += len(await loop.sock_recv(connection, 256 * _KIB))
            connection.close()

    await asyncio.gather(*(read(b"reader %d" % number) for number in range(10)))


def _idle_connections(count: int) -> Neighbour:
    async def hold(port: int, ready: Callable[[], None]) -> None:
        await hold_connections("127.0.0.1", port, count, ready, asyncio.Event().wait)

    return hold


async def _fast_publishers(port: int, ready: Callable[[], None]) -> None:
    """8 clients with 1,000 unanswered messages of 4 KiB each: more than the disk takes."""
    ready()

    async def publish(number: int) -> None:
        async with HedwigClient(_options(port)) as client:
            while True:
                try:
                    async for _ in client.publish_many(
                        Topic(b"fast %d" % number), (bytes(4 * _KIB) for _ in range(5000))
                    ):
                        pass
                except ServiceError:
                    await asyncio.sleep(0.1)

    await asyncio.gather(*(publish(number) for number in range(8)))


async def _new_topics(port: int, ready: Callable[[], None]) -> None:
    """One client with 64 first messages at a time, each to a topic that did not exist."""
    ready()
    async with HedwigClient(_options(port)) as client:

        async def publish(first: int) -> None:
            number = first
            while True:
                await client.publish(Topic(b"new %d" % number), b"first")
                number += 64

        await asyncio.gather(*(publish(first) for first in range(64)))


async def _readers_of_nothing(port: int, ready: Callable[[], None]) -> None:
    """50 send requests that have large answers, as long as the hub takes any, and read none."""
    preferences = SubscriptionPreferences(options={"big": bytes(32 * _KIB)})
    connections = [
        await _subscribed(port, b"deaf %d" % number, receive_bytes=4 * _KIB, preferences=preferences)
        for number in range(50)
    ]
    ready()
    loop = asyncio.get_running_loop()

    async def send(connection: socket.socket, subscriber: bytes) -> None:
        again = Subscribe(subscriber=SubscriberId(subscriber))
        frame = encode_frame(encode_request(_request(_BUSY, again, padding=bytes(16 * _KIB))), HUB_FRAME_BYTES_MAX)
        while True:
            await loop.sock_sendall(connection, frame)

    await asyncio.gather(*(send(each, b"deaf %d" % number) for number, each in enumerate(connections)))


async def _random_bytes(port: int, ready: Callable[[], None]) -> None:
    """10 at a time connect, send up to 64 KiB of noise, and are thrown out, as often as they can."""
    source = random.Random(1)
    ready()

    async def send() -> None:
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(source.randbytes(source.randrange(1, 64 * _KIB)))
            try:
                if writer.can_write_eof():
                    writer.write_eof()
                await reader.read()
            except OSError:
                pass  # Thrown out while it was sending.
            writer.close()

    await asyncio.gather(*(send() for _ in range(10)))


async def _subscribed(
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
    await loop.sock_sendall(connection, encode_frame(encode_request(_request(_BUSY, action)), HUB_FRAME_BYTES_MAX))
    await loop.sock_recv(connection, 1)  # The answer has begun to come, so the subscription is attached.
    return connection


def _read_some(connection: socket.socket, size: int) -> None:
    with suppress(BlockingIOError):
        connection.recv(size)


_NEIGHBOURS: Final[dict[str, Neighbour]] = {
    "nobody": _nobody,
    "slow-subscribers": _slow_subscribers,
    "never-consuming": _subscribers_that_never_consume,
    "backlog-readers": _readers_of_a_backlog,
    "idle-5000": _idle_connections(5000),
    "idle-15000": _idle_connections(15_000),
    "fast-publishers": _fast_publishers,
    "new-topics": _new_topics,
    "readers-of-nothing": _readers_of_nothing,
    "random-bytes": _random_bytes,
}


if __name__ == "__main__":
    main()
