"""The channels for all requests but subscriptions: one to each hub, which all callers share."""

import asyncio
from functools import partial
from typing import Final

from hedwig.client.activity import Activity
from hedwig.client.connections.channel import Channel
from hedwig.client.connections.heartbeat import Heartbeat
from hedwig.client.options import ClientOptions, HubAddress
from hedwig.concurrency.keyed_work import KeyedWork
from hedwig.errors import ClientClosedError, CouldNotConnectError
from hedwig.wire import Delivery, Event, Ping

__all__ = ["RequestChannels"]


_PUBLISHER_BYTES: Final = 12


class RequestChannels:
    """Opens a channel to a hub when it is first needed, and again when it has ended."""

    def __init__(self, options: ClientOptions, heartbeat: Heartbeat, activity: Activity) -> None:
        self._options = options
        self._activity = activity
        self._ping = Ping(options.random.randbytes(_PUBLISHER_BYTES) if options.publish_once else None)
        """With the publisher by which hubs know the messages of this client, on whatever channel they come."""
        self._heartbeat = heartbeat
        self._open: dict[HubAddress, Channel] = {}
        self._opening = KeyedWork[HubAddress, Channel](
            lambda: ClientClosedError("the client was closed; make another one")
        )

    def opened(self, address: HubAddress) -> Channel | None:
        """Return the channel to a hub, if it is open."""
        return self._open.get(address)

    def opening(self, address: HubAddress) -> asyncio.Task[Channel]:
        """Return the task that opens a channel to a hub. It raises CouldNotConnectError. Do not cancel it."""
        return self._opening.begin(address, partial(self._open_one, address))

    async def channel(self, address: HubAddress) -> Channel:
        """Return the channel to a hub, after opening it if necessary. Raises CouldNotConnectError."""
        channel = self.opened(address)
        if channel is None:
            channel = await self._opening.join(address, partial(self._open_one, address))
        return channel

    async def close(self) -> None:
        """Close all channels. Requests under way fail."""
        await self._opening.aclose()
        for channel in list(self._open.values()):
            await channel.close()

    async def _open_one(self, address: HubAddress) -> Channel:
        channel = await Channel.open(
            address, self._options, _ignore, self._forget, on_leave=self._leave, ping=self._ping
        )
        if not channel.is_open:
            raise CouldNotConnectError(f"the hub {address} closed the connection at once")
        self._open[address] = channel
        self._heartbeat.watch(channel)
        return channel

    def _leave(self, channel: Channel) -> None:
        if self._open.get(channel.address) is channel:
            del self._open[channel.address]

    def _forget(self, channel: Channel) -> None:
        self._activity.lost_connections += channel.is_lost
        self._leave(channel)


def _ignore(_: Delivery | Event) -> None:
    """Drop a delivery or event, which a hub has no reason to send on this channel."""
