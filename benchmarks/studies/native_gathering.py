"""Measure when the native HBase driver should gather.

    .venv/bin/hedwig-admin dev up hbase --dir servers
    .venv/bin/python -m hedwig.benchmarks.studies.native_gathering 'hbase://127.0.0.1:PORT/bench?registry=rpc' --pid PID

Callers create rows by compare-and-set, each its next one when the last is answered: in a table without the endpoint by
which those of one HBase region are made in one change, and, the last way of each number, in one that has it. For each
number of callers, every way takes its turn, in every other round in the opposite order; the table shows medians of the
rounds: rate, times, and the processor time of an operation in this process and in the processes of `--pid`. Processor
time is what to go by when the machine has other work.
"""

import argparse
import asyncio
import hashlib
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

from hedwig.clock import Deadline
from hedwig.metadata import MetadataUrl, StoreOptions, format_metadata
from hedwig.metadata.contract.kinds import OWNERSHIP
from hedwig.metadata.hbase.driver import ConditionalPut
from hedwig.metadata.hbase.keys import bucket_start
from hedwig.metadata.hbase.native import NativeDriver, connect
from hedwig.metadata.hbase.native.cluster.batching import Gathering
from hedwig.metadata.hbase.schema import Tables

__all__ = ["main"]

_ALONE: Final = Gathering(calls=256, company=1)
_GATHERINGS: Final[Sequence[Gathering]] = (
    *(Gathering(calls=calls, company=100) for calls in (2, 4, 8, 16, 32, 64)),
    *(Gathering(calls=16, company=company) for company in (10, 30)),
    _ALONE,
)
_PLAIN: Final = "plain"
"""The table without the endpoint, which is not one of the managers'."""
_CALLERS: Final = (1, 4, 16, 64, 256, 1000)
_TIMEOUT_S: Final = 30.0
_VERSION: Final = b"o:v"
_DATA: Final = b"o:d"
_OPTIONS: Final = StoreOptions(regions=8)


@dataclass(frozen=True, slots=True)
class _Way:
    """How rows are created: how they gather, and whether those of one HBase region are made in one change."""

    gathering: Gathering
    in_one_change: bool = False


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
    gatherings = _GATHERINGS if chosen.calls is None else [Gathering(calls, 100) for calls in chosen.calls]
    ways = [*map(_Way, gatherings), _Way(Gathering(), in_one_change=True)]
    asyncio.run(_measure_all(chosen.url, chosen.callers, ways, chosen.operations, chosen.rounds, chosen.pid))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


async def _measure_all(
    url: str, callers: Sequence[int], ways: Sequence[_Way], operations: int, rounds: int, pids: Sequence[int]
) -> None:
    await format_metadata(url, _OPTIONS)
    await _make_plain(url)
    for in_one_change in (False, True):
        await _run(url, _Way(Gathering(), in_one_change), 64, 2 * operations, pids)  # Warms the server up.
    print(
        "| callers | calls at once | company | in one change | operations/s | p50 ms | p99 ms | client µs | server µs |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for number in callers:
        found: Mapping[_Way, list[_Figures]] = {way: [] for way in ways}
        for turn in range(rounds):
            for way in ways if turn % 2 == 0 else reversed(ways):
                # A lone caller takes long for little.
                found[way].append(await _run(url, way, number, operations if number > 4 else operations // 4, pids))
        for way, runs in found.items():
            calls, company = way.gathering.calls, way.gathering.company
            together = "yes" if way.in_one_change else "no"
            print(f"| {number} | {calls} | {company} | {together} | {_row(runs)} |", flush=True)


def _row(runs: Sequence[_Figures]) -> str:
    return (
        f"{median(run.rate for run in runs):,.0f} | {median(run.p50_ms for run in runs):.2f} | "
        f"{median(run.p99_ms for run in runs):.1f} | {median(run.client_us for run in runs):.1f} | "
        f"{median(run.server_us for run in runs):.1f}"
    )


async def _make_plain(url: str) -> None:
    """Make the managers' table of owner records once more, without the endpoint."""
    parsed = MetadataUrl.parse(url)
    tables = Tables(parsed.path.strip("/"))
    of_owners = next(spec for spec in tables.specs(_OPTIONS.regions) if spec.name == tables.name(OWNERSHIP))
    attributes = {key: value for key, value in of_owners.table_attributes.items() if not key.startswith("coprocessor")}
    spec = replace(of_owners, name=f"{tables.namespace}:{_PLAIN}", table_attributes=attributes)
    driver = await connect(parsed, _OPTIONS)
    try:
        await driver.create_table(spec, Deadline.after(_OPTIONS.clock, _TIMEOUT_S))
    finally:
        await driver.close()


async def _run(url: str, way: _Way, callers: int, operations: int, pids: Sequence[int]) -> _Figures:
    parsed = MetadataUrl.parse(url)
    tables = Tables(parsed.path.strip("/"))
    table = tables.name(OWNERSHIP) if way.in_one_change else f"{tables.namespace}:{_PLAIN}"
    driver = await connect(parsed, _OPTIONS, gathering=way.gathering)
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
    """Learn where the regions are, and which servers heed conditions on several rows, so that no run pays for that."""
    for region in range(_OPTIONS.regions):
        row = bucket_start((region << 16) // _OPTIONS.regions)
        await driver.get(table, row, (_VERSION,), Deadline.after(_OPTIONS.clock, _TIMEOUT_S))
        # Several at a time: a driver that makes one record after the other does not ask.
        await asyncio.gather(*(_create(driver, table, row + secrets.token_hex(8).encode()) for _ in range(4)))


def _processor_s(pids: Sequence[int]) -> float:
    """Return the processor time that processes have used, in seconds."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
