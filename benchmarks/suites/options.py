"""Options that several suites share, and parsers for whole numbers in options."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from hedwig.quantities import whole_number

__all__ = ["data_option", "label_option", "number", "numbers", "printed_option", "result_option"]

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def data_option(what: str) -> Decorator:
    """Return the option `--data`.

    Args: what - a clause for its help text: what is kept in that folder.
    """
    return click.option(
        "--data",
        type=click.Path(path_type=Path, file_okay=False),
        help=f"Where {what}. Default: the system's folder for temporary files.",
    )


def _is_json(_: click.Context, __: click.Parameter, form: str) -> bool:
    return form == "json"


label_option: Decorator = click.option(
    "--label", default="", help="A label for the result, which says what is special about it."
)
result_option: Decorator = click.option(
    "--result", "path", type=click.Path(path_type=Path, dir_okay=False), help="The result file."
)
printed_option: Decorator = click.option(
    "-o",
    "--output",
    "as_json",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    callback=_is_json,
    help="Format of the printed result.",
)


def numbers(_: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """Read a list such as 1,50,10000 or 1,50,10k; return None if the option was not given."""
    if text is None:
        return None
    try:
        parsed = tuple(whole_number(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of whole numbers such as 1,50,10k", param=parameter) from None
    if min(parsed) < 0:
        raise click.BadParameter("the numbers must not be negative", param=parameter)
    return parsed


def number(_: click.Context, parameter: click.Parameter, text: str) -> int:
    """Read a number such as 500000 or 500k, at least 1."""
    try:
        parsed = whole_number(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a whole number such as 500k", param=parameter) from None
    if parsed < 1:
        raise click.BadParameter("the number must be at least 1", param=parameter)
    return parsed
