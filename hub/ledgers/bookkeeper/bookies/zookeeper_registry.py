"""The bookies that are registered in ZooKeeper: which take new entries, and where each listens."""

import asyncio
import logging
from collections.abc import Collection
from typing import Any, Final, Self

from kazoo.exceptions import NoNodeError, ZookeeperError

from hedwig.clock import Clock, Deadline
from hedwig.errors import LedgerStoreUnavailableError
from hedwig.hub.ledgers.bookkeeper.bookies.registration import parse_address
from hedwig.hub.ledgers.bookkeeper.records.session import Session
from hedwig.zookeeper import children, get, sync

__all__ = ["ZookeeperRegistry"]

_log = logging.getLogger(__name__)

_READ_ONLY: Final = "readonly"
_TIMEOUT_S: Final = 5.0
_NO_FOLDER_S: Final = 1.0
"""A missing folder is looked for every N s, since a watch on its children reports nothing."""


class ZookeeperRegistry:
    """BookieRegistry and Addresses in one. A watch reports changes to it; it also lists the bookies every `refresh_s`.

    While ZooKeeper does not answer, the last known list holds. Close it at the end.
    """

    def __init__(self, session: Session, root: str, clock: Clock, refresh_s: float) -> None:
        self._session = session
        self._path = f"{root}/available"
        self._clock = clock
        self._refresh_s = refresh_s
        self._loop = asyncio.get_running_loop()
        self._writable: frozenset[str] = frozenset()
        self._has_folder = False
        self._changed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, session: Session, root: str, clock: Clock, refresh_s: float = 10.0) -> Self:
        """List the bookies, and keep watching. Raises: LedgerStoreUnavailableError - ZooKeeper does not answer."""
        registry = cls(session, root, clock, refresh_s)
        await registry._refresh()
        registry._watching = asyncio.create_task(registry._watch())
        return registry

    def writable(self) -> Collection[str]:
        return self._writable

    async def resolve(self, bookie: str) -> tuple[str, int]:
        for path in (f"{self._path}/{bookie}", f"{self._path}/{_READ_ONLY}/{bookie}"):
            try:
                deadline = Deadline.after(self._clock, _TIMEOUT_S)
                _, node = await self._session.send(deadline, sync(path), get(path))
            except LedgerStoreUnavailableError as exc:
                # An id that is an address is enough: a connection to a bookie need not wait for ZooKeeper.
                _log.info("cannot ask ZooKeeper for the address of bookie %s, so its id is used: %s", bookie, exc)
                break
            if not isinstance(node, ZookeeperError):
                return parse_address(bookie, node[0])
        return parse_address(bookie, None)

    async def aclose(self) -> None:
        """Stop watching. May be called twice."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
            self._watching = None

    async def _watch(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._refresh_s if self._has_folder else _NO_FOLDER_S):
                    await self._changed.wait()
            except TimeoutError:
                pass
            try:
                await self._refresh()
            except LedgerStoreUnavailableError as exc:
                _log.warning("cannot ask ZooKeeper for the bookies: %s", exc)
                await self._clock.sleep(min(1.0, self._refresh_s))

    async def _refresh(self) -> None:
        # Clear it first: a change from here on shows in what is read, or sets it again.
        self._changed.clear()
        deadline = Deadline.after(self._clock, _TIMEOUT_S)
        (names,) = await self._session.send(deadline, children(self._path, self._on_change))
        self._has_folder = not isinstance(names, NoNodeError)
        if not self._has_folder:
            # No bookie was ever set up.
            names = ()
        if isinstance(names, ZookeeperError):
            raise LedgerStoreUnavailableError(f"{self._path} cannot be listed: {type(names).__name__}")
        before, self._writable = self._writable, frozenset(names) - {_READ_ONLY}
        for bookie in sorted(before - self._writable):
            _log.warning("bookie %s has gone, or takes no new ledgers; %d do", bookie, len(self._writable))
        for bookie in sorted(self._writable - before) if before else ():
            _log.info("bookie %s takes new ledgers, as %d others do", bookie, len(self._writable) - 1)

    def _on_change(self, _event: Any) -> None:
        """Wake the watcher, from kazoo's thread."""
        try:
            self._loop.call_soon_threadsafe(self._changed.set)
        except RuntimeError:
            # The loop ended before the session, so no task watches any more.
            return
