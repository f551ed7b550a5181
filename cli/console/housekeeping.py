"""The commands of the console about the session itself: set, history, redo, help, quit, exit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from hedwig.cli.console.arguments import Commands, by_name
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.configuration import SETTINGS
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode

if TYPE_CHECKING:
    from hedwig.cli.console.session import ConsoleSession

__all__ = ["housekeeping_commands"]

_SWITCH: Final = {"on": True, "off": False}


def housekeeping_commands(session: "ConsoleSession") -> Commands:
    """Return the commands about the session itself, by name."""

    @click.command("set", cls=AdminCommand, example="set hub 127.0.0.1:4080")
    @click.argument("name", required=False, type=click.Choice(["printwatches", *SETTINGS]))
    @click.argument("value", required=False)
    @pass_settings
    def set_one(settings: Settings, name: str | None, value: str | None) -> None:
        """Change a setting of all further lines; without NAME, show the settings.

        With printwatches on, the console reports when the delivery to a subscription that is open here ends.
        """
        output = settings.writer()
        if name is not None and value is None:
            raise click.UsageError(f"give a value for {name}")
        if name == "printwatches":
            if value not in _SWITCH:
                raise click.UsageError("printwatches is on or off")
            session.says_events = _SWITCH[value]
        elif name is not None and value is not None:
            try:
                session.flags[name] = SETTINGS[name].parse(value)
            except ValueError as exc:
                raise click.UsageError(f"{name} is {value!r}; {exc}") from exc
        known = session.settings()
        values = {key: known.chosen(key).value for key in SETTINGS}
        output.record({"printwatches": "on" if session.says_events else "off"} | values)

    @click.command("history", cls=AdminCommand, example="history")
    @pass_settings
    def history(settings: Settings) -> None:
        """Show what was typed; redo repeats a line by its number."""
        rows = [{"number": number, "line": line} for number, line in enumerate(session.lines, start=1)]
        settings.writer().listing("lines", rows, ("number", "line"))

    @click.command("redo", cls=AdminCommand, example="redo 1")
    @click.argument("number", metavar="NUMBER|!")
    def redo(number: str) -> None:
        """Run a line again: the one of this NUMBER in history, or, with !, the last one."""
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
        click.get_current_context().exit(session.run_words([*command, "--help"]))

    @click.command("quit", cls=AdminCommand, example="quit")
    def leave() -> None:
        """Close all subscriptions that are open here, and leave."""
        session.is_over = True

    @click.command("exit", cls=AdminCommand, example="exit")
    def leave_too() -> None:
        """Close all subscriptions that are open here, and leave."""
        session.is_over = True

    @click.command("console", cls=AdminCommand, example="help", hidden=True)
    def again() -> None:
        """Say that this is the console."""
        raise OperationError("this is the console already; help lists its commands", ExitCode.USAGE)

    return by_name(set_one, history, redo, show_help, leave, leave_too, again)
