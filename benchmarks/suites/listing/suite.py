"""The suite `hedwig-bench listing`: its options, the plan of a run, and how results are shown."""

from typing import Any, Final

import click

from hedwig.benchmarks.charts.measured import case_sections
from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.runs.progress_lines import say
from hedwig.benchmarks.stores.command_stores import BACKENDS, HEAP_MB
from hedwig.benchmarks.suites.listing.cases import COMMANDS, ListingRuns, listing_cases
from hedwig.benchmarks.suites.listing.stores import given_stores, own_stores
from hedwig.benchmarks.suites.listing.tables import listing_figures, listing_tables
from hedwig.benchmarks.suites.options import data_option, label_option, numbers, printed_option, result_option
from hedwig.benchmarks.suites.suite import CasePlan, Prepare, Run, Suite

__all__ = ["SUITE"]

_QUICK: Final = 2_000
_USUAL: Final = 1_000_000


@click.option("--on", "backends", multiple=True, type=click.Choice(BACKENDS), help="Stores to measure.  [default: all]")
@click.option(
    "--command",
    "commands",
    multiple=True,
    type=click.Choice(list(COMMANDS)),
    help="Commands to measure.  [default: all]",
)
@click.option("--quick", is_flag=True, help=f"{_QUICK:,} topics, for a quick try.")
@click.option("--topics", "sizes", callback=numbers, help=f"A store of each of these sizes.  [default: {_USUAL:,}]")
@click.option("--nested/--flat", "is_nested", default=False, help="Topics below a hundred others, or side by side.")
@click.option(
    "--rounds", type=click.IntRange(min=1), default=1, show_default=True, help="Number of runs of each command."
)
@click.option(
    "--command-timeout",
    "deadline_s",
    type=click.FloatRange(min=1),
    default=3600.0,
    help="Time limit of one command in seconds.",
)
@click.option(
    "--metadata",
    "urls",
    multiple=True,
    metavar="URL",
    help="Measure the stores at these URLs instead of starting servers. Missing topics are created, and stay.",
)
@data_option("own stores and servers keep their data")
@label_option
@result_option
@printed_option
def _options(
    backends: tuple[str, ...],
    commands: tuple[str, ...],
    quick: bool,
    sizes: tuple[int, ...] | None,
    is_nested: bool,
    rounds: int,
    deadline_s: float,
    urls: tuple[str, ...],
) -> Prepare:
    """Measure the commands of hedwig-admin that read a whole store: their time and peak memory.

    Each command is a process of its own that writes into a file, whose topics are counted. The run starts the servers.
    """
    wanted = tuple(sizes or ((_QUICK,) if quick else (_USUAL,)))

    def prepare(run: Run) -> CasePlan:
        if urls:
            stores = given_stores(urls, wanted, is_nested=is_nested, progress=say)
        else:
            own = own_stores(backends or BACKENDS, wanted, run.directory, is_nested=is_nested, progress=say)
            stores = run.stack.enter_context(own)
        return CasePlan(
            terms=_terms(rounds, is_given=bool(urls)),
            cases=list(listing_cases(commands or tuple(COMMANDS), stores)),
            measure=ListingRuns(stores, run.directory, deadline_s).measure,
            rounds=rounds,
            named=_named,
        )

    return prepare


def _terms(rounds: int, *, is_given: bool) -> dict[str, Any]:
    heaps = ", ".join(f"{name} {size} MiB" for name, size in HEAP_MB.items())
    return ({"stores": "given"} if is_given else {"heaps": heaps}) | {
        "a topic": "one empty record of ledger ranges; no owner, no subscription",
        "each command": "a process of its own on the machine of the servers, its output in a file",
        "rounds": rounds,
    }


def _named(case: Case) -> str:
    return f"{case.workload.name}, {case.on}, {case.workload.topics:,} topics"


SUITE: Final = Suite(
    name="listing",
    example="listing --on sqlite --topics 100000,1000000 --rounds 3",
    options=_options,
    tables=listing_tables,
    charts=lambda result: case_sections("listing", result.measurements, listing_figures),
    figures=listing_figures,
)
