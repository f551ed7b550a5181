"""The interface of a topic's log, durable or not."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from hedwig.errors import HedwigError
from hedwig.model import RegionSeqId
from hedwig.wire import Message

__all__ = ["LogListener", "PublishWindow", "Published", "TopicLog"]

Published: TypeAlias = Callable[[int, tuple[RegionSeqId, ...], HedwigError | None], None]
"""Receives the outcome of a publish: the position of the message (local, remote), or why none is acknowledged."""


class PublishWindow(Protocol):
    """What a log knows of recent publishes."""

    def publish(
        self,
        message: Message,
        done: Published,
        name: bytes,
        sequence: int,
        previous: int,
        answered: int,
        age_ms: int,
    ) -> None:
        """As TopicLog.publish_once."""
        ...

    def knows(self, name: bytes, sequence: int) -> bool:
        """Say whether a message is no new one, as far as this is known now."""
        ...


class LogListener(Protocol):
    """Receives the events of a log; it is a topic."""

    @property
    def has_attached(self) -> bool:
        """Whether a subscriber is attached, so that new messages are worth keeping in memory."""
        ...

    def on_message(self, local: int, stored: bytes) -> None:
        """Receive a message that has just become part of the topic; messages come in order, without gaps."""
        ...

    def on_ledger_closed(self) -> None:
        """Record that there may be one more ledger to delete once it is consumed."""
        ...

    async def is_owned(self) -> bool:
        """Read from the metadata whether the topic is still claimed for this log. Raises: MetadataError."""
        ...

    def on_lost(self, error: HedwigError) -> None:
        """Give up the topic: the log does not know what it holds, or another hub owns it."""
        ...


class TopicLog(Protocol):
    """The messages of one topic, in order, as its owner sees them."""

    last_id: int
    """The id of the last message that is part of the topic, 0 for none. Later ones may be on their way."""

    @property
    def window(self) -> PublishWindow | None:
        """What is known of recent publishes; None if the log keeps none, or none yet."""
        ...

    @property
    def first_id(self) -> int:
        """The id of the first message that can be read; `last_id` + 1 if there is none."""
        ...

    @property
    def has_closed(self) -> bool:
        """Whether there are ledgers that can be deleted once all subscribers have consumed them."""
        ...

    @property
    def is_keeping(self) -> bool:
        """Whether consumed messages may be kept, because they may be published again. They can be deleted later."""
        ...

    @property
    def is_recent(self) -> bool:
        """Whether this hub has stored a message of which it must know if it is published again."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether no publish is on its way."""
        ...

    def publish(self, message: Message, done: Published) -> None:
        """Make a message part of the topic, and call `done` once it is, surely is not, or that is unknown.

        The log assigns positions in the order of the calls, and calls `done` in that order.
        """
        ...

    def publish_once(
        self,
        message: Message,
        done: Published,
        publisher: bytes,
        sequence: int,
        previous: int,
        answered: int,
        age_ms: int,
    ) -> None:
        """Publish a message unless it is part of the topic already. Then `done` gets the position that it has.

        Args: as wire.Attempt. `answered` is 0 if the publisher may repeat any message.
        """
        ...

    def recent(self, local: int) -> bytes | None:
        """Return the stored form of a message in memory; None if it is not in memory."""
        ...

    def forget_recent(self) -> None:
        """Drop the messages in memory, because no subscriber is attached any more."""
        ...

    async def read(self, local: int, *, messages_max: int, bytes_max: int) -> Sequence[bytes]:
        """Return stored messages from position `local` on, without gaps; none only after the last.

        It returns at most `messages_max` messages, and maybe fewer. From the second message on, they have at most
        `bytes_max` bytes.

        Raises: LedgerError; TimeoutError.
        """
        ...

    async def bytes_from(self, local: int, *, enough: int) -> int:
        """Return how many bytes the messages from position `local` on have, as they are stored.

        It may stop beyond `enough`. Raises: LedgerError; TimeoutError.
        """
        ...

    async def delete_consumed(self, consumed: int) -> int:
        """Delete the ledgers that hold only messages up to and including `consumed`; return the number of messages.

        Those of which a message may be published again are kept. If it raises, it has deleted nothing.

        Raises: MetadataError, ServiceDownError.
        """
        ...

    async def end_ledger(self) -> None:
        """Close the ledger that takes appends, if it holds messages, so that it can be deleted.

        The next publish makes a new one. If it raises, the ledger may still take appends.

        Raises: MetadataError, LedgerError, TimeoutError.
        """
        ...

    async def merge_small(self) -> bool:
        """Replace many small ledgers by one; return whether there may be more to merge.

        If it raises, all messages stay readable.

        Raises: MetadataError, LedgerError, TimeoutError.
        """
        ...

    def attach_listener(self, listener: LogListener) -> None:
        """Set the listener of the log. Call this before anything else."""
        ...

    async def close(self) -> None:
        """Finish the publishes on their way, and leave the log so that the next owner has nothing to recover.

        Raises: MetadataError, LedgerError, TimeoutError - then the next owner recovers it.
        """
        ...

    def abandon(self) -> None:
        """Refuse the publishes that are not begun, and leave the rest as it is; no publish may follow."""
        ...

    async def end(self) -> bool:
        """Ensure that no operation of the log changes the topic after this; return whether any hub may serve it next.

        If not, its record is not known, or only this hub has all of its messages. Then a claim may serve it next only
        if it takes the topic over from this hub.
        """
        ...
