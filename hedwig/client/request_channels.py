"""The channels for all requests but subscriptions: one to each hub, which all callers share."""

import asyncio
from functools import partial

from hedwig.client.channel import Channel
from hedwig.client.heartbeat import Heartbeat
from hedwig.client.options import ClientOptions, HubAddress
from hedwig.errors import ClientClosedError, CouldNotConnectError
from hedwig.wire import Delivery, Event

__all__ = ["RequestChannels"]


class RequestChannels:
    """Opens a channel to a hub when it is first needed, and again when it has ended."""

    def __init__(self, options: ClientOptions, heartbeat: Heartbeat) -> None:
        self._options = options
        self._heartbeat = heartbeat
        self._open: dict[HubAddress, Channel] = {}
        self._opening: dict[HubAddress, asyncio.Task[Channel]] = {}
        self._is_closed = False

    def opened(self, address: HubAddress) -> Channel | None:
        """Return the channel to a hub, if it is open."""
        return self._open.get(address)

    def opening(self, address: HubAddress) -> asyncio.Task[Channel]:
        """Return the task that opens a channel to a hub. It raises CouldNotConnectError. Do not cancel it."""
        opening = self._opening.get(address)
        if opening is None:
            opening = self._opening[address] = asyncio.create_task(self._open_one(address))
            opening.add_done_callback(partial(self._end_opening, address))
        return opening

    async def channel(self, address: HubAddress) -> Channel:
        """Return the channel to a hub, after opening it if necessary. Raises CouldNotConnectError."""
        channel = self.opened(address)
        if channel is None:
            # Cancelling one caller must not cancel the attempt that others wait for.
            channel = await asyncio.shield(self.opening(address))
        return channel

    async def close(self) -> None:
        """Close all channels. Requests under way fail."""
        self._is_closed = True
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        if opening:
            await asyncio.wait(opening)
        for channel in list(self._open.values()):
            await channel.close()

    async def _open_one(self, address: HubAddress) -> Channel:
        if self._is_closed:
            raise ClientClosedError("the client was closed; make another one")
        channel = await Channel.open(address, self._options, _ignore, self._forget, pings=True)
        if not channel.is_open:
            raise CouldNotConnectError(f"the hub {address} closed the connection at once")
        self._open[address] = channel
        self._heartbeat.watch(channel)
        return channel

    def _end_opening(self, address: HubAddress, opening: asyncio.Task[Channel]) -> None:
        del self._opening[address]
        if not opening.cancelled():
            opening.exception()  # If nobody waits for it any more, asyncio would report that.

    def _forget(self, channel: Channel) -> None:
        if self._open.get(channel.address) is channel:
            del self._open[channel.address]


def _ignore(_: Delivery | Event) -> None:
    """Drop a delivery or event, which a hub has no reason to send on this channel."""
