"""The commands that the console adds to those of hedwig-admin: those of the original's console, by its names.

Some are other names of commands of hedwig-admin, and some work on subscriptions. Those about the session itself stand
here: set, history, redo, help, quit, exit.
Source: Hedwig HedwigConsole.
"""

from collections.abc import Sequence
from typing import Final

import click

from hedwig.cli.console.aliases import alias_commands
from hedwig.cli.console.hub_work import pubsub, rmsub
from hedwig.cli.console.session import ConsoleSession, current_session
from hedwig.cli.console.subscribing import closesub, consume, consumenext, consumeto, show_subs, sub, unsub
from hedwig.cli.program import AdminCommand, AdminGroup
from hedwig.cli.settings.configuration import SETTINGS
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode

__all__ = ["console_commands"]

_SWITCH: Final = {"on": True, "off": False}


@click.command("set", cls=AdminCommand, example="set hub 127.0.0.1:4080")
@click.argument("name", required=False, type=click.Choice(["printwatches", *SETTINGS]))
@click.argument("value", required=False)
@pass_settings
def set_one(settings: Settings, /, name: str | None, value: str | None) -> None:
    """Change a setting of all further lines; without NAME, show the settings.

    With printwatches on, the console reports when the delivery to a subscription that is open here ends.
    """
    output = settings.writer()
    session = current_session()
    if name is not None:
        _change(session, name, value)
    known = session.settings()
    values = {key: known.chosen(key).value for key in SETTINGS}
    output.record({"printwatches": "on" if session.subscriptions.reports_ends else "off"} | values)


def _change(session: ConsoleSession, name: str, value: str | None) -> None:
    if value is None:
        raise click.UsageError(f"give a value for {name}")
    if name == "printwatches":
        if value not in _SWITCH:
            raise click.UsageError("printwatches is on or off")
        session.subscriptions.reports_ends = _SWITCH[value]
        return
    try:
        session.flags[name] = SETTINGS[name].parse(value)
    except ValueError as exc:
        raise click.UsageError(f"{name} is {value!r}; {exc}") from exc


@click.command("history", cls=AdminCommand, example="history")
@pass_settings
def history(settings: Settings, /) -> None:
    """Show what was typed; redo repeats a line by its number."""
    rows = [{"number": number, "line": line} for number, line in enumerate(current_session().lines, start=1)]
    settings.writer().listing("lines", rows, ("number", "line"))


@click.command("redo", cls=AdminCommand, example="redo 1")
@click.argument("number", metavar="NUMBER|!")
def redo(number: str) -> None:
    """Run a line again: the one of this NUMBER in history, or, with !, the last one."""
    session = current_session()
    wanted = len(session.lines) if number == "!" else int(number) if number.isdecimal() else 0
    if not 1 <= wanted <= len(session.lines):
        raise OperationError(f"there is no line {number!r}; see history", ExitCode.NOT_FOUND)
    line = session.lines[wanted - 1]
    click.echo(line, err=True)
    session.lines.append(line)
    click.get_current_context().exit(session.run(line))


@click.command("help", cls=AdminCommand, example="help pub")
@click.argument("command", nargs=-1)
def show_help(command: Sequence[str]) -> None:
    """Explain a command; without COMMAND, list all."""
    click.get_current_context().exit(current_session().run_words([*command, "--help"]))


def _leaving(name: str) -> click.Command:
    @click.command(name, cls=AdminCommand, example=name)
    def leave() -> None:
        """Close all subscriptions that are open here, and leave."""
        current_session().is_over = True

    return leave


@click.command("console", cls=AdminCommand, example="help", hidden=True)
def console_again() -> None:
    """Say that this is the console."""
    raise OperationError("this is the console already; help lists its commands", ExitCode.USAGE)


_show: Final = AdminGroup(
    "show",
    example="show topics",
    help="Show hubs, topics, or the subscriptions that are open here.",
    commands=[*alias_commands("show"), show_subs],
)
_describe: Final = AdminGroup(
    "describe", example="describe topic news", help="Describe a topic.", commands=[*alias_commands("describe")]
)

console_commands: Final[dict[str, click.Command]] = {
    str(command.name): command
    for command in (
        *(*alias_commands(), _show, _describe, pubsub),
        *(sub, closesub, unsub, rmsub, consume, consumeto, consumenext),
        *(set_one, history, redo, show_help, _leaving("quit"), _leaving("exit"), console_again),
    )
}
