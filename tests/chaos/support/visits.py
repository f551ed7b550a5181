"""Visits: subscriptions that are made and deleted during faults, each under a name that is used only once.

The check treats a subscription as an object: one order of the calls must explain all answers. So an acknowledged
subscription exists until it is deleted, and a deleted one stays deleted. A call without an answer may take effect at
any time after it was sent, or never. An acknowledged subscription that is never deleted gets all acknowledged messages
that were sent after its acknowledgement.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from tests.faults.linearizability import REFUSED, Model, Operation, Refused, Unanswered, check
from tests.hub.support.delivery_history import Acknowledged, Publish

__all__ = ["Do", "Existence", "Reply", "Visit", "Visits"]


class Do(StrEnum):
    """What a visitor requests. SUBSCRIBE makes a subscription, and requires that there is none yet."""

    SUBSCRIBE = "subscribe anew"
    ATTACH = "attach"
    UNSUBSCRIBE = "unsubscribe"


class Reply(StrEnum):
    """The hub's answer to a visitor."""

    DONE = "done"
    NOT_SUBSCRIBED = "not subscribed"


Call: TypeAlias = Operation[Do, Reply]


@dataclass(frozen=True, slots=True)
class Existence(Model[bool, Do, Reply]):
    """Whether a subscription exists; at first it does not."""

    @property
    def initial(self) -> bool:
        return False

    def step(self, state: bool, input: Do, output: Reply) -> bool | Refused:
        match input, output:
            case Do.SUBSCRIBE, Reply.DONE:
                return REFUSED if state else True
            case Do.UNSUBSCRIBE, Reply.DONE:
                return False if state else REFUSED
            case Do.ATTACH, Reply.DONE:
                return state or REFUSED
            case ((Do.ATTACH | Do.UNSUBSCRIBE), Reply.NOT_SUBSCRIBED):
                return REFUSED if state else state
        return REFUSED

    def effect(self, state: bool, input: Do) -> bool | Refused:
        match input:
            case Do.SUBSCRIBE if not state:
                return True
            case Do.UNSUBSCRIBE if state:
                return False
        return REFUSED

    def describe_state(self, state: bool) -> str:
        return "subscribed" if state else "not subscribed"


@dataclass(slots=True)
class Visit:
    """One subscription: its calls and answers, the time since which it surely existed, and the ids that it received."""

    topic: bytes
    name: str
    calls: list[Call] = field(default_factory=list)
    since: float | None = None
    got: set[int] = field(default_factory=set)

    def add(self, do: Do, sent: float, reply: Reply | Unanswered, ended: float | None = None) -> None:
        """Record a call that ended at `ended`; None: now."""
        ended = time.monotonic() if ended is None else ended
        if do is Do.SUBSCRIBE and reply is Reply.DONE:
            self.since = ended
        self.calls.append(
            Operation(
                process=f"call {len(self.calls) + 1}",
                key=(self.topic, self.name),
                start=int(sent * 1e9),
                end=int(ended * 1e9),
                input=do,
                output=reply,
            )
        )

    @property
    def is_to_last(self) -> bool:
        """Whether it was acknowledged, and no client ever requested its end."""
        return self.since is not None and all(each.input is not Do.UNSUBSCRIBE for each in self.calls)

    @property
    def is_seen(self) -> bool:
        """Whether the last call attached to it."""
        return bool(self.calls) and (self.calls[-1].input, self.calls[-1].output) == (Do.ATTACH, Reply.DONE)


class Visits:
    """All visits of one run."""

    def __init__(self) -> None:
        self._all: dict[tuple[bytes, str], Visit] = {}

    def __iter__(self) -> Iterator[Visit]:
        return iter(self._all.values())

    def begin(self, topic: bytes, name: str) -> Visit:
        """Return a new visit, without calls."""
        assert (topic, name) not in self._all
        return self._all.setdefault((topic, name), Visit(topic, name))

    def at(self, topic: bytes, name: str) -> Visit:
        """Return a visit that was begun."""
        return self._all[topic, name]

    def wrong(self, publishes: Iterable[Publish]) -> list[str]:
        """Return the contradictions between the answers of visitors, and lost messages, in words; empty without any."""
        report = check([call for each in self for call in each.calls], Existence(), all_keys=True)
        if report.undecided:
            report.require()
        findings = [
            f"topic {_topic(refusal.key)}: a subscription came or went by itself: {refusal}"
            for refusal in report.refusals
        ]
        acknowledged = acknowledged_of(publishes)
        for each in self:
            lost = missing(each, acknowledged)
            if each.is_to_last and lost:
                findings.append(
                    f"topic {each.topic.decode()}: subscriber {each.name}: never got {len(lost)} messages that were "
                    f"sent after its subscription was acknowledged, the first with id {min(lost)}"
                )
        return findings


Published: TypeAlias = dict[bytes, list[tuple[float, int]]]


def acknowledged_of(publishes: Iterable[Publish]) -> Published:
    """Return the send times and ids of the acknowledged messages of each topic."""
    acknowledged: Published = defaultdict(list)
    for each in publishes:
        if isinstance(each.outcome, Acknowledged):
            acknowledged[each.topic].append((each.sent, each.outcome.local))
    return acknowledged


def missing(visit: Visit, acknowledged: Published) -> set[int]:
    """Return the ids of messages that a subscription should have received, and did not."""
    since = visit.since
    return (
        set()
        if since is None
        else {local for sent, local in acknowledged.get(visit.topic, ()) if sent > since} - visit.got
    )


def _topic(key: object) -> str:
    assert isinstance(key, tuple)
    topic: bytes = key[0]
    return topic.decode()
