"""Asks the user before something is destroyed."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click

from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode

__all__ = ["confirm", "confirm_by_typing"]


def confirm(warning: str) -> None:
    """Say what will happen, and ask. Raises OperationError unless the user answers yes."""
    if _ask(f"{warning}; go on? [y/N] ").lower() not in ("y", "yes"):
        raise OperationError("not confirmed: nothing was changed")


def confirm_by_typing(warning: str, wanted: str) -> None:
    """Say what will happen, and ask. Raises OperationError unless the user types `wanted`."""
    if _ask(f"{warning}\nType {wanted} to go on: ") != wanted:
        raise OperationError(f"{wanted} was not typed: nothing was changed")


def _ask(question: str) -> str:
    click.echo(question, nl=False, err=True)
    with _interruptible():
        answer = "" if sys.stdin is None else sys.stdin.readline()
    if not answer:
        click.echo(err=True)
        raise OperationError("cannot ask for confirmation, as standard input has ended; give --yes", ExitCode.USAGE)
    return answer.strip()


@contextmanager
def _interruptible() -> Iterator[None]:
    """Make Ctrl-C end the question at once. The handler of a running event loop would first wait for the answer."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
