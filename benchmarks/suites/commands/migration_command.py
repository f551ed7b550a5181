"""The command `hedwig-bench migrate`."""

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
from hedwig.benchmarks.runs.results import Result
from hedwig.benchmarks.runs.runs import carry_out, end_run
from hedwig.benchmarks.suites.commands.listing_stores import BACKENDS, HEAP_MB, store_servers
from hedwig.benchmarks.suites.commands.migration_cases import Migrations, migration_cases
from hedwig.benchmarks.suites.commands.migration_tables import PROGRAM
from hedwig.cli.dev import DevError
from hedwig.errors import HedwigError

__all__ = ["migrate"]

_USUAL: Final = (("sqlite", "hbase"), ("hbase", "sqlite"), ("zookeeper", "hbase"))
_QUICK: Final = 1_000
_TOPICS: Final = 500_000


@click.command(epilog="Example: hedwig-bench migrate --between hbase sqlite --topics 100000 --changes 50")
@click.option(
    "--between",
    "pairs",
    multiple=True,
    nargs=2,
    type=click.Choice(BACKENDS),
    metavar="FROM TO",
    help=f"May be given again.  [default: {', '.join(' '.join(pair) for pair in _USUAL)}]",
)
@click.option("--topics", type=click.IntRange(min=1), help=f"In the source.  [default: {_TOPICS:,}]")
@click.option("--subscribers", type=click.IntRange(min=1), default=1, show_default=True, help="Of each topic.")
@click.option("--quick", is_flag=True, help=f"{_QUICK:,} topics: to try it.")
@click.option(
    "--changes",
    "rate_per_s",
    type=click.FloatRange(min=0),
    default=20.0,
    show_default=True,
    help="Consume pointers that are moved each second meanwhile, until the pause.",
)
@click.option("--rounds", type=click.IntRange(min=1), default=1, show_default=True, help="How often each is run.")
@click.option(
    "--command-timeout",
    "deadline_s",
    type=click.FloatRange(min=0.1),
    default=7200.0,
    help="For one migration, seconds.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where stores and servers keep their data. Default: the system's folder for such files.",
)
@click.option("--label", default="", help="A word for the result, which says what is special about it.")
@click.option("--result", "path", type=click.Path(path_type=Path, dir_okay=False), help="The result file.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="What is printed."
)
def migrate(
    pairs: tuple[tuple[str, str], ...],
    topics: int | None,
    subscribers: int,
    quick: bool,
    rate_per_s: float,
    rounds: int,
    deadline_s: float,
    data: Path | None,
    label: str,
    path: Path | None,
    output: str,
) -> None:
    """Measure `hedwig-admin metadata migrate` between stores that are filled for it, while the first is changed.

    How long it takes, what it holds in memory, and how long hubs would have been frozen. Servers are started for the
    run. Nothing forces the logs of ZooKeeper and HBase to the disk.
    """
    started = datetime.now(UTC)
    path = path or Path("benchmarks", "results", f"migrate-{started:%Y%m%dT%H%M%SZ}.json")
    wanted = topics or (_QUICK if quick else _TOPICS)
    chosen = pairs or _USUAL
    result: Result | None = None
    folder = data_folder(data)
    with interrupt_when_told_to_end(), folder as place, ExitStack() as stack:
        try:
            machine = environment(Path(place))
            backends = tuple(dict.fromkeys(backend for pair in chosen for backend in pair))
            url = stack.enter_context(store_servers(backends, Path(place), progress=_progress))
            result = Result(
                program=PROGRAM,
                started=f"{started:%Y-%m-%d %H:%M:%S} UTC",
                environment=machine,
                terms=_terms(label, rounds),
            )
            runs = Migrations(url, Path(place), rate_per_s, deadline_s, _progress)
            planned = migration_cases(chosen, wanted, subscribers, rate_per_s)
            carry_out(planned, runs.measure, rounds, result, path, named=_named)
        except (BenchmarkError, DevError, HedwigError, ValueError) as exc:
            raise click.ClickException(str(exc)) from exc
        except KeyboardInterrupt:
            click.echo("interrupted before anything was measured" if result is None else "interrupted", err=True)
            sys.exit(130)
    end_run(result, path, as_json=output == "json")


def _progress(line: str) -> None:
    click.echo(line, err=True)


def _terms(label: str, rounds: int) -> dict[str, Any]:
    found: dict[str, Any] = {"label": label} if label else {}
    return found | {
        "heaps": ", ".join(f"{name} {size} MiB" for name, size in HEAP_MB.items()),
        "a topic": "an empty record of ledger ranges and its subscriptions; no owner",
        "each migration": "a process of its own on the machine of the servers, into a store that was laid out anew",
        "changes": "by one who writes for himself; no hub is there, so the pause has none to freeze",
        "rounds": rounds,
    }


def _named(case: Case) -> str:
    return f"{case.on}, {case.workload.topics:,} topics × {case.workload.subscribers}"
