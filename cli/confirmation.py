"""Asking before something is destroyed."""

import sys

import click

from cli.errors import CommandError, ExitCode

__all__ = ["confirm", "confirm_by_typing"]


def confirm(warning: str) -> None:
    """Say what will happen and go on only after a yes. Raises CommandError otherwise."""
    if _ask(f"{warning}; go on? [y/N] ").lower() not in ("y", "yes"):
        raise CommandError("not confirmed: nothing was changed")


def confirm_by_typing(warning: str, wanted: str) -> None:
    """Say what will happen and go on only after `wanted` was typed. Raises CommandError otherwise."""
    if _ask(f"{warning}\nType {wanted} to go on: ") != wanted:
        raise CommandError(f"{wanted} was not typed: nothing was changed")


def _ask(question: str) -> str:
    click.echo(question, nl=False, err=True)
    answer = sys.stdin.readline()
    if not answer:
        click.echo(err=True)
        raise CommandError("cannot ask for confirmation, as standard input has ended; give --yes", ExitCode.USAGE)
    return answer.strip()
