"""What a hub has to send and the sockets of its channels have not taken, in one account for all of them."""

from typing import Final, Protocol

from hedwig.hub.options.options import HubOptions

__all__ = ["Unsent"]

_OWN_BYTES: Final = 16 * 1024
"""What a channel may have unsent however much others have."""
_SHARES: Final = 64
"""A channel may have this part of what is free. So what is free gets less with each that fills its part, and never
ends: 64 full ones leave half of it, and 20,000 of them a three-hundredth."""
_LOOKED_AT_MAX: Final = 16
"""How many channels are looked at to find one that is to be cut off."""


class Sender(Protocol):
    """What is asked of a channel that has something to send."""

    @property
    def untaken_bytes(self) -> int: ...

    def cut_off(self) -> None: ...


class Unsent:
    """Counts the bytes that channels have to send, and says how many each may have.

    Deliveries wait for that. Answers cannot wait, since whoever asked is owed them, so they may take half of the bytes
    at most. Beyond, the channel is cut off that has not taken its answers for longest.
    """

    __slots__ = ("_answer_bytes_max", "_bytes_max", "_channel_bytes_max", "_deaf", "answer_bytes", "bytes", "own_bytes")

    def __init__(self, options: HubOptions) -> None:
        self.bytes = 0
        self.answer_bytes = 0
        """The part of `bytes` that is answers."""
        self._bytes_max = options.unsent_bytes_max
        self._answer_bytes_max = options.unsent_bytes_max // 2
        self._channel_bytes_max = options.channel_unsent_bytes
        self.own_bytes = min(_OWN_BYTES, options.channel_unsent_bytes)
        """What is never too much for a channel."""
        self._deaf: dict[Sender, int] = {}
        """The channels whose sockets do not take their answers, the first to do so first, and what they had then."""

    @property
    def share(self) -> int:
        """How many bytes a channel may have unsent now."""
        free = self._bytes_max - self.bytes
        return min(self._channel_bytes_max, max(self.own_bytes, free // _SHARES))

    def note_waiting(self, channel: Sender) -> None:
        """Take note that answers wait for the socket of `channel`."""
        if channel not in self._deaf:
            self._deaf[channel] = channel.untaken_bytes

    def note_taken(self, channel: Sender) -> None:
        """Take note that nothing waits for the socket of `channel` any more."""
        self._deaf.pop(channel, None)

    def relieve(self) -> None:
        """Cut off channels that do not take their answers, if there are too many bytes of these.

        One that has taken some since it was looked at last goes behind the others.
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
