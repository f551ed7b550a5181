"""The suite `hedwig-bench cas`: its options, the plan of a run, and how results are shown."""

import time
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from hedwig.benchmarks.drivers.records.java_program import jvm_words
from hedwig.benchmarks.drivers.records.record_clients import PARTS
from hedwig.benchmarks.drivers.records.record_drivers import DRIVERS
from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.load.descriptors import raise_descriptor_limit
from hedwig.benchmarks.load.workloads import Operation
from hedwig.benchmarks.runs.progress_lines import say
from hedwig.benchmarks.suites.cas.cases import CasCases
from hedwig.benchmarks.suites.cas.charts import cas_sections
from hedwig.benchmarks.suites.cas.servers import Servers, given_servers, own_servers
from hedwig.benchmarks.suites.cas.sizes import (
    OPERATIONS,
    QUICK_CAS,
    SMOKE_CAS,
    USUAL_CAS,
    CasSizes,
    cas_cases,
    warm_up,
    writers_per_key,
)
from hedwig.benchmarks.suites.cas.tables import cas_tables
from hedwig.benchmarks.suites.options import data_option, label_option, numbers, printed_option, result_option
from hedwig.benchmarks.suites.suite import CasePlan, Prepare, Run, Suite

__all__ = ["SUITE"]

_SIZES: Final = {"smoke": SMOKE_CAS, "quick": QUICK_CAS, "usual": USUAL_CAS}
_WARM_MAX_S: Final = 60.0
_EXTRA: Final = "gateway-managers"
"""A driver that is measured only if the user names it. The native driver already shows the managers' cost."""


@click.argument("operations", nargs=-1, type=click.Choice(OPERATIONS))
@click.option(
    "--sizes", "preset", type=click.Choice(list(_SIZES)), default="usual", show_default=True, help="Sizes of the run."
)
@click.option("--quick", "preset", flag_value="quick", help="The same as --sizes quick: two minutes.")
@click.option(
    "--driver",
    "drivers",
    multiple=True,
    type=click.Choice(DRIVERS),
    help=f"Default: all but {_EXTRA}, in turn.",
)
@click.option(
    "--in-flight", callback=numbers, metavar="N,N…", help="Operations in flight, except for contended updates."
)
@click.option("--writers", callback=numbers, metavar="N,N…", help="Writers per key of contended updates, of 64 in all.")
@click.option("--records", type=click.IntRange(min=1), help="Records that the operations go to in turn.")
@click.option("--seconds", type=click.FloatRange(min=0.1), help="Length of one load, its warm-up included.")
@click.option(
    "--warmup", "warmup_s", type=click.FloatRange(min=0), help="Warm-up of each load in seconds, which does not count."
)
@click.option(
    "--warm", "warm_s", type=click.FloatRange(min=0), help="Seconds of each operation before the first round."
)
@click.option("--rounds", type=click.IntRange(min=1), help="Number of rounds, each of which measures everything.")
@click.option("--seed", type=int, default=1, show_default=True, help="Decides the order of records.")
@click.option(
    "--metadata",
    "urls",
    multiple=True,
    metavar="URL",
    help="Measure the stores at these URLs (hbase://, hbase+thrift://, zookeeper://, sqlite://) instead of starting "
    "servers. Stores that are not formatted are formatted, and records stay in them.",
)
@click.option(
    "--dir",
    "servers",
    type=click.Path(path_type=Path, file_okay=False),
    help="Use the servers of `hedwig-admin dev --dir` instead of starting some, and leave them running.",
)
@data_option("own servers keep their data")
@click.option(
    "--synced",
    "is_synced",
    is_flag=True,
    help="Let our ZooKeeper, and HBase by its build for Hadoop 3, sync their logs to the disk.",
)
@label_option
@result_option
@printed_option
def _options(
    operations: tuple[str, ...],
    preset: str,
    drivers: tuple[str, ...],
    seed: int,
    urls: tuple[str, ...],
    servers: Path | None,
    is_synced: bool,
    **given: Any,
) -> Prepare:
    """Measure compare-and-set: read, create, update, partial-update, contended-update; without a name, all.

    Our drivers, happybase, ZooKeeper and SQLite stand beside HBase's own Java client, which does the same
    checkAndMutate on the same table. Each client is a process of its own. The run starts the servers and ends them. The
    result file is written after each case, so an interrupted run keeps what it measured.
    """
    sizes = replace(_SIZES[preset], **{name: value for name, value in given.items() if value is not None})
    if given["in_flight"] is not None:
        sizes = replace(sizes, in_flight_of={})
    chosen = drivers or tuple(driver for driver in DRIVERS if driver != _EXTRA)
    asked = operations or OPERATIONS
    raise_descriptor_limit()

    def prepare(run: Run) -> CasePlan:
        running = run.stack.enter_context(_running_servers(chosen, urls, servers, run.directory, is_synced=is_synced))
        present = tuple(driver for driver in chosen if driver in running.of)
        cases = run.stack.enter_context(CasCases(running, say))
        for driver in present:
            say(f"warming up: {driver}")
            _warm(cases, driver, list(warm_up(driver, asked, sizes, seed)), sizes.warm_operations)
        return CasePlan(
            terms=_terms(running, sizes, present, seed),
            cases=list(cas_cases(asked, present, sizes, seed)),
            measure=cases.measure,
            rounds=sizes.rounds,
            named=_named,
        )

    return prepare


def _running_servers(
    drivers: tuple[str, ...], urls: tuple[str, ...], servers: Path | None, directory: Path, *, is_synced: bool
) -> AbstractContextManager[Servers]:
    if urls:
        return given_servers(drivers, urls)
    return own_servers(drivers, directory, servers, is_synced=is_synced, progress=say)


def _warm(runs: CasCases, driver: str, planned: list[Case], operations: int) -> None:
    """Run cases that do not count. Java repeats them until it has done `operations`, or a minute has passed."""
    deadline = time.monotonic() + _WARM_MAX_S
    done = 0
    while planned:
        for case in planned:
            measurement = runs.measure(case, 0)
            done += measurement.count
            if measurement.wall is not None:
                say(f"    {measurement.wall}")
                return
        if driver != "java" or done >= operations or time.monotonic() > deadline:
            return


def _terms(servers: Servers, sizes: CasSizes, drivers: tuple[str, ...], seed: int) -> dict[str, Any]:
    preferences, state = PARTS
    terms = dict(servers.terms)
    terms["a record"] = (
        f"a subscription: 25 B of version, {len(preferences)} B of preferences, {len(state)} B of state, "
        f"{sizes.records:,} of them, made anew for each case"
    )
    terms["clients"] = "one process each, alone at work while it is measured, warmed up before the first round"
    if "java" in drivers:
        heap = jvm_words()[0].removeprefix("-Xms")
        terms["java"] = (
            f"AsyncTable.checkAndMutate of the same cells, defaults of client and virtual machine, heap {heap}"
        )
    if {"native", "gateway"} & set(drivers):
        terms["native, gateway"] = "our drivers' conditional put, below the managers"
    if any(driver.endswith("-managers") for driver in drivers):
        terms["…-managers, zookeeper-guarded, sqlite"] = "the subscription manager, opened as a hub opens it"
    if "happybase" in drivers:
        terms["happybase"] = (
            "version and content in one cell, 16 connections in threads, as many as the gateway driver has"
        )
    if "zookeeper-plain" in drivers:
        terms["zookeeper-plain"] = "a znode and its data version, without the guard against re-creation"
    return terms | {
        "rounds": sizes.rounds,
        "seed": seed,
        "closed loops": "time counts from when a request is made, so a stall delays what follows without showing in it",
    }


def _named(case: Case) -> str:
    workload = case.workload
    if workload.name == Operation.CONTENDED_UPDATE:
        return f"{workload.name}, {case.driver}, {writers_per_key(workload)} writers per key"
    return f"{workload.name}, {case.driver}, {workload.in_flight} in flight"


SUITE: Final = Suite(
    name="cas",
    example="cas update --driver java --driver native --rounds 5",
    options=_options,
    tables=cas_tables,
    charts=cas_sections,
)
