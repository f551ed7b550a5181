"""Measure what splitting of HBase regions costs, and how much a record takes.

    python -m hedwig.benchmarks.studies.region_growth

It starts a ZooKeeper and an HBase with one region server and a synced log, and ends them. The same topics are loaded
into tables that never split and into tables that split at `--split-at` MiB, in turn. Each topic has an owner, ledger
ranges and one subscription. Beside the load, a record is rewritten every 20 ms by compare-and-set, whether or not those
before were answered: what these wait is what a hub would wait.
"""

import argparse
import asyncio
import itertools
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from hedwig.benchmarks.machine.store_files import kept_files, occupied
from hedwig.benchmarks.stores.servers import SYNCED, StoreServers
from hedwig.clock import Deadline
from hedwig.metadata import MetadataStore, MetadataUrl, RecordKey, StoreOptions, Write, format_metadata, open_metadata
from hedwig.metadata.contract.kinds import KINDS
from hedwig.metadata.hbase.native import NativeDriver, connect
from hedwig.metadata.hbase.schema import Tables
from hedwig.model import (
    HubInfo,
    LedgerRange,
    LedgerRanges,
    MessageSeqId,
    SubscriberId,
    SubscriptionData,
    SubscriptionPreferences,
    SubscriptionState,
    Topic,
)
from hedwig.versions import NEW, Version

__all__ = ["main"]

_TIMEOUT_S: Final = 300.0
_OPTIONS: Final = StoreOptions(operation_timeout_s=_TIMEOUT_S)
_BATCH: Final = 500
_LOADERS: Final = 4
_PROBED: Final = 512
_PROBE_S: Final = 0.02
_SLOW_S: Final = 0.5
_MIB: Final = 1 << 20
_ENCODED_NAME: Final = 32
"""So many characters has the name of a region's folder."""
_POLICY: Final = "org.apache.hadoop.hbase.regionserver.ConstantSizeRegionSplitPolicy"
_OWNER: Final = HubInfo(host="hub7.example.org", port=4080, epoch=1 << 33)
_SUBSCRIBER: Final = SubscriberId(b"reader-of-all")
_SUBSCRIPTION: Final = SubscriptionData(
    preferences=SubscriptionPreferences(), state=SubscriptionState(MessageSeqId(123456))
)


@dataclass(slots=True)
class _Run:
    """One load: what was written in each second, and when each rewritten record was asked for and how long it took."""

    began_at: float = field(default_factory=time.perf_counter)
    written: Counter[int] = field(default_factory=Counter)
    waits: list[tuple[float, float]] = field(default_factory=list)

    def rates(self) -> list[int]:
        """Return the records of each whole second."""
        last = max(self.written)
        return [self.written[second] for second in range(1, last)]

    def now(self) -> float:
        return time.perf_counter() - self.began_at


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description="Measure what splitting of HBase regions costs.")
    parser.add_argument(
        "--dir", type=Path, default=Path("region-growth"), help="for the servers (default: %(default)s)"
    )
    parser.add_argument("--heap", type=int, default=3072, help="MiB of all servers together (default: %(default)s)")
    parser.add_argument("--topics", type=int, default=300_000, help="how many topics (default: %(default)s)")
    parser.add_argument("--regions", type=int, default=4, help="of each table at first (default: %(default)s)")
    parser.add_argument("--split-at", type=int, default=16, help="MiB of a store (default: %(default)s)")
    chosen = parser.parse_args()
    with StoreServers(
        chosen.dir, ["hbase"], heap_mb=chosen.heap, durability=SYNCED, topics_max=chosen.topics, progress=print
    ) as places:
        places.up()
        asyncio.run(_measure(chosen, places.url("hbase")))


async def _measure(chosen: argparse.Namespace, url: str) -> None:
    driver = await connect(MetadataUrl.parse(url), _OPTIONS)
    try:
        for kind, attributes in _kinds_of_tables(chosen.split_at):
            tables = Tables(kind)
            place = f"{url.rpartition('/')[0]}/{kind}"
            await _make(driver, tables, chosen.regions, attributes)
            await format_metadata(place, _OPTIONS)
            async with await open_metadata(place, _OPTIONS) as store:
                run = await _load(store, chosen.topics)
            await _tell(driver, tables, kind, run, chosen)
    finally:
        await driver.close()


def _kinds_of_tables(split_at_mib: int) -> Iterator[tuple[str, dict[str, str]]]:
    yield "fixed", {"SPLIT_ENABLED": "false"}
    # The memory is written into files often enough for HBase to look whether a region is too large.
    flushed = str(max(1, split_at_mib // 4) * _MIB)
    yield "split", {"SPLIT_POLICY": _POLICY, "MAX_FILESIZE": str(split_at_mib * _MIB), "MEMSTORE_FLUSHSIZE": flushed}


async def _make(driver: NativeDriver, tables: Tables, regions: int, attributes: dict[str, str]) -> None:
    await driver.create_namespace(tables.namespace, _deadline())
    for spec in tables.specs(regions):
        kept = {name: value for name, value in spec.table_attributes.items() if name.startswith("coprocessor")}
        await driver.create_table(replace(spec, table_attributes=kept | attributes), _deadline())


async def _load(store: MetadataStore, topics: int) -> _Run:
    versions = await _begin(store)
    run = _Run()
    batches = (range(start, min(topics, start + _BATCH)) for start in range(0, topics, _BATCH))
    loaded = asyncio.Event()
    probing = asyncio.create_task(_probe(store, versions, run, loaded))
    try:
        await asyncio.gather(*(_write(store, batches, run) for _ in range(_LOADERS)))
    finally:
        loaded.set()
        await probing
    return run


async def _write(store: MetadataStore, batches: Iterator[Sequence[int]], run: _Run) -> None:
    for batch in batches:
        keys = [Topic(b"packages/debian/%08d/changes" % number) for number in batch]
        ranges = LedgerRanges((LedgerRange(ledger_id=batch[0], start=1, end=MessageSeqId(5000)),))
        owned = await store.ownership.apply([Write(RecordKey(key), _OWNER, NEW) for key in keys])
        ranged = await store.persistence.apply([Write(RecordKey(key), ranges, NEW) for key in keys])
        subscribed = await store.subscriptions.apply(
            [Write(RecordKey(key, _SUBSCRIBER), _SUBSCRIPTION, NEW) for key in keys]
        )
        made = [each.written() for each in owned] + [each.written() for each in ranged]
        made += [each.written() for each in subscribed]
        run.written[int(run.now())] += len(made)


async def _begin(store: MetadataStore) -> dict[Topic, Version]:
    """Make the records that are rewritten: all over the table."""
    topics = [Topic(b"probed/%d" % number) for number in range(_PROBED)]
    outcomes = await store.ownership.apply([Write(RecordKey(topic), _OWNER, NEW) for topic in topics])
    return {topic: outcome.written() for topic, outcome in zip(topics, outcomes, strict=True)}


async def _probe(store: MetadataStore, versions: dict[Topic, Version], run: _Run, enough: asyncio.Event) -> None:
    async def rewrite(topic: Topic, version: Version) -> None:
        asked = run.now()
        versions[topic] = await store.ownership.write(topic, _OWNER, version)
        run.waits.append((asked, run.now() - asked))

    busy: dict[Topic, asyncio.Task[None]] = {}
    for topic in itertools.cycle(list(versions)):
        if enough.is_set():
            break
        if topic not in busy or busy[topic].done():
            busy[topic] = asyncio.create_task(rewrite(topic, versions[topic]))
        await asyncio.sleep(_PROBE_S)
    await asyncio.gather(*busy.values())


async def _tell(driver: NativeDriver, tables: Tables, kind: str, run: _Run, chosen: argparse.Namespace) -> None:
    rates = sorted(run.rates())
    waits = sorted(wait for _, wait in run.waits)
    print(f"\n{kind}: {3 * chosen.topics:,} records at {3 * chosen.topics / run.now():,.0f}/s")
    print(f"  records in a second: median {rates[len(rates) // 2]:,}, lowest {rates[0]:,}")
    middle, high, longest = (1000 * waits[index] for index in (len(waits) // 2, -len(waits) // 100, -1))
    slow = sum(wait > _SLOW_S for wait in waits)
    print(f"  a rewritten record: median {middle:.0f} ms, 99 % {high:.0f} ms, longest {longest:,.0f} ms")
    print(f"  over {_SLOW_S:g} s: {slow} of {len(waits):,}")
    lasted = ", ".join(f"{seconds:.1f}" for seconds in _splits(chosen.dir, kind)) or "none"
    print(f"  seconds that splits took, of which the region was closed for a part: {lasted}")
    for record in KINDS:
        table = tables.name(record)
        await driver.flush_table(table, _deadline())
        regions = len(await driver.region_starts(table, _deadline()))
        print(f"  {table}: regions {chosen.regions} -> {regions}{_sizes(chosen, table)}", flush=True)


def _splits(folder: Path, namespace: str) -> list[float]:
    """Return how long each split of a table of the namespace took, by the master's log."""
    log = Path(folder, "hbase", "logs", "hbase-master.log").read_text(errors="replace")
    found = re.findall(rf"Finished .* SplitTableRegionProcedure table={namespace}:.* in ([0-9.]+) (m?)sec", log)
    return sorted(float(number) / (1000 if unit else 1) for number, unit in found)


def _sizes(chosen: argparse.Namespace, table: str) -> str:
    namespace, _, name = table.partition(":")
    files = Path(chosen.dir, "hbase", "data", "hbase", "root", "data", namespace, name)
    folders = [each for each in files.iterdir() if len(each.name) == _ENCODED_NAME]
    sizes = sorted(sum(map(occupied, kept_files(folder))) for folder in folders)
    return f", {sum(sizes) / chosen.topics:.0f} bytes a record, largest region {sizes[-1] / _MIB:.0f} MiB"


def _deadline() -> Deadline:
    return Deadline.after(_OPTIONS.clock, _TIMEOUT_S)


if __name__ == "__main__":
    main()
