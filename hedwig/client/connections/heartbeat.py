"""The heartbeat of a client: it notices hubs that stand still, which leave their connections open."""

import asyncio
from typing import Final

from hedwig.client.connections.channel import Channel
from hedwig.errors import CouldNotConnectError

__all__ = ["Heartbeat"]

_BEATS: Final = 4
"""How often it looks at the channels within the longest silence."""


class Heartbeat:
    """Asks hubs that have said nothing for a while, and ends the channels of those that do not answer.

    It asks as well if nothing was sent for a while, so that hubs know that this client is there. One timer serves all
    channels of a client. A channel that is not read, since an application is slow, is never given up.
    """

    def __init__(self, silence_s: float) -> None:
        self._silence_s = silence_s
        self._channels: dict[Channel, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, channel: Channel) -> None:
        """Look after a channel, until it ends."""
        self._channels[channel] = None
        if self._timer is None:
            self._wait()

    @property
    def open_channels(self) -> int:
        """Return how many channels are open."""
        return sum(channel.is_open for channel in self._channels)

    def _wait(self) -> None:
        period_s = self._silence_s / _BEATS
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(period_s, self._beat, loop.time() + 2 * period_s)

    def _beat(self, latest: float) -> None:
        now = asyncio.get_running_loop().time()
        self._timer = None
        self._channels = {channel: None for channel in self._channels if channel.is_open}
        if not self._channels:
            return
        self._wait()
        for channel in list(self._channels):
            if channel.is_paused or now > latest:
                channel.heard_at = now  # Nothing was read: by choice, or since this process stood still.
            elif now - channel.heard_at > self._silence_s:
                channel.end(CouldNotConnectError(f"it has said nothing for {self._silence_s:g} s"))
                continue
            if now - min(channel.heard_at, channel.sent_at) > self._silence_s / 2:
                channel.ping()

    def close(self) -> None:
        """Look after no channel any more."""
        self._channels.clear()
        if self._timer is not None:
            self._timer.cancel()
