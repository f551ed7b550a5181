"""The commands `hedwig-admin dev ...`."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from cli.dev.classpath import user_cache
from cli.dev.errors import DevError, NotAnsweringError, UnknownServerError
from cli.dev.launcher import DevServers, ServerState, ServerStatus
from cli.dev.log_files import follow, last_lines
from cli.dev.services import DEFAULT_SERVICES, KINDS, SERVICES

__all__ = ["dev"]

_FAILED, _NOT_FOUND, _TIMED_OUT, _INTERRUPTED = 1, 3, 5, 130
_STATE_COLOURS = {
    ServerState.RUNNING: "green",
    ServerState.PAUSED: "yellow",
    ServerState.DEAD: "red",
    ServerState.STOPPED: "dim",
}

_directory_option = click.option(
    "--dir",
    "directory",
    envvar="HEDWIG_DEV_DIR",
    show_envvar=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the servers: their data, logs, ports and processes.  [default: hedwig/dev in the user's cache]",
)
_timeout_option = click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=1), default=180.0, show_default=True, help="Seconds to wait."
)
_name_argument = click.argument("name")


@click.group(epilog="Example: hedwig-admin dev up zookeeper hbase thrift2")
def dev() -> None:
    """Run real servers on this machine, without Docker, on loopback only."""


def _counted(option: str, what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(option, type=click.IntRange(1, 9), default=1, show_default=True, help=f"How many {what}.")


@dev.command(epilog="Example: hedwig-admin dev up zookeeper hbase thrift2 --regionservers 2")
@click.argument("services", nargs=-1, type=click.Choice(list(SERVICES)))
@_counted("--regionservers", "HBase region servers")
@_counted("--bookies", "bookies")
@_counted("--zookeepers", "ZooKeeper servers; more than one form a quorum")
@click.option(
    "--heap",
    "heaps",
    metavar="[KIND=]MIB",
    multiple=True,
    help=f"Heap limit in MiB, of all servers or of one kind ({', '.join(KINDS)}). May be given several times.",
)
@_timeout_option
@_directory_option
def up(
    services: tuple[str, ...],
    regionservers: int,
    bookies: int,
    zookeepers: int,
    heaps: tuple[str, ...],
    timeout_s: float,
    directory: Path | None,
) -> None:
    """Start SERVICES and what they need; wait until all answer. What runs already is left alone.

    Without SERVICES: zookeeper, hbase and thrift2.
    """
    with _errors_shown():
        servers = DevServers(_chosen(directory), progress=_talk, heap_mb=_heap_sizes(heaps))
        servers.up(
            services or DEFAULT_SERVICES,
            regionservers=regionservers,
            bookies=bookies,
            zookeepers=zookeepers,
            timeout_s=timeout_s,
        )


@dev.command(epilog="Example: hedwig-admin dev status -o json")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "ndjson"]), default="table", show_default=True, help="Format."
)
@_directory_option
def status(output: str, directory: Path | None) -> None:
    """Show the servers of the directory."""
    with _errors_shown():
        servers = DevServers(_chosen(directory))
        found = servers.status()
        if output == "table":
            _print_table(found, servers.directory)
        elif output == "json":
            click.echo(json.dumps([_fields(one) for one in found], indent=2))
        else:
            for one in found:
                click.echo(json.dumps(_fields(one)))


@dev.command(epilog="Example: hedwig-admin dev logs regionserver-1 --lines 100 --follow")
@_name_argument
@click.option("--lines", type=click.IntRange(min=0), default=50, show_default=True, help="How many of the last lines.")
@click.option("--follow", "goes_on", is_flag=True, help="Go on with what is written, until Ctrl-C.")
@_directory_option
def logs(name: str, lines: int, goes_on: bool, directory: Path | None) -> None:
    """Print the log of server NAME."""
    with _errors_shown():
        path = DevServers(_chosen(directory)).log_path(name)
        if not path.exists():
            raise DevError(f"{name} has no log yet: run `hedwig-admin dev up` first")
        last, position = last_lines(path, lines)
        _write_out(last)
        for part in follow(path, position) if goes_on else ():
            _write_out(part)


@dev.command(epilog="Example: hedwig-admin dev down")
@click.option("--keep-data", is_flag=True, help="Stop the servers in order and keep data, logs and ports.")
@_directory_option
def down(keep_data: bool, directory: Path | None) -> None:
    """End all servers and remove their data, logs and settings."""
    with _errors_shown():
        servers = DevServers(_chosen(directory))
        running = [one.name for one in servers.status() if one.pid is not None]
        servers.down(keep_data=keep_data)
        what = f"ended {', '.join(running)}" if running else "no server was running"
        _talk(f"{what}; {'kept' if keep_data else 'removed'} the data in {servers.directory}")


@dev.command(epilog="Example: hedwig-admin dev kill regionserver-1")
@_name_argument
@_directory_option
def kill(name: str, directory: Path | None) -> None:
    """End server NAME with SIGKILL, as a crash would."""
    with _errors_shown():
        DevServers(_chosen(directory)).kill(name)
        _talk(f"killed {name}")


@dev.command(epilog="Example: hedwig-admin dev start regionserver-1")
@_name_argument
@_timeout_option
@_directory_option
def start(name: str, timeout_s: float, directory: Path | None) -> None:
    """Start server NAME again, on the same port and data."""
    with _errors_shown():
        DevServers(_chosen(directory), progress=_talk).start(name, timeout_s=timeout_s)


@dev.command(epilog="Example: hedwig-admin dev pause zookeeper-1")
@_name_argument
@_directory_option
def pause(name: str, directory: Path | None) -> None:
    """Freeze server NAME with SIGSTOP: it keeps its connections and answers nothing."""
    with _errors_shown():
        DevServers(_chosen(directory)).pause(name)
        _talk(f"paused {name}")


@dev.command(epilog="Example: hedwig-admin dev resume zookeeper-1")
@_name_argument
@_directory_option
def resume(name: str, directory: Path | None) -> None:
    """Let the paused server NAME go on."""
    with _errors_shown():
        DevServers(_chosen(directory)).resume(name)
        _talk(f"resumed {name}")


def _chosen(directory: Path | None) -> Path:
    return directory if directory is not None else user_cache() / "dev"


def _heap_sizes(heaps: Sequence[str]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for text in heaps:
        kind, _, size = text.rpartition("=")
        if not size.isdigit() or int(size) < 16 or (kind and kind not in KINDS):
            raise click.BadParameter(
                f"{text!r} is not [KIND=]MIB with at least 16 MiB and a KIND out of {', '.join(KINDS)}",
                param_hint="--heap",
            )
        sizes |= dict.fromkeys([kind] if kind else KINDS, int(size))
    return sizes


@contextmanager
def _errors_shown() -> Iterator[None]:
    """Turn our own errors into one line on standard error, below the server's last words, and an exit code."""
    try:
        yield
    except DevError as exc:
        for line in exc.log_tail:
            click.echo(f"  {line}", err=True)
        click.echo(f"Error: {exc}", err=True)
        sys.exit(_exit_code(exc))
    except KeyboardInterrupt:
        click.echo(
            "Interrupted: see `hedwig-admin dev status`; `hedwig-admin dev up` goes on, `down` removes", err=True
        )
        sys.exit(_INTERRUPTED)


def _exit_code(error: DevError) -> int:
    match error:
        case UnknownServerError():
            return _NOT_FOUND
        case NotAnsweringError():
            return _TIMED_OUT
        case _:
            return _FAILED


def _write_out(content: bytes) -> None:
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _talk(line: str) -> None:
    click.echo(line, err=True)


def _fields(one: ServerStatus) -> dict[str, object]:
    return {
        "name": one.name,
        "kind": one.kind,
        "state": one.state.value,
        "pid": one.pid,
        "host": one.host,
        "port": one.port,
        "log": str(one.log),
    }


def _print_table(found: Sequence[ServerStatus], directory: Path) -> None:
    _talk(f"{len(found)} servers in {directory}" if found else f"no servers in {directory}: run `hedwig-admin dev up`")
    if not found:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("NAME", "STATE"):
        table.add_column(column, no_wrap=True)
    table.add_column("PID", justify="right")
    table.add_column("ADDRESS", no_wrap=True)
    for one in found:
        state = f"[{_STATE_COLOURS[one.state]}]{one.state.value}[/]"
        table.add_row(one.name, state, str(one.pid or "-"), f"{one.host}:{one.port}")
    Console(file=sys.stdout, highlight=False).print(table)
