"""The suite `hedwig-bench migrate`: its options, the plan of a run, and how results are shown."""

from typing import Any, Final

import click

from hedwig.benchmarks.charts.measured import case_sections
from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.runs.figures import no_figures
from hedwig.benchmarks.runs.progress_lines import say
from hedwig.benchmarks.stores.command_stores import BACKENDS, HEAP_MB, store_servers
from hedwig.benchmarks.suites.migration.cases import Migrations, migration_cases
from hedwig.benchmarks.suites.migration.tables import migration_tables
from hedwig.benchmarks.suites.options import data_option, label_option, printed_option, result_option
from hedwig.benchmarks.suites.suite import CasePlan, Prepare, Run, Suite

__all__ = ["SUITE"]

_USUAL: Final = (("sqlite", "hbase"), ("hbase", "sqlite"), ("zookeeper", "hbase"))
_QUICK: Final = 1_000
_TOPICS: Final = 500_000


@click.option(
    "--between",
    "pairs",
    multiple=True,
    nargs=2,
    type=click.Choice(BACKENDS),
    metavar="FROM TO",
    help=f"May be given again.  [default: {', '.join(' '.join(pair) for pair in _USUAL)}]",
)
@click.option("--topics", type=click.IntRange(min=1), help=f"Topics in the source.  [default: {_TOPICS:,}]")
@click.option(
    "--subscribers", type=click.IntRange(min=1), default=1, show_default=True, help="Subscriptions of each topic."
)
@click.option("--quick", is_flag=True, help=f"{_QUICK:,} topics, for a quick try.")
@click.option(
    "--changes",
    "rate_per_s",
    type=click.FloatRange(min=0),
    default=20.0,
    show_default=True,
    help="Consume pointers moved per second during the migration, until the pause.",
)
@click.option(
    "--rounds", type=click.IntRange(min=1), default=1, show_default=True, help="Number of runs of each migration."
)
@click.option(
    "--command-timeout",
    "deadline_s",
    type=click.FloatRange(min=0.1),
    default=7200.0,
    help="Time limit of one migration in seconds.",
)
@data_option("stores and servers keep their data")
@label_option
@result_option
@printed_option
def _options(
    pairs: tuple[tuple[str, str], ...],
    topics: int | None,
    subscribers: int,
    quick: bool,
    rate_per_s: float,
    rounds: int,
    deadline_s: float,
) -> Prepare:
    """Measure `hedwig-admin metadata migrate` between stores that the run fills, while the source changes.

    The result has its time, its peak memory, and how long hubs would have been frozen. The run starts the servers.
    Nothing forces the logs of ZooKeeper and HBase to the disk.
    """
    wanted = topics or (_QUICK if quick else _TOPICS)
    chosen = pairs or _USUAL

    def prepare(run: Run) -> CasePlan:
        backends = tuple(dict.fromkeys(backend for pair in chosen for backend in pair))
        url = run.stack.enter_context(store_servers(backends, run.directory, progress=say))
        return CasePlan(
            terms=_terms(rounds),
            cases=migration_cases(chosen, wanted, subscribers, rate_per_s),
            measure=Migrations(url, run.directory, rate_per_s, deadline_s, say).measure,
            rounds=rounds,
            named=_named,
        )

    return prepare


def _terms(rounds: int) -> dict[str, Any]:
    return {
        "heaps": ", ".join(f"{name} {size} MiB" for name, size in HEAP_MB.items()),
        "a topic": "an empty record of ledger ranges and its subscriptions; no owner",
        "each migration": "a process of its own on the machine of the servers, into a store that was laid out anew",
        "changes": "by one who writes for himself; no hub is there, so the pause has none to freeze",
        "rounds": rounds,
    }


def _named(case: Case) -> str:
    return f"{case.on}, {case.workload.topics:,} topics × {case.workload.subscribers}"


SUITE: Final = Suite(
    name="migrate",
    example="migrate --between hbase sqlite --topics 100000 --changes 50",
    options=_options,
    tables=migration_tables,
    charts=lambda result: case_sections("migrate", result.measurements, no_figures),
)
