"""The command `hedwig-bench pipeline`."""

import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from hedwig.benchmarks.data_folder import data_folder
from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.load.interrupts import interrupt_when_told_to_end
from hedwig.benchmarks.machine.environment import environment
from hedwig.benchmarks.runs.numbers_option import number
from hedwig.benchmarks.runs.results import Result
from hedwig.benchmarks.runs.runs import carry_out, end_run
from hedwig.benchmarks.suites.commands.listing_stores import BACKENDS, HEAP_MB, store_servers
from hedwig.benchmarks.suites.commands.pipeline_steps import PipelineSteps, pipeline_cases
from hedwig.benchmarks.suites.commands.pipeline_tables import PROGRAM
from hedwig.cli.dev import DevError
from hedwig.errors import HedwigError

__all__ = ["pipeline"]


@click.command(epilog="Example: hedwig-bench pipeline --topics 100k --subscriptions 200k --target sqlite")
@click.option("--topics", callback=number, default="500k", show_default=True, help="As many are generated.")
@click.option("--subscriptions", callback=number, default="1M", show_default=True, help="Shared out by Zipf's law.")
@click.option(
    "--backend", type=click.Choice(BACKENDS), default="hbase", show_default=True, help="Is loaded, and snapshotted."
)
@click.option("--target", type=click.Choice(BACKENDS), default="hbase", show_default=True, help="Is restored into.")
@click.option("--with-history", is_flag=True, help="Ledger ranges, owners and consume pointers too, for the audit.")
@click.option(
    "--row-by-row",
    "row_by_row",
    callback=number,
    default="10k",
    show_default=True,
    help="Rows that one writer puts one after the other, to compare with.",
)
@click.option("--rounds", type=click.IntRange(min=1), default=1, show_default=True, help="How often all is done.")
@click.option(
    "--step-timeout", "deadline_s", type=click.FloatRange(min=1), default=7200.0, help="For one step, seconds."
)
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark for all jobs; may be given again.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where stores, servers and snapshots are kept. Default: the system's folder for such files.",
)
@click.option("--label", default="", help="A word for the result, which says what is special about it.")
@click.option("--result", "path", type=click.Path(path_type=Path, dir_okay=False), help="The result file.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="What is printed."
)
def pipeline(
    topics: int,
    subscriptions: int,
    backend: str,
    target: str,
    with_history: bool,
    row_by_row: int,
    rounds: int,
    deadline_s: float,
    conf: tuple[str, ...],
    data: Path | None,
    label: str,
    path: Path | None,
    output: str,
) -> None:
    """Measure the jobs of `hedwig-pipeline`: generate, load, snapshot, audit, restore, each as its user runs it.

    How long each takes from its start to its end, Spark's own included, and the most memory that it holds, with all
    processes that it starts. Beside them one writer creates topics one after the other. Servers are started for the
    run. Nothing forces the logs of ZooKeeper and HBase to the disk.
    """
    started = datetime.now(UTC)
    path = path or Path("benchmarks", "results", f"pipeline-{started:%Y%m%dT%H%M%SZ}.json")
    settings = dict(_pair(text) for text in conf)
    result: Result | None = None
    folder = data_folder(data)
    with interrupt_when_told_to_end(), folder as place, ExitStack() as stack:
        try:
            machine = environment(Path(place))
            url = stack.enter_context(store_servers((backend, target), Path(place), progress=_progress))
            result = Result(
                program=PROGRAM,
                started=f"{started:%Y-%m-%d %H:%M:%S} UTC",
                environment=machine,
                terms=_terms(label, topics, subscriptions, settings, rounds, with_history=with_history),
            )
            steps = PipelineSteps(
                url,
                Path(place).absolute(),
                (topics, subscriptions),
                backend,
                settings,
                deadline_s,
                with_history=with_history,
            )
            planned = pipeline_cases(topics, subscriptions, backend, target, row_by_row=row_by_row)
            carry_out(planned, steps.measure, rounds, result, path, named=_named, is_turned=False)
        except (BenchmarkError, DevError, HedwigError, ValueError) as exc:
            raise click.ClickException(str(exc)) from exc
        except KeyboardInterrupt:
            click.echo("interrupted before anything was measured" if result is None else "interrupted", err=True)
            sys.exit(130)
    end_run(result, path, as_json=output == "json")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--conf")
    return name, value


def _progress(line: str) -> None:
    click.echo(line, err=True)


def _terms(
    label: str, topics: int, subscriptions: int, settings: dict[str, str], rounds: int, *, with_history: bool
) -> dict[str, Any]:
    found: dict[str, Any] = {"label": label} if label else {}
    beside = "ledger ranges, owners and consume pointers; all but owners is restored" if with_history else "no owners"
    return found | {
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
