"""The command `hedwig-bench listing`."""

import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from hedwig.benchmarks.data_folder import data_folder
from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.load.interrupts import interrupt_when_told_to_end
from hedwig.benchmarks.machine.environment import environment
from hedwig.benchmarks.runs.numbers_option import numbers
from hedwig.benchmarks.runs.results import Result
from hedwig.benchmarks.runs.runs import carry_out, end_run
from hedwig.benchmarks.suites.commands.listing_cases import COMMANDS, ListingRuns, listing_cases
from hedwig.benchmarks.suites.commands.listing_stores import BACKENDS, HEAP_MB, given_stores, own_stores
from hedwig.benchmarks.suites.commands.listing_tables import PROGRAM
from hedwig.cli.dev import DevError
from hedwig.errors import HedwigError

__all__ = ["listing"]

_QUICK: Final = 2_000
_USUAL: Final = 1_000_000


@click.command(epilog="Example: hedwig-bench listing --on sqlite --topics 100000,1000000 --rounds 3")
@click.option("--on", "backends", multiple=True, type=click.Choice(BACKENDS), help="Only these stores.  [default: all]")
@click.option(
    "--command", "commands", multiple=True, type=click.Choice(list(COMMANDS)), help="Only these.  [default: all]"
)
@click.option("--quick", is_flag=True, help=f"{_QUICK:,} topics: to try it.")
@click.option("--topics", "sizes", callback=numbers, help=f"A store of each of these sizes.  [default: {_USUAL:,}]")
@click.option("--nested/--flat", "is_nested", default=False, help="Topics below a hundred others, or side by side.")
@click.option("--rounds", type=click.IntRange(min=1), default=1, show_default=True, help="How often each is run.")
@click.option(
    "--command-timeout", "deadline_s", type=click.FloatRange(min=1), default=3600.0, help="For one command, in seconds."
)
@click.option(
    "--metadata",
    "urls",
    multiple=True,
    metavar="URL",
    help="Measure the stores at these URLs instead of own ones. Topics that are missing are made, and stay.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where own stores and servers keep their data. Default: the system's folder for such files.",
)
@click.option("--label", default="", help="A word for the result, which says what is special about it.")
@click.option("--result", "path", type=click.Path(path_type=Path, dir_okay=False), help="The result file.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="What is printed."
)
def listing(
    backends: tuple[str, ...],
    commands: tuple[str, ...],
    quick: bool,
    sizes: tuple[int, ...] | None,
    is_nested: bool,
    rounds: int,
    deadline_s: float,
    urls: tuple[str, ...],
    data: Path | None,
    label: str,
    path: Path | None,
    output: str,
) -> None:
    """Measure the commands of hedwig-admin that read a whole store: time, and the most memory that each held.

    Each is a process of its own that writes into a file, and what it wrote is counted. Servers are started for the run.
    """
    started = datetime.now(UTC)
    path = path or Path("benchmarks", "results", f"listing-{started:%Y%m%dT%H%M%SZ}.json")
    wanted = tuple(sizes or ((_QUICK,) if quick else (_USUAL,)))
    result: Result | None = None
    folder = data_folder(data)
    with interrupt_when_told_to_end(), folder as place, ExitStack() as stack:
        try:
            machine = environment(Path(place))
            if urls:
                stores = given_stores(urls, wanted, is_nested=is_nested, progress=_progress)
            else:
                own = own_stores(backends or BACKENDS, wanted, Path(place), is_nested=is_nested, progress=_progress)
                stores = stack.enter_context(own)
            result = Result(
                program=PROGRAM,
                started=f"{started:%Y-%m-%d %H:%M:%S} UTC",
                environment=machine,
                terms=_terms(label, rounds, is_given=bool(urls)),
            )
            runs = ListingRuns(stores, Path(place), deadline_s)
            planned = list(listing_cases(commands or tuple(COMMANDS), stores))
            carry_out(planned, runs.measure, rounds, result, path, named=_named)
        except (BenchmarkError, DevError, HedwigError, ValueError) as exc:
            raise click.ClickException(str(exc)) from exc
        except KeyboardInterrupt:
            click.echo("interrupted before anything was measured" if result is None else "interrupted", err=True)
            sys.exit(130)
    end_run(result, path, as_json=output == "json")


def _progress(line: str) -> None:
    click.echo(line, err=True)


def _terms(label: str, rounds: int, *, is_given: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"label": label} if label else {}
    if is_given:
        found["stores"] = "given"
    else:
        found["heaps"] = ", ".join(f"{name} {size} MiB" for name, size in HEAP_MB.items())
    return found | {
        "a topic": "one empty record of ledger ranges; no owner, no subscription",
        "each command": "a process of its own on the machine of the servers, its output in a file",
        "rounds": rounds,
    }


def _named(case: Case) -> str:
    return f"{case.workload.name}, {case.on}, {case.workload.topics:,} topics"
