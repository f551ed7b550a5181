"""Writes messages as they are read, one after the other, and has the options that limit them."""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from hedwig.cli.arguments.option_group import option_group
from hedwig.cli.output.formats import Output, Row
from hedwig.errors import OperationError
from hedwig.operations.topics.ledger_messages import StoredMessage

__all__ = ["MessageSpan", "message_options", "write_messages"]

_PAGE_ROWS: Final = 256
_ID_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSpan:
    """Which messages to list: from id `first` on, 0 for the first kept one, and at most `limit`, None for all."""

    first: int
    limit: int | None


def message_options(limit: int, *, also: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options of a listing of messages. The command gets them as `span`.

    `limit` is the default number of messages. `also` says what else --from can name.
    """
    options = (
        click.option(
            "--from",
            "first",
            type=click.IntRange(0, _ID_MAX),
            metavar="NUMBER",
            help=f"The first message, by its id{also}.  [default: the first that is kept]",
        ),
        click.option(
            "--page-token",
            "token",
            type=click.IntRange(0, _ID_MAX),
            metavar="NUMBER",
            help="Go on where an earlier listing was cut.",
        ),
        click.option("--limit", type=click.IntRange(min=1), help=f"How many at most.  [default: {limit}]"),
        click.option("--all", "everything", is_flag=True, help="All, however many."),
    )

    def gather(params: Any) -> MessageSpan:
        if params["everything"] and params["limit"] is not None:
            raise click.UsageError("give --limit or --all, not both")
        if params["first"] is not None and params["token"] is not None:
            raise click.UsageError("give --from or --page-token, not both")
        most = None if params["everything"] else params["limit"] or limit
        return MessageSpan(first=params["first"] or params["token"] or 0, limit=most)

    return option_group("span", options, ("first", "token", "limit", "everything"), gather)


async def write_messages(
    output: Output,
    known: Sequence[str],
    shown: Sequence[str],
    messages: AsyncGenerator[StoredMessage],
    limit: int | None,
    row_of: Callable[[StoredMessage], Row],
    number_of: Callable[[StoredMessage], int],
) -> None:
    """Write at most `limit` messages as a listing, and close `messages`. The page token is the number of the next one.

    If a message cannot be read, those before it are written all the same. If it is the first, nothing is written.
    """
    page: list[Row] = []
    is_begun = False
    number, left = 0, limit
    token = None
    try:
        async for stored in messages:
            if left == 0:
                token = str(number_of(stored))
                break
            if not is_begun:
                output.begin("messages", known, shown)
                is_begun = True
            page.append(row_of(stored))
            number = number_of(stored)
            left = None if left is None else left - 1
            if len(page) == _PAGE_ROWS:
                output.page(page)
                page = []
        if not is_begun:
            output.begin("messages", known, shown)
            is_begun = True
    except OperationError:
        if left != 0:
            raise
        token = str(number + 1)  # All wanted messages are there. The command for the next page gets the error.
    finally:
        await messages.aclose()
        if is_begun:
            output.page(page)
            output.end(token)
