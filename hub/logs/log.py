"""What a topic's log does, whether its messages are kept or not."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from hedwig.errors import HedwigError
from hedwig.model import RegionSeqId
from hedwig.wire import Message

__all__ = ["Listener", "Published", "TopicLog"]

Published: TypeAlias = Callable[[int, tuple[RegionSeqId, ...], HedwigError | None], None]
"""What a publish came to: the position of the message (local, remote), or why it has none that was acknowledged."""


class Listener(Protocol):
    """Who hears of a log's news; a topic."""

    @property
    def has_attached(self) -> bool:
        """Whether somebody is attached, so that new messages are worth keeping in memory."""
        ...

    def on_message(self, local: int, stored: bytes) -> None:
        """Take a message that has just become part of the topic; they come in order, without gap."""
        ...

    def on_ledger_closed(self) -> None:
        """Take note that there may be one more ledger to delete once it is consumed."""
        ...

    async def is_owned(self) -> bool:
        """Ask the metadata whether the topic is still claimed for this log. Raises: MetadataError."""
        ...

    def on_lost(self, error: HedwigError) -> None:
        """Give the topic up: the log does not know what it holds, or belongs to somebody else."""
        ...


class TopicLog(Protocol):
    """The messages of one topic, in order, as its owner sees them."""

    last_id: int
    """The id of the last message that is part of the topic, 0 for none. Later ones may be on their way."""

    @property
    def first_id(self) -> int:
        """The id of the first message that can be read; beyond `last_id` if there is none."""
        ...

    @property
    def has_closed(self) -> bool:
        """Whether there are ledgers that could be deleted once everybody has consumed them."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether no publish is on its way."""
        ...

    def publish(self, message: Message, done: Published) -> None:
        """Make a message part of the topic, and call `done` once that is so, or surely or maybe is not.

        Positions are given in the order of the calls, and `done` is called in that order.
        """
        ...

    def recent(self, local: int) -> bytes | None:
        """Return a message that is in memory, as it is stored; None if it is not."""
        ...

    def forget_recent(self) -> None:
        """Let the messages in memory go: nobody is attached any more."""
        ...

    async def read(self, local: int, *, messages_max: int, bytes_max: int) -> Sequence[bytes]:
        """Return stored messages from position `local` on, without gap; none only behind the last.

        At most `messages_max` and, from the second on, `bytes_max`; maybe fewer.

        Raises: LedgerError; TimeoutError.
        """
        ...

    async def delete_consumed(self, consumed: int) -> int:
        """Delete what holds only messages up to and with `consumed`; return how many messages that were.

        Raises: MetadataError, ServiceDownError; then nothing was deleted.
        """
        ...

    async def end_ledger(self) -> None:
        """Close the ledger that takes appends, if it holds any, so that it can be deleted; the next publish makes one.

        Raises: MetadataError, LedgerError, TimeoutError; then it may take appends still.
        """
        ...

    async def merge_small(self) -> bool:
        """Have one ledger take the place of many small ones; return whether there may be more to merge.

        Raises: MetadataError, LedgerError, TimeoutError; all messages stay readable.
        """
        ...

    def attach_listener(self, listener: Listener) -> None:
        """Say who hears of news. Before anything else."""
        ...

    async def close(self) -> None:
        """Let what is on its way end, and leave the log so that the next owner has nothing to recover.

        Raises: MetadataError, LedgerError, TimeoutError - then the next owner recovers it.
        """
        ...

    def abandon(self) -> None:
        """Refuse the publishes that were not begun, and leave everything as it is; none comes after this."""
        ...

    async def end(self) -> bool:
        """Let nothing that was begun change the topic after this; return whether it is known what is on record.

        If it is not, only a claim that takes the topic over may serve it next.
        """
        ...
