"""The command `hedwig-admin console`: a shell with all commands of hedwig-admin and of the original's console."""

import sys
from collections.abc import Iterable, Sequence

import click

from hedwig.cli.console.arguments import add_options
from hedwig.cli.console.commands import console_commands
from hedwig.cli.console.session import ConsoleSession
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.setting_options import (
    cluster_setting_options,
    hub_setting_options,
    ledger_setting_options,
    owner_setting_options,
    token_setting_options,
)
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.exit_codes import ExitCode
from hedwig.operations.loads.interruptible_file import standard_input_is_closed

__all__ = ["console"]


@click.command("console", cls=AdminCommand, example="hedwig-admin console -c 'show topics' -c 'describe topic news'")
@click.option("-c", "--command", "lines", multiple=True, metavar="LINE", help="Run this line and end; may be repeated.")
@add_options(
    reversed(
        [
            *hub_setting_options(),
            *cluster_setting_options(),
            *owner_setting_options(),
            *token_setting_options(),
            *ledger_setting_options(),
        ]
    )
)
@click.pass_context
@pass_settings
def console(settings: Settings, ctx: click.Context, lines: Sequence[str]) -> None:
    """Type commands one after the other, with history and completion, until quit or Ctrl-D.

    The console has all commands of hedwig-admin, without its name. It also has those of the original's console: pub,
    sub, closesub, unsub, rmsub, consumeto, pubsub, show, describe, readtopic, format, set, history, redo, help, quit. A
    subscription that sub opens stays open, and its messages are shown, until closesub, unsub or quit. Ctrl-C ends a
    command.

    Options that are given here hold for every line; set changes them. If standard input is no terminal, lines are read
    from it. Then, and with -c, the exit code is that of the last line that failed.
    """
    root = ctx.find_root().command
    assert isinstance(root, click.Group), "commands are found in groups"
    session = ConsoleSession(settings, root.commands, console_commands)
    try:
        if not lines and sys.stdin is None:
            raise standard_input_is_closed()
        if lines or not sys.stdin.isatty():
            ctx.exit(_run_all(session, lines or (line.rstrip("\n") for line in sys.stdin)))
        from hedwig.cli.console.prompt import run_prompt

        run_prompt(session)
    finally:
        session.close()


def _run_all(session: ConsoleSession, lines: Iterable[str]) -> int:
    """Run all lines, even if one fails; return the exit code of the last failure. Ctrl-C ends all."""
    failed: int = ExitCode.DONE
    for line in lines:
        failed = session.execute(line) or failed
        if failed == ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
        if session.is_over:
            break
    return failed
