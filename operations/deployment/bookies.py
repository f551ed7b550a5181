"""Counts the registered bookies: those that take new entries, and those that are read-only."""

from dataclasses import dataclass
from typing import Final

from hedwig.clock import Deadline, SystemClock
from hedwig.errors import LedgerStoreUnavailableError
from hedwig.operations.deployment.ledgers import bookies_session
from hedwig.outcomes import NotAppliedError

__all__ = ["BookieCounts", "count_bookies"]

_READ_ONLY: Final = "readonly"


@dataclass(frozen=True, slots=True)
class BookieCounts:
    """How many bookies there are."""

    writable: int
    read_only: int


async def count_bookies(url: str, timeout_s: float) -> BookieCounts:
    """Return how many bookies are registered at `url`, zookeeper://host:port/ledgers.

    Raises: LedgerStoreUnavailableError - ZooKeeper does not answer, or no bookie was ever there; ConfigurationError -
        it is no such URL, or an extra is missing.
    """
    try:
        async with bookies_session(url, timeout_s) as (session, root):
            from kazoo.exceptions import ZookeeperError

            from hedwig.zookeeper import children

            paths = (f"{root}/available", f"{root}/available/{_READ_ONLY}")
            deadline = Deadline.after(SystemClock(), timeout_s)
            known, reading = await session.send(deadline, *(children(path) for path in paths))
    except NotAppliedError as exc:
        raise LedgerStoreUnavailableError(f"{exc}; see that ZooKeeper is up there") from exc
    if isinstance(known, ZookeeperError):
        raise LedgerStoreUnavailableError(f"no bookie was ever registered at {url}: {type(known).__name__}")
    read_only = 0 if isinstance(reading, ZookeeperError) else len(reading)
    return BookieCounts(len(frozenset(known) - {_READ_ONLY}), read_only)
