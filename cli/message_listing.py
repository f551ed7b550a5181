"""Writing messages that are read one after the other, as far as they come."""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from cli.ledger_messages import StoredMessage
from cli.output import Output, Row

__all__ = ["write_messages"]

_PAGE_ROWS: Final = 256


async def write_messages(
    output: Output,
    known: Sequence[str],
    shown: Sequence[str],
    found: AsyncGenerator[StoredMessage],
    limit: int,
    row_of: Callable[[StoredMessage], Row],
) -> None:
    """Write up to `limit` messages as a listing, and close `found`.

    If one cannot be read, what came before it is written all the same; nothing if it is the first.
    """
    page: list[Row] = []
    is_begun = False
    try:
        async for stored in found:
            if not is_begun:
                output.begin("messages", known, shown)
                is_begun = True
            page.append(row_of(stored))
            limit -= 1
            if not limit:
                break
            if len(page) == _PAGE_ROWS:
                output.page(page)
                page = []
        if not is_begun:
            output.begin("messages", known, shown)
            is_begun = True
    finally:
        await found.aclose()
        if is_begun:
            output.page(page)
            output.end()
