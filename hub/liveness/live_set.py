"""The hubs that are alive, kept current by two watches."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from hedwig.clock import Deadline
from hedwig.errors import ServiceDownError
from hedwig.hub.liveness.directory import read_hosts
from hedwig.hub.liveness.lasting import LastingTask
from hedwig.hub.liveness.live_hub import LiveHub
from hedwig.hub.liveness.options import LivenessOptions
from hedwig.hub.liveness.paths import HubPaths
from hedwig.model import HubInfo
from hedwig.zookeeper import Bridge, Connection

__all__ = ["LiveSet"]

_log = logging.getLogger(__name__)

_RETRY_S = 0.5


class LiveSet:
    """Reads all host nodes when a hub comes, goes or leaves, at each connection, and for their loads every so often.

    What it shows may be some time behind. Without a connection the last that was known stays.
    """

    def __init__(
        self,
        bridge: Bridge,
        places: HubPaths,
        options: LivenessOptions,
        on_failed: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`on_failed` is told, in a sentence, when it follows no more, which only a defect can bring about."""
        self._bridge = bridge
        self._places = places
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._hubs: tuple[LiveHub, ...] = ()
        self._read_on: Connection | None = None
        self._read_at_s: float | None = None
        """When what is shown was asked for."""
        self._reading = asyncio.Lock()
        self._changed = asyncio.Event()
        self._known = asyncio.Event()
        self._following = LastingTask("following the live hubs", on_failed)

    @property
    def hubs(self) -> tuple[LiveHub, ...]:
        """Return the hubs that were alive when they were last read, by address."""
        return self._hubs

    @property
    def is_watched(self) -> bool:
        """Say whether the watch stands, so that a change would be heard of."""
        return self._read_on is not None and self._read_on is self._bridge.connection

    def has(self, hub: HubInfo) -> bool:
        """Say whether this very incarnation is in the set."""
        return self.find(hub) is not None

    def find(self, hub: HubInfo) -> LiveHub | None:
        """Return this very incarnation as it was last read, or None."""
        return next((it for it in self._hubs if (it.info.epoch, it.info.address) == (hub.epoch, hub.address)), None)

    def start(self) -> None:
        """Begin to follow."""
        self._following.start(self._follow())

    async def known(self) -> None:
        """Wait until it has been read once."""
        await self._known.wait()

    def poke(self) -> None:
        """Read anew."""
        self._changed.set()

    async def refresh(self, within_s: float) -> None:
        """Read anew, unless that was done so lately. Raises ServiceDownError - ZooKeeper does not answer."""
        async with self._reading:
            read_at_s = self._read_at_s
            if not self.is_watched or read_at_s is None or self._options.clock.monotonic() - read_at_s > within_s:
                await self._read()

    async def aclose(self) -> None:
        """Follow no more. May be called twice."""
        await self._following.end()

    async def _follow(self) -> None:
        pause_s = 0.0
        while True:
            try:
                async with asyncio.timeout(pause_s):
                    await self._changed.wait()
            except TimeoutError:
                pass
            try:
                async with self._reading:
                    await self._read()
                pause_s = self._options.refresh_s
            except ServiceDownError as exc:
                _log.info("who is alive is not known anew: %s", exc)
                await self._options.clock.sleep(_RETRY_S)
                pause_s = 0.0

    async def _read(self) -> None:
        # Cleared first: a change from here on shows in what is read, or sets it again.
        self._changed.clear()
        deadline = Deadline.after(self._options.clock, self._options.operation_timeout_s)
        connection, asked_at_s = self._bridge.connection, self._options.clock.monotonic()
        before = {(hub.info.address, hub.info.epoch) for hub in self._hubs}
        try:
            self._hubs = await read_hosts(self._bridge, self._places, deadline, self._on_change)
        except BaseException:
            # What it was woken for is yet to be read, whoever has tried.
            self._read_on = None
            self._changed.set()
            raise
        self._read_on, self._read_at_s = connection, asked_at_s
        self._known.set()
        after = {(hub.info.address, hub.info.epoch) for hub in self._hubs}
        for address, epoch in sorted(after - before):
            _log.info("hub %s is alive, epoch %d", address, epoch)
        for address, epoch in sorted(before - after):
            _log.info("hub %s is gone, epoch %d", address, epoch)

    def _on_change(self, _event: Any) -> None:
        """Wake the follower, from kazoo's thread."""
        try:
            self._loop.call_soon_threadsafe(self._changed.set)
        except RuntimeError:
            # The loop ended before the session; nobody follows any more.
            return
