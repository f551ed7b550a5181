"""The prompt of the console: editing, saved history, and completion by the arguments of each command."""

import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import click
from click.shell_completion import ShellComplete, split_arg_string

from hedwig.cli.console.session import ConsoleSession
from hedwig.cli.program import COMPLETION_VARIABLE, PROGRAM_NAME
from hedwig.extras import needed
from hedwig.private_files import make_directory, make_file, user_data_directory

with needed("cli", "the console needs"):
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
    from prompt_toolkit.document import Document
    from prompt_toolkit.history import FileHistory, History, InMemoryHistory
    from prompt_toolkit.patch_stdout import patch_stdout

__all__ = ["ConsoleCompleter", "run_prompt"]

_PROMPT: Final = "hedwig> "
_HISTORY: Final = "console-history"
_LINES_MAX: Final = 1000
"""How many lines of earlier sessions `history` shows."""


def run_prompt(session: ConsoleSession) -> None:
    """Read lines and run them, until one ends the session, or Ctrl-D. Ctrl-C ends a line or a command."""
    history = _history()
    session.lines[:0] = [line for line in reversed(list(history.load_history_strings())) if line.strip()][-_LINES_MAX:]
    prompt: PromptSession[str] = PromptSession(
        _PROMPT,
        history=history,
        completer=ConsoleCompleter(session),
        complete_in_thread=True,
        complete_while_typing=False,
        enable_history_search=True,
    )
    click.echo("help lists the commands, Tab completes, Ctrl-D ends", err=True)
    while not session.is_over:
        try:
            with _speaking_above(session):
                line = prompt.prompt()
            session.execute(line)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


class ConsoleCompleter(Completer):
    """Completes a line as shells complete hedwig-admin: commands, options, and names in the store."""

    def __init__(self, session: ConsoleSession) -> None:
        self._session = session
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield what can stand at the end of a line; nothing if that is not known."""
        text = document.text_before_cursor
        words = split_arg_string(text)
        incomplete = "" if not words or text[-1:].isspace() else words.pop()
        if words[:1] == [PROGRAM_NAME]:
            del words[0]
        asked = ShellComplete(
            self._session.program, {"obj": self._session.settings()}, PROGRAM_NAME, COMPLETION_VARIABLE
        )
        for item in asked.get_completions(words, incomplete):
            if item.type == "plain":
                value = str(item.value)
                # The next character begins a new word, as in a shell.
                yield Completion(
                    f"{shlex.quote(value)} ",
                    start_position=-len(incomplete),
                    display=value,
                    display_meta=item.help or "",
                )
            else:  # A file, or a directory.
                yield from self._paths.get_completions(Document(incomplete), complete_event)


@contextmanager
def _speaking_above(session: ConsoleSession) -> Iterator[None]:
    """Show what others write meanwhile above the prompt. Others cannot write while this begins and ends."""
    patched = patch_stdout(raw=True)
    with session.turn:
        patched.__enter__()
    try:
        yield
    finally:
        with session.turn:
            patched.__exit__(None, None, None)


def _history() -> "History":
    """Return the history in a file that only its user can read; without that file, the history of this session."""
    path = user_data_directory() / _HISTORY
    try:
        make_directory(path.parent)
        make_file(path)
    except OSError as exc:
        click.echo(f"the history is not kept in {path}: {exc.strerror}", err=True)
        return InMemoryHistory()
    return FileHistory(path)
