"""How many bookies are registered: who takes new entries, and who only gives old ones."""

from dataclasses import dataclass
from typing import Final

from hedwig.cli.deployment.ledger_access import bookkeeper_place
from hedwig.clock import Deadline, SystemClock
from hedwig.errors import ConfigurationError, LedgerStoreUnavailableError
from hedwig.outcomes import NotAppliedError

__all__ = ["Bookies", "count_bookies"]

_READ_ONLY: Final = "readonly"


@dataclass(frozen=True, slots=True)
class Bookies:
    """How many bookies there are."""

    writable: int
    read_only: int


async def count_bookies(place: str, timeout_s: float) -> Bookies:
    """Return how many bookies are registered at `place`, zookeeper://host:port/ledgers.

    Raises: LedgerStoreUnavailableError - ZooKeeper does not answer, or no bookie was ever there; ConfigurationError -
        the place is none, or an extra is missing.
    """
    hosts, root = bookkeeper_place(place)
    try:
        from kazoo.exceptions import ZookeeperError

        from hedwig.hub.ledgers.bookkeeper.records.bridged_session import BridgedSession
        from hedwig.hub.ledgers.bookkeeper.records.zookeeper import children
        from hedwig.zookeeper import Bridge, BridgeOptions
    except ImportError as exc:
        raise ConfigurationError(
            f"bookies are counted with {exc.name}; in the checkout of hedwig: pip install '.[zookeeper,bookkeeper]'"
        ) from exc
    clock = SystemClock()
    bridge = Bridge(hosts, BridgeOptions(connect_timeout_s=timeout_s, clock=clock))
    try:
        await bridge.connect()
        paths = (f"{root}/available", f"{root}/available/{_READ_ONLY}")
        deadline = Deadline.after(clock, timeout_s)
        known, reading = await BridgedSession(bridge).send(deadline, *(children(path) for path in paths))
    except NotAppliedError as exc:
        raise LedgerStoreUnavailableError(f"{exc}; see that ZooKeeper is up there") from exc
    finally:
        await bridge.close()
    if isinstance(known, ZookeeperError):
        raise LedgerStoreUnavailableError(f"no bookie was ever registered at {place}: {type(known).__name__}")
    read_only = 0 if isinstance(reading, ZookeeperError) else len(reading)
    return Bookies(len(frozenset(known) - {_READ_ONLY}), read_only)
