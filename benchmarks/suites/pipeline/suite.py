"""The suite `hedwig-bench pipeline`: its options, the plan of a run, and how results are shown."""

from typing import Any, Final

import click

from hedwig.benchmarks.charts.measured import case_sections
from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.runs.figures import no_figures
from hedwig.benchmarks.runs.progress_lines import say
from hedwig.benchmarks.stores.command_stores import BACKENDS, HEAP_MB, store_servers
from hedwig.benchmarks.suites.options import data_option, label_option, number, printed_option, result_option
from hedwig.benchmarks.suites.pipeline.steps import PipelineSteps, pipeline_cases
from hedwig.benchmarks.suites.pipeline.tables import pipeline_tables
from hedwig.benchmarks.suites.suite import CasePlan, Prepare, Run, Suite

__all__ = ["SUITE"]


@click.option("--topics", callback=number, default="500k", show_default=True, help="Topics to generate.")
@click.option(
    "--subscriptions",
    callback=number,
    default="1M",
    show_default=True,
    help="Subscriptions to generate, shared among the topics by Zipf's law.",
)
@click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    default="hbase",
    show_default=True,
    help="Backend to load and to snapshot.",
)
@click.option(
    "--target", type=click.Choice(BACKENDS), default="hbase", show_default=True, help="Backend to restore into."
)
@click.option(
    "--with-history", is_flag=True, help="Generate ledger ranges, owners and consume pointers too, for the audit."
)
@click.option(
    "--row-by-row",
    "row_by_row",
    callback=number,
    default="10k",
    show_default=True,
    help="Rows that one writer writes one after the other, for comparison.",
)
@click.option("--rounds", type=click.IntRange(min=1), default=1, show_default=True, help="Number of runs of each step.")
@click.option(
    "--step-timeout",
    "deadline_s",
    type=click.FloatRange(min=1),
    default=7200.0,
    help="Time limit of one step in seconds.",
)
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark for all jobs; may be given again.")
@data_option("stores, servers and snapshots are kept")
@label_option
@result_option
@printed_option
def _options(
    topics: int,
    subscriptions: int,
    backend: str,
    target: str,
    with_history: bool,
    row_by_row: int,
    rounds: int,
    deadline_s: float,
    conf: tuple[str, ...],
) -> Prepare:
    """Measure the jobs of `hedwig-pipeline`: generate, load, snapshot, audit, restore, each as its user runs it.

    The result has the time of each from start to end, Spark's own included, and the peak memory of all its processes.
    Beside them one writer creates topics one after the other. The run starts the servers. Nothing forces
    the logs of ZooKeeper and HBase to the disk.
    """
    settings = dict(_pair(text) for text in conf)

    def prepare(run: Run) -> CasePlan:
        url = run.stack.enter_context(store_servers((backend, target), run.directory, progress=say))
        steps = PipelineSteps(
            url,
            run.directory.absolute(),
            (topics, subscriptions),
            backend,
            settings,
            deadline_s,
            with_history=with_history,
        )
        return CasePlan(
            terms=_terms(topics, subscriptions, settings, rounds, with_history=with_history),
            cases=pipeline_cases(topics, subscriptions, backend, target, row_by_row=row_by_row),
            measure=steps.measure,
            rounds=rounds,
            named=_named,
            is_turned=False,
        )

    return prepare


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--conf")
    return name, value


def _terms(
    topics: int, subscriptions: int, settings: dict[str, str], rounds: int, *, with_history: bool
) -> dict[str, Any]:
    beside = "ledger ranges, owners and consume pointers; all but owners is restored" if with_history else "no owners"
    return {
        "heaps": ", ".join(f"{name} {size} MiB" for name, size in HEAP_MB.items()),
        "what is generated": f"{topics:,} topics and {subscriptions:,} subscriptions, {beside}",
        "each job": "a process of its own on the machine of the servers, master local[*,4], timed from start to end",
        "Spark": ", ".join(f"{name}={value}" for name, value in settings.items()) or "as the jobs have it",
        "memory": "of a job with all processes that it starts; pages that several share count once",
        "durability": "nothing forces the logs of ZooKeeper and HBase to the disk",
        "row by row": "one writer creates topics one after the other, with the same libraries",
        "rounds": rounds,
    }


def _named(case: Case) -> str:
    return f"{case.workload.name}, {case.on}"


SUITE: Final = Suite(
    name="pipeline",
    example="pipeline --topics 100k --subscriptions 200k --target sqlite",
    options=_options,
    tables=pipeline_tables,
    charts=lambda result: case_sections("pipeline", result.measurements, no_figures),
)
