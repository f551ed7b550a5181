"""The commands `hedwig-admin config …`: the settings, their sources, and the contexts that save them."""

import os
from pathlib import Path
from typing import Any, Final

import click

from hedwig.cli.arguments.confirmation import confirm
from hedwig.cli.arguments.names import CheckedName
from hedwig.cli.arguments.selection import NAME, Selection, cut, list_options
from hedwig.cli.output.format_names import make_output
from hedwig.cli.output.formats import TableOutput
from hedwig.cli.program import AdminGroup
from hedwig.cli.settings.configuration import SETTINGS, Chosen, Value
from hedwig.cli.settings.contexts import SavedContexts, changing_contexts, check_context_name, contexts_path
from hedwig.cli.settings.setting_options import (
    cluster_setting_options,
    hub_setting_options,
    ledger_setting_options,
    owner_setting_options,
    token_setting_options,
)
from hedwig.cli.settings.settings import Settings, complete_context, pass_settings
from hedwig.cli.settings.tls_settings import chosen_tls
from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode

__all__ = ["config"]

_NAME: Final = CheckedName("context", check_context_name)
_COLUMNS: Final = ("context", "current", *SETTINGS)
_SHOWN: Final = ("context", "current", "metadata", "cluster", "hub")


@click.group(cls=AdminGroup, example="hedwig-admin config show")
def config() -> None:
    """Show the settings of commands, and save them under names.

    A setting comes from the command line, else from the environment, else from the saved context, else it has its
    default.
    """


@config.command("show", example="hedwig-admin config show --context staging -o json")
@pass_settings
def show_config(settings: Settings) -> None:
    """Show the value that each setting has here and now, and where it comes from."""
    output = settings.writer()
    chosen = {"context": settings.context_name()}
    chosen.update({key: settings.chosen(key) for key in SETTINGS})
    chosen.update(chosen_tls(settings))
    if chosen["metadata"].value is None:
        chosen["metadata"] = Chosen(settings.url_to_show, "default")
    if chosen["cluster"].value is None and str(chosen["metadata"].value).startswith("zookeeper:"):
        chosen["cluster"] = Chosen(chosen["metadata"].value, "the metadata store")
    rows = [{"setting": key, "value": choice.value, "source": choice.source} for key, choice in chosen.items()]
    output.listing("settings", rows, ("setting", "value", "source"))


@config.command("path", example="hedwig-admin config path")
@pass_settings
def show_path(settings: Settings) -> None:
    """Show the path of the file for saved contexts, which may not exist.

    The table is the bare path, for scripts. The other formats also say whether the file exists.
    """
    try:
        output = settings.writer()
    except OperationError:
        # A user who reads that the file makes no sense asks for its path next.
        output = make_output("table", columns=settings.columns, header=not settings.no_header)
    path = contexts_path()
    if isinstance(output, TableOutput) and settings.columns is None:
        click.echo(str(path))
        return
    output.record({"path": str(path), "exists": path.exists()})


@config.group("context", cls=AdminGroup, example="hedwig-admin config context list")
def context() -> None:
    """Save settings under names, and switch between them."""


def _with_settings(command: Any) -> Any:
    """Add the options of settings that only some commands take."""
    options = (
        *cluster_setting_options(),
        *hub_setting_options(),
        *owner_setting_options(),
        *token_setting_options(),
        *ledger_setting_options(),
    )
    for option in reversed(options):
        command = option(command)
    return command


@context.command("save", example="hedwig-admin config context save local --hub 127.0.0.1:4080 --timeout 5")
@click.argument("name", type=_NAME, shell_complete=complete_context)
@_with_settings
@click.option(
    "--unset",
    multiple=True,
    type=click.Choice(list(SETTINGS)),
    metavar="SETTING",
    help=f"Remove a setting, {', '.join(SETTINGS)}; may be given again.",
)
@click.option("--use", is_flag=True, help="Use the context from now on, too.")
@pass_settings
def save_context(settings: Settings, /, name: str, unset: tuple[str, ...], use: bool) -> None:
    """Save the settings of this command line as NAME; the other settings in NAME stay.

    Every setting can be saved: --metadata, --cluster, --hub, those of TLS, --admin, --data, --bookkeeper, --timeout
    and --output.
    """
    given = {key: _lasting(key, value) for key, value in settings.flags.items()}
    if not given and not unset:
        raise click.UsageError(f"give a setting to save: {', '.join(map(_flag, SETTINGS))}")
    for key in unset:
        if key in given:
            raise click.UsageError(f"give {_flag(key)} or --unset {key}, not both")
    with changing_contexts() as draft:
        before = draft.saved.contexts.get(name)
        kept = {key: value for key, value in (before or {}).items() if key not in unset}
        values = {key: (kept | given)[key] for key in SETTINGS if key in kept | given}
        draft.saved = draft.saved.saved(name, values)
        if use:
            draft.saved = draft.saved.used(name)
        saved = draft.saved
    result = "created" if before is None else "unchanged" if before == values else "changed"
    settings.writer().record({"context": name, "result": result, "current": saved.current == name} | values)


@context.command("use", example="hedwig-admin config context use -")
@click.argument("name", shell_complete=complete_context)
@pass_settings
def use_context(settings: Settings, name: str) -> None:
    """Use the context NAME from now on, unless a command names another; `-` switches back to the previous one."""
    output = settings.writer()
    with changing_contexts() as draft:
        wanted = draft.saved.previous if name == "-" else name
        if wanted is None and draft.saved.current is None:
            raise OperationError("no context was used before; list the contexts with: hedwig-admin config context list")
        draft.saved = draft.saved.used(wanted)
        saved = draft.saved
    output.record({"context": saved.current, "previous": saved.previous})
    if os.environ.get("HEDWIG_CONTEXT"):
        click.echo("HEDWIG_CONTEXT is set, and overrides this context", err=True)


@context.command("list", example="hedwig-admin config context list -o yaml")
@list_options(NAME)
@pass_settings
def list_contexts(settings: Settings, /, selection: Selection) -> None:
    """List the saved contexts, by name."""
    output = settings.writer()
    saved = settings.saved_contexts()
    output.begin("contexts", _COLUMNS, _SHOWN)
    names, token = cut(selection, "contexts", saved.contexts, str.encode)
    output.page([_fields(saved, name) for name in names])
    output.end(token)


@context.command("show", example="hedwig-admin config context show staging")
@click.argument("name", required=False, shell_complete=complete_context)
@pass_settings
def show_context(settings: Settings, name: str | None) -> None:
    """Show the context NAME; without NAME, the one in use."""
    output = settings.writer()
    wanted = name or settings.context_name().value
    if wanted is None:
        raise OperationError(
            "no context is used; name one, or use one with: hedwig-admin config context use NAME", ExitCode.NOT_FOUND
        )
    output.record(_fields(settings.saved_contexts(), str(wanted)))


@context.command("delete", example="hedwig-admin config context delete staging --yes")
@click.argument("name", shell_complete=complete_context)
@click.option("--if-exists", is_flag=True, help="Do not fail if there is no such context.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and change nothing.")
@pass_settings
def delete_context(settings: Settings, name: str, if_exists: bool, yes: bool, dry_run: bool) -> None:
    """Delete the context NAME, and nothing that its settings name."""
    output = settings.writer()
    saved = settings.saved_contexts()
    if if_exists and name not in saved.contexts:
        output.record({"context": name, "result": "absent"})
        return
    fields = _fields(saved, name)
    if dry_run:
        output.record({"result": "would delete"} | fields)
        return
    if not yes:
        confirm(f"This deletes the context {name!r}{', which is in use,' if fields['current'] else ''} for good")
    with changing_contexts() as draft:
        draft.saved = draft.saved.without(name)
    output.record({"context": name, "result": "deleted"})


def _fields(saved: SavedContexts, name: str) -> dict[str, Any]:
    values = saved.get(name)
    return {"context": name, "current": name == saved.current} | {key: values.get(key) for key in SETTINGS}


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def _lasting(key: str, value: Value) -> Value:
    """Return `value` in a form that means the same in every directory and at any time. Raises ConfigurationError."""
    # Import late: a user who only saves settings must not wait for the client library to load.
    if key in ("tls_ca", "password_file", "data"):
        return str(Path(str(value)).absolute())
    if key == "metadata":
        from hedwig.metadata import MetadataUrl
        from hedwig.metadata.contract.url import zookeeper_address
        from hedwig.metadata.store import factory_of

        url = MetadataUrl.parse(str(value))
        factory_of(url)
        if url.scheme == "zookeeper":
            zookeeper_address(f"zookeeper://{url.hosts}{url.path}")
    elif key == "cluster":
        from hedwig.operations.deployment.cluster import parse_cluster_url

        parse_cluster_url(str(value))
    elif key == "bookkeeper":
        from hedwig.operations.deployment.ledgers import parse_bookies_url

        parse_bookies_url(str(value))
    elif key == "hub":
        from hedwig.client import HubAddress

        HubAddress.parse(str(value))
    return value
