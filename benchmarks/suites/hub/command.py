"""The command `hedwig-bench hub`."""

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from hedwig.benchmarks.data_folder import data_folder
from hedwig.benchmarks.drivers.drivers import DRIVERS
from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.cases import EMBEDDED, Case
from hedwig.benchmarks.load.descriptors import raise_descriptor_limit
from hedwig.benchmarks.load.interrupts import interrupt_when_told_to_end
from hedwig.benchmarks.machine.environment import environment
from hedwig.benchmarks.machine.heaps import HEAP_MB_MIN
from hedwig.benchmarks.machine.jvm_flags import note_flags
from hedwig.benchmarks.runs.numbers_option import numbers
from hedwig.benchmarks.runs.results import Result
from hedwig.benchmarks.runs.resumption import resumed
from hedwig.benchmarks.runs.runs import carry_out, end_run
from hedwig.benchmarks.suites.hub.plan import SIZES, Asked, hub_plan, stored_plan
from hedwig.benchmarks.suites.hub.servers import JOURNALS, METADATA
from hedwig.benchmarks.suites.hub.stored_suite import STORED_MEASUREMENTS, STORES
from hedwig.benchmarks.suites.hub.suite import MEASUREMENTS, PLACES
from hedwig.cli.dev import DevError
from hedwig.errors import ConfigurationError, HedwigError
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums

__all__ = ["hub"]


def _quorums(_context: click.Context, _parameter: click.Parameter, text: str) -> Quorums:
    try:
        ensemble, write, ack = map(int, text.split(","))
        return Quorums(ensemble=ensemble, write=write, ack=ack)
    except (ValueError, ConfigurationError):
        raise click.BadParameter(f"{text!r} is not ensemble, write and ack quorum, like 3,2,2") from None


@click.command(epilog="Example: hedwig-bench hub publish deliver --topics 50 --size 100 --rounds 1")
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
    "--driver", "drivers", multiple=True, type=click.Choice(DRIVERS), help="Default: what each --on can have."
)
@click.option(
    "--on",
    "places",
    multiple=True,
    type=click.Choice((*PLACES, *STORES)),
    help="Which hub, on which stores; several are measured side by side. Default: embedded. On zookeeper and hbase the "
    "same hub, with its metadata there, among those of --topics topics.",
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
@click.option("--topics", callback=numbers, metavar="N,N…", help="Topics to publish to; in a store.")
@click.option("--sample", type=click.IntRange(min=1), help="Of the topics in a store, so many are used in each case.")
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
@click.option(
    "--heap", "heap_mb", type=click.IntRange(min=HEAP_MB_MIN), metavar="MIB", help="Heap of all machines of a store."
)
@click.option("--fill-max", "fill_max_s", type=click.FloatRange(min=1), help="Seconds for filling a store, at most.")
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

    With --on zookeeper and --on hbase: own, publish-first, publish-warm, fail-over, in stores with many topics.

    Each case gets a fresh hub in a process of its own; the load comes from further processes. With --on, hubs on
    bookies, whose servers are started, and the original Java hub beside them. The result file is written after each
    case, so an interrupted run leaves what it has, and --resume goes on with it.
    """
    places = places or (EMBEDDED,)
    is_stored = set(places) <= set(STORES)
    if not is_stored and not set(places).isdisjoint(STORES):
        raise click.UsageError("--on zookeeper and --on hbase are compared with each other, in a run of their own")
    if unknown := set(measurements) - set(STORED_MEASUREMENTS if is_stored else MEASUREMENTS):
        raise click.UsageError(f"{', '.join(sorted(unknown))} cannot be measured --on {places[0]}")
    if address is not None and places != (EMBEDDED,):
        raise click.UsageError("--address is a hub that runs, and --on says which to start: give one of them")
    if resume and output is None:
        raise click.UsageError("--resume goes on with the file that --output names: give that too")
    raise_descriptor_limit()
    started = datetime.now(UTC)
    path = output or Path("benchmarks", "results", f"hub-{started:%Y%m%dT%H%M%SZ}.json")
    result: Result | None = None

    def note(where: str, flags: Mapping[str, list[str]]) -> None:
        assert result is not None, "servers are started for cases only"
        note_flags(result.environment, where, flags)

    folder = data_folder(data)
    with interrupt_when_told_to_end(), folder as place, ExitStack() as stack:
        try:
            asked = Asked(
                measurements, drivers, places, preset, given, settings, processes, seed, Path(place), _progress, note
            )
            if is_stored:
                plan = stored_plan(asked, stack)
            else:
                plan = hub_plan(
                    asked, stack, address=address, pid=pid, metadata=metadata, quorums=quorums, journal=journal
                )
            result = Result(
                program="hedwig-bench hub",
                started=f"{started:%Y-%m-%d %H:%M:%S} UTC",
                environment=environment(Path(place)),
                terms=({"label": label} if label else {}) | dict(plan.terms),
            )
            if resume and path.exists():
                result = resumed(result, Result.read(path), "--output")
            carry_out(plan.cases, plan.measure, plan.rounds, result, path, named=_named)
        except (BenchmarkError, DevError, HedwigError, ValueError) as exc:
            raise click.ClickException(str(exc)) from exc
        except KeyboardInterrupt:
            click.echo("interrupted before anything was measured" if result is None else "interrupted", err=True)
            sys.exit(130)
    end_run(result, path, as_json=as_json)


def _progress(line: str) -> None:
    click.echo(f"    {line}", err=True)


def _named(case: Case) -> str:
    workload = case.workload
    where = "" if case.on == EMBEDDED else f"{case.on}: "
    load = f"{workload.rate_per_s:,.0f}/s" if workload.is_open_loop else f"{workload.in_flight:,} in flight"
    if workload.name == "idle-connections":
        return f"{workload.name}, {workload.connections:,}"
    subscribers = f", {workload.subscribers} subscribers" if workload.subscribers else ""
    what = f"{workload.topics:,} topics{subscribers}, {workload.message_bytes:,} B"
    return f"{where}{workload.name}, {case.driver}, {what}, {load}"
