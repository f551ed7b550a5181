"""What every command is told in the same way: which store, how long to wait, how to write the result."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import click

from cli.errors import CommandError
from cli.formats import FORMATS, make_output
from cli.output import Output
from hedwig.errors import ConfigurationError
from metadata import StoreOptions

__all__ = ["Settings", "data_directory", "pass_settings", "shared_options"]

_TIMEOUT_S: Final = 30.0


@dataclass(slots=True)
class Settings:
    """The shared options of one invocation, wherever on the command line they stood; None where not given."""

    metadata: str | None = None
    timeout_s: float | None = None
    output: str | None = None
    columns: tuple[str, ...] | None = None
    no_header: bool = False
    debug: bool = False
    command: str = ""

    @property
    def url(self) -> str:
        """Return the URL of the store: option, environment, or the embedded default, whose directory is made."""
        return self.metadata or os.environ.get("HEDWIG_METADATA") or _embedded_url()

    def store_options(self, **changes: Any) -> StoreOptions:
        """Return how to use the store. Raises ConfigurationError if HEDWIG_TIMEOUT is no positive number."""
        return StoreOptions(operation_timeout_s=self.operation_timeout_s(), **changes)

    def operation_timeout_s(self) -> float:
        """Return how long one operation may take. Raises ConfigurationError if HEDWIG_TIMEOUT is no number."""
        return self.timeout_s or _timeout_from_environment()

    def writer(self) -> Output:
        """Return the writer of results. Raises ConfigurationError if HEDWIG_OUTPUT names no format."""
        name = self.output or os.environ.get("HEDWIG_OUTPUT") or "table"
        if name not in FORMATS:
            raise ConfigurationError(f"HEDWIG_OUTPUT is {name!r}; choose from {', '.join(FORMATS)}")
        return make_output(name, columns=self.columns, header=not self.no_header)


pass_settings = click.make_pass_decorator(Settings, ensure=True)


def data_directory() -> Path:
    """Return the directory of the user's Hedwig data, which may not exist yet."""
    base = Path(os.environ.get("XDG_DATA_HOME", ""))
    # The XDG specification has relative paths ignored.
    return (base if base.is_absolute() else Path.home() / ".local" / "share") / "hedwig"


def _embedded_url() -> str:
    directory = data_directory()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise CommandError(
            f"cannot make the directory {directory} for the embedded metadata store: {exc.strerror}; "
            "name a store with --metadata URL"
        ) from exc
    return f"sqlite://{quote(str(directory / 'metadata.db'))}"


def _timeout_from_environment() -> float:
    text = os.environ.get("HEDWIG_TIMEOUT")
    if not text:
        return _TIMEOUT_S
    try:
        return float(text)
    except ValueError as exc:
        raise ConfigurationError(f"HEDWIG_TIMEOUT is {text!r}; give a number of seconds") from exc


def shared_options() -> list[click.Parameter]:
    """Return the options that every command takes, also before its name; the one given last counts."""
    return [
        click.Option(
            ["--metadata"],
            metavar="URL",
            help="Metadata store: sqlite:///path, zookeeper://host:port/hedwig/REGION, "
            "hbase://zookeeper:port/NAMESPACE, hbase+thrift://gateway:port/NAMESPACE."
            "  [env: HEDWIG_METADATA; default: a SQLite file in the user's data directory]",
            **_kept("metadata"),
        ),
        click.Option(
            ["--timeout"],
            type=click.FloatRange(min=0, min_open=True),
            metavar="SECONDS",
            help="How long one operation on the store, or one request to a hub, may take."
            f"  [env: HEDWIG_TIMEOUT; default: {_TIMEOUT_S:g}]",
            **_kept("timeout_s"),
        ),
        click.Option(
            ["-o", "--output"],
            type=click.Choice(list(FORMATS)),
            help="Format of the result on standard output.  [env: HEDWIG_OUTPUT; default: table]",
            **_kept("output"),
        ),
        click.Option(
            ["--columns"],
            metavar="NAME,NAME…",
            help="Which fields to write, in this order.",
            **_kept("columns", lambda text: tuple(name.strip() for name in text.split(","))),
        ),
        click.Option(["--no-header"], is_flag=True, help="Leave out the names of the fields.", **_kept("no_header")),
        click.Option(["--debug"], is_flag=True, help="Show tracebacks.", **_kept("debug")),
    ]


def _kept(field: str, convert: Callable[[Any], Any] = lambda value: value) -> dict[str, Any]:
    """Return the arguments of an option whose value goes into the Settings instead of to the command."""

    def keep(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        # An option that is absent here must not hide the same one given earlier on the line.
        if value not in (None, False):
            setattr(ctx.ensure_object(Settings), field, convert(value))

    return {"expose_value": False, "callback": keep}
