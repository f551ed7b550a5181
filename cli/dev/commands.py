"""The commands `hedwig-admin dev ...`."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from hedwig.cli.arguments.confirmation import confirm
from hedwig.cli.dev.errors import DevError
from hedwig.cli.dev.launcher import DevServers, ServerStatus
from hedwig.cli.dev.log_files import follow, last_lines
from hedwig.cli.dev.servers.classpath import user_cache
from hedwig.cli.dev.services import DEFAULT_SERVICES, KINDS, SERVICES
from hedwig.cli.program import AdminGroup
from hedwig.cli.settings.settings import Settings, pass_settings

__all__ = ["dev"]

_COLUMNS: Final = ("name", "kind", "state", "pid", "host", "port", "address", "log")
_SHOWN: Final = ("name", "state", "pid", "address")


def _given_directory(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Path | None:
    """Return the directory. An empty name, as from an unset variable, does not mean the working directory."""
    if value == "":
        raise click.BadParameter("it is empty; give a directory, or leave the option out", ctx, parameter)
    return None if value is None else Path(value)


_directory_option = click.option(
    "--dir",
    "directory",
    callback=_given_directory,
    envvar="HEDWIG_DEV_DIR",
    show_envvar=True,
    type=click.Path(file_okay=False),
    help="Directory of the servers: their data, logs, ports and processes.  [default: hedwig/dev in the user's cache]",
)
_timeout_option = click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=1), default=180.0, show_default=True, help="Seconds to wait."
)
_name_argument = click.argument("name")


@click.group(cls=AdminGroup, example="hedwig-admin dev up zookeeper hbase thrift2")
def dev() -> None:
    """Run real servers on this machine, without Docker, on loopback only."""


def _counted(option: str, what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(option, type=click.IntRange(1, 9), default=1, show_default=True, help=f"How many {what}.")


@dev.command(example="hedwig-admin dev up zookeeper hbase thrift2 --regionservers 2")
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
@click.option(
    "--secure", is_flag=True, help="Have them speak TLS only, and know clients by certificates: new servers only."
)
@_timeout_option
@_directory_option
@pass_settings
def up(
    settings: Settings,
    /,
    services: tuple[str, ...],
    regionservers: int,
    bookies: int,
    zookeepers: int,
    heaps: tuple[str, ...],
    secure: bool,
    timeout_s: float,
    directory: Path | None,
) -> None:
    """Start SERVICES and what they need; wait until all answer. Servers that run already stay as they are.

    Without SERVICES: zookeeper, hbase and thrift2.
    """
    with _errors_shown():
        servers = DevServers(_chosen(directory), progress=_talk, heap_mb=_heap_sizes(heaps))
        servers.up(
            services or DEFAULT_SERVICES,
            regionservers=regionservers,
            bookies=bookies,
            zookeepers=zookeepers,
            secure=secure,
            timeout_s=timeout_s,
        )
        if servers.stores_file is not None:
            _talk(f"programs reach them with --stores-file {servers.stores_file}")
        _write(settings, servers.status())


@dev.command(example="hedwig-admin dev status -o json")
@_directory_option
@pass_settings
def status(settings: Settings, directory: Path | None) -> None:
    """Show the servers of the directory."""
    with _errors_shown():
        servers = DevServers(_chosen(directory))
        statuses = servers.status()
        if statuses:
            _talk(f"{len(statuses)} servers in {servers.directory}")
        else:
            _talk(f"no servers in {servers.directory}: run `hedwig-admin dev up`")
        _write(settings, statuses)


@dev.command(example="hedwig-admin dev logs regionserver-1 --lines 100 --follow")
@_name_argument
@click.option("--lines", type=click.IntRange(min=0), default=50, show_default=True, help="How many of the last lines.")
@click.option("--follow", "goes_on", is_flag=True, help="Continue with new lines, until Ctrl-C.")
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


@dev.command(example="hedwig-admin dev down --yes")
@click.option("--keep-data", is_flag=True, help="Stop the servers in order and keep data, logs and ports.")
@click.option("--yes", is_flag=True, help="Do not ask before data are removed.")
@click.option("--dry-run", is_flag=True, help="Say what would be ended and removed, and change nothing.")
@_directory_option
@pass_settings
def down(settings: Settings, keep_data: bool, yes: bool, dry_run: bool, directory: Path | None) -> None:
    """End all servers and remove their data, logs and settings."""
    with _errors_shown():
        servers = DevServers(_chosen(directory))
        known = servers.status()
        running = [one.name for one in known if one.pid is not None]
        if dry_run:
            data = "would be kept" if keep_data else "would be removed"
            settings.writer().record({"directory": str(servers.directory), "would_end": running, "data": data})
            return
        if known and not keep_data and not yes:
            confirm(f"This removes the data of {', '.join(one.name for one in known)} in {servers.directory} for good")
        servers.down(keep_data=keep_data)
        data = "kept" if keep_data else "removed"
        what = f"ended {', '.join(running)}" if running else "no server was running"
        _talk(f"{what}; {data} the data in {servers.directory}")
        settings.writer().record({"directory": str(servers.directory), "ended": running, "data": data})


@dev.command(example="hedwig-admin dev kill regionserver-1")
@_name_argument
@_directory_option
@pass_settings
def kill(settings: Settings, name: str, directory: Path | None) -> None:
    """End server NAME with SIGKILL, as a crash would."""
    with _errors_shown():
        servers = DevServers(_chosen(directory))
        servers.kill(name)
        _talk(f"killed {name}")
        _write(settings, servers.status(), name)


@dev.command(example="hedwig-admin dev start regionserver-1")
@_name_argument
@_timeout_option
@_directory_option
@pass_settings
def start(settings: Settings, name: str, timeout_s: float, directory: Path | None) -> None:
    """Start server NAME again, on the same port and data."""
    with _errors_shown():
        servers = DevServers(_chosen(directory), progress=_talk)
        servers.start(name, timeout_s=timeout_s)
        _write(settings, servers.status(), name)


@dev.command(example="hedwig-admin dev pause zookeeper-1")
@_name_argument
@_directory_option
@pass_settings
def pause(settings: Settings, name: str, directory: Path | None) -> None:
    """Freeze server NAME with SIGSTOP: it keeps its connections and answers nothing."""
    with _errors_shown():
        servers = DevServers(_chosen(directory))
        servers.pause(name)
        _talk(f"paused {name}")
        _write(settings, servers.status(), name)


@dev.command(example="hedwig-admin dev resume zookeeper-1")
@_name_argument
@_directory_option
@pass_settings
def resume(settings: Settings, name: str, directory: Path | None) -> None:
    """Resume the paused server NAME."""
    with _errors_shown():
        servers = DevServers(_chosen(directory))
        servers.resume(name)
        _talk(f"resumed {name}")
        _write(settings, servers.status(), name)


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
    """Show the last lines of a server's log before the error that it caused."""
    try:
        yield
    except DevError as exc:
        for line in exc.log_tail:
            click.echo(f"  {line}", err=True)
        raise
    except KeyboardInterrupt:
        _talk("`hedwig-admin dev status` shows what runs; `hedwig-admin dev up` continues, `down` removes all")
        raise


def _write_out(content: bytes) -> None:
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _talk(line: str) -> None:
    click.echo(line, err=True)


def _write(settings: Settings, statuses: Sequence[ServerStatus], name: str | None = None) -> None:
    """Write the found servers, or only the server `name`."""
    output = settings.writer()
    if name is not None:
        for one in statuses:
            if one.name == name:
                output.record(_fields(one))
        return
    output.begin("servers", _COLUMNS, _SHOWN)
    output.page([_fields(one) for one in statuses])
    output.end()


def _fields(one: ServerStatus) -> dict[str, object]:
    return {
        "name": one.name,
        "kind": one.kind,
        "state": one.state.value,
        "pid": one.pid,
        "host": one.host,
        "port": one.port,
        "address": f"{one.host}:{one.port}",
        "log": str(one.log),
    }
