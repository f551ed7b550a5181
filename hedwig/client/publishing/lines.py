"""Lines: the messages of one topic that are on their way, in order, and the sequences by which hubs recognise them."""

import asyncio
from bisect import bisect_left
from collections.abc import Callable
from typing import TypeAlias

from hedwig.client.connections.channel import Channel
from hedwig.errors import HedwigError, InvalidArgumentError, ServiceError, UncertainAnswerError
from hedwig.model import MessageSeqId, Topic
from hedwig.wire import Message, publish_head

__all__ = ["Line", "NamedLine", "OnOutcome", "PendingPublish"]


OnOutcome: TypeAlias = Callable[[MessageSeqId | HedwigError], object]
"""What is called with the outcome of a publish: the position of the message, or why there is none."""


class PendingPublish:
    """A message on its way."""

    __slots__ = (
        "begun_at",
        "channel",
        "deadline",
        "line",
        "message",
        "number",
        "on_outcome",
        "sequence",
        "txn_id",
        "unsure",
    )

    def __init__(
        self,
        number: int,
        line: "Line",
        message: Message | bytes,
        begun_at: float,
        deadline: float,
        on_outcome: OnOutcome,
    ) -> None:
        self.number = number
        """Its place among all messages of the publisher."""
        self.begun_at = begun_at
        """It was surely not sent before, in the time of the event loop."""
        self.deadline = deadline
        """When it fails without an outcome, in the time of the event loop."""
        self.on_outcome = on_outcome
        """It is called once, and then the message is on its way no longer. It must not raise."""
        self.sequence = 0
        """By which hubs recognise it; 0 before it was sent to one that does."""
        self.unsure: UncertainAnswerError | None = None
        """Why it is not known whether a former attempt has stored it."""
        self.line = line
        self.message = message
        """The message, or its body."""
        self.channel: Channel | None = None
        """The channel on which it is in flight."""
        self.txn_id = 0


class Line:
    """The messages of one topic, while some are on their way."""

    __slots__ = (
        "answered",
        "awaits",
        "burst",
        "channel",
        "head",
        "hops",
        "in_flight",
        "is_held",
        "last",
        "may_hop",
        "pause_s",
        "refusal",
        "topic",
        "tried",
        "waiting",
    )

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.head = publish_head(topic)
        self.last = 0
        """The sequence of the message that was sent last."""
        self.answered = 0
        """No message up to this sequence is sent again."""
        self.in_flight = 0
        """The number of messages that were sent and not answered."""
        self.channel: Channel | None = None
        """The channel on which they were sent."""
        self.is_held = False
        """Whether messages wait, and new ones behind them."""
        self.waiting: dict[int, PendingPublish] = {}
        """The messages that wait, by their number, in order."""
        self.refusal: ServiceError | None = None
        """Why they wait: the last refusal. None while the channel is opened for the first time."""
        self.tried: tuple[bytes, ...] = ()
        """The hubs that have redirected the messages since the last pause."""
        self.hops = 0
        """The number of attempts since the last pause that another hub was asked at once."""
        self.may_hop = True
        """Whether the next attempt asks another hub, and so needs no pause."""
        self.pause_s = 0.0
        self.burst = 0
        """How many are sent at a time after one was over a limit of the user; 0: all."""
        self.awaits: asyncio.TimerHandle | asyncio.Task[Channel] | None = None
        """What the next attempt waits for."""

    def before(self, sequence: int) -> int:  # noqa: ARG002 (see NamedLine)
        """Return the sequence of the message that must be stored before this one; 0 for none."""
        return self.last if self.in_flight else 0

    def is_over(self, sequence: int) -> None:
        """Record that a message has an outcome."""


class NamedLine(Line):
    """The messages of one topic whose sequences the application gives. It may repeat any of them at any time."""

    __slots__ = ("_open",)

    def __init__(self, topic: Topic) -> None:
        super().__init__(topic)
        self._open: list[int] = []
        """The sequences of messages without outcome, in order."""

    def add(self, sequence: int) -> None:
        """Add a message. Raises: InvalidArgumentError - its sequence does not follow those before it."""
        if self._open and sequence <= self._open[-1]:
            raise InvalidArgumentError(
                f"sequence {sequence} does not follow {self._open[-1]}, which is still on its way; sequences must grow"
            )
        self._open.append(sequence)

    def before(self, sequence: int) -> int:
        """Return the sequence of the message that must be stored before this one; 0 for none."""
        at = bisect_left(self._open, sequence)
        return self._open[at - 1] if at else 0

    def is_over(self, sequence: int) -> None:
        """Record that a message has an outcome."""
        self._open.remove(sequence)
