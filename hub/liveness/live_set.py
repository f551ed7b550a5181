"""The hubs that are alive, kept current by two watches."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from hedwig.clock import Deadline
from hedwig.errors import ServiceDownError
from hedwig.hub.liveness.directory import attach_endpoints, read_endpoints, read_hosts
from hedwig.hub.liveness.lasting import LastingTask
from hedwig.hub.liveness.live_hub import Endpoint, LiveHub
from hedwig.hub.liveness.options import LivenessOptions
from hedwig.hub.liveness.paths import HubPaths
from hedwig.model import HubInfo
from hedwig.zookeeper import Bridge, NewSession

__all__ = ["LiveSet"]

_log = logging.getLogger(__name__)

_RETRY_S = 0.5


class LiveSet:
    """Reads all host nodes when a hub registers, ends or begins to leave, at each connection, and every `refresh_s`.

    The set may lag behind. Without a connection, it keeps the hubs that were read last.
    """

    def __init__(
        self,
        bridge: Bridge,
        paths: HubPaths,
        options: LivenessOptions,
        on_failed: Callable[[str], None] = lambda _: None,
        *,
        has_listeners: bool = False,
    ) -> None:
        """`on_failed` is called with a sentence when the set is no longer updated, which only a defect can cause.

        With `has_listeners`, the set knows the named listeners of the hubs too.
        """
        self._bridge = bridge
        self._paths = paths
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._hubs: tuple[LiveHub, ...] = ()
        self._has_listeners = has_listeners
        self._endpoints: dict[int, Endpoint] = {}
        """The endpoint nodes of the hubs, by epoch. They never change."""
        self._read_on: NewSession | None = None
        self._read_at_s: float | None = None
        """When the present set was asked for."""
        self._reading = asyncio.Lock()
        self._changed = asyncio.Event()
        self._known = asyncio.Event()
        self._following = LastingTask("following the live hubs", on_failed)

    @property
    def hubs(self) -> tuple[LiveHub, ...]:
        """The hubs that were alive at the last read, sorted by address."""
        return self._hubs

    @property
    def read_at_s(self) -> float | None:
        """When the present set was asked for, by the monotonic clock; None before the first."""
        return self._read_at_s

    @property
    def is_watched(self) -> bool:
        """Whether the watches are set on the present connection, so that a change is reported."""
        return self._read_on is not None and self._read_on is self._bridge.connection

    def has(self, hub: HubInfo) -> bool:
        """Say whether this incarnation is in the set."""
        return self.find(hub) is not None

    def find(self, hub: HubInfo) -> LiveHub | None:
        """Return this incarnation as it was last read, or None."""
        return next((it for it in self._hubs if (it.info.epoch, it.info.address) == (hub.epoch, hub.address)), None)

    def start(self) -> None:
        """Start to follow the hubs."""
        self._following.start(self._follow())

    async def known(self) -> None:
        """Wait until the set has been read once."""
        await self._known.wait()

    def poke(self) -> None:
        """Read the set again soon."""
        self._changed.set()

    async def refresh(self, within_s: float) -> None:
        """Read the set again, unless it is at most `within_s` old.

        Raises: ServiceDownError - ZooKeeper does not answer.
        """
        async with self._reading:
            read_at_s = self._read_at_s
            if not self.is_watched or read_at_s is None or self._options.clock.monotonic() - read_at_s > within_s:
                await self._read()

    async def aclose(self) -> None:
        """Stop following the hubs. May be called twice."""
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
                _log.info("cannot read again which hubs are alive: %s", exc)
                await self._options.clock.sleep(_RETRY_S)
                pause_s = 0.0

    async def _read(self) -> None:
        # Clear it first. A change from here on shows in the result, or sets it again.
        self._changed.clear()
        deadline = Deadline.after(self._options.clock, self._options.operation_timeout_s)
        connection, asked_at_s = self._bridge.connection, self._options.clock.monotonic()
        before = {(hub.info.address, hub.info.epoch) for hub in self._hubs}
        try:
            hubs = await read_hosts(self._bridge, self._paths, deadline, self._on_change)
            self._hubs = await self._with_listeners(hubs, deadline) if self._has_listeners else hubs
        except BaseException:
            # The change is not read yet, so the follower must read again.
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

    async def _with_listeners(self, hubs: tuple[LiveHub, ...], deadline: Deadline) -> tuple[LiveHub, ...]:
        epochs = {hub.info.epoch for hub in hubs}
        if not epochs <= self._endpoints.keys():
            # A hub makes both nodes in one transaction, so those of each hub that was listed are here or gone.
            read = await read_endpoints(self._bridge, self._paths, deadline)
            self._endpoints = {epoch: endpoint for _, endpoint, epoch in read if epoch in epochs}
        return attach_endpoints(hubs, self._endpoints)

    def _on_change(self, _event: Any) -> None:
        """Wake the follower, from kazoo's thread."""
        try:
            self._loop.call_soon_threadsafe(self._changed.set)
        except RuntimeError:
            # The loop ended before the session, so no task follows any more.
            return
