"""How commands are run: shared options everywhere, errors as one line, exit codes by kind of error."""

import contextlib
import errno
import io
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import click

from hedwig.cli.redrawing import WATCHABLE, watch_option, watched_every_s, watching, with_watch_value
from hedwig.cli.settings.settings import Settings, shared_options
from hedwig.cli.signals import begin_commands
from hedwig.errors import HedwigError, OperationError, exit_code_of
from hedwig.exit_codes import ExitCode
from hedwig.operations.errors import explain, remedy

__all__ = ["COMPLETION_VARIABLE", "PROGRAM_NAME", "AdminCommand", "AdminGroup", "Program"]

PROGRAM_NAME: Final = "hedwig-admin"
_PLAIN: Final = {
    "is not a valid integer range": "is not a whole number",
    "is not a valid float range": "is not a number",
}
"""What click says, and what people say."""
_METAVAR: Final = re.compile(r"(?:(?<=value for )|(?<=argument ))'\[?([A-Z_]+)(?:\]|\.\.\.|\]\.\.\.)'")
"""An argument as the usage line of a command has it, where only its name is meant."""

COMPLETION_VARIABLE: Final = "_HEDWIG_ADMIN_COMPLETE"
"""By it a shell asks for completion instead of the command."""


class _PipeClosedError(Exception):
    """Whoever read standard output left: nothing to complain about."""


class AdminCommand(click.Command):
    """A command with the shared options; its help ends with `example`, which runs.

    One of a verb that shows something has --watch too.
    """

    def __init__(self, name: str | None, *, example: str, **attributes: Any) -> None:
        super().__init__(name, epilog=f"Example: {example}", **attributes)
        self._is_watchable = name in WATCHABLE
        if self._is_watchable:
            self.params.append(watch_option())
        own = {option for parameter in self.params for option in parameter.opts}
        # What takes minutes by its nature, like starting servers, has a --timeout of its own.
        self.params += [option for option in shared_options() if own.isdisjoint(option.opts)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_watch_value(args) if self._is_watchable else args)

    def invoke(self, ctx: click.Context) -> Any:
        begin_commands()
        settings = ctx.ensure_object(Settings)
        settings.command = ctx.command_path.partition(" ")[2]
        every_s, look = watched_every_s(ctx), super().invoke
        if every_s is not None:
            watching(settings, every_s, lambda: look(ctx), lambda error: _line(error, settings))
        return look(ctx)


class AdminGroup(click.Group):
    """A noun whose commands are its verbs; the shared options may stand behind it too."""

    command_class = AdminCommand

    def __init__(self, name: str | None = None, *, example: str, **attributes: Any) -> None:
        super().__init__(name, epilog=f"Example: {example}", **attributes)
        self.params += shared_options()


class Program(AdminGroup):
    """The root of the commands: whatever ends one of them becomes a line on standard error and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as exc:
            raise _PipeClosedError from exc
        return result

    def run_line(self, arguments: Sequence[str], settings: Settings) -> int:
        """Run a command as from a shell, and return its exit code: what ends it is a line on standard error."""

        def run(given: Settings) -> Any:
            return super(Program, self).main(list(arguments), PROGRAM_NAME, standalone_mode=False, obj=given)

        return _exit_code(run, settings, help_on=lambda path: f"help {path}".rstrip())

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        def run(settings: Settings) -> Any:
            extra.update(obj=settings, windows_expand_args=windows_expand_args)
            return super(Program, self).main(args, prog_name, complete_var, standalone_mode=False, **extra)

        if not standalone_mode:
            return run(Settings())
        if sys.stdout is None:
            _say("error: standard output is closed: the result could not be written, so nothing was done")
            sys.exit(ExitCode.FAILED)
        _write_any_character()
        if os.environ.get(COMPLETION_VARIABLE):
            _complete(run)
        _keep_libraries_quiet()
        sys.exit(_exit_code(run, Settings()))


def _complete(run: Callable[[Settings], Any]) -> NoReturn:
    """Answer a shell and end at once: it must not wait for threads that still wait for a server."""
    try:
        run(Settings())
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        os._exit(ExitCode.DONE)


def _help_in_a_shell(path: str) -> str:
    """Return what explains the command `path`, which is empty for all of them."""
    return " ".join(f"{PROGRAM_NAME} {path} --help".split())


def _exit_code(
    run: Callable[[Settings], Any], settings: Settings, help_on: Callable[[str], str] = _help_in_a_shell
) -> int:
    """Run a command, and return its exit code; `help_on` says what explains a command to whoever got it wrong."""
    try:
        result = run(settings)
    except click.exceptions.NoArgsIsHelpError as exc:
        exc.show()
        return exc.exit_code
    except click.ClickException as exc:
        _say(_usage_line(exc, help_on))
        return exc.exit_code
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted")
        return ExitCode.INTERRUPTED
    except _PipeClosedError:
        _forget_stdout()
        return ExitCode.PIPE_CLOSED
    except Exception as exc:
        if _is_full(exc):
            _forget_stdout()  # What could not be written is not tried again at the end.
        if settings.debug:
            traceback.print_exc()
        _say(_line(exc, settings))
        return exit_code_of(exc)
    # With standalone_mode off, click hands back the code of ctx.exit() as if the command had returned it.
    return result if isinstance(result, int) else ExitCode.DONE


def _line(error: Exception, settings: Settings) -> str:
    """Return the one line about `error`."""
    command = settings.command or PROGRAM_NAME  # There is none yet where its help cannot be written.
    match error:
        case OperationError():
            return f"error: {error}"
        case HedwigError():
            return f"error: {command} failed: {explain(error, settings.url_to_show)}"
        case OSError(filename=str() | bytes() as name) if error.strerror:
            what = f"{command} failed on the file {os.fsdecode(name)}: {error.strerror}"
            return f"error: {what}; {remedy(error)}, or name another"
        case OSError() if _is_full(error):
            return (
                f"error: {command} failed on standard output: {error.strerror}; the result is not whole, make "
                "room and look what was done before you try again"
            )
        case _:
            hint = "above is where" if settings.debug else "run with --debug to see where"
            said = " ".join(f"{type(error).__name__}: {error}".split())
            return f"error: this is a bug in hedwig-admin: {command}: {said}; {hint}, and report it"


def _is_full(error: Exception) -> bool:
    """Say whether the file that takes the result had no room."""
    return (
        isinstance(error, OSError)
        and error.filename is None
        and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    )


def _usage_line(error: click.ClickException, help_on: Callable[[str], str]) -> str:
    """Return the one line about a command line that makes no sense."""
    text = " ".join(error.format_message().split())
    for word, plain in _PLAIN.items():
        text = text.replace(word, plain)
    text = _METAVAR.sub(r"'\1'", text, count=1)
    if isinstance(error, click.UsageError) and error.ctx is not None:
        _, _, path = error.ctx.command_path.partition(" ")
        return f"error: {path or PROGRAM_NAME}: {text.rstrip('.')}; see: {help_on(path)}"
    return f"error: {text}"


def _say(line: str) -> None:
    try:
        click.echo(line, err=True)
    except OSError:
        return  # Nobody reads standard error any more, and there is no third place to tell.


def _write_any_character() -> None:
    """Keep names that the terminal's encoding lacks from ending a command: they are escaped instead."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _keep_libraries_quiet() -> None:
    """Keep what kazoo logs off standard error, which has one line of ours about it in the end."""
    logging.getLogger("kazoo").addHandler(logging.NullHandler())


def _forget_stdout() -> None:
    """Point standard output nowhere, so that the interpreter's last flush does not complain about the closed pipe."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return  # Not a real stream: nothing will be flushed into a pipe.
