"""The suite `hedwig-bench takeover`: its options, the plan of a run, and how results are shown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.load.descriptors import raise_descriptor_limit
from hedwig.benchmarks.load.workloads import Workload
from hedwig.benchmarks.machine.heaps import STORM_HEAP_MB_MIN
from hedwig.benchmarks.machine.jvm_flags import AS_IN_PRODUCTION
from hedwig.benchmarks.runs.progress_lines import say_below
from hedwig.benchmarks.runs.words import driver_title
from hedwig.benchmarks.stores.servers import LASTING_HBASE
from hedwig.benchmarks.suites.hub.servers import HEAP_MB, METADATA
from hedwig.benchmarks.suites.options import data_option, label_option, numbers, printed_option, result_option
from hedwig.benchmarks.suites.suite import CasePlan, Prepare, Run, Suite
from hedwig.benchmarks.suites.takeover.charts import takeover_sections
from hedwig.benchmarks.suites.takeover.run import REGIONS, TakeoverRuns
from hedwig.benchmarks.suites.takeover.sizes import TakeoverSizes
from hedwig.benchmarks.suites.takeover.storms import Storms
from hedwig.benchmarks.suites.takeover.tables import takeover_figures, takeover_tables

__all__ = ["SUITE"]

_USUAL: Final = TakeoverSizes()
_SHARED: Final = (
    "the ZooKeeper of liveness and of BookKeeper's metadata is the metadata store as well: a storm on one is felt by "
    "all the others"
)
_APART: Final = "the ZooKeeper of liveness and of BookKeeper's metadata has none of the hubs' metadata"
_WRITTEN: Final = (
    "topics in use asked for once; of all others written into the store, as if the hubs had claimed them, which do not "
    "have them in memory"
)
_QUICK: Final = TakeoverSizes(
    topics=2_000, used=20, attached=10, rate_per_s=100.0, session_timeout_s=4.0, before_s=5.0, after_s=5.0
)


@click.option("--quick", is_flag=True, help="2,000 topics and a shorter session: about a minute.")
@click.option("--hubs", type=click.IntRange(min=2), help="Number of hubs, of which one is killed.")
@click.option(
    "--topics", "ladder", callback=numbers, metavar="N,N…", help="Topics that the hubs own together. Default: 80,000."
)
@click.option("--used", type=click.IntRange(min=1), help="Topics that are published to; default: 1 % of all.")
@click.option(
    "--attached", type=click.IntRange(min=0), help="Used topics with a subscriber; default: a quarter of them."
)
@click.option("--rate", "rate_per_s", type=click.FloatRange(min=0.1), help="Messages a second, over all used topics.")
@click.option("--size", "message_bytes", type=click.IntRange(min=16), help="Bytes of a message's body.")
@click.option(
    "--ask",
    type=click.FloatRange(0, 1),
    help="Share of the killed hub's other topics that clients ask for once, all at the same time. Default: none.",
)
@click.option(
    "--session-timeout",
    "session_timeout_s",
    type=click.FloatRange(min=1),
    help="Session timeout of the hubs in seconds.",
)
@click.option("--before", "before_s", type=click.FloatRange(min=1), help="Seconds of load before the kill.")
@click.option(
    "--after", "after_s", type=click.FloatRange(min=1), help="Seconds of load after all topics are served again."
)
@click.option(
    "--served-max",
    "served_max_s",
    type=click.FloatRange(min=1),
    help="Longest wait in seconds until all topics are served again.",
)
@click.option(
    "--metadata",
    "stores",
    multiple=True,
    type=click.Choice(METADATA),
    help="Where hubs keep their metadata. Several stores take turns. Default: hbase.",
)
@click.option(
    "--stored",
    type=click.IntRange(min=0),
    help="Topics in the store before the storm. Default and minimum: the topics of the storm.",
)
@click.option(
    "--write-owners",
    "writes_owners",
    is_flag=True,
    default=None,
    help="Write the owners of unused topics into the store, instead of asking hubs for each topic. Use it for very "
    "many topics.",
)
@click.option(
    "--synced/--unsynced",
    "is_synced",
    default=None,
    help="Force the logs of ZooKeeper and HBase to the disk, or leave them in the file cache. Default: force them.",
)
@click.option(
    "--heap",
    "heap_mb",
    type=click.IntRange(min=STORM_HEAP_MB_MIN),
    help="MiB of all virtual machines of the metadata together, the ZooKeeper of liveness included. Default: 2048.",
)
@click.option("--rounds", type=click.IntRange(min=1), help="Number of storms, each on fresh hubs and topics.")
@click.option("--seed", type=int, default=1, show_default=True, help="Decides which topics are used.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="An option of the hubs.")
@data_option("servers keep their data")
@label_option
@result_option
@click.option("--resume", is_flag=True, help="Continue the result file of an unfinished run.")
@printed_option
def _options(
    quick: bool,
    ladder: tuple[int, ...] | None,
    stores: tuple[str, ...],
    seed: int,
    settings: tuple[str, ...],
    **given: Any,
) -> Prepare:
    """Kill one of several hubs that own many topics, and measure how the others take over the used ones.

    The run starts and ends ZooKeeper, HBase unless --metadata says otherwise, three bookies and the hubs. Clients
    follow redirects and try again. Stores and numbers of topics take turns, every other round in the opposite order.
    """
    preset = _QUICK if quick else _USUAL
    chosen = {name: value for name, value in given.items() if value is not None}
    try:
        storms = {
            (store, topics): _sizes(preset, {**chosen, "metadata": store, "topics": topics})
            for topics in dict.fromkeys(ladder or (preset.topics,))
            for store in dict.fromkeys(stores or (preset.metadata,))
        }
    except ValueError as exc:
        raise click.UsageError(str(exc)) from exc
    raise_descriptor_limit()

    def prepare(run: Run) -> CasePlan:
        def runs_in(directory: Path, sizes: TakeoverSizes) -> TakeoverRuns:
            return TakeoverRuns(directory, sizes, settings, seed, say_below, run.note_flags)

        runs = run.stack.enter_context(Storms(run.directory, storms, runs_in))
        return CasePlan(
            terms=_terms(list(storms.values()), settings, seed),
            cases=[Case(_workload(sizes, seed), "client", sizes.metadata) for sizes in storms.values()],
            measure=runs.measure,
            rounds=next(iter(storms.values())).rounds,
            named=_named,
        )

    return prepare


def _sizes(preset: TakeoverSizes, given: dict[str, Any]) -> TakeoverSizes:
    """Return the sizes. Unless they are given, 1 % of the topics are used, and a quarter of those attached."""
    used = given.get("used", max(1, given["topics"] // 100))
    return replace(preset, **{"used": used, "attached": used // 4, **given})


def _workload(sizes: TakeoverSizes, seed: int) -> Workload:
    return Workload(
        name="takeover",
        topics=sizes.topics,
        message_bytes=sizes.message_bytes,
        rate_per_s=sizes.rate_per_s,
        seconds=sizes.before_s + sizes.after_s,
        warmup_s=0.0,
        seed=seed,
    )


def _terms(storms: Sequence[TakeoverSizes], settings: tuple[str, ...], seed: int) -> dict[str, Any]:
    """Return the terms of all storms. Where storms differ, the term says for which it holds."""
    first = storms[0]
    by_store = {sizes.metadata: sizes for sizes in storms}
    stored = f"{first.stored:,}"
    return {
        "hubs": f"{first.hubs}, one killed with SIGKILL, placement uniform, no rebalancing",
        "session timeout": f"{first.session_timeout_s:g} s",
        "topics": "; ".join(dict.fromkeys(map(_topics, storms))),
        "owners before": _WRITTEN if first.writes_owners else "each topic asked for once",
        "also asked for": f"{first.ask:.0%} of the killed hub's other topics",
        "rate": f"{first.rate_per_s:g}/s in all, each topic in turn, one message after the other",
        "clients": "hedwig.client, which follows redirects; what fails is tried again after 50 ms, doubling to 1 s; "
        "the hubs that they ask first stay alive",
        "metadata": "; ".join(map(_store, by_store.values())),
        **({"topics in the store before": stored} if first.stored else {}),
        "bookies": "three of 4.17, synced journals",
        "ZooKeeper 3.9.4": _of_each(by_store, _use_of_zookeeper),
        "shared": _of_each(by_store, lambda sizes: _SHARED if sizes.metadata == "zookeeper" else _APART),
        "heaps": _of_each(by_store, _heaps),
        "servers' virtual machines": AS_IN_PRODUCTION,
        "hub options": list(settings),
        "rounds": first.rounds,
        "seed": seed,
    }


def _of_each(by_store: Mapping[str, TakeoverSizes], words: Callable[[TakeoverSizes], str]) -> str:
    """Return the words for each store of the metadata, with the store's name if there are several."""
    if len(by_store) == 1:
        return words(*by_store.values())
    return "; ".join(f"metadata in {driver_title(store)}: {words(sizes)}" for store, sizes in by_store.items())


def _topics(sizes: TakeoverSizes) -> str:
    return f"{sizes.topics:,}, {sizes.used:,} of them published to, {sizes.attached:,} with a subscriber"


def _use_of_zookeeper(sizes: TakeoverSizes) -> str:
    log = "its log synced" if sizes.is_synced else "forceSync=no"
    used_for = "the metadata" if sizes.metadata == "zookeeper" else "HBase"
    return f"one server, {log}; used for liveness, ledgers and {used_for}"


def _heaps(sizes: TakeoverSizes) -> str:
    heaps = ", ".join(f"{kind} {size:,} MiB" for kind, size in sizes.heaps.items())
    bookie = f"each bookie {HEAP_MB['bookie']:,} MiB"
    return f"{sizes.heap_mb:,} MiB in all for the metadata and that ZooKeeper: {heaps}, {bookie}"


def _store(sizes: TakeoverSizes) -> str:
    synced = "synced to the disk" if sizes.is_synced else "not synced to the disk"
    if sizes.metadata == "zookeeper":
        return f"ZooKeeper, {synced}"
    session_s = int(LASTING_HBASE["zookeeper.session.timeout"]) // 1000
    server = f"one region server, its session {session_s} s"
    return f"HBase 2.6.1-hadoop3, {server}, {REGIONS} regions a table, {synced}"


def _named(case: Case) -> str:
    topics, rate = case.workload.topics, case.workload.rate_per_s
    return f"metadata in {driver_title(case.on)}, {topics:,} topics, {rate:g}/s offered"


SUITE: Final = Suite(
    name="takeover",
    example="takeover --topics 20000 --ask 1 --rounds 3",
    options=_options,
    tables=takeover_tables,
    charts=takeover_sections,
    figures=takeover_figures,
)
