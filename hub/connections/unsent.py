"""The bytes that a hub has to send and the sockets of its channels have not taken, in one account for all channels."""

from typing import Final, Protocol

from hedwig.hub.options.options import HubOptions

__all__ = ["Unsent"]

_OWN_BYTES: Final = 16 * 1024
"""How many bytes a channel may always have unsent, whatever other channels have."""
_SHARES: Final = 64
"""A channel may have 1/N of the free bytes. So the free bytes shrink with each channel that fills its part, but never
reach 0. With the part of 64, 64 full channels leave half of them, and 20,000 leave a three-hundredth."""
_LOOKED_AT_MAX: Final = 16
"""How many channels `relieve` visits to find one to cut off."""


class Sender(Protocol):
    """A channel with unsent bytes, as the account uses it."""

    @property
    def untaken_bytes(self) -> int: ...

    def cut_off(self) -> None: ...


class Unsent:
    """Counts the bytes that channels have to send, and says how many each may have.

    Deliveries wait for that. Answers cannot wait, because the hub owes them to the clients. So they may take at most
    half of the bytes. Beyond that, the hub cuts off the channel that has not taken its answers for longest.
    """

    __slots__ = ("_answer_bytes_max", "_bytes_max", "_channel_bytes_max", "_deaf", "answer_bytes", "bytes", "own_bytes")

    def __init__(self, options: HubOptions) -> None:
        self.bytes = 0
        self.answer_bytes = 0
        """The bytes of answers among `bytes`."""
        self._bytes_max = options.unsent_bytes_max
        self._answer_bytes_max = options.unsent_bytes_max // 2
        self._channel_bytes_max = options.channel_unsent_bytes
        self.own_bytes = min(_OWN_BYTES, options.channel_unsent_bytes)
        """How many bytes a channel may always have."""
        self._deaf: dict[Sender, int] = {}
        """The channels whose sockets do not take their answers, the longest first, and their untaken bytes then."""

    @property
    def share(self) -> int:
        """How many bytes a channel may have unsent now."""
        free = self._bytes_max - self.bytes
        return min(self._channel_bytes_max, max(self.own_bytes, free // _SHARES))

    def note_waiting(self, channel: Sender) -> None:
        """Record that answers wait for the socket of `channel`."""
        if channel not in self._deaf:
            self._deaf[channel] = channel.untaken_bytes

    def note_taken(self, channel: Sender) -> None:
        """Record that no more answers wait for the socket of `channel`."""
        self._deaf.pop(channel, None)

    def relieve(self) -> None:
        """Cut off channels that do not take their answers, while all answers together have too many bytes.

        A channel that has taken some bytes since the last visit goes behind the others.
        """
        for _ in range(min(len(self._deaf), _LOOKED_AT_MAX)):
            if self.answer_bytes <= self._answer_bytes_max:
                return
            channel, before = next(iter(self._deaf.items()))
            del self._deaf[channel]
            if channel.untaken_bytes < before:
                self._deaf[channel] = channel.untaken_bytes
            else:
                channel.cut_off()
