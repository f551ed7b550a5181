"""The command `hedwig-bench hub`."""

import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.descriptors import raise_descriptor_limit
from benchmarks.drivers import DRIVERS, USUAL_DRIVERS
from benchmarks.environment import environment
from benchmarks.errors import BenchmarkError
from benchmarks.hub_cases import HubCases
from benchmarks.hub_places import JOURNALS, METADATA, HubPlaces
from benchmarks.hub_suite import (
    FULL,
    LEDGERS,
    MEASUREMENTS,
    PLACES,
    QUICK,
    SMOKE,
    USUAL,
    Case,
    Sizes,
    cases,
)
from benchmarks.interrupts import interrupt_on_sigterm
from benchmarks.numbers_option import numbers
from benchmarks.results import EMBEDDED, Result
from benchmarks.runs import carry_out, end_run
from cli.dev import DevError
from hedwig.errors import ConfigurationError, HedwigError
from hub.ledgers.bookkeeper.quorums import Quorums

__all__ = ["hub"]

_SIZES: Final = {"smoke": SMOKE, "quick": QUICK, "usual": USUAL, "full": FULL}


def _quorums(_context: click.Context, _parameter: click.Parameter, text: str) -> Quorums:
    try:
        ensemble, write, ack = map(int, text.split(","))
        return Quorums(ensemble=ensemble, write=write, ack=ack)
    except (ValueError, ConfigurationError):
        raise click.BadParameter(f"{text!r} is not ensemble, write and ack quorum, like 3,2,2") from None


@click.command(epilog="Example: hedwig-bench hub publish deliver --topics 50 --size 100 --rounds 1")
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
@click.option(
    "--driver", "drivers", multiple=True, type=click.Choice(DRIVERS), help="Default: what each --on can have."
)
@click.option(
    "--on",
    "places",
    multiple=True,
    type=click.Choice(PLACES),
    help="Which hub, on which stores; several are measured side by side. Default: embedded.",
)
@click.option(
    "--metadata",
    type=click.Choice(METADATA),
    default="zookeeper",
    show_default=True,
    help="Where our hub keeps its metadata, on bookies.",
)
@click.option(
    "--quorums", callback=_quorums, default="3,2,2", show_default=True, metavar="E,W,A", help="Of all hubs on bookies."
)
@click.option(
    "--journal",
    type=click.Choice(list(JOURNALS)),
    default="quick",
    show_default=True,
    help="How the journals of all bookies sync.",
)
@click.option("--warm", "warm_s", type=click.FloatRange(min=0), help="Seconds to warm a hub on bookies up.")
@click.option("--resume", is_flag=True, help="Go on with the result file of a run that was not finished.")
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
    places: tuple[str, ...],
    metadata: str,
    quorums: Quorums,
    journal: str,
    resume: bool,
    **given: Any,
) -> None:
    """Measure a hub: publish, deliver, subscribe, publish-cold, idle-topics, idle-connections; without a name, all.

    Each case gets a fresh hub in a process of its own; the load comes from further processes. With --on, hubs on
    bookies, whose servers are started, and the original Java hub beside them. The result file is written after each
    case, so an interrupted run leaves what it has, and --resume goes on with it.
    """
    sizes = replace(_SIZES[preset], **{name: value for name, value in given.items() if value is not None})
    if sizes.rates and not any(sizes.rates):
        sizes = replace(sizes, rates=())
    places = places or (EMBEDDED,)
    drivers = drivers or (tuple(USUAL_DRIVERS) if places == (EMBEDDED,) else ("raw", "java", LEDGERS))
    if address is not None and places != (EMBEDDED,):
        raise click.UsageError("--address is a hub that runs, and --on says which to start: give one of them")
    if resume and output is None:
        raise click.UsageError("--resume goes on with the file that --output names: give that too")
    raise_descriptor_limit()
    started = datetime.now(UTC)
    path = output or Path("benchmarks", "results", f"hub-{started:%Y%m%dT%H%M%SZ}.json")
    result: Result | None = None
    folder = tempfile.TemporaryDirectory(prefix="hedwig-bench-", dir=_made(data), ignore_cleanup_errors=True)
    with interrupt_on_sigterm(), folder as place, ExitStack() as stack:
        try:
            planned = list(cases(measurements or MEASUREMENTS, drivers, sizes, seed, places))
            if not planned:
                raise BenchmarkError(f"nothing to measure: no driver of {', '.join(drivers)} does that on {places[0]}")
            servers = None
            if any(each != EMBEDDED for each in places):
                servers = HubPlaces(
                    places,
                    Path(place, "servers"),
                    metadata=metadata,
                    quorums=quorums,
                    journal=journal,
                    progress=lambda line: click.echo(f"    {line}", err=True),
                )
                stack.enter_context(servers)
            runs = HubCases(
                directory=Path(place),
                settings=settings,
                address=address,
                pid=pid,
                processes=processes,
                places=servers,
                warm_s=sizes.warm_s,
            )
            result = Result(
                program="hedwig-bench hub",
                started=f"{started:%Y-%m-%d %H:%M:%S} UTC",
                environment=environment(Path(place)),
                terms=_terms(label, settings, address, sizes, processes, seed, servers, drivers),
            )
            if resume and path.exists():
                result = _resumed(result, Result.read(path))
            carry_out(planned, runs.measure, sizes.rounds, result, path, named=_named)
        except (BenchmarkError, DevError, HedwigError, ValueError) as exc:
            raise click.ClickException(str(exc)) from exc
        except KeyboardInterrupt:
            click.echo("interrupted before anything was measured" if result is None else "interrupted", err=True)
            sys.exit(130)
    end_run(result, path, as_json=as_json)


def _resumed(result: Result, before: Result) -> Result:
    """Return a run that has what one before has measured. Raises BenchmarkError - they cannot be one run."""
    if before.program != result.program or before.terms != result.terms:
        raise BenchmarkError("the run to go on with had other terms: give the same options, or another --output")
    before.measurements = [each for each in before.measurements if each.wall is None]
    before.is_complete = False
    commit, commits = result.environment["commit"], before.environment.setdefault("resumed_on", [])
    if commit not in (before.environment["commit"], *commits):
        commits.append(commit)
    return before


def _made(data: Path | None) -> Path | None:
    if data is not None:
        data.mkdir(parents=True, exist_ok=True)
    return data


def _terms(
    label: str,
    settings: tuple[str, ...],
    address: str | None,
    sizes: Sizes,
    processes: int,
    seed: int,
    places: HubPlaces | None,
    drivers: Sequence[str],
) -> dict[str, Any]:
    found: dict[str, Any] = {"label": label} if label else {}
    if places is not None:
        found |= places.terms(drivers)
        found["warm-up"] = f"{sizes.warm_s:g} s"
    elif address is None:
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
    where = "" if case.on == EMBEDDED else f"{case.on}: "
    load = f"{workload.rate_per_s:,.0f}/s" if workload.is_open_loop else f"{workload.in_flight:,} in flight"
    if workload.name == "idle-connections":
        return f"{workload.name}, {workload.connections:,}"
    subscribers = f", {workload.subscribers} subscribers" if workload.subscribers else ""
    what = f"{workload.topics:,} topics{subscribers}, {workload.message_bytes:,} B"
    return f"{where}{workload.name}, {case.driver}, {what}, {load}"
