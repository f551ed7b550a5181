"""Prove the check of deliveries with histories made by hand: it passes possible ones, and finds each breach."""

import random
from collections.abc import Iterator

import pytest

from tests.hub.support.delivery_history import (
    Acknowledged,
    Confirmation,
    DeliveryHistory,
    HubEnd,
    Outcome,
    Promise,
    Publish,
    Refused,
    Session,
    Unknown,
    violations,
)

PROMISE = Promise(consume_interval=3, patience_s=0.5)
FLUSH_S = 2.0
SUBSCRIBED = 1.0


def _publish(
    number: int, outcome: Outcome | None = None, *, publisher: str = "p", sent: float | None = None
) -> Publish:
    sent = 10.0 + number if sent is None else sent
    return Publish(b"t", publisher, b"m%d" % number, sent, sent + 0.5, outcome or Acknowledged(number))


def _session(first: int, last: int, *, at: float = SUBSCRIBED, subscriber: str = "s") -> Session:
    deliveries = [(local, b"m%d" % local) for local in range(first, last + 1)]
    return Session(b"t", subscriber, at, at + 0.1, deliveries)


def _ten(*sessions: Session) -> DeliveryHistory:
    """Return ten messages, all acknowledged between 11 and 20.5 s."""
    return DeliveryHistory([_publish(number) for number in range(1, 11)], list(sessions))


def _after_crash(first: int, *, confirmed_at: float, is_stored: bool = False, over: float = 40.0) -> DeliveryHistory:
    """Return five messages with confirmed consumes, a crash from 40 s on, and the deliveries from `first` on."""
    before = _session(1, 10)
    before.consumed.append((5, confirmed_at - 0.2))
    before.confirmations.append(Confirmation(5, confirmed_at - 0.1, confirmed_at, is_stored))
    history = _ten(before, _session(first, 10, at=41.0))
    history.ends.append(HubEnd(40.0, over, is_crash=True, consume_flush_s=FLUSH_S))
    return history


def _good() -> Iterator[tuple[str, DeliveryHistory]]:
    yield "nothing", DeliveryHistory()
    yield "everything in one session", _ten(_session(1, 10))
    yield (
        "two subscribers, the later from where it came in",
        _ten(_session(1, 10), _session(4, 10, at=13.6, subscriber="u")),
    )
    history = _ten(_session(1, 10), _session(1, 11, at=30.0))
    history.publishes.append(_publish(11, Unknown()))
    yield "all of it again, and a message without acknowledgement", history
    yield "never acknowledged and never there", DeliveryHistory([_publish(1), _publish(2, Unknown())], [_session(1, 1)])
    two = [_publish(1), _publish(2, Acknowledged(3), publisher="q", sent=11.2), _publish(3, Acknowledged(2), sent=11.1)]
    session = _session(1, 1)
    session.deliveries += [(2, b"m3"), (3, b"m2")]
    yield "two publishers at once", DeliveryHistory(two, [session])
    yield "a crash forgets what was consumed just before", _after_crash(1, confirmed_at=39.9)
    yield "a hub answers until the signal reaches it", _after_crash(1, confirmed_at=40.3, over=40.5)
    yield "a crash forgets up to the interval", _after_crash(3, confirmed_at=39.0)
    yield "a crash forgets nothing that is stored", _after_crash(6, confirmed_at=39.9, is_stored=True)
    yield "a crash forgets nothing that is old", _after_crash(6, confirmed_at=30.0)
    paused = _after_crash(3, confirmed_at=30.0)
    paused.pauses.append((31.0, 39.0))
    yield "a process that stood still stores nothing", paused


GOOD = dict(_good())


def _consumed(last: int, then: Session) -> DeliveryHistory:
    """Return a confirmed consume up to `last`, and the session that follows."""
    before = _session(1, 10)
    before.consumed.append((last, 30.0))
    before.confirmations.append(Confirmation(last, 30.1, 30.2))
    return _ten(before, then)


def _bad() -> Iterator[tuple[str, str, DeliveryHistory]]:
    yield "a lost message", "never got 2 acknowledged messages, the first with id 9", _ten(_session(1, 8))
    yield "lost for one of two", "subscriber u: never got", _ten(_session(1, 10), _session(1, 9, subscriber="u"))
    yield "lost, all of it", "never got 10", _ten(_session(1, 0))
    lost = _ten(_session(1, 4), _session(6, 10, at=30.0))
    yield "lost between two sessions", "began at 6, with nothing consumed beyond 0: a gap", lost
    gap = _session(1, 10)
    del gap.deliveries[4]
    yield "a gap in a session", "got 6 behind 4 in one session: a gap", _ten(gap)
    yield "a gap at the beginning", "began at 2, with nothing consumed beyond 0: a gap", _ten(_session(2, 10))
    yield (
        "a gap in the ids",
        "was given id 12, after 11 publishes",
        DeliveryHistory([*_ten().publishes, _publish(11, Acknowledged(12))], [_session(1, 10)]),
    )
    swapped = _session(1, 10)
    swapped.deliveries[4:6] = reversed(swapped.deliveries[4:6])
    yield "not in order", "got 5 behind 6 in one session: not in order", _ten(swapped)
    reordered = DeliveryHistory([_publish(1, Acknowledged(2)), _publish(2, Acknowledged(1))], [_session(1, 0)])
    reordered.sessions[0].deliveries += [(1, b"m2"), (2, b"m1")]
    yield "publishes in another order", "b'm2' was given id 1 after id 2", reordered
    yield (
        "in another order over two publishers",
        "was given id 1 after id 2",
        DeliveryHistory(
            [_publish(1, Acknowledged(2), publisher="q", sent=10.0), _publish(2, Acknowledged(1), sent=12.0)]
        ),
    )
    wrong = _session(1, 10)
    wrong.deliveries[4] = (5, b"m6")
    yield "a wrong id", "got b'm6' under id 5, but b'm5' has that id", _ten(wrong)
    swap = _session(1, 9)
    swap.deliveries.append((10, b"m11"))
    unknown = DeliveryHistory([*_ten().publishes, _publish(11, Unknown())], [swap])
    yield "another message under an acknowledged id", "got b'm11' under id 10", unknown
    one, other = _session(1, 10), _session(1, 10, subscriber="u")
    one.deliveries.append((11, b"m11"))
    other.deliveries.append((11, b"m12"))
    history = _ten(one, other)
    history.publishes += [_publish(11, Unknown()), _publish(12, Unknown())]
    yield "two subscribers who disagree", "got b'm12' under id 11, but b'm11' has that id", history
    twice = _session(1, 10)
    twice.deliveries.append((11, b"m10"))
    yield "one message under two ids", "got b'm10' under id 11, but it has id 10", _ten(twice)
    yield "one id for two messages", "id 1 was given to", DeliveryHistory([_publish(1), _publish(2, Acknowledged(1))])
    made_up = _session(1, 10)
    made_up.deliveries.append((11, b"else"))
    yield "a message that nobody sent", "which nobody sent", _ten(made_up)
    refused = _session(1, 10)
    refused.deliveries.append((11, b"m11"))
    history = _ten(refused)
    history.publishes.append(_publish(11, Refused()))
    yield "a message that was refused", "which was refused", history
    yield (
        "too old for a new subscription",
        "acknowledged before the subscription was made",
        _ten(_session(3, 10, at=13.6)),
    )
    yield (
        "a duplicate before the pointer",
        "began at 5, with the consume pointer at 5",
        _consumed(5, _session(5, 10, at=31.0)),
    )
    stopped = _consumed(5, _session(5, 10, at=41.0))
    stopped.ends.append(HubEnd(40.0, 40.0, is_crash=False))
    yield "a consume forgotten by a clean stop", "has not crashed since", stopped
    yield (
        "a gap behind the pointer",
        "began at 7, with nothing consumed beyond 5: a gap",
        _consumed(5, _session(7, 10, at=31.0)),
    )
    yield "too many consumes forgotten", "the crash may forget 3 of 5", _after_crash(2, confirmed_at=39.0)
    yield "an old consume forgotten", "the hub had 10.0 s to store that", _after_crash(5, confirmed_at=30.0)
    yield "a stored consume forgotten", "the hub had stored that", _after_crash(5, confirmed_at=39.9, is_stored=True)
    later = _after_crash(5, confirmed_at=40.8, over=40.5)
    yield "forgotten after the crash", "has not crashed since", later


BAD = {name: (what, history) for name, what, history in _bad()}


@pytest.mark.parametrize("history", GOOD.values(), ids=GOOD)
def test_what_can_happen_is_accepted(history: DeliveryHistory) -> None:
    assert violations(history, PROMISE) == []


@pytest.mark.parametrize(("what", "history"), BAD.values(), ids=BAD)
def test_what_must_not_happen_is_caught(what: str, history: DeliveryHistory) -> None:
    breaches = violations(history, PROMISE)
    assert any(what in each for each in breaches), breaches


@pytest.mark.parametrize("seed", range(20))
def test_random_runs_of_a_true_topic_are_accepted_and_each_forgery_is_caught(seed: int) -> None:
    source = random.Random(seed)
    assert violations(_simulated(source), PROMISE) == []
    lost = _simulated(source)
    victim = source.choice([each for each in lost.publishes if isinstance(each.outcome, Acknowledged)])
    for session in lost.sessions:
        session.deliveries = [each for each in session.deliveries if each[1] != victim.body]
    assert any("gap" in each or "never got" in each for each in violations(lost, PROMISE))
    swapped = _simulated(source)
    session = next(each for each in swapped.sessions if len(each.deliveries) > 1)
    (one, body), (other, further) = session.deliveries[-2:]
    session.deliveries[-2:] = [(one, further), (other, body)]
    assert any("has that id" in each or "it has id" in each for each in violations(swapped, PROMISE))


def _simulated(source: random.Random) -> DeliveryHistory:
    """Return the records of clients of a correct hub: it crashes, forgets, and delivers again."""
    history = DeliveryHistory()
    log: list[bytes] = []
    pointer = stored = 0
    behind_since = 0.0
    now, sessions = 0.0, [Session(b"t", "s", 0.0, 0.1)]
    for number in range(300):
        now += 1.0
        if pointer == stored or now - behind_since >= FLUSH_S:
            stored, behind_since = pointer, now
        dice = source.random()
        if dice < 0.6:
            body = b"%d" % number
            outcome: Outcome = Refused() if dice < 0.1 else Unknown()
            if dice >= 0.1:
                log.append(body)
                outcome = Acknowledged(len(log)) if dice >= 0.2 else outcome
            history.publishes.append(Publish(b"t", "p", body, now, now + 0.5, outcome))
        elif dice < 0.8:
            begin = sessions[-1].deliveries[-1][0] if sessions[-1].deliveries else pointer
            upto = source.randint(begin, len(log))
            sessions[-1].deliveries += [(local, log[local - 1]) for local in range(begin + 1, upto + 1)]
            if upto > pointer:
                pointer = source.randint(pointer + 1, upto)
                sessions[-1].consumed.append((pointer, now))
                sessions[-1].confirmations.append(Confirmation(pointer, now + 0.1, now + 0.2))
                stored = pointer if pointer - stored >= PROMISE.consume_interval else stored
        else:
            crashed = dice > 0.9
            pointer = stored = stored if crashed else pointer
            history.ends.append(HubEnd(now + 0.9, now + 0.9, is_crash=crashed, consume_flush_s=FLUSH_S))
            now += 1.0
            sessions.append(Session(b"t", "s", now, now + 0.1))
    end = sessions[-1].deliveries[-1][0] if sessions[-1].deliveries else pointer
    sessions[-1].deliveries += [(local, log[local - 1]) for local in range(end + 1, len(log) + 1)]
    history.sessions = sessions
    return history
