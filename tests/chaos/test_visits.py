"""Prove the checks of visits on calls made by hand: possible histories pass, and each breach is found."""

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.chaos.support.visits import Do, Reply, Visit, Visits
from tests.faults.linearizability import NOT_APPLIED, UNKNOWN, Unanswered
from tests.hub.support.delivery_history import Acknowledged, Outcome, Publish, Refused, Unknown

TOPIC: Final = b"t"
DONE: Final = Reply.DONE
NOT: Final = Reply.NOT_SUBSCRIBED


class Stay:
    """One visitor, whose calls take one second each, one after the other, and the publishes."""

    def __init__(self) -> None:
        self.visits = Visits()
        self.visit: Visit = self.visits.begin(TOPIC, "v")
        self.publishes: list[Publish] = []
        self.now = 0.0

    def call(self, do: Do, reply: Reply | Unanswered, *, sent: float | None = None) -> None:
        sent = self.now if sent is None else sent
        self.visit.add(do, sent, reply, self.now + 1.0)
        self.now += 2.0

    def publish(self, local: int, outcome: Outcome | None = None, sent: float | None = None) -> None:
        sent = self.now if sent is None else sent
        self.now += 2.0
        self.publishes.append(Publish(TOPIC, "p", b"%d" % local, sent, self.now, outcome or Acknowledged(local)))

    @property
    def wrong(self) -> list[str]:
        return self.visits.wrong(self.publishes)


def steps(*calls: tuple[Do, Reply | Unanswered]) -> Callable[[Stay], None]:
    """Return a function that makes these calls, one after the other."""

    def change(stay: Stay) -> None:
        for do, reply in calls:
            stay.call(do, reply)

    return change


SUBSCRIBED: Final = (Do.SUBSCRIBE, DONE)
LEFT: Final = (Do.UNSUBSCRIBE, DONE)
SEEN: Final = (Do.ATTACH, DONE)
MISSED: Final = (Do.ATTACH, NOT)


def _good() -> Iterator[Callable[[Stay], None]]:
    yield steps(SUBSCRIBED, SEEN, SEEN)
    yield steps(SUBSCRIBED, SEEN, LEFT, MISSED, (Do.UNSUBSCRIBE, NOT))
    # It is unknown whether and when the subscription was made: at once, after the look for it, or never.
    yield steps((Do.SUBSCRIBE, UNKNOWN), SEEN, LEFT, MISSED)
    yield steps((Do.SUBSCRIBE, UNKNOWN), MISSED, SEEN)
    yield steps((Do.SUBSCRIBE, UNKNOWN), MISSED, MISSED)
    yield steps((Do.SUBSCRIBE, UNKNOWN), (Do.UNSUBSCRIBE, NOT), SEEN)
    # It is unknown whether the subscription was deleted.
    yield steps(SUBSCRIBED, (Do.UNSUBSCRIBE, UNKNOWN), SEEN, MISSED)
    yield steps(SUBSCRIBED, (Do.UNSUBSCRIBE, UNKNOWN), (Do.UNSUBSCRIBE, NOT), MISSED)
    yield steps(SUBSCRIBED, (Do.UNSUBSCRIBE, UNKNOWN), LEFT, MISSED)
    yield steps(SUBSCRIBED, (Do.UNSUBSCRIBE, NOT_APPLIED), (Do.ATTACH, NOT_APPLIED), SEEN)

    def looked_for_meanwhile(stay: Stay) -> None:
        stay.call(*SUBSCRIBED)
        stay.call(*LEFT)
        stay.call(Do.ATTACH, DONE, sent=2.5)

    yield looked_for_meanwhile

    def one_that_was_sent_before(stay: Stay) -> None:
        stay.publish(1, sent=0.5)
        stay.call(*SUBSCRIBED)
        stay.publish(2, Unknown())
        stay.publish(3, Refused())
        stay.publish(4)
        stay.visit.got.add(4)

    yield one_that_was_sent_before

    def one_that_left(stay: Stay) -> None:
        stay.call(*SUBSCRIBED)
        stay.call(Do.UNSUBSCRIBE, UNKNOWN)
        stay.publish(1)

    yield one_that_left


@pytest.mark.parametrize("change", list(_good()))
def test_what_can_happen_passes(change: Callable[[Stay], None]) -> None:
    stay = Stay()
    change(stay)
    assert stay.wrong == []


def _bad() -> Iterator[tuple[str, Callable[[Stay], None], str]]:
    itself = "a subscription came or went by itself"
    yield "lost", steps(SUBSCRIBED, MISSED), itself
    yield "lost, after it was seen", steps(SUBSCRIBED, SEEN, (Do.ATTACH, NOT_APPLIED), MISSED), itself
    yield "lost, though nobody asked for its end", steps(SUBSCRIBED, (Do.UNSUBSCRIBE, NOT)), itself
    yield "lost, by what was refused", steps(SUBSCRIBED, (Do.UNSUBSCRIBE, NOT_APPLIED), MISSED), itself
    yield "back", steps(SUBSCRIBED, LEFT, SEEN), itself
    yield "back, after it was missed", steps(SUBSCRIBED, LEFT, MISSED, SEEN), itself
    yield "deleted twice", steps(SUBSCRIBED, LEFT, LEFT), itself
    yield "back, by a SUBSCRIBE that was told done", steps((Do.SUBSCRIBE, UNKNOWN), LEFT, SEEN, MISSED), itself
    yield "made by nobody", steps(SEEN), itself
    yield "gone, seen, and gone again", steps((Do.SUBSCRIBE, UNKNOWN), SEEN, MISSED), itself

    def lost(stay: Stay) -> None:
        stay.call(*SUBSCRIBED)
        for local in (7, 8, 9):
            stay.publish(local)
        stay.visit.got |= {7}
        stay.call(*SEEN)

    yield "messages lost", lost, "topic t: subscriber v: never got 2 messages that were sent after its subscription"
    yield "messages lost: which", lost, "the first with id 8"


@pytest.mark.parametrize(("change", "what"), [each[1:] for each in _bad()], ids=[each[0] for each in _bad()])
def test_what_must_not_happen_is_found(change: Callable[[Stay], None], what: str) -> None:
    stay = Stay()
    change(stay)
    assert any(what in each for each in stay.wrong), stay.wrong
    assert all(each.startswith("topic t: ") for each in stay.wrong)


def test_who_is_to_last_was_acknowledged_and_never_left() -> None:
    ends = []
    for calls in ([], [SUBSCRIBED], [SUBSCRIBED, SEEN], [SUBSCRIBED, (Do.UNSUBSCRIBE, NOT_APPLIED)]):
        stay = Stay()
        steps(*calls)(stay)
        ends.append((stay.visit.is_to_last, stay.visit.is_seen))
    assert ends == [(False, False), (True, False), (True, True), (False, False)]
