"""What the ledger operations need: send requests to bookies, know which take new entries, and where they listen."""

import asyncio
from collections.abc import Collection
from typing import Protocol

from hedwig.hub.ledgers.bookkeeper.wire.requests import BookieAnswer, Done, Request

__all__ = ["Addresses", "BookieRegistry", "Bookies", "ask"]


class Bookies(Protocol):
    """All bookies, by id."""

    def send(self, bookie: str, request: Request, timeout_s: float, done: Done) -> None:
        """Send a request to a bookie; many may be in flight. `done` is called once, later, never within this call.

        The outcome is the bookie's answer, or one of these. NOT_SENT: surely nothing was sent to the bookie.
        UNANSWERED: the bookie may have run the request, or may still run it. BUSY: the client or the bookie has too
        much to do, so the bookie did not run the request.

        Raises: InvalidArgumentError - the request is too large for any bookie; `done` is not called.
        """
        ...


class BookieRegistry(Protocol):
    """The bookies that are registered, as far as is known."""

    def writable(self) -> Collection[str]:
        """Return the bookies that take new entries. One that died may be among them for a while."""
        ...


class Addresses(Protocol):
    """Where bookies listen."""

    async def resolve(self, bookie: str) -> tuple[str, int]:
        """Return the host and port of a bookie. Raises: OSError - they are unknown."""
        ...


async def ask(bookies: Bookies, bookie: str, request: Request, timeout_s: float) -> BookieAnswer:
    """Send one request and return its answer."""
    answer: asyncio.Future[BookieAnswer] = asyncio.get_running_loop().create_future()

    def done(result: BookieAnswer) -> None:
        if not answer.done():
            answer.set_result(result)

    bookies.send(bookie, request, timeout_s, done)
    return await answer
