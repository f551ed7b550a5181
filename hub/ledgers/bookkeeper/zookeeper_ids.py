"""Ledger ids from ZooKeeper, by the counters of the original: short ones while they last, then long ones."""

from typing import Any, Final

from kazoo.exceptions import NodeExistsError, NoNodeError, ZookeeperError

from hedwig.clock import Deadline
from hedwig.errors import LedgerStoreUnavailableError
from hub.ledgers.bookkeeper.znode_paths import LedgerLayout
from hub.ledgers.bookkeeper.zookeeper import Session, children, create, create_ephemeral_sequential, delete, exists

__all__ = ["LedgerIds"]

_SHORT_IDS: Final = (1 << 31) - 1
_HIGH: Final = "HOB-"
_ROUNDS_MAX: Final = 8


class LedgerIds:
    """Gives ids that nobody was given before; some may be left out."""

    def __init__(self, session: Session, root: str, layout: LedgerLayout) -> None:
        self._session = session
        self._root = root
        self._layout = layout
        self._has_long = layout.ids_end > _SHORT_IDS

    async def next(self, deadline: Deadline) -> int:
        """Return a new id. Raises: LedgerStoreUnavailableError - none can be had now, or there are no more."""
        parent = self._root if self._layout is LedgerLayout.FLAT else f"{self._root}/idgen"
        if self._has_long:
            (long,) = await self._session.send(deadline, exists(f"{self._root}/idgen-long"))
            if isinstance(long, ZookeeperError):
                raise _refused("asking for ledger ids", long)
            if long is not None:
                return await self._next_long(deadline)
        found = await self._draw(deadline, parent)
        if 0 <= found < _SHORT_IDS:
            return found
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
                low = await self._draw(deadline, f"{top}/{_HIGH}{high:010}")
                if 0 <= low < _SHORT_IDS:
                    return high << 32 | low
            # The first one, or the last one is used up.
            await self._make(deadline, f"{top}/{_HIGH}{high + 1:010}")
        raise LedgerStoreUnavailableError("no long ledger id could be had: others take them all")

    async def _draw(self, deadline: Deadline, parent: str) -> int:
        """Return the number that ZooKeeper appends to a new child of `parent`, made if it is missing."""
        for _ in range(_ROUNDS_MAX):
            (made,) = await self._session.send(deadline, create_ephemeral_sequential(f"{parent}/ID-"))
            if isinstance(made, NoNodeError):
                await self._make(deadline, parent)
                continue
            if isinstance(made, ZookeeperError):
                raise _refused(f"making an id below {parent}", made)
            # It would go with the session; deleting it now is a courtesy, whose failure does not matter.
            await self._session.send(deadline, delete(made))
            return _number(made)
        raise LedgerStoreUnavailableError(f"{parent} cannot be made")

    async def _make(self, deadline: Deadline, path: str) -> None:
        (made,) = await self._session.send(deadline, create(path))
        if isinstance(made, ZookeeperError) and not isinstance(made, NodeExistsError):
            raise _refused(f"making {path}", made)


def _number(path: str) -> int:
    """Return what ZooKeeper appended: ten digits, or a sign and more once the counter has run over."""
    return int(path.rpartition("/ID-")[2])


def _refused(what: str, error: Any) -> LedgerStoreUnavailableError:
    return LedgerStoreUnavailableError(f"{what}: ZooKeeper answered {type(error).__name__}")
