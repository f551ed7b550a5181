"""A good topic, and newcomers, beside a neighbour in a process of its own."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hedwig.benchmarks.machine.checkout import CHECKOUT
from hedwig.benchmarks.neighbours.clients import ANSWER_S, MIB, connect, request
from hedwig.benchmarks.suites.hub.process import HubProcess
from hedwig.errors import HedwigError
from hedwig.model import SubscriberId, Topic
from hedwig.wire import Delivery, Event, Message, Publish, Subscribe

__all__ = ["HEADINGS", "measure"]

HEADINGS: Final = (
    "neighbour",
    "published p50",
    "p99",
    "max",
    "delivered p99",
    "max",
    "newcomer p50",
    "max",
    "refused",
    "hub memory before",
    "at most",
)
"""The columns of a row of `measure`."""

_GOOD: Final = Topic(b"good")
_NEWCOMER_EACH_S: Final = 0.25


@dataclass(slots=True)
class _Newcomers:
    """Clients that connect, and publish to a topic that did not exist: seconds of each, and how many were refused."""

    took: list[float]
    refused: int = 0


@dataclass(slots=True)
class _Latencies:
    """Seconds from when each message should have been published."""

    published: list[float]
    delivered: list[float]


def measure(
    name: str, directory: Path, rate: float, seconds: float, *, newcomer_bytes: int = 5, is_at_tls: bool = False
) -> str:
    """Return the row of a neighbour: a fresh hub over `directory` serves it beside the good topic and newcomers.

    `rate` is messages a second on the good topic, `newcomer_bytes` the size of what newcomers publish, and `is_at_tls`
    whether the neighbour connects to the TLS port.
    """
    tls_port = _free_port() if is_at_tls else None
    settings = () if tls_port is None else (f"tls_port={tls_port}", f"tls_certificate={_certificate(directory)}")
    with HubProcess(directory, settings, has_admin=True) as hub:
        port = int(hub.address.rpartition(":")[2])
        asyncio.run(_run_others(port, rate, 1.0, newcomer_bytes))  # What is done once belongs to no neighbour.
        before = _memory(hub.pid, "VmRSS")
        with _neighbour(name, tls_port or port, hub.admin):
            found, came = asyncio.run(_run_others(port, rate, seconds, newcomer_bytes))
            most = _memory(hub.pid, "VmHWM")
        cells = [
            *_milliseconds(found.published, 0.5, 0.99, 1.0),
            *_milliseconds(found.delivered, 0.99, 1.0),
            *_milliseconds(came.took, 0.5, 1.0),
            str(came.refused),
            f"{before / MIB:.0f} MiB",
            f"{most / MIB:.0f} MiB",
        ]
        return f"| {name} | {' | '.join(cells)} |"


def _milliseconds(latencies: Sequence[float], *shares: float) -> Iterator[str]:
    ordered = sorted(latencies)
    for share in shares:
        yield f"{1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]:.1f} ms" if ordered else "none"


@contextmanager
def _neighbour(name: str, port: int, admin: str) -> Iterator[None]:
    """Have the neighbour at work meanwhile; it finds the admin endpoint in HEDWIG_ADMIN, as hedwig-admin does."""
    command = [sys.executable, "-m", "hedwig.benchmarks.neighbours", name, "--be", str(port)]
    environment = {**os.environ, "HEDWIG_ADMIN": admin}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT, env=environment)
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


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def _certificate(directory: Path) -> Path:
    """Return a PEM file with a new key and its certificate."""
    directory.mkdir(parents=True, exist_ok=True)
    key, certificate, both = (directory / f"{name}.pem" for name in ("key", "certificate", "both"))
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=hub"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    return both


async def _run_others(port: int, rate: float, seconds: float, newcomer_bytes: int) -> tuple[_Latencies, _Newcomers]:
    """Run the good topic, with newcomers beside it for as long."""
    came = _Newcomers([])
    newcomers = asyncio.create_task(_run_newcomers(port, came, bytes(newcomer_bytes)))
    try:
        found = await _run_good_topic(port, rate, seconds)
    finally:
        newcomers.cancel()
        await asyncio.wait([newcomers])
    if not newcomers.cancelled() and (error := newcomers.exception()) is not None:
        raise error
    return found, came


async def _run_newcomers(port: int, came: _Newcomers, body: bytes) -> None:
    """Have one client after the other, four a second, connect and publish; what is cut short is not counted."""
    while True:
        began = time.perf_counter()
        try:
            channel = await connect(port)
            try:
                topic = Topic(b"of newcomer %d" % time.monotonic_ns())
                await channel.ask(request(topic, Publish(Message(body))), ANSWER_S)
            finally:
                await channel.close()
        except (HedwigError, OSError):
            came.refused += 1
        else:
            came.took.append(time.perf_counter() - began)
        await asyncio.sleep(max(0.0, _NEWCOMER_EACH_S - (time.perf_counter() - began)))


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

    subscriber = await connect(port, take)
    publisher = await connect(port)
    # A name of its own each time: it gets what is published from now on.
    name = SubscriberId(b"good %d" % time.monotonic_ns())
    await subscriber.ask(request(_GOOD, Subscribe(subscriber=name)), ANSWER_S)

    async def publish(number: int) -> None:
        await publisher.ask(request(_GOOD, Publish(Message(b"%d" % number)), number + 2), ANSWER_S)
        found.published.append(time.perf_counter() - due[number])

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * seconds)):
            due.append(began + number / rate)
            await asyncio.sleep(max(0.0, due[number] - time.perf_counter()))
            group.create_task(publish(number))
    async with asyncio.timeout(ANSWER_S):
        await complete.wait()
    await publisher.close()
    await subscriber.close()
    return found
