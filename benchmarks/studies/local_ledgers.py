"""Measure the local ledger store on this machine's disk.

    python -m hedwig.benchmarks.studies.local_ledgers --dir DIRECTORY [appends] [throughput] [recovery] [memory]

Without a name all four run. Each uses a fresh folder below DIRECTORY and removes it. The numbers depend on the disk's
sync rate, which the study measures first, and on what else the machine does.
"""

import argparse
import asyncio
import gc
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from hedwig.benchmarks.drivers.hub.ledger_appends import append_for
from hedwig.benchmarks.machine.checkout import CHECKOUT
from hedwig.hub.ledgers import LocalLedgerOptions, LocalLedgerStore

__all__ = ["main"]

_LEDGERS: Final = 50
_MIB: Final = 1 << 20


def main() -> None:
    """Parse the arguments, measure, and print."""
    parser = argparse.ArgumentParser(description="Measure the local ledger store.")
    parser.add_argument("what", nargs="*", metavar="MEASUREMENT", help="default: all")
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="a folder on the disk to measure")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of one throughput measurement")
    parser.add_argument("--ledgers", type=int, default=1_000_000, help="ledgers for the memory measurement")
    parser.add_argument("--mebibytes", type=int, default=1024, help="data for the recovery measurement")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hedwig-ledgers-", dir=arguments.dir))
    try:
        print(f"sync: {_sync_rate(folder):,.0f} writes of 4 KiB with fdatasync a second", flush=True)
        for name in arguments.what or _MEASUREMENTS:
            asyncio.run(_MEASUREMENTS[name](folder / name, arguments))
            shutil.rmtree(folder / name)
    finally:
        shutil.rmtree(folder)


def _sync_rate(folder: Path) -> float:
    descriptor = os.open(folder / "sync", os.O_WRONLY | os.O_CREAT)
    block, count = b"\1" * 4096, 0
    end = time.monotonic() + 2
    while time.monotonic() < end:
        os.pwrite(descriptor, block, count * 4096)
        os.fdatasync(descriptor)
        count += 1
    os.close(descriptor)
    return count / 2


@asynccontextmanager
async def _store(path: Path, options: LocalLedgerOptions | None = None) -> AsyncIterator[LocalLedgerStore]:
    store = await LocalLedgerStore.open(path, options)
    try:
        yield store
    finally:
        await store.aclose()


async def _appends(path: Path, arguments: argparse.Namespace) -> None:
    await _append_rates(path, arguments, 100)


async def _throughput(path: Path, arguments: argparse.Namespace) -> None:
    await _append_rates(path, arguments, 1024)


async def _append_rates(path: Path, arguments: argparse.Namespace, size: int) -> None:
    for in_flight in (1, 64, 1024):
        async with _store(path / str(in_flight)) as store:
            ledgers = await asyncio.gather(*(store.create() for _ in range(_LEDGERS)))
            began, cpu = time.perf_counter(), time.process_time()
            latencies = await append_for(store, ledgers, os.urandom(size), in_flight, arguments.seconds)
            count = len(latencies)
            took, used = time.perf_counter() - began, time.process_time() - cpu
        print(
            f"append {size:>5} bytes, {in_flight:>4} in flight, {_LEDGERS} ledgers: {count / took:>9,.0f}/s "
            f"{count * size / took / _MIB:>7.1f} MiB/s  p50 {latencies[count // 2] * 1e3:.2f} ms  "
            f"p99 {latencies[count * 99 // 100] * 1e3:.2f} ms  max {latencies[-1] * 1e3:.0f} ms  "
            f"{used / count * 1e6:.1f} µs of processor each",
            flush=True,
        )


async def _recovery(path: Path, arguments: argparse.Namespace) -> None:
    size = 1024
    count = arguments.mebibytes * _MIB // (size + 36)
    async with _store(path) as store:
        ledgers = await asyncio.gather(*(store.create() for _ in range(_LEDGERS)))
        payload = os.urandom(size)
        for start in range(0, count // _LEDGERS, 20):
            await asyncio.gather(*(store.append(x, e, payload) for x in ledgers for e in range(start, start + 20)))
    for what in ("closed", "killed, last two indexes lost", "all indexes lost"):
        segments = _lose_indexes(path, what)
        began = time.perf_counter()
        async with _store(path) as store:
            opened = time.perf_counter() - began
            began = time.perf_counter()
            last = await store.last_entry_id(ledgers[0])
            print(
                f"open {arguments.mebibytes} MiB of {size}-byte entries in {segments} segments, {what}: "
                f"{opened:.2f} s; first look-up {(time.perf_counter() - began) * 1e3:.1f} ms (last entry {last})",
                flush=True,
            )


def _lose_indexes(path: Path, what: str) -> int:
    segments = sorted(path.glob("*.segment"))
    doomed = {"closed": [], "all indexes lost": segments}.get(what, segments[-2:])
    for segment in doomed:
        segment.with_suffix(".index").unlink()
    return len(segments)


async def _memory(path: Path, arguments: argparse.Namespace) -> None:
    count, entries, payload = arguments.ledgers, 3, b"\2" * 100
    before = _resident()
    store = await LocalLedgerStore.open(path)
    began = time.perf_counter()
    for start in range(0, count, 2000):
        ids = await asyncio.gather(*(store.create() for _ in range(min(2000, count - start))))
        await asyncio.gather(*(store.append(x, e, payload) for x in ids for e in range(entries)))
    print(f"{count:,} ledgers of {entries} entries made in {time.perf_counter() - began:.0f} s")
    _report("all open for append", before, count)
    began = time.perf_counter()
    await store.aclose()
    print(f"closed in {time.perf_counter() - began:.1f} s")
    del store
    fresh = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _REOPEN.format(path=str(path), count=count), cwd=CHECKOUT
    )
    await fresh.wait()


def _report(what: str, before: int, count: int) -> None:
    gc.collect()
    more = _resident() - before
    print(
        f"{count:,} ledgers, {what}: resident {_resident() / _MIB:.0f} MiB, {more / count:.0f} bytes a ledger",
        flush=True,
    )


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


_REOPEN: Final = """
import asyncio, time
from pathlib import Path
from hedwig.benchmarks.studies import local_ledgers as bench
from hedwig.hub.ledgers import LocalLedgerStore

async def main():
    before = bench._resident()
    began = time.perf_counter()
    store = await LocalLedgerStore.open(Path({path!r}))
    print(f"opened again in {{time.perf_counter() - began:.1f}} s: {{(await store.stats()).ledgers:,}} ledgers")
    bench._report("open for nobody", before, {count})
    began = time.perf_counter()
    for ledger in range(1, {count}, max(1, {count} // 1000)):
        assert len(await store.read(ledger, 0, entries_max=10, bytes_max=1 << 20)) == 3
    print(f"read of a cold ledger: {{(time.perf_counter() - began):.2f}} ms (mean of 1000)")
    await store.aclose()

asyncio.run(main())
"""

_MEASUREMENTS: Final[dict[str, Callable[[Path, argparse.Namespace], Coroutine[Any, Any, None]]]] = {
    "appends": _appends,
    "throughput": _throughput,
    "recovery": _recovery,
    "memory": _memory,
}

if __name__ == "__main__":
    main()
