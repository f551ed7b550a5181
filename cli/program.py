"""How commands run: shared options everywhere, errors as one line, exit codes by kind of error."""

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import click

from hedwig import command_line
from hedwig.cli.redrawing import WATCHABLE, watch_option, watched_every_s, watching, with_watch_value
from hedwig.cli.settings.settings import Settings, shared_options
from hedwig.cli.signals import begin_commands
from hedwig.command_line import has_no_room
from hedwig.errors import HedwigError, OperationError, exit_code_of
from hedwig.operations.errors import explain, remedy

__all__ = ["COMPLETION_VARIABLE", "PROGRAM_NAME", "AdminCommand", "AdminGroup", "AdminProgram"]

PROGRAM_NAME: Final = "hedwig-admin"

COMPLETION_VARIABLE: Final = "_HEDWIG_ADMIN_COMPLETE"
"""With this variable a shell asks for completion instead of running the command."""


class AdminCommand(click.Command):
    """A command with the shared options. Its help ends with `example`, which runs.

    A command whose verb shows something has --watch, too.
    """

    def __init__(self, name: str | None, *, example: str, **attributes: Any) -> None:
        super().__init__(name, epilog=f"Example: {example}", **attributes)
        self._is_watchable = name in WATCHABLE
        if self._is_watchable:
            self.params.append(watch_option())
        own = {option for parameter in self.params for option in parameter.opts}
        # A command that takes minutes by its nature, like starting servers, has a --timeout of its own.
        self.params += [option for option in shared_options() if own.isdisjoint(option.opts)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_watch_value(args) if self._is_watchable else args)

    def invoke(self, ctx: click.Context) -> Any:
        begin_commands()
        settings = ctx.ensure_object(Settings)
        settings.command = ctx.command_path.partition(" ")[2]
        every_s, look = watched_every_s(ctx), super().invoke
        if every_s is not None:
            watching(settings, every_s, lambda: look(ctx), lambda error: f"error: {_line(error, settings)}")
        return look(ctx)


class AdminGroup(click.Group):
    """A noun whose commands are its verbs. The shared options may stand after the noun, too."""

    command_class = AdminCommand

    def __init__(self, name: str | None = None, *, example: str, **attributes: Any) -> None:
        super().__init__(name, epilog=f"Example: {example}", **attributes)
        self.params += shared_options()


class AdminProgram(AdminGroup, command_line.Program):
    """The root of the commands, which get the Settings."""

    def line_about(self, error: Exception, obj: Any) -> tuple[str, int]:
        return _line(error, obj), exit_code_of(error)

    def is_debugged(self, obj: Any) -> bool:
        return bool(obj.debug)

    def run_line(self, arguments: Sequence[str], settings: Settings) -> int:
        """Run a command of the console, and return its exit code. An error becomes a line on standard error."""
        return self.run_words(arguments, settings, PROGRAM_NAME, help_on=lambda path: f"help {path}".rstrip())

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        settings = Settings()
        extra.update(obj=settings, windows_expand_args=windows_expand_args)

        def run() -> Any:
            return super(AdminProgram, self).main(args, prog_name, complete_var, standalone_mode=False, **extra)

        if not standalone_mode:
            return run()
        self.check_streams()
        if os.environ.get(COMPLETION_VARIABLE):
            _complete(run)
        _keep_libraries_quiet()
        sys.exit(self.run(run, settings, PROGRAM_NAME))


def _complete(run: Callable[[], Any]) -> NoReturn:
    """Answer a shell and end the process at once, without waiting for threads that still wait for a server."""
    try:
        run()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        os._exit(0)


def _line(error: Exception, settings: Settings) -> str:
    """Return the one line about `error`."""
    command = settings.command or PROGRAM_NAME  # There is no command yet if the help cannot be written.
    match error:
        case OperationError():
            return str(error)
        case HedwigError():
            return f"{command} failed: {explain(error, settings.url_to_show)}"
        case OSError(filename=str() | bytes() as name) if error.strerror:
            what = f"{command} failed on the file {os.fsdecode(name)}: {error.strerror}"
            return f"{what}; {remedy(error)}, or name another"
        case OSError() if has_no_room(error):
            return (
                f"{command} failed on standard output: {error.strerror}; the result is incomplete: make "
                "room, and check what was done before you try again"
            )
        case _:
            hint = "above is where" if settings.debug else "run with --debug to see where"
            said = " ".join(f"{type(error).__name__}: {error}".split())
            return f"this is a bug in hedwig-admin: {command}: {said}; {hint}, and report it"


def _keep_libraries_quiet() -> None:
    """Keep the log of kazoo off standard error, since we write one line about the error there."""
    logging.getLogger("kazoo").addHandler(logging.NullHandler())
