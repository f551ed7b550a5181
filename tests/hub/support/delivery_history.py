"""Histories of publishers and subscribers, and the check whether a hub keeps its promise.

The promise, for each topic: every subscriber receives every acknowledged message, in order, under the id that its
publisher received. Ids are 1, 2, 3 … and are delivered without gap. Delivery begins again after the consume pointer.
The pointer is never ahead of the consumes. It falls behind them only in a crash, by no more than configured.

All times are seconds of one monotonic clock. A publish whose outcome its caller could not learn may have succeeded.
"""

import bisect
import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = [
    "Acknowledged",
    "Confirmation",
    "DeliveryHistory",
    "HubEnd",
    "Promise",
    "Publish",
    "Refused",
    "Session",
    "Unknown",
    "violations",
]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The publisher received this id for its message."""

    local: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The publisher received a definite refusal: its message is no part of the topic."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The publisher could not learn the outcome of its publish."""


Outcome: TypeAlias = Acknowledged | Refused | Unknown


@dataclass(frozen=True, slots=True)
class Publish:
    """One publish. Its body is unique in the whole history. `publisher` sends one message after the other."""

    topic: bytes
    publisher: str
    body: bytes
    sent: float
    ended: float
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The hub confirmed that `local` is consumed, and maybe that it is stored: asked at `asked`, answered at `at`."""

    local: int
    asked: float
    at: float
    is_stored: bool = False


@dataclass(slots=True)
class Session:
    """The time after one SUBSCRIBE, until the next one of this subscriber, or until its channel ended.

    `asked` and `attached` are the times when the SUBSCRIBE was sent and answered. `consumed` are the consume pointers
    sent meanwhile, with their times. `confirmations` are those of these pointers, and of pointers of earlier sessions.
    """

    topic: bytes
    subscriber: str
    asked: float
    attached: float
    deliveries: list[tuple[int, bytes]] = field(default_factory=list)
    consumed: list[tuple[int, float]] = field(default_factory=list)
    confirmations: list[Confirmation] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class HubEnd:
    """The hub ended, by a crash or in order, at some time from `at` to `over`, and worked until then.

    It had promised to store pointers within `consume_flush_s`.
    """

    at: float
    over: float
    is_crash: bool
    consume_flush_s: float = math.inf


@dataclass(frozen=True, slots=True)
class Promise:
    """The promise of the hub's options: a crash forgets at most `consume_interval` consumed messages of a subscription.

    A crash may also forget a consume that the hub knew for less than `patience_s` of its working time. A hub on a busy
    machine may need that time to store it.
    """

    consume_interval: int
    patience_s: float


@dataclass(slots=True)
class DeliveryHistory:
    """All events of a run. `pauses` are the begins and ends of the times in which the hub's process was stopped."""

    publishes: list[Publish] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    ends: list[HubEnd] = field(default_factory=list)
    pauses: list[tuple[float, float]] = field(default_factory=list)

    def working_s(self, start: float, end: float) -> float:
        """Return for how long the hub's process was not paused between two times."""
        paused = sum(max(0.0, min(end, to) - max(start, since)) for since, to in self.pauses)
        return max(0.0, end - start) - paused


def violations(history: DeliveryHistory, promise: Promise) -> list[str]:
    """Return the breaches of the promise, in words; empty if there are none.

    Every subscriber in the history must have been served until it had everything. Missing messages count as lost.
    """
    publishes: defaultdict[bytes, list[Publish]] = defaultdict(list)
    for publish in history.publishes:
        publishes[publish.topic].append(publish)
    sessions: defaultdict[bytes, defaultdict[str, list[Session]]] = defaultdict(lambda: defaultdict(list))
    for session in sorted(history.sessions, key=lambda each: each.attached):
        sessions[session.topic][session.subscriber].append(session)
    return [
        f"topic {topic.decode()}: {what}"
        for topic in sorted({*publishes, *sessions})
        for what in _Topic(history, promise, publishes[topic], sessions[topic]).violations()
    ]


class _Topic:
    """The check of one topic."""

    def __init__(
        self,
        history: DeliveryHistory,
        promise: Promise,
        publishes: Sequence[Publish],
        subscribers: dict[str, list[Session]],
    ) -> None:
        self._history = history
        self._promise = promise
        self._publishes = sorted(publishes, key=lambda each: each.sent)
        self._subscribers = subscribers
        self._acknowledged = [
            (each, each.outcome.local) for each in self._publishes if isinstance(each.outcome, Acknowledged)
        ]
        self._sends = [each.sent for each in self._publishes if not isinstance(each.outcome, Refused)]

    def violations(self) -> Iterator[str]:
        yield from self._wrong_acknowledgements()
        yield from self._wrong_order()
        yield from self._wrong_contents()
        for subscriber, sessions in self._subscribers.items():
            for what in (*self._gaps(sessions), *self._wrong_starts(sessions), *self._losses(sessions)):
                yield f"subscriber {subscriber}: {what}"

    # --------------------------------------------------------------------------------------------- publishing

    def _wrong_acknowledgements(self) -> Iterator[str]:
        """Each id is given once, and without gap: there are no more ids than messages sent."""
        bodies: dict[int, bytes] = {}
        for publish, local in self._acknowledged:
            if bodies.setdefault(local, publish.body) != publish.body:
                yield f"id {local} was given to {bodies[local]!r} and to {publish.body!r}"
            if not 1 <= local <= self._sent_before(publish.ended):
                yield f"{publish.body!r} was given id {local}, after {self._sent_before(publish.ended)} publishes"

    def _wrong_order(self) -> Iterator[str]:
        """A message has a greater id than those acknowledged before it was sent, and than its publisher's earlier."""
        ended = sorted(self._acknowledged, key=lambda each: each[0].ended)
        index, highest = 0, 0
        last_of: dict[str, int] = {}
        for publish, local in self._acknowledged:
            while index < len(ended) and ended[index][0].ended < publish.sent:
                highest = max(highest, ended[index][1])
                index += 1
            least = max(highest, last_of.get(publish.publisher, 0))
            if local <= least:
                yield f"{publish.body!r} was given id {local} after id {least} was given to an earlier one"
            last_of[publish.publisher] = max(local, least)

    def _sent_before(self, moment: float) -> int:
        return bisect.bisect_right(self._sends, moment)

    # ------------------------------------------------------------------------------------------------ contents

    def _wrong_contents(self) -> Iterator[str]:
        """An id stands for one message, and a message for one id, for all publishers and all subscribers."""
        published = {each.body: each for each in self._publishes}
        body_of = {local: publish.body for publish, local in self._acknowledged}
        id_of = {publish.body: local for publish, local in self._acknowledged}
        for subscriber, sessions in self._subscribers.items():
            for local, body in (delivery for session in sessions for delivery in session.deliveries):
                publish = published.get(body)
                if publish is None or isinstance(publish.outcome, Refused):
                    yield f"subscriber {subscriber}: got {body!r}, which {'was refused' if publish else 'nobody sent'}"
                elif body_of.setdefault(local, body) != body or id_of.setdefault(body, local) != local:
                    was = f"{body_of[local]!r} has that id" if body_of[local] != body else f"it has id {id_of[body]}"
                    yield f"subscriber {subscriber}: got {body!r} under id {local}, but {was}"

    # ------------------------------------------------------------------------------------------------ delivery

    def _gaps(self, sessions: Sequence[Session]) -> Iterator[str]:
        """Within a session, ids go up by one."""
        for session in sessions:
            ids = [local for local, _ in session.deliveries]
            for before, after in itertools.pairwise(ids):
                if after != before + 1:
                    what = "a gap" if after > before else "not in order"
                    yield f"got {after} behind {before} in one session: {what}"

    def _wrong_starts(self, sessions: Sequence[Session]) -> Iterator[str]:
        """A session begins after the consume pointer, as far as the pointer is known."""
        most = self._created_at_most(sessions[0])
        confirmed = [each for session in sessions for each in session.confirmations]
        least = max((local for publish, local in self._acknowledged if publish.ended < sessions[0].asked), default=0)
        for session in sessions:
            # Consumes that were sent on this channel after its SUBSCRIBE cannot have moved its beginning.
            if session.deliveries:
                first = session.deliveries[0][0]
                if first > most + 1:
                    yield f"delivery began at {first}, with nothing consumed beyond {most}: a gap"
                known, why = self._remembered(session, confirmed)
                if known <= least:
                    known, why = least, "it was acknowledged before the subscription was made"
                if first <= known:
                    yield f"delivery began at {first}, with the consume pointer at {known} or more: {why}"
            most = max([most, *(local for local, _ in session.consumed)])

    def _created_at_most(self, first: Session) -> int:
        """Return the greatest possible consume pointer of a new subscription: it is before all later messages."""
        later = (local - 1 for publish, local in self._acknowledged if publish.sent > first.attached)
        return min(self._sent_before(first.attached), min(later, default=1 << 62))

    def _remembered(self, session: Session, confirmed: Sequence[Confirmation]) -> tuple[int, str]:
        """Return up to which id the hub must have known consumes when the session began, and the reason."""
        promise = self._promise
        known, why = 0, ""
        for each in confirmed:
            if each.at > session.attached:
                continue
            crash = next(
                (
                    end
                    for end in self._history.ends
                    if end.is_crash and each.asked <= end.over and end.at <= session.attached
                ),
                None,
            )
            working_s = self._history.working_s(each.at, crash.at) if crash is not None else 0.0
            local, reason = 0, ""
            if crash is None:
                local, reason = each.local, "the hub knew, and has not crashed since"
            elif each.is_stored:
                local, reason = each.local, "the hub had stored that"
            elif working_s >= crash.consume_flush_s + promise.patience_s:
                local, reason = each.local, f"the hub had {working_s:.1f} s to store that"
            elif working_s >= promise.patience_s:
                local = each.local - promise.consume_interval
                reason = f"the crash may forget {promise.consume_interval} of {each.local}"
            if local > known:
                known, why = local, reason
        return known, why

    def _losses(self, sessions: Sequence[Session]) -> Iterator[str]:
        """Every acknowledged message after the subscription's beginning was delivered."""
        got = {local for session in sessions for local, _ in session.deliveries}
        begin = min(got, default=self._created_at_most(sessions[0]) + 1)
        lost = sorted(local for _, local in self._acknowledged if local >= begin and local not in got)
        if lost:
            yield f"never got {len(lost)} acknowledged messages, the first with id {lost[0]}"
