"""Measure the ledger client on bookies of BookKeeper 4.17.

    python -m hedwig.benchmarks.studies.bookkeeper_ledgers [appends] [reads] [creates] [--seconds 5] [--journal NAME]

Without a name all run. The study starts a ZooKeeper and three bookies in a folder below --dir, and removes them. With
--servers it uses those of `hedwig-admin dev --dir DIR`. Each line is one measurement. With N appends in flight, N
callers have one each under way, and go from ledger to ledger.
"""

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import uvloop

from hedwig.benchmarks.drivers.hub.ledger_appends import append_for
from hedwig.benchmarks.machine.cpu_time import cpu_s_of
from hedwig.cli.dev import DevServers
from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT
from hedwig.clock import SystemClock
from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.bookkeeper.records.session import BridgedSession
from hedwig.hub.ledgers.bookkeeper.store import BookkeeperLedgerStore
from hedwig.hub.ledgers.bookkeeper.wire.digests import DigestKind
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums
from hedwig.zookeeper import Bridge, BridgeOptions

__all__ = ["main"]

_MIB: Final = 1 << 20
_BOOKIES: Final = 3
_BOTH_COMPILERS: Final = "-XX:TieredStopAtLevel=4"
"""Both compilers, as in production. Dev servers use only the first, which starts sooner and makes slower code."""

_JOURNALS: Final[Mapping[str, Mapping[str, str]]] = {
    "dev": {},
    "defaults": {
        "journalFlushWhenQueueEmpty": "false",
        "journalAdaptiveGroupWrites": "true",
        "journalMaxGroupWaitMSec": "2",
        "journalMaxSizeMB": "2048",
        "journalPreAllocSizeMB": "16",
    },
    "no-sync": {"journalSyncData": "false"},
}
"""Properties of the bookies: none beyond those of all dev servers, the defaults of BookKeeper, or never to sync."""


def main() -> None:
    """Parse the arguments, start the servers, measure, and print."""
    parser = argparse.ArgumentParser(description="Measure the ledger client on bookies.")
    parser.add_argument("what", nargs="*", metavar="MEASUREMENT", help=f"of {', '.join(_MEASUREMENTS)}; default: all")
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="a folder on the disk to measure")
    parser.add_argument("--servers", type=Path, help="the folder of dev servers to use, with at least three bookies")
    parser.add_argument("--journal", choices=list(_JOURNALS), default="dev", help="how the bookies' journals sync")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of one measurement")
    parser.add_argument("--in-flight", type=int, nargs="*", default=[1, 64, 256, 1024], help="appends in flight")
    parser.add_argument("--ledgers", type=int, nargs="*", default=[1, 50], help="ledgers at the same time")
    parser.add_argument("--sizes", type=int, nargs="*", default=[100, 1024], help="bytes of an entry")
    parser.add_argument(
        "--quorums", default="3,3,2;3,2,2", help="ensemble, write and ack quorum; several by semicolons"
    )
    parser.add_argument("--digest", choices=[kind.name for kind in DigestKind], default="CRC32C")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hedwig-bookies-", dir=arguments.dir))
    servers = DevServers(
        arguments.servers or folder / "servers",
        progress=lambda line: print(line, flush=True),
        heap_mb=None if arguments.servers else {"bookie": 1024},
        java_flags=None if arguments.servers else {"bookie": _BOTH_COMPILERS},
        bookie_properties=None if arguments.servers else _JOURNALS[arguments.journal],
    )
    try:
        servers.up(["bookkeeper"], bookies=_BOOKIES)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            for name in arguments.what or _MEASUREMENTS:
                runner.run(_MEASUREMENTS[name](servers, arguments))
    finally:
        if not arguments.servers:
            servers.down()
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def _store(servers: DevServers, quorums: Quorums, digest: str) -> AsyncIterator[BookkeeperLedgerStore]:
    bridge = Bridge(servers.address("zookeeper"), BridgeOptions())
    try:
        await bridge.connect()
        options = BookkeeperOptions(
            quorums=quorums, digest=DigestKind[digest], custom={"application": b"hedwig", "deployment": b"benchmark"}
        )
        store = await BookkeeperLedgerStore.open(BridgedSession(bridge), LEDGERS_ROOT, options, SystemClock(), Random())
        try:
            yield store
        finally:
            await store.aclose()
    finally:
        await bridge.close()


def _quorums(arguments: argparse.Namespace) -> list[Quorums]:
    quorums = []
    for text in arguments.quorums.split(";"):
        ensemble, write, ack = map(int, text.split(","))
        quorums.append(Quorums(ensemble=ensemble, write=write, ack=ack))
    return quorums


async def _appends(servers: DevServers, arguments: argparse.Namespace) -> None:
    for quorums in _quorums(arguments):
        async with _store(servers, quorums, arguments.digest) as store:
            warm = [await store.create() for _ in range(10)]
            await append_for(store, warm, bytes(100), 256, min(3.0, arguments.seconds))
            for ledger in warm:
                await store.delete(ledger)
            for size in arguments.sizes:
                for count in arguments.ledgers:
                    for in_flight in arguments.in_flight:
                        await _measure(servers, store, arguments, quorums, size, count, in_flight)


async def _measure(
    servers: DevServers,
    store: BookkeeperLedgerStore,
    arguments: argparse.Namespace,
    quorums: Quorums,
    size: int,
    count: int,
    in_flight: int,
) -> None:
    ledgers = [await store.create({"topic": b"benchmark"}) for _ in range(count)]
    theirs = _bookie_seconds(servers)
    began, used = time.perf_counter(), time.process_time()
    latencies = await append_for(store, ledgers, os.urandom(size), in_flight, arguments.seconds)
    took, used = time.perf_counter() - began, time.process_time() - used
    theirs = _bookie_seconds(servers) - theirs
    for ledger in ledgers:
        await store.delete(ledger)
    done = len(latencies)
    print(
        f"append E{quorums.ensemble} W{quorums.write} A{quorums.ack} {size:>5} bytes, {in_flight:>4} in flight, "
        f"{count:>3} ledgers: {done / took:>8,.0f}/s {done * size / took / _MIB:>6.1f} MiB/s  "
        f"p50 {latencies[done // 2] * 1e3:.2f} ms  p99 {latencies[done * 99 // 100] * 1e3:.2f} ms  "
        f"max {latencies[-1] * 1e3:.0f} ms  {used / done * 1e6:.1f} µs of processor each here, "
        f"{theirs / done * 1e6:.0f} µs in the bookies",
        flush=True,
    )


async def _reads(servers: DevServers, arguments: argparse.Namespace) -> None:
    count, size = 20_000, 1024
    for quorums in _quorums(arguments):
        async with _store(servers, quorums, arguments.digest) as store:
            ledger = await store.create()
            payload = os.urandom(size)
            for start in range(0, count, 1000):
                await asyncio.gather(*(store.append(ledger, entry, payload) for entry in range(start, start + 1000)))
            await store.close(ledger)
        async with _store(servers, quorums, arguments.digest) as store:
            for at_once in (1, 100, 1000):
                began, used, done = time.perf_counter(), time.process_time(), 0
                while done < count and time.perf_counter() - began < arguments.seconds:
                    done += len(await store.read(ledger, done, entries_max=at_once, bytes_max=1 << 30))
                took, used = time.perf_counter() - began, time.process_time() - used
                print(
                    f"read E{quorums.ensemble} W{quorums.write} {size} bytes, {at_once:>4} a call: "
                    f"{done / took:>8,.0f}/s  {used / done * 1e6:.1f} µs of processor each",
                    flush=True,
                )


async def _creates(servers: DevServers, arguments: argparse.Namespace) -> None:
    quorums = _quorums(arguments)[0]
    async with _store(servers, quorums, arguments.digest) as store:
        for in_flight in (1, 64):
            made: list[int] = []
            latencies: list[float] = []
            began, used = time.perf_counter(), time.process_time()
            end = began + arguments.seconds

            async def caller(made: list[int] = made, latencies: list[float] = latencies, end: float = end) -> None:
                while (begun := time.perf_counter()) < end:
                    ledger = await store.create({"topic": b"benchmark"})
                    await store.append(ledger, 0, bytes(100))
                    latencies.append(time.perf_counter() - begun)
                    made.append(ledger)

            async with asyncio.TaskGroup() as group:
                for _ in range(in_flight):
                    group.create_task(caller())
            took, used = time.perf_counter() - began, time.process_time() - used
            for ledger in made:
                await store.delete(ledger)
            latencies.sort()
            print(
                f"create and append once, {in_flight:>3} in flight: {len(made) / took:>6,.0f}/s  "
                f"p50 {latencies[len(made) // 2] * 1e3:.2f} ms  p99 {latencies[len(made) * 99 // 100] * 1e3:.2f} ms  "
                f"{used / len(made) * 1e6:.0f} µs of processor each",
                flush=True,
            )


def _bookie_seconds(servers: DevServers) -> float:
    pids = [each.pid for each in servers.status() if each.kind == "bookie" and each.pid is not None]
    return sum(cpu_s_of(pid) or 0.0 for pid in pids)


_MEASUREMENTS: Final[dict[str, Callable[[DevServers, argparse.Namespace], Coroutine[Any, Any, None]]]] = {
    "appends": _appends,
    "reads": _reads,
    "creates": _creates,
}

if __name__ == "__main__":
    main()
