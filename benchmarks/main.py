"""The command hedwig-bench."""

import json
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.cas_command import cas
from benchmarks.descriptors import raise_descriptor_limit
from benchmarks.document import write_into
from benchmarks.drivers import DRIVERS
from benchmarks.environment import environment
from benchmarks.errors import BenchmarkError
from benchmarks.hub_cases import HubCases
from benchmarks.hub_suite import FULL, MEASUREMENTS, QUICK, SMOKE, USUAL, Case, Sizes, cases
from benchmarks.numbers_option import numbers
from benchmarks.results import Result
from benchmarks.runs import carry_out, show_result
from hedwig.errors import HedwigError

__all__ = ["main"]

_SIZES: Final = {"smoke": SMOKE, "quick": QUICK, "usual": USUAL, "full": FULL}


@click.group()
@click.version_option(package_name="hedwig", prog_name="hedwig-bench")
def main() -> None:
    """Measure hubs and metadata backends, and show what was measured."""


main.add_command(cas)


@main.command(epilog="Example: hedwig-bench hub publish deliver --topics 50 --size 100 --rounds 1")
@click.argument("measurements", nargs=-1, type=click.Choice(MEASUREMENTS))
@click.option(
    "--sizes",
    "preset",
    type=click.Choice(list(_SIZES)),
    default="usual",
    show_default=True,
    help="How much: smoke takes seconds, full goes to a million topics.",
)
@click.option("--full", "preset", flag_value="full", help="The same as --sizes full.")
@click.option("--driver", "drivers", multiple=True, type=click.Choice(DRIVERS), help="Default: all three, in turn.")
@click.option("--topics", callback=numbers, metavar="N,N…", help="Topics to publish to.")
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
@click.option("--deliver-in-flight", type=click.IntRange(min=1), help="The same, of messages not yet at everybody.")
@click.option("--connections", type=click.IntRange(min=1), help="Connections that publish.")
@click.option("--seconds", type=click.FloatRange(min=0.5), help="Length of one load, its warm-up included.")
@click.option("--warmup", "warmup_s", type=click.FloatRange(min=0), help="Seconds of that which do not count.")
@click.option("--subscriptions", type=click.IntRange(min=2), help="New subscriptions to make.")
@click.option("--cold-topics", type=click.IntRange(min=1), help="Topics for publish-cold.")
@click.option("--idle-topics", callback=numbers, metavar="N,N…", help="The ladder of owned idle topics.")
@click.option("--idle-connections", callback=numbers, metavar="N,N…", help="Connections held open.")
@click.option("--rounds", type=click.IntRange(min=1), help="How often everything is measured, in turn.")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Generator processes that share a load.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Decides the order of topics.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="An option of the hub.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where hubs keep their data, on the disk to measure. Default: the system's folder for such files.",
)
@click.option("--address", help="Measure the hub that listens at HOST:PORT instead of starting hubs.")
@click.option("--pid", type=int, help="Its process, if it is on this machine, for its memory and processor time.")
@click.option("--label", default="", help="A word for the result, which says what is special about it.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="The result file.")
@click.option("--json", "as_json", is_flag=True, help="Write the result to standard output instead of a table.")
def hub(
    measurements: tuple[str, ...],
    preset: str,
    drivers: tuple[str, ...],
    processes: int,
    seed: int,
    settings: tuple[str, ...],
    data: Path | None,
    address: str | None,
    pid: int | None,
    label: str,
    output: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Measure a hub: publish, deliver, subscribe, publish-cold, idle-topics, idle-connections; without a name, all.

    Each case gets a fresh hub on the embedded store, in a process of its own; the load comes from further processes.
    The result file is written after each case, so an interrupted run leaves what it has.
    """
    sizes = replace(_SIZES[preset], **{name: value for name, value in given.items() if value is not None})
    if sizes.rates and not any(sizes.rates):
        sizes = replace(sizes, rates=())
    raise_descriptor_limit()
    started = datetime.now(UTC)
    path = output or Path("benchmarks", "results", f"hub-{started:%Y%m%dT%H%M%SZ}.json")
    with tempfile.TemporaryDirectory(prefix="hedwig-bench-", dir=_made(data)) as place:
        try:
            planned = list(cases(measurements or MEASUREMENTS, drivers or DRIVERS, sizes, seed))
            runs = HubCases(directory=Path(place), settings=settings, address=address, pid=pid, processes=processes)
            result = Result(
                program="hedwig-bench hub",
                started=f"{started:%Y-%m-%d %H:%M:%S} UTC",
                environment=environment(Path(place)),
                terms=_terms(label, settings, address, sizes, processes, seed),
            )
            carry_out(planned, runs.measure, sizes.rounds, result, path, named=_named)
        except (BenchmarkError, HedwigError, ValueError) as exc:
            raise click.ClickException(str(exc)) from exc
    show_result(result, as_json=as_json)
    click.echo(f"written to {path}", err=True)
    if not result.is_complete:
        sys.exit(130)


def _made(data: Path | None) -> Path | None:
    if data is not None:
        data.mkdir(parents=True, exist_ok=True)
    return data


def _terms(
    label: str, settings: tuple[str, ...], address: str | None, sizes: Sizes, processes: int, seed: int
) -> dict[str, Any]:
    found: dict[str, Any] = {"label": label} if label else {}
    if address is None:
        found |= {
            "hubs": 1,
            "replicas": "none",
            "acknowledged": "once it is synced to the hub's disk",
            "metadata": "SQLite, synced",
        }
    else:
        found |= {"hub": f"at {address}, which keeps messages as it was told elsewhere"}
    return found | {
        "hub options": list(settings),
        "rounds": sizes.rounds,
        "generator processes": processes,
        "seed": seed,
        "Java client": "1 GiB of heap, one connection",
        "closed loops": "time counts from when a request is sent, so a stall delays what follows without showing in it",
    }


def _named(case: Case) -> str:
    workload = case.workload
    load = f"{workload.rate_per_s:,.0f}/s" if workload.is_open_loop else f"{workload.in_flight:,} in flight"
    if workload.name == "idle-connections":
        return f"{workload.name}, {workload.connections:,}"
    subscribers = f", {workload.subscribers} subscribers" if workload.subscribers else ""
    return (
        f"{workload.name}, {case.driver}, {workload.topics:,} topics{subscribers}, {workload.message_bytes:,} B, {load}"
    )


@main.command(epilog="Example: hedwig-bench show benchmarks/results/*.json")
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="As JSON, one result after the other in a list.")
@click.option("--markdown", "as_markdown", is_flag=True, help="As Markdown, for a document.")
@click.option(
    "--into",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Put the Markdown into a document, in place of what stands between its marks.",
)
def show(results: tuple[Path, ...], as_json: bool, as_markdown: bool, into: Path | None) -> None:
    """Print results again."""
    try:
        found = [Result.read(path) for path in results]
        if into is not None:
            write_into(into, [(path.name, result) for path, result in zip(results, found, strict=True)])
            return
    except BenchmarkError as exc:
        raise click.ClickException(str(exc)) from exc
    if as_json:
        click.echo(json.dumps([result.to_json() for result in found], indent=1))
        return
    for result in found:
        show_result(result, as_markdown=as_markdown)
