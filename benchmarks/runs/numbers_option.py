"""Whole numbers in options, one or a list of them."""

import click

__all__ = ["number", "numbers"]


def numbers(_: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """Read 1,50,10000 or 1,50,10k; None if the option was not given."""
    if text is None:
        return None
    try:
        found = tuple(_number(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is no list of whole numbers such as 1,50,10k", param=parameter) from None
    if min(found) < 0:
        raise click.BadParameter("the numbers must not be negative", param=parameter)
    return found


def number(_: click.Context, parameter: click.Parameter, text: str) -> int:
    """Read 500000 or 500k, one at least."""
    try:
        found = _number(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no whole number such as 500k", param=parameter) from None
    if found < 1:
        raise click.BadParameter("the number must be at least 1", param=parameter)
    return found


def _number(text: str) -> int:
    scale = {"k": 1_000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    return int(text[:-1] if scale > 1 else text) * scale
