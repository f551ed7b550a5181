"""Lines on standard error that say how far a run is."""

import click

__all__ = ["say", "say_below"]


def say(line: str) -> None:
    """Write a line that stays."""
    click.echo(line, err=True)


def say_below(line: str) -> None:
    """Write a line that adds to the one before."""
    say(f"    {line}")
