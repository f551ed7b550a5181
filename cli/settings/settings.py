"""The settings that all commands share: which store, how long to wait, how to write the result.

The value of a setting comes from the command line, else from the environment, else from the saved context, else it is
the default. An empty option is refused. An empty environment variable counts as not set.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from hedwig.cli.arguments.input_file import InputFile
from hedwig.cli.output.format_names import FORMATS, make_output
from hedwig.cli.output.formats import Output
from hedwig.cli.settings.configuration import SETTINGS, Chosen, Value
from hedwig.cli.settings.contexts import SavedContexts, read_contexts
from hedwig.cli.settings.tls_settings import chosen_tls
from hedwig.errors import ConfigurationError, OperationError
from hedwig.operations.deployment.admin_access import AdminAccess
from hedwig.operations.deployment.deployment import Deployment, embedded_url

__all__ = [
    "Settings",
    "complete_context",
    "current_settings",
    "kept_setting",
    "pass_settings",
    "shared_options",
]

_CONTEXT_VARIABLE: Final = "HEDWIG_CONTEXT"


@dataclass(slots=True)
class Settings:
    """The shared options of one command, wherever they stood on the command line, and the settings behind them.

    `flags` has the settings that the command line gives, by key.
    """

    flags: dict[str, Value] = field(default_factory=dict)
    context: str | None = None
    columns: tuple[str, ...] | None = None
    no_header: bool = False
    debug: bool = False
    command: str = ""
    _saved: SavedContexts | None = None

    @property
    def url_to_show(self) -> str:
        """Return the URL of the store without making anything. Works even if other settings make no sense."""
        return self._text("metadata") or embedded_url()

    @property
    def deployment(self) -> Deployment:
        """Return which store and which cluster the user means.

        Raises: ConfigurationError - the environment makes no sense; OperationError - the saved context does not exist.
        """
        return self.deployment_with()

    def deployment_with(self, *, admin: bool = False, ledgers: bool = False) -> Deployment:
        """Return the same, with the admin endpoint of a hub, and with where the ledgers are.

        The first source that names a data directory or bookies counts. It hides what later sources say of both.

        Raises: as `deployment`; ConfigurationError - one source says both.
        """
        data, bookkeeper = self._ledgers() if ledgers else (None, self._text("bookkeeper"))
        return Deployment(
            command=self.command,
            timeout_s=float(self.chosen("timeout").value or 0),
            metadata=self._text("metadata"),
            cluster=self._text("cluster"),
            data=data,
            bookkeeper=bookkeeper,
            admin=self._text("admin") if admin else None,
            access=self.admin_access(),
            stores_file=self._text("stores_file") or "",
        )

    def admin_access(self) -> AdminAccess:
        """Return what to show at admin endpoints. Raises as `deployment`."""
        tls = chosen_tls(self)
        authority = tls["tls_ca"].value
        user, password_file = self._text("user"), self._text("password_file")
        if (user is None) != (password_file is None):
            raise ConfigurationError("give --user and --password-file, or neither")
        return AdminAccess(
            token_file=self._text("admin_token_file"),
            user=user,
            password_file=password_file,
            data=self._text("data"),
            authority=None if authority is None else str(authority),
            is_insecure=bool(tls["tls_insecure"].value),
            certificate=self._text("tls_certificate"),
            is_plain=bool(self.chosen("plain_token").value),
        )

    def _ledgers(self) -> tuple[str | None, str | None]:
        for source, values in self.layers(("data", "bookkeeper")):
            data, bookkeeper = values.get("data"), values.get("bookkeeper")
            if data and bookkeeper:
                raise ConfigurationError(f"{source} gives both data and bookkeeper: ledgers are in one of them")
            if data or bookkeeper:
                return (str(data) if data else None, str(bookkeeper) if bookkeeper else None)
        return None, None

    def _text(self, key: str) -> str | None:
        value = self.chosen(key).value
        return None if value is None else str(value)

    def chosen(self, key: str) -> Chosen:
        """Return the value of a setting and its source.

        Raises: ConfigurationError - the environment makes no sense; OperationError - the saved context does not exist.
        """
        for source, values in self.layers((key,)):
            if key in values:
                return Chosen(values[key], source)
        return Chosen(SETTINGS[key].default, "default")

    def layers(self, keys: tuple[str, ...]) -> Iterator[tuple[str, Mapping[str, Value]]]:
        """Yield each source with its values of `keys`, the one that counts most first. Raises as `chosen`."""
        for key in keys:
            if key in self.flags:
                yield "flag", {key: self.flags[key] for key in keys if key in self.flags}
                break
        yield from self._environment(keys)
        name = self.context_name().value
        if name is not None:
            yield f"context {name}", self.saved_contexts().get(str(name))

    def _environment(self, keys: tuple[str, ...]) -> Iterator[tuple[str, Mapping[str, Value]]]:
        values: dict[str, Value] = {}
        for key in keys:
            setting = SETTINGS[key]
            text = os.environ.get(setting.variable)
            if not text:
                continue
            try:
                values[key] = setting.parse(text)
            except ValueError as exc:
                raise ConfigurationError(f"{setting.variable} is {text!r}; {exc}") from exc
        if values:
            yield f"environment {', '.join(SETTINGS[key].variable for key in values)}", values

    def context_name(self) -> Chosen:
        """Return the name of the context in use, None for none, and its source. Raises OperationError."""
        if self.context:
            return Chosen(self.context, "flag")
        if name := os.environ.get(_CONTEXT_VARIABLE):
            return Chosen(name, f"environment {_CONTEXT_VARIABLE}")
        current = self.saved_contexts().current
        return Chosen(None, "default") if current is None else Chosen(current, "config context use")

    def saved_contexts(self) -> SavedContexts:
        """Return the saved contexts as this command first read them. Raises OperationError for a broken file."""
        if self._saved is None:
            self._saved = read_contexts()
        return self._saved

    def writer(self) -> Output:
        """Return the writer of results. Raises ConfigurationError if HEDWIG_OUTPUT names no format."""
        name = str(self.chosen("output").value)
        return make_output(name, columns=self.columns, header=not self.no_header)


pass_settings = click.make_pass_decorator(Settings, ensure=True)


def current_settings() -> Settings:
    """Return the settings of the command that runs."""
    return click.get_current_context().ensure_object(Settings)


def complete_context(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the saved contexts that begin with `incomplete`; none if their file makes no sense."""
    try:
        names = (ctx.find_object(Settings) or Settings()).saved_contexts().contexts
    except OperationError:
        return []  # Completion in a shell shows no message.
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def shared_options() -> list[click.Parameter]:
    """Return the options that every command takes, also before its name. If one is given twice, the last counts."""
    return [
        click.Option(
            ["--metadata"],
            metavar="URL",
            help="Metadata store: sqlite:///path, zookeeper://host:port/hedwig/REGION, "
            "hbase://zookeeper:port/NAMESPACE, hbase+thrift://gateway:port/NAMESPACE."
            "  [env: HEDWIG_METADATA; default: a SQLite file in the user's data directory]",
            **kept_setting("metadata"),
        ),
        click.Option(
            ["--stores-file"],
            metavar="FILE",
            type=InputFile(),
            help="The file with the logins and certificates that stores ask for.  [env: HEDWIG_STORES_FILE]",
            **kept_setting("stores_file"),
        ),
        click.Option(
            ["--context"],
            metavar="NAME",
            help="Saved settings to use, made with `config context save`."
            f"  [env: {_CONTEXT_VARIABLE}; default: the one of `config context use`]",
            shell_complete=complete_context,
            **_kept("context"),
        ),
        click.Option(
            ["--timeout"],
            type=click.FloatRange(min=0, min_open=True),
            metavar="SECONDS",
            help="How long one operation on the store, or one request to a hub, may take."
            f"  [env: HEDWIG_TIMEOUT; default: {SETTINGS['timeout'].default:g}]",
            **kept_setting("timeout"),
        ),
        click.Option(
            ["-o", "--output"],
            type=click.Choice(FORMATS),
            help="Format of the result on standard output.  [env: HEDWIG_OUTPUT; default: table]",
            **kept_setting("output"),
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


def kept_setting(key: str) -> dict[str, Any]:
    """Return the arguments of an option whose setting goes to the Settings instead of to the command."""

    def keep(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
        # An option that is absent here must not hide the same one given earlier on the line.
        if value is None:
            return
        _refuse_empty(ctx, parameter, value)
        try:
            ctx.ensure_object(Settings).flags[key] = SETTINGS[key].check(value)
        except ValueError as exc:
            raise click.BadParameter(f"it is {value!r}; {exc}", ctx, parameter) from exc

    return {"expose_value": False, "callback": keep}


def _kept(field: str, convert: Callable[[Any], Any] = lambda value: value) -> dict[str, Any]:
    """Return the arguments of an option whose value goes into the Settings instead of to the command."""

    def keep(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value not in (None, False):
            _refuse_empty(ctx, parameter, value)
            setattr(ctx.ensure_object(Settings), field, convert(value))

    return {"expose_value": False, "callback": keep}


def _refuse_empty(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Refuse an empty value, as from an unset variable in a script. The default could mean another store."""
    if value == "":
        raise click.BadParameter("it is empty; give a value, or leave the option out", ctx, parameter)
