"""The events of a run, as its clients saw them, and the rules that the cluster must keep."""

import asyncio
import hashlib
from collections import defaultdict
from dataclasses import dataclass, field

from hedwig.model import SubscriberId, SubscriptionPreferences, Topic

__all__ = ["History", "Reader", "Session", "accepts", "sent_by"]


def accepts(body: bytes) -> bool:
    """Say whether the filter of the simulation accepts a message."""
    return body[-1] % 2 == 0


def sent_by(publisher: int, number: int) -> bytes:
    """Return a body that no other message has."""
    return b"%d.%d.%d" % (publisher, number, number % 7 % 2)


@dataclass(eq=False)
class Reader:
    """A subscription, as its application knows it: the messages that it must get, and where it may begin."""

    topic: Topic
    name: SubscriberId
    preferences: SubscriptionPreferences
    finished: int | None = None
    """The last message that is surely or maybe finished; all later ones must arrive. None before the first message."""
    since: int | None = None
    """The number, over all publishers, of the first message that was sent after it had subscribed."""
    got: set[int] = field(default_factory=set)
    waived: int = 0
    """Up to this message its application has consumed messages that it may not have received."""
    targets: set[int] = field(default_factory=set)
    """Where operators moved its pointer, or tried to. A session that does not learn of it goes on from there."""

    is_in_doubt: bool = False
    """Whether the subscription may have been deleted, or may still be. Then it is owed no messages."""

    @property
    def skips(self) -> bool:
        """Whether it may miss messages."""
        return bool(self.preferences.message_bound or self.preferences.message_filter) or self.is_in_doubt

    def begin_anew(self) -> None:
        """Drop what it is owed, since it was deleted."""
        self.since = self.finished = None
        self.waived = 0
        self.got.clear()

    def __str__(self) -> str:
        return f"{self.name.decode()} of {self.topic.decode()}"


@dataclass(slots=True)
class Session:
    """What an application has received of a subscription since it opened it."""

    finished: int | None = None
    """The last message that was finished when it was opened. The session begins at the next one, or before."""
    last: int | None = None
    """The last message that was received. It need not be finished yet."""
    ahead: int = 0
    """Up to this message the session has consumed messages, received or not."""
    resumed: set[int] = field(default_factory=set)
    """The messages after which the client has attached again by itself; 0 before the first."""


@dataclass(slots=True)
class _Sent:
    topic: Topic
    behind: int
    """The last acknowledged position of the topic when it was sent."""
    order: int
    position: int | None = None
    is_refused: bool = False
    is_unknown: bool = False
    """Whether its outcome was unknown once."""


class History:
    """Records the events of a run, and the rules that are broken."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.lines: list[str] = []
        """Everything that happened, in order."""
        self.actions: list[str] = []
        """The schedule: what was done to the cluster, and what its clients did."""
        self._sent: dict[bytes, _Sent] = {}
        self._bodies: dict[Topic, dict[int, bytes]] = defaultdict(dict)
        """The body that was acknowledged or delivered at each position."""
        self._positions: dict[bytes, int] = {}
        self._acknowledged: dict[Topic, dict[int, bytes]] = defaultdict(dict)
        self.repeated = 0
        """How many messages were published again, with a position as their outcome."""
        self.acknowledged = self.delivered = self.refused = self.unknown = 0

    def digest(self) -> str:
        """Return a hash of all lines, which is equal for runs with the same events."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()

    def note(self, text: str) -> None:
        """Add a line to the events."""
        self.lines.append(f"{asyncio.get_running_loop().time() - 1000:10.4f} {text}")

    def act(self, text: str) -> None:
        """Add a line to the events and to the schedule."""
        self.note(text)
        self.actions.append(self.lines[-1])

    def broken(self, rule: str, text: str) -> None:
        """Record that a rule was broken."""
        self.note(f"BROKEN {rule}: {text}")
        self.violations.append(f"{rule}: {text}")

    # ------------------------------------------------------------------------------------------- publishing

    def sends(self, topic: Topic, body: bytes) -> None:
        self._sent[body] = _Sent(topic, max(self._acknowledged[topic], default=0), len(self._sent))

    def is_acknowledged(self, body: bytes, position: int) -> None:
        sent = self._sent[body]
        sent.position = position
        self.acknowledged += 1
        self.note(f"published {body.decode()} to {sent.topic.decode()} as {position}")
        if position in self._acknowledged[sent.topic]:
            self.broken("no id twice", f"{position} of {sent.topic!r} was acknowledged before")
        if position <= sent.behind:
            self.broken("order", f"{body!r} got {position}, and {sent.behind} was acknowledged before it was sent")
        self._acknowledged[sent.topic][position] = body
        self._see(sent.topic, position, body)

    def is_refused(self, body: bytes, why: str) -> None:
        self.refused += 1
        self._sent[body].is_refused = True
        self.note(f"refused {body.decode()}: {why}")
        if body in self._positions:
            self.broken("a refused publish is never delivered", f"{body!r} was delivered as {self._positions[body]}")

    def is_unknown(self, body: bytes, why: str) -> None:
        self.unknown += 1
        self._sent[body].is_unknown = True
        self.note(f"unknown {body.decode()}: {why}")

    def repeats(self, body: bytes) -> None:
        """Record that a message is published again."""
        self.note(f"publishes {body.decode()} again")
        self._sent[body].is_refused = False

    def is_repeated(self, body: bytes, position: int) -> None:
        """Record that a message was published again, and has this position."""
        self.repeated += 1
        sent = self._sent[body]
        self.note(f"published {body.decode()} again, as {position}")
        if sent.position is None:
            self.is_acknowledged(body, position)
        self._see(sent.topic, position, body)

    def is_not_repeated(self, body: bytes, why: str) -> None:
        """Record that a message was published again, and its outcome is not known, for whatever reason."""
        self.note(f"{body.decode()} is not published again: {why}")
        if self._sent[body].position is not None and "MALFORMED" in why:
            self.broken("a repeat is not refused", f"{body!r}, which is {self._sent[body].position}: {why}")

    def check_order(self, *, of_all: bool) -> None:
        """Check that each publisher's messages of a topic have the order in which it sent them.

        `of_all`: also those whose outcome was unknown. Else a hub may store them behind younger ones.
        """
        last: dict[tuple[Topic, bytes], tuple[int, bytes]] = {}
        for body, sent in self._sent.items():
            if (position := self._positions.get(body)) is not None and (of_all or not sent.is_unknown):
                publisher = sent.topic, body.partition(b".")[0]
                before, earlier = last.get(publisher, (0, b""))
                if position < before:
                    self.broken("order of a publisher", f"{body!r} is {position}, and {earlier!r} is {before}")
                last[publisher] = max(last.get(publisher, (0, b"")), (position, body))

    def _see(self, topic: Topic, position: int, body: bytes) -> None:
        if self._bodies[topic].setdefault(position, body) != body:
            self.broken("content", f"{position} of {topic!r} is {self._bodies[topic][position]!r} and {body!r}")
        if self._positions.setdefault(body, position) != position:
            self.broken("no message twice", f"{body!r} is {self._positions[body]} and {position}")

    # ------------------------------------------------------------------------------------------- subscribing

    def subscribes(self, reader: Reader) -> None:
        """Record that a subscription exists: it must get all messages that are sent from now on."""
        if reader.since is None and not reader.is_in_doubt:
            reader.since = len(self._sent)

    def delivers(self, reader: Reader, position: int, body: bytes, session: Session) -> None:
        """Record a message that an application received, the next one of its session.

        A session may consume messages ahead, or a former session's consume may be on its way to the hub. The messages
        that these cover may be missing only after the client has attached again.
        """
        self.delivered += 1
        self.note(f"{reader} got {position} {body.decode()}")
        self._see(reader.topic, position, body)
        sent = self._sent.get(body)
        if sent is None or sent.topic != reader.topic:
            self.broken("content", f"{reader} got {body!r}, which was not sent there")
        elif sent.is_refused:
            self.broken("a refused publish is never delivered", f"{reader} got {body!r}")
        if reader.finished is None:
            reader.finished = position - 1
        last = session.last
        if last is None:
            is_as_opened = session.finished is not None and not session.resumed
            before = (session.finished or 0) if is_as_opened else reader.finished
        else:
            before = max(last, session.ahead, reader.finished) if last in session.resumed else last
        if last is not None and position <= last:
            self.broken("order", f"{reader} got {position} behind {last} in one session")
        elif position > before + 1 and not reader.skips and position - 1 not in reader.targets:
            what = "a session begins" if last is None else "a session goes on"
            self.broken("no gap", f"{reader}: {what} at {position}, with nothing finished beyond {before}")
        reader.got.add(position)
        session.last = position

    def finishes(self, reader: Reader, position: int) -> None:
        """Record that an application is about to consume a message, and all before it."""
        reader.finished = max(reader.finished or 0, position)

    def waives(self, reader: Reader, position: int) -> None:
        """Record that an application is about to consume all messages up to one, whether it received them or not."""
        self.act(f"{reader} says that it has finished {position}")
        self.finishes(reader, position)
        reader.waived = max(reader.waived, position)

    def last_of(self, topic: Topic) -> int:
        return max(self._acknowledged[topic], default=0)

    def missing(self, reader: Reader) -> list[int]:
        """Return the acknowledged messages that a subscription must receive and has not received."""
        if reader.since is None:
            return []
        owed = [
            position
            for position, body in self._acknowledged[reader.topic].items()
            if position not in reader.got
            and position > reader.waived
            and self._sent[body].order >= reader.since
            and not (reader.preferences.message_filter and not accepts(body))
        ]
        if reader.preferences.message_bound:
            # A publish of unknown outcome counts as soon as anybody has received it: it leaves no room for older ones.
            owed = [position for position in owed if position == max(self._bodies[reader.topic])]
        return owed
