"""Measure the processor time that a client takes for a message: ours, and the Python clients of NATS and Pulsar.

    python -m hedwig.benchmarks.studies.client_cpu hedwig=127.0.0.1:4080 nats=127.0.0.1:4222 pulsar=127.0.0.1:6650

The servers must run, NATS with JetStream. The clients of others must be installed (nats-py, pulsar-client). Each client
publishes with 100 in flight, is told of each message that the server has stored it, and then receives all again with a
function for each message, acknowledging every hundredth with all before it. A figure is the median of the rounds, in
microseconds of processor time of this process, threads included. Clients take turns. The figure is of the client alone:
what the servers promise with "stored" differs.
"""

import argparse
import asyncio
import importlib
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

import uvloop

from hedwig.client import ClientOptions, HedwigClient, HubAddress, Received
from hedwig.errors import HedwigError
from hedwig.model import MessageSeqId

__all__ = ["main"]

_IN_FLIGHT: Final = 100
_ACKNOWLEDGE_EVERY: Final = 100


class _Client(Protocol):
    """One client, connected, with a topic of its own to which it has subscribed."""

    async def publish(self, count: int, body: bytes) -> None:
        """Publish messages; return once all are acknowledged."""
        ...

    async def receive(self, count: int) -> None:
        """Receive as many messages."""
        ...


class _Countdown:
    """Ends a wait after so many calls."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.is_over = asyncio.Event()

    def one_less(self) -> None:
        self.left -= 1
        if not self.left:
            self.is_over.set()


class _Hedwig:
    def __init__(self, client: HedwigClient, topic: str) -> None:
        self._client, self._topic = client, topic

    async def publish(self, count: int, body: bytes) -> None:
        ahead = _Countdown(count)

        def published(outcome: MessageSeqId | HedwigError) -> None:
            if isinstance(outcome, HedwigError):
                raise outcome
            ahead.one_less()

        for _ in range(count):
            await self._client.begin_publish(self._topic, body, published)
        await ahead.is_over.wait()

    async def receive(self, count: int) -> None:
        ahead = _Countdown(count)

        def received(message: Received) -> None:
            assert message.body
            ahead.one_less()

        async with self._client.subscribe(self._topic, "reader", on_message=received):
            await ahead.is_over.wait()


@asynccontextmanager
async def _hedwig(address: str, topic: str) -> AsyncIterator[_Client]:
    options = ClientOptions(
        hub=HubAddress.parse(address), publishes_in_flight_max=_IN_FLIGHT, consume_every=_ACKNOWLEDGE_EVERY
    )
    async with HedwigClient(options) as client:
        async with client.subscribe(topic, "reader"):
            pass
        yield _Hedwig(client, topic)


class _Nats:
    def __init__(self, stream: Any, topic: str) -> None:
        self._stream, self._topic = stream, topic

    async def publish(self, count: int, body: bytes) -> None:
        ahead = _Countdown(count)
        room = asyncio.Semaphore(_IN_FLIGHT)

        def published(outcome: asyncio.Future[Any]) -> None:
            outcome.result()
            ahead.one_less()
            room.release()

        for _ in range(count):
            await room.acquire()
            (await self._stream.publish_async(self._topic, body)).add_done_callback(published)
        await ahead.is_over.wait()

    async def receive(self, count: int) -> None:
        ahead = _Countdown(count)
        api = importlib.import_module("nats.js.api")

        async def received(message: Any) -> None:
            assert message.data
            if ahead.left % _ACKNOWLEDGE_EVERY == 1:
                await message.ack()
            ahead.one_less()

        config = api.ConsumerConfig(ack_policy=api.AckPolicy.ALL, max_ack_pending=10 * _ACKNOWLEDGE_EVERY)
        await self._stream.subscribe(self._topic, cb=received, manual_ack=True, config=config)
        await ahead.is_over.wait()


@asynccontextmanager
async def _nats(address: str, topic: str) -> AsyncIterator[_Client]:
    connection = await importlib.import_module("nats").connect(f"nats://{address}")
    stream = connection.jetstream(publish_async_max_pending=10 * _IN_FLIGHT)
    await stream.add_stream(name=topic, subjects=[topic])
    yield _Nats(stream, topic)
    await stream.delete_stream(topic)
    await connection.close()


class _Pulsar:
    def __init__(self, client: Any, topic: str, *, in_batches: bool) -> None:
        self._client, self._topic = client, topic
        self._in_batches = in_batches

    async def publish(self, count: int, body: bytes) -> None:
        producer = self._client.create_producer(
            self._topic,
            max_pending_messages=_IN_FLIGHT,
            block_if_queue_full=True,
            batching_enabled=self._in_batches,
            batching_max_messages=_IN_FLIGHT // 2,
            batching_max_publish_delay_ms=1,
        )
        left = count
        is_over = threading.Event()

        def published(outcome: Any, _: Any) -> None:
            nonlocal left
            assert outcome.name == "Ok", outcome
            left -= 1
            if not left:
                is_over.set()

        for _ in range(count):
            producer.send_async(body, published)
        is_over.wait()
        producer.close()

    async def receive(self, count: int) -> None:
        left = count
        is_over = threading.Event()

        def received(consumer: Any, message: Any) -> None:
            nonlocal left
            assert message.data()
            if left % _ACKNOWLEDGE_EVERY == 1:
                consumer.acknowledge_cumulative(message)
            left -= 1
            if not left:
                is_over.set()

        consumer = self._client.subscribe(self._topic, "reader", message_listener=received)
        is_over.wait()
        consumer.close()


def _pulsar(*, in_batches: bool) -> Callable[[str, str], Any]:
    @asynccontextmanager
    async def connected(address: str, topic: str) -> AsyncIterator[_Client]:
        pulsar = importlib.import_module("pulsar")
        client = pulsar.Client(f"pulsar://{address}", logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        client.subscribe(topic, "reader").close()
        yield _Pulsar(client, topic, in_batches=in_batches)
        client.close()

    return connected


_CLIENTS: Final[dict[str, dict[str, Callable[[str, str], Any]]]] = {
    "hedwig": {"hedwig": _hedwig},
    "nats": {"nats": _nats},
    "pulsar": {"pulsar": _pulsar(in_batches=False), "pulsar in batches": _pulsar(in_batches=True)},
}


async def _measure(connected: Callable[[str, str], Any], address: str, count: int, body: bytes) -> tuple[float, float]:
    """Return the microseconds of processor time of a publish and of a delivery."""
    async with connected(address, f"cpu-{time.time_ns()}") as client:
        await client.publish(count // 10, body)
        began = time.process_time()
        await client.publish(count, body)
        published = time.process_time()
        await client.receive(count + count // 10)
        received = time.process_time()
    return (published - began) / count * 1e6, (received - published) / (count + count // 10) * 1e6


def main() -> None:
    """Parse the arguments, measure, and print."""
    parser = argparse.ArgumentParser(description="Measure the processor time that clients take for a message.")
    parser.add_argument("servers", nargs="+", metavar="KIND=HOST:PORT", help="hedwig, nats or pulsar, and its address")
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--bytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    servers = dict(server.split("=", 1) for server in given.servers)
    if unknown := set(servers) - set(_CLIENTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(_CLIENTS)}")
    figures: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for _ in range(given.rounds):
        for kind, address in servers.items():
            for name, connected in _CLIENTS[kind].items():
                figures[name].append(uvloop.run(_measure(connected, address, given.messages, b"x" * given.bytes)))
    print(f"{'client':20} {'µs a publish':>14} {'µs a delivery':>14}")
    for name, rounds in figures.items():
        publish, delivery = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"{name:20} {publish:14.1f} {delivery:14.1f}")


if __name__ == "__main__":
    main()
