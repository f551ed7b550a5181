"""What the ledger operations need of bookies: somebody to send requests, and to say who takes new entries."""

import asyncio
from collections.abc import Collection
from typing import Protocol

from hedwig.hub.ledgers.bookkeeper.wire.requests import Answer, Done, Request

__all__ = ["Addresses", "Bookies", "Registry", "ask"]


class Bookies(Protocol):
    """All bookies, by id."""

    def send(self, bookie: str, request: Request, timeout_s: float, done: Done) -> None:
        """Send a request to a bookie; many may be in flight. `done` is called once, later, and never from here.

        Its outcome is what the bookie said, or NOT_SENT - surely nothing left for it; UNANSWERED - it may have been
        carried out, now or still later; BUSY - here or there is too much to do, so it was not carried out.

        Raises: InvalidArgumentError - the request is too large for any bookie; `done` is not called.
        """
        ...


class Registry(Protocol):
    """Who is there, as far as is known."""

    def writable(self) -> Collection[str]:
        """Return the bookies that take new entries. One that died may be among them for a while."""
        ...


class Addresses(Protocol):
    """Where bookies listen."""

    async def resolve(self, bookie: str) -> tuple[str, int]:
        """Return the host and port of a bookie. Raises: OSError - nobody knows."""
        ...


async def ask(bookies: Bookies, bookie: str, request: Request, timeout_s: float) -> Answer:
    """Send one request and wait for what comes of it."""
    answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def done(result: Answer) -> None:
        if not answer.done():
            answer.set_result(result)

    bookies.send(bookie, request, timeout_s, done)
    return await answer
