"""Ledger ids from ZooKeeper, by the counters of BookKeeper: short ones while they last, then long ones."""

from typing import Any, Final

from kazoo.exceptions import NodeExistsError, NoNodeError, ZookeeperError

from hedwig.clock import Deadline
from hedwig.errors import LedgerStoreUnavailableError
from hedwig.hub.ledgers.bookkeeper.records.session import Session
from hedwig.hub.ledgers.bookkeeper.records.znode_paths import LedgerLayout
from hedwig.zookeeper import Request, children, create, delete, exists

__all__ = ["LedgerIds"]

_SHORT_IDS: Final = (1 << 31) - 1
_HIGH: Final = "HOB-"
_ROUNDS_MAX: Final = 8


class LedgerIds:
    """Gives ids that no client was given before. Some ids may stay unused."""

    def __init__(self, session: Session, root: str, layout: LedgerLayout) -> None:
        self._session = session
        self._root = root
        self._layout = layout
        self._has_long = layout.ids_end > _SHORT_IDS
        self._drawn: list[str] = []
        """Nodes from which numbers were drawn. The next request deletes them, so only concurrent draws add up."""

    async def next(self, deadline: Deadline) -> int:
        """Return a new id. Raises: LedgerStoreUnavailableError - none can be drawn now, or there are no more."""
        parent = self._root if self._layout is LedgerLayout.FLAT else f"{self._root}/idgen"
        asked = (exists(f"{self._root}/idgen-long"),) if self._has_long else ()
        number, long = await self._draw(deadline, parent, *asked)
        if isinstance(long, ZookeeperError):
            raise _refused("asking for ledger ids", long)
        if long is not None:
            return await self._next_long(deadline)
        if 0 <= number < _SHORT_IDS:
            return number
        if not self._has_long:
            raise LedgerStoreUnavailableError("there are no more ledger ids in this layout")
        return await self._next_long(deadline)

    async def _next_long(self, deadline: Deadline) -> int:
        top = f"{self._root}/idgen-long"
        for _ in range(_ROUNDS_MAX):
            (names,) = await self._session.send(deadline, children(top))
            if isinstance(names, NoNodeError):
                await self._make(deadline, top)
                continue
            if isinstance(names, ZookeeperError):
                raise _refused("asking for long ledger ids", names)
            high = max((int(name.removeprefix(_HIGH)) for name in names if name.startswith(_HIGH)), default=0)
            if high > 0:
                low, _ = await self._draw(deadline, f"{top}/{_HIGH}{high:010}")
                if 0 <= low < _SHORT_IDS:
                    return high << 32 | low
            # There is no counter yet, or the last one is used up.
            await self._make(deadline, f"{top}/{_HIGH}{high + 1:010}")
        raise LedgerStoreUnavailableError("cannot get a long ledger id: other clients take them all")

    async def _draw(self, deadline: Deadline, parent: str, *asked: Request) -> tuple[int, Any]:
        """Return the number that ZooKeeper appends to a new child of `parent`, made if it is missing.

        Also return the answer to the request `asked`, which is sent in the same round trip; None without one.
        """
        for _ in range(_ROUNDS_MAX):
            drawn, self._drawn = self._drawn, []
            try:
                made, *others = await self._session.send(
                    deadline, create(f"{parent}/ID-", ephemeral=True, sequence=True), *asked, *map(delete, drawn)
                )
            except BaseException:
                # The next request deletes them again. That does no harm to those that are gone.
                self._drawn += drawn
                raise
            if isinstance(made, NoNodeError):
                await self._make(deadline, parent)
                continue
            if isinstance(made, ZookeeperError):
                raise _refused(f"making an id below {parent}", made)
            self._drawn.append(made)
            return _number(made), others[0] if asked else None
        raise LedgerStoreUnavailableError(f"{parent} cannot be made")

    async def _make(self, deadline: Deadline, path: str) -> None:
        (made,) = await self._session.send(deadline, create(path))
        if isinstance(made, ZookeeperError) and not isinstance(made, NodeExistsError):
            raise _refused(f"making {path}", made)


def _number(path: str) -> int:
    """Return the number that ZooKeeper appended: ten digits, or a negative number once the counter has overflowed."""
    return int(path.rpartition("/ID-")[2])


def _refused(what: str, error: Any) -> LedgerStoreUnavailableError:
    return LedgerStoreUnavailableError(f"{what}: ZooKeeper answered {type(error).__name__}")
