"""The suite `hedwig-bench hub`: its options, the plan of a run, and how results are shown."""

from pathlib import Path
from typing import Any, Final

import click

from hedwig.benchmarks.charts.measured import case_sections
from hedwig.benchmarks.charts.sections import Section
from hedwig.benchmarks.drivers.drivers import DRIVERS
from hedwig.benchmarks.load.cases import EMBEDDED, Case
from hedwig.benchmarks.load.descriptors import raise_descriptor_limit
from hedwig.benchmarks.machine.heaps import HEAP_MB_MIN
from hedwig.benchmarks.runs.progress_lines import say_below
from hedwig.benchmarks.runs.results import Measurement, Result
from hedwig.benchmarks.runs.words import side_words
from hedwig.benchmarks.suites.hub.charts import active_topics_sections
from hedwig.benchmarks.suites.hub.plan import SIZES, Asked, hub_plan, stored_plan
from hedwig.benchmarks.suites.hub.servers import JOURNALS, METADATA
from hedwig.benchmarks.suites.hub.sizes import HUB_KINDS, MEASUREMENTS
from hedwig.benchmarks.suites.hub.stored_sizes import STORED_MEASUREMENTS, STORES
from hedwig.benchmarks.suites.hub.stored_tables import stored_figures
from hedwig.benchmarks.suites.hub.tables import hub_tables
from hedwig.benchmarks.suites.options import data_option, label_option, numbers
from hedwig.benchmarks.suites.suite import CasePlan, Prepare, Run, Suite
from hedwig.errors import ConfigurationError
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums

__all__ = ["SUITE"]


def _quorums(_context: click.Context, _parameter: click.Parameter, text: str) -> Quorums:
    try:
        ensemble, write, ack = map(int, text.split(","))
        return Quorums(ensemble=ensemble, write=write, ack=ack)
    except (ValueError, ConfigurationError):
        raise click.BadParameter(f"{text!r} is not ensemble, write and ack quorum, like 3,2,2") from None


@click.argument("measurements", nargs=-1, type=click.Choice((*MEASUREMENTS, *STORED_MEASUREMENTS)))
@click.option(
    "--sizes",
    "preset",
    type=click.Choice(list(SIZES)),
    default="usual",
    show_default=True,
    help="How much: smoke takes seconds, full goes to a million topics.",
)
@click.option("--quick", "preset", flag_value="quick", help="The same as --sizes quick.")
@click.option("--full", "preset", flag_value="full", help="The same as --sizes full.")
@click.option(
    "--driver",
    "drivers",
    multiple=True,
    type=click.Choice(DRIVERS),
    help="Default: the drivers that each --on can have.",
)
@click.option(
    "--on",
    "on",
    multiple=True,
    type=click.Choice((*HUB_KINDS, *STORES)),
    help="Which hub, on which stores; several are measured side by side. Default: embedded. With zookeeper and "
    "hbase the same hub keeps its metadata there, among those of --topics topics.",
)
@click.option(
    "--metadata",
    type=click.Choice(METADATA),
    default="zookeeper",
    show_default=True,
    help="Where our hub on bookies keeps its metadata.",
)
@click.option(
    "--quorums",
    callback=_quorums,
    default="3,2,2",
    show_default=True,
    metavar="E,W,A",
    help="Ensemble, write and ack quorum of all hubs on bookies.",
)
@click.option(
    "--journal",
    type=click.Choice(list(JOURNALS)),
    default="quick",
    show_default=True,
    help="How the journals of all bookies sync.",
)
@click.option("--warm", "warm_s", type=click.FloatRange(min=0), help="Seconds of warm-up of a hub on bookies.")
@click.option("--resume", is_flag=True, help="Continue the result file of an unfinished run.")
@click.option("--topics", callback=numbers, metavar="N,N…", help="Topics to publish to, or topics in a store.")
@click.option("--sample", type=click.IntRange(min=1), help="Number of a store's topics that each case uses.")
@click.option("--size", "message_bytes", callback=numbers, metavar="N,N…", help="Bytes of a message's body.")
@click.option("--subscribers", callback=numbers, metavar="N,N…", help="Subscribers of each topic, for deliver.")
@click.option(
    "--rate",
    "rates",
    callback=numbers,
    metavar="N,N…",
    help="Offered publishes a second, beside the closed loops; 0: closed loops only.",
)
@click.option("--in-flight", type=click.IntRange(min=1), help="Unfinished publishes of a closed loop.")
@click.option(
    "--deliver-in-flight",
    type=click.IntRange(min=1),
    help="Messages of a closed loop that some subscriber has not received yet.",
)
@click.option("--connections", type=click.IntRange(min=1), help="Connections that publish.")
@click.option("--seconds", type=click.FloatRange(min=0.5), help="Length of one load, its warm-up included.")
@click.option(
    "--warmup", "warmup_s", type=click.FloatRange(min=0), help="Warm-up of each load in seconds, which does not count."
)
@click.option("--subscriptions", type=click.IntRange(min=2), help="New subscriptions to make.")
@click.option("--cold-topics", type=click.IntRange(min=1), help="Topics for publish-cold.")
@click.option("--idle-topics", callback=numbers, metavar="N,N…", help="The ladder of owned idle topics.")
@click.option("--idle-connections", callback=numbers, metavar="N,N…", help="Connections held open.")
@click.option(
    "--heap",
    "heap_mb",
    type=click.IntRange(min=HEAP_MB_MIN),
    metavar="MIB",
    help="Heap of all virtual machines of a store together.",
)
@click.option("--fill-max", "fill_max_s", type=click.FloatRange(min=1), help="Seconds for filling a store, at most.")
@click.option("--rounds", type=click.IntRange(min=1), help="Number of rounds, each of which measures everything.")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Generator processes that share a load.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Decides the order of topics.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="An option of the hub.")
@data_option("hubs keep their data, on the disk to measure")
@click.option("--address", help="Measure the hub that listens at HOST:PORT instead of starting hubs.")
@click.option(
    "--pid", type=int, help="Process of that hub, if it is on this machine, to measure its memory and processor time."
)
@label_option
@click.option("--output", "path", type=click.Path(path_type=Path, dir_okay=False), help="The result file.")
@click.option("--json", "as_json", is_flag=True, help="Write the result to standard output instead of a table.")
def _options(
    measurements: tuple[str, ...],
    preset: str,
    drivers: tuple[str, ...],
    processes: int,
    seed: int,
    settings: tuple[str, ...],
    address: str | None,
    pid: int | None,
    on: tuple[str, ...],
    metadata: str,
    quorums: Quorums,
    journal: str,
    **given: Any,
) -> Prepare:
    """Measure a hub: publish, deliver, subscribe, publish-cold, idle-topics, idle-connections; without a name, all.

    With --on zookeeper and --on hbase: own, publish-first, publish-warm, fail-over, in stores with many topics.

    Each case gets a fresh hub in a process of its own; the load comes from further processes. With --on the run
    measures hubs on bookies, which it starts, and the original Java hub beside them. The result file is written after
    each case, so an interrupted run keeps what it measured, and --resume continues it.
    """
    on = on or (EMBEDDED,)
    is_stored = set(on) <= set(STORES)
    if not is_stored and not set(on).isdisjoint(STORES):
        raise click.UsageError("--on zookeeper and --on hbase need a run of their own, without another --on")
    if unknown := set(measurements) - set(STORED_MEASUREMENTS if is_stored else MEASUREMENTS):
        raise click.UsageError(f"{', '.join(sorted(unknown))} cannot be measured --on {on[0]}")
    if address is not None and on != (EMBEDDED,):
        raise click.UsageError("--address names a running hub, and --on a hub to start: give only one of them")
    raise_descriptor_limit()

    def prepare(run: Run) -> CasePlan:
        asked = Asked(
            measurements,
            drivers,
            on,
            preset,
            given,
            settings,
            processes,
            seed,
            run.directory,
            say_below,
            run.note_flags,
        )
        if is_stored:
            plan = stored_plan(asked, run.stack)
        else:
            plan = hub_plan(
                asked, run.stack, address=address, pid=pid, metadata=metadata, quorums=quorums, journal=journal
            )
        return CasePlan(
            terms=plan.terms,
            cases=plan.cases,
            measure=plan.measure,
            rounds=plan.rounds,
            named=_named,
        )

    return prepare


def _named(case: Case) -> str:
    workload = case.workload
    where = "" if case.on == EMBEDDED else f"{case.on}: "
    load = f"{workload.rate_per_s:,.0f}/s" if workload.is_open_loop else f"{workload.in_flight:,} in flight"
    if workload.name == "idle-connections":
        return f"{workload.name}, {workload.connections:,}"
    subscribers = f", {workload.subscribers} subscribers" if workload.subscribers else ""
    what = f"{workload.topics:,} topics{subscribers}, {workload.message_bytes:,} B"
    return f"{where}{workload.name}, {case.driver}, {what}, {load}"


def _sections(result: Result) -> list[Section]:
    sections = case_sections("hub", result.measurements, stored_figures, ink_of=_ink_of)
    return [*active_topics_sections(result), *sections]


def _ink_of(measurement: Measurement) -> str:
    """Return the name that decides a side's colour: that of the store, if metadata are in a store of many topics."""
    return measurement.on if measurement.on in STORES else side_words(measurement)


SUITE: Final = Suite(
    name="hub",
    example="hub publish deliver --topics 50 --size 100 --rounds 1",
    options=_options,
    tables=hub_tables,
    charts=_sections,
    figures=stored_figures,
    file_option="--output",
)
