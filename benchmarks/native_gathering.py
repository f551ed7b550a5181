"""Measure when the native HBase driver should gather: `python -m benchmarks.native_gathering URL [--pid PID ...]`.

    .venv/bin/hedwig-admin dev up hbase --dir servers
    .venv/bin/python -m benchmarks.native_gathering 'hbase://127.0.0.1:PORT/bench?registry=rpc' --pid REGION_SERVER

Callers create rows by compare-and-set, each its next one when the last is answered. For each number of callers, every
way to gather takes its turn, in every other round in the opposite order; the table shows medians of the rounds: rate,
times, and the processor time of an operation in this process and in the processes of `--pid`. Processor time is what to
go by when the machine has other work.
"""

import argparse
import asyncio
import hashlib
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from hedwig.clock import Deadline
from metadata import MetadataUrl, StoreOptions, format_metadata
from metadata.hbase.driver import ConditionalPut
from metadata.hbase.keys import bucket_start
from metadata.hbase.native import NativeDriver, connect
from metadata.hbase.native.lanes import Gathering
from metadata.hbase.schema import Tables
from metadata.kinds import OWNERSHIP

__all__ = ["main"]

_ALONE: Final = Gathering(calls=256, company=1)
_WAYS: Final[Sequence[Gathering]] = (
    *(Gathering(calls=calls, company=100) for calls in (2, 4, 8, 16, 32, 64)),
    *(Gathering(calls=16, company=company) for company in (10, 30)),
    _ALONE,
)
_CALLERS: Final = (1, 4, 16, 64, 256, 1000)
_TIMEOUT_S: Final = 30.0
_VERSION: Final = b"o:v"
_DATA: Final = b"o:d"
_OPTIONS: Final = StoreOptions(regions=8)


@dataclass(frozen=True, slots=True)
class _Figures:
    """What one run came to: operations per second, percentiles in ms, processor time per operation in microseconds."""

    rate: float
    p50_ms: float
    p99_ms: float
    client_us: float
    server_us: float


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description="Measure when the native HBase driver should gather.")
    parser.add_argument("url", help="where to make the tables, as hbase://host:port/NAMESPACE?registry=rpc")
    parser.add_argument("--pid", type=int, action="append", default=[], help="a region server; may be repeated")
    parser.add_argument("--callers", type=_numbers, default=_CALLERS, help="numbers of callers, as 1,16,256")
    parser.add_argument("--calls", type=_numbers, help="numbers of calls at once, as 8,16; default: the whole table")
    parser.add_argument("--operations", type=int, default=6000, help="of each run (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    ways = _WAYS if chosen.calls is None else [Gathering(calls, 100) for calls in chosen.calls]
    asyncio.run(_measure_all(chosen.url, chosen.callers, ways, chosen.operations, chosen.rounds, chosen.pid))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


async def _measure_all(
    url: str, callers: Sequence[int], ways: Sequence[Gathering], operations: int, rounds: int, pids: Sequence[int]
) -> None:
    await format_metadata(url, _OPTIONS)
    await _run(url, Gathering(), 64, 2 * operations, pids)  # Warms the server up.
    print("| callers | calls at once | company | operations/s | p50 ms | p99 ms | client µs | server µs |")
    print("|---|---|---|---|---|---|---|---|")
    for number in callers:
        found: Mapping[Gathering, list[_Figures]] = {way: [] for way in ways}
        for turn in range(rounds):
            for way in ways if turn % 2 == 0 else reversed(ways):
                # A lone caller takes long for little.
                found[way].append(await _run(url, way, number, operations if number > 4 else operations // 4, pids))
        for way, runs in found.items():
            print(f"| {number} | {way.calls} | {way.company} | {_row(runs)} |", flush=True)


def _row(runs: Sequence[_Figures]) -> str:
    return (
        f"{median(run.rate for run in runs):,.0f} | {median(run.p50_ms for run in runs):.2f} | "
        f"{median(run.p99_ms for run in runs):.1f} | {median(run.client_us for run in runs):.1f} | "
        f"{median(run.server_us for run in runs):.1f}"
    )


async def _run(url: str, way: Gathering, callers: int, operations: int, pids: Sequence[int]) -> _Figures:
    parsed = MetadataUrl.parse(url)
    table = Tables(parsed.path.strip("/")).name(OWNERSHIP)
    driver = await connect(parsed, _OPTIONS, gathering=way)
    try:
        await _meet_the_servers(driver, table)
        run = secrets.token_hex(4).encode()
        numbers = iter(range(operations))
        times: list[float] = []

        async def call() -> None:
            for number in numbers:
                began_at = time.perf_counter()
                await _create(driver, table, run + b"%d" % number)
                times.append(time.perf_counter() - began_at)

        client, server, began_at = time.process_time(), _processor_s(pids), time.perf_counter()
        await asyncio.gather(*(call() for _ in range(callers)))
        took = time.perf_counter() - began_at
        client, server = time.process_time() - client, _processor_s(pids) - server
    finally:
        await driver.close()
    times.sort()
    return _Figures(
        rate=operations / took,
        p50_ms=times[operations // 2] * 1000,
        p99_ms=times[operations * 99 // 100] * 1000,
        client_us=client / operations * 1e6,
        server_us=server / operations * 1e6,
    )


async def _create(driver: NativeDriver, table: str, name: bytes) -> None:
    row = hashlib.sha256(name).hexdigest()[:4].encode() + name
    put = ConditionalPut(
        table=table,
        row=row,
        column=_VERSION,
        expected=None,
        values={_VERSION: bytes(25), _DATA: bytes(40)},
        token=bytes(8),
        show=(_VERSION, _DATA),
    )
    if await driver.put_if(put, Deadline.after(_OPTIONS.clock, _TIMEOUT_S)) is not None:
        raise SystemExit(f"the row {row!r} of {table} was there before it was made")


async def _meet_the_servers(driver: NativeDriver, table: str) -> None:
    """Learn where the regions are, and which servers heed conditions in batches, so that no run pays for that."""
    for region in range(_OPTIONS.regions):
        row = bucket_start((region << 16) // _OPTIONS.regions)
        await driver.get(table, row, (_VERSION,), Deadline.after(_OPTIONS.clock, _TIMEOUT_S))
        await _create(driver, table, row + secrets.token_hex(8).encode())


def _processor_s(pids: Sequence[int]) -> float:
    """Return the processor time that processes have used, in seconds."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
