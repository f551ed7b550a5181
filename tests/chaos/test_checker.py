"""Prove the checks of a run on histories made by hand: possible histories pass, and each breach is found."""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from hedwig.client import ClientOptions
from hedwig.client.activity import Activity
from hedwig.client.subscriptions.late_pointers import LatePointers
from hedwig.client.subscriptions.subscription import Attachment, Subscription
from hedwig.model import MessageSeqId, SubscriberId, Topic
from hedwig.wire import Delivery, Message
from tests.chaos.support.history import Attempt, ChaosHistory, Fault
from tests.chaos.support.recorded_client import RecordedClient, Tap
from tests.chaos.support.redirects import Glance, glances_of
from tests.chaos.support.terms import Term, terms_of
from tests.chaos.support.turmoil import too_slow
from tests.chaos.support.verdict import breaches, require_linearizable
from tests.faults.linearizability import UNKNOWN, NotLinearizableError, Operation
from tests.faults.linearizability.support import versioned_register as cas
from tests.faults.linearizability.support.ownership import Owner
from tests.faults.support.waiting import until
from tests.hub.support.delivery_history import Acknowledged, Publish, Refused, Session, Unknown

A: Final = "127.0.0.1:1"
B: Final = "127.0.0.1:2"
C: Final = "127.0.0.1:3"
TOPIC: Final = b"t"
MOVED: Final = 5
"""The last message that the first of the two hubs acknowledged."""
REDIRECTED: Final = 50.0
"""When hubs redirect."""


def at(number: int) -> float:
    return 10.0 + number


def over_a_version(hub: str, began: float) -> Term:
    return Term(TOPIC, hub, began, began)


class Run:
    """Ten messages: the first hub acknowledges five, is taken over, and the other acknowledges five more."""

    def __init__(self) -> None:
        self.history = ChaosHistory()
        self.glances: list[Glance] = []
        self.terms = [over_a_version(A, 0.0), over_a_version(B, at(MOVED) + 0.6)]
        for number in range(1, 11):
            self.publish(number, A if number <= MOVED else B)
        self.session = self.subscribe("s", range(1, MOVED + 1), 1.0)
        self.again = self.subscribe("s", range(4, 11), at(MOVED) + 0.7)
        self.history.faults.append(Fault("kill", 14.0, 15.0, 16.0, 14.0, limit_s=7.0, topics=1, served_s=6.9))

    def publish(self, number: int, hub: str, local: int | None = None, sent: float | None = None) -> None:
        local = number if local is None else local
        sent = at(number) if sent is None else sent
        body = b"m%d" % number
        self.history.publishes.append(Publish(TOPIC, "p", body, sent, sent + 0.5, Acknowledged(local)))
        self.history.attempts.append(
            Attempt(TOPIC, "Publish", hub, sent, sent + 0.5, "SUCCESS", "", local, request=number, should_claim=False)
        )

    def redirect(
        self, hub: str, to: str, *, should_claim: bool = False, sent: float = REDIRECTED, request: int = 100
    ) -> None:
        """Have a hub redirect a client that asked it first, or was sent to it; this takes 0.1 s."""
        came, text = "NOT_RESPONSIBLE_FOR_TOPIC", f"{to}:-1" if to else ""
        self.history.attempts.append(
            Attempt(TOPIC, "Publish", hub, sent, sent + 0.1, came, text, None, request, should_claim)
        )

    def look(self, hub: str, owner: str | None, ended: float = REDIRECTED, lived: float = -math.inf) -> None:
        """Have a hub look at the owner record, for 0.05 s."""
        self.glances.append(Glance(TOPIC, hub, ended - 0.05, ended, is_shown=True, owner=owner, lived=lived))

    def release(self, hub: str, ended: float = REDIRECTED) -> None:
        """Have a hub give a topic up, for 0.05 s."""
        self.glances.append(Glance(TOPIC, hub, ended - 0.05, ended, is_release=True))

    def subscribe(self, name: str, ids: range, asked: float) -> Session:
        session = Session(TOPIC, name, asked, asked + 0.1, [(local, b"m%d" % local) for local in ids])
        session.consumed += [(local, asked + 0.2) for local in ids]
        self.history.sessions.append(session)
        return session

    def replace(self, number: int, **changes: object) -> None:
        """Change a publish and its attempt."""
        publishes, attempts = self.history.publishes, self.history.attempts
        for index, publish in enumerate(publishes):
            if publish.body == b"m%d" % number:
                publishes[index] = dataclasses.replace(publish, **{k: v for k, v in changes.items() if k != "hub"})  # type: ignore[arg-type]
        if "hub" in changes:
            attempts[number - 1] = dataclasses.replace(attempts[number - 1], hub=str(changes["hub"]))

    @property
    def findings(self) -> list[str]:
        findings = breaches(self.history, self.terms, self.glances, [A, B, C])
        return [*findings, *too_slow(self.history.faults, 0.0)]


def test_a_takeover_in_order_passes() -> None:
    assert Run().findings == []


def steps(*changes: Callable[[Run], object]) -> Callable[[Run], object]:
    """Return one change that makes all these changes."""

    def change(run: Run) -> None:
        for each in changes:
            each(run)

    return change


def _good() -> Iterator[Callable[[Run], object]]:
    yield lambda run: run.replace(3, outcome=Unknown())
    # The publish was not acknowledged, and lies behind the end that the successor found.
    yield lambda run: run.history.publishes.append(Publish(TOPIC, "q", b"q", 14.0, 18.0, Unknown()))
    # The first hub owns the topic again after the other one, by a claim of its own.
    yield steps(
        lambda run: run.terms.append(over_a_version(A, at(8) + 0.1)),
        lambda run: run.replace(9, hub=A),
        lambda run: run.replace(10, hub=A),
    )
    # The processes waited for a processor.
    yield steps(
        lambda run: setattr(run.history.faults[0], "served_s", 8.6),
        lambda run: setattr(run.history.faults[0], "starved_s", 1.7),
    )
    # A claim has no answer.
    yield lambda run: run.terms.insert(1, over_a_version(B, 1.0))
    # A claim of a topic without owner waited in the network, while the other hub claimed, served and released.
    yield lambda run: run.terms.__setitem__(1, Term(TOPIC, B, -1.0, at(MOVED) + 0.6))
    # The outcome of that claim is unknown.
    yield lambda run: run.terms.__setitem__(1, Term(TOPIC, B, -1.0, math.inf))
    # One of two claims of the same hub served no client; the history does not tell which one.
    yield steps(
        lambda run: run.terms.insert(0, Term(TOPIC, A, -1.0, at(8) + 0.1)),
        lambda run: run.replace(9, hub=A),
        lambda run: run.replace(10, hub=A),
    )

    yield from _good_redirects()


def _good_redirects() -> Iterator[Callable[[Run], object]]:
    # A hub redirects to the owner that it just saw. Without an owner, or with a dead one, it chooses another hub.
    yield steps(lambda run: run.look(A, B), lambda run: run.redirect(A, B))
    yield steps(lambda run: run.look(A, None), lambda run: run.redirect(A, B))
    yield steps(lambda run: run.look(A, C), lambda run: run.redirect(A, B))
    yield steps(lambda run: run.look(A, C, lived=REDIRECTED - 1), lambda run: run.redirect(A, B))
    # It redirects from memory.
    yield steps(lambda run: run.look(A, B, REDIRECTED - 9.9), lambda run: run.redirect(A, B))
    # A look that ended after the request was sent does not replace the earlier look for it.
    yield steps(lambda run: run.look(A, B, REDIRECTED - 1), lambda run: run.look(A, C), lambda run: run.redirect(A, B))
    # A client was sent here, and is sent on to the owner, which the hub found meanwhile.
    yield steps(lambda run: run.look(A, B), lambda run: run.redirect(A, B, should_claim=True))
    # A client was sent here, and its request joined the look-up of earlier clients.
    yield steps(lambda run: run.look(A, B, REDIRECTED - 8), lambda run: run.redirect(A, B, should_claim=True))
    # A client is sent back: this hub had just released the topic, and the other one chose this hub.
    yield steps(
        lambda run: run.look(B, None),
        lambda run: run.redirect(B, A, request=107),
        lambda run: run.release(A, REDIRECTED - 5),
        lambda run: run.look(A, None, REDIRECTED + 0.15),
        lambda run: run.redirect(A, B, should_claim=True, sent=REDIRECTED + 0.1, request=107),
    )
    # The hub lost the topic while the request waited: an answer without an address is no redirect.
    yield lambda run: run.redirect(A, "", should_claim=True)
    # The client is redirected as often as it allows.
    yield steps(
        lambda run: run.look(A, B),
        *(
            lambda run, number=number: run.redirect(A, B, request=107, sent=REDIRECTED + number / 9)
            for number in range(3)
        ),
    )


@pytest.mark.parametrize("change", list(_good()))
def test_what_can_happen_passes(change: Callable[[Run], object]) -> None:
    run = Run()
    change(run)
    assert run.findings == []


def _swap(session: Session, one: int, other: int) -> None:
    deliveries = session.deliveries
    deliveries[one], deliveries[other] = deliveries[other], deliveries[one]


def _bad() -> Iterator[tuple[str, Callable[[Run], object], str]]:
    yield "lost at the end", lambda run: run.again.deliveries.pop(), "never got 1 acknowledged messages"
    yield "lost in between", lambda run: run.again.deliveries.pop(3), "a gap"
    yield "lost for one of two", lambda run: run.subscribe("u", range(1, 9), 1.0), "subscriber u: never got 2"
    yield (
        "lost by the takeover",
        steps(lambda run: run.session.deliveries.pop(), lambda run: run.again.deliveries.__delitem__(slice(2))),
        ("never got 1 acknowledged messages, the first with id 5"),
    )
    yield "not in order", lambda run: _swap(run.again, 2, 3), "not in order"
    yield "another content", lambda run: run.again.deliveries.__setitem__(0, (4, b"m5")), "got b'm5' under id 4"
    yield (
        "another id than acknowledged",
        lambda run: run.replace(10, outcome=Acknowledged(11)),
        "was given id 11, after 10",
    )
    yield "refused, and delivered", lambda run: run.replace(10, outcome=Refused()), "which was refused"
    yield "one id for two", lambda run: run.publish(11, B, local=10), "id 10 was given to"
    yield (
        "ids go back",
        steps(
            lambda run: run.replace(9, outcome=Acknowledged(10)), lambda run: run.replace(10, outcome=Acknowledged(9))
        ),
        "was given id 9 after id 10",
    )
    yield (
        "the deposed hub acknowledges",
        lambda run: run.replace(8, hub=A),
        f"hub {A} acknowledged 8 after {B} acknowledged 7",
    )
    yield (
        "the other claimed before",
        lambda run: run.terms.__setitem__(slice(None), [over_a_version(B, 0.0), over_a_version(A, 0.1)]),
        f"hub {B} acknowledged 6 after {A} acknowledged 5, without a claim",
    )
    yield (
        "the other claimed before, of a topic without an owner",
        lambda run: run.terms.__setitem__(slice(None), [Term(TOPIC, B, 0.0, 0.05), over_a_version(A, 0.1)]),
        f"hub {B} acknowledged 6 after {A} acknowledged 5, without a claim",
    )
    yield (
        "one claim for two terms",
        steps(lambda run: run.terms.__setitem__(0, Term(TOPIC, A, 0.0, math.inf)), lambda run: run.replace(9, hub=A)),
        f"hub {A} acknowledged 9 after {B} acknowledged 8, without a claim",
    )
    yield "nobody claimed", lambda run: run.terms.clear(), f"hub {A} acknowledged 1, without a claim"
    yield (
        "before the claim",
        lambda run: run.terms.__setitem__(1, over_a_version(B, 17.0)),
        f"hub {B} acknowledged 6 after",
    )
    yield (
        "too late, for all that there was no processor",
        steps(
            lambda run: setattr(run.history.faults[0], "served_s", 8.6),
            lambda run: setattr(run.history.faults[0], "starved_s", 1.5),
        ),
        "within 8.60 s of 7 s, 1.50 s of it without a processor",
    )
    yield "too late", lambda run: setattr(run.history.faults[0], "served_s", 7.1), "within 7.10 s of 7 s"
    yield "never", lambda run: setattr(run.history.faults[0], "late", ("t",)), "NOT SERVED: t"
    yield from _bad_redirects()


def _bad_redirects() -> Iterator[tuple[str, Callable[[Run], object], str]]:
    not_seen = "which it had not seen as the owner, and was not free to choose"
    yield (
        "a redirect to itself",
        steps(lambda run: run.look(A, A), lambda run: run.redirect(A, A)),
        f"topic t: hub {A} redirected a client that came to it to {A}:-1, which is itself",
    )
    yield (
        "a redirect to nowhere",
        steps(lambda run: run.look(A, None), lambda run: run.redirect(A, "127.0.0.1:9")),
        "127.0.0.1:9:-1, which is no hub",
    )
    yield "a redirect without a look", lambda run: run.redirect(A, B), f"to {B}:-1, {not_seen}"
    yield "a look of another hub", steps(lambda run: run.look(C, B), lambda run: run.redirect(A, B)), not_seen
    yield (
        "a look after the answer",
        steps(lambda run: run.look(A, B, REDIRECTED + 0.2), lambda run: run.redirect(A, B)),
        not_seen,
    )
    yield (
        "remembered for too long",
        steps(lambda run: run.look(A, B, REDIRECTED - 30.1), lambda run: run.redirect(A, B)),
        not_seen,
    )
    yield (
        "remembered in spite of another look",
        steps(lambda run: run.look(A, B, REDIRECTED - 3), lambda run: run.release(A, REDIRECTED - 2), _redirect_to_b),
        not_seen,
    )
    yield (
        "sent to the owner before the last",
        steps(
            lambda run: run.look(A, B, REDIRECTED - 3),
            lambda run: run.glances.append(Glance(TOPIC, A, REDIRECTED - 2, REDIRECTED - 1)),
            _redirect_to_b,
        ),
        not_seen,
    )
    yield (
        "chosen instead of one that lives",
        steps(lambda run: run.look(A, C, lived=REDIRECTED + 1), _redirect_to_b),
        not_seen,
    )
    yield (
        "bounced by choice",
        steps(
            lambda run: run.look(B, None),
            lambda run: run.redirect(B, A, request=107),
            lambda run: run.look(A, None, REDIRECTED + 0.15),
            lambda run: run.redirect(A, B, should_claim=True, sent=REDIRECTED + 0.1, request=107),
        ),
        f"hub {A} redirected a client that was sent to it to {B}:-1, {not_seen}",
    )
    yield (
        "bounced long after the topic was given up",
        steps(
            lambda run: run.release(A, REDIRECTED - 31),
            lambda run: run.look(A, None),
            lambda run: run.redirect(A, B, should_claim=True),
        ),
        not_seen,
    )
    yield (
        "bounced from memory",
        steps(
            lambda run: run.look(A, B, REDIRECTED - 20.1),
            lambda run: run.redirect(A, B, should_claim=True),
        ),
        not_seen,
    )
    yield (
        "a client that never gives up",
        steps(
            lambda run: run.look(A, B),
            *(
                lambda run, number=number: run.redirect(A, B, request=107, sent=REDIRECTED + number / 9)
                for number in range(4)
            ),
        ),
        f"one request went {A} -> {A} -> {A} -> {A}, with 2 redirects allowed",
    )


def _redirect_to_b(run: Run) -> None:
    run.redirect(A, B)


@pytest.mark.parametrize(("change", "what"), [each[1:] for each in _bad()], ids=[each[0] for each in _bad()])
def test_what_must_not_happen_is_found(change: Callable[[Run], object], what: str) -> None:
    run = Run()
    change(run)
    assert any(what in each for each in run.findings), run.findings


def test_only_claims_of_topics_without_an_owner_may_take_effect_late() -> None:
    calls = [_claim("a", 0, cas.NEW, "v1"), _claim("b", 10, "v1", "v2"), _claim("c", 12, cas.NEW, None)]
    spans = [(each.began, each.until) for each in terms_of(calls)]
    assert spans == [
        (0.0, pytest.approx(5e-9)),
        (pytest.approx(1e-8), pytest.approx(1e-8)),
        (pytest.approx(1.2e-8), math.inf),
    ]


def _claim(process: str, start: int, given: str | cas.Given, made: str | None) -> cas.CasOperation:
    output = UNKNOWN if made is None else cas.Written(made)
    return Operation(
        process=process, key=TOPIC, start=start, end=start + 5, input=cas.Write(Owner(process, 1), given), output=output
    )


def test_claims_over_each_other_pass() -> None:
    calls = [_claim("a", 0, cas.NEW, "v1"), _claim("b", 10, "v1", "v2"), _claim("c", 12, "v2", None)]
    require_linearizable(calls)


def test_two_claims_over_one_version_are_found() -> None:
    with pytest.raises(NotLinearizableError):
        require_linearizable([_claim("a", 0, cas.NEW, "v1"), _claim("b", 10, "v1", "v2"), _claim("c", 12, "v1", "v3")])


def test_calls_on_owner_records_are_looks_of_the_hubs_that_the_processes_were() -> None:
    record = cas.Record(Owner(f"{B}:-1", 7), "v1")
    calls: list[cas.CasOperation] = [
        Operation(process="p1", key=TOPIC, start=1, end=2, input=cas.Read(), output=cas.Returned(None)),
        Operation(process="p1", key=TOPIC, start=3, end=4, input=cas.Write("x", cas.NEW), output=cas.Exists(record)),
        Operation(process="p2", key=TOPIC, start=5, end=6, input=cas.Write("x", "v"), output=cas.Stale(record)),
        Operation(process="p2", key=TOPIC, start=7, end=8, input=cas.Delete("v1"), output=cas.Deleted()),
        Operation(process="p2", key=TOPIC, start=9, end=9, input=cas.Read(), output=UNKNOWN),
    ]
    glances = glances_of(calls, {"p1": A, "p2": C})
    assert [(each.hub, each.is_shown, each.owner, each.is_release) for each in glances] == [
        (A, True, None, False),
        (A, True, B, False),
        (C, True, B, False),
        (C, False, None, True),
        (C, False, None, False),
    ]
    assert {each.lived for each in glances} == {-math.inf}
    assert [each.ended for each in glances] == [*(pytest.approx(each * 1e-9) for each in (2, 4, 6, 8)), math.inf]


def test_whoever_begins_a_claim_was_alive_a_while_before() -> None:
    owner = Owner(B, 7)
    shown = cas.Returned(cas.Record(owner, "v1"))
    calls: list[cas.CasOperation] = [
        Operation(process="p1", key=TOPIC, start=1, end=2, input=cas.Read(), output=shown),
        Operation(process="p2", key=b"u", start=10**11, end=10**11, input=cas.Write(owner, "v"), output=UNKNOWN),
        Operation(process="p2", key=b"u", start=10**12, end=10**12, input=cas.Write(Owner(B, 8), "v"), output=UNKNOWN),
    ]
    assert [each.lived for each in glances_of(calls, {"p1": A, "p2": B}) if each.is_shown] == [80.0]


async def test_a_session_begins_with_the_answer() -> None:
    """It does not begin with the request: messages published before the answer need not be delivered."""

    async def nobody(_: Subscription) -> Attachment:
        raise AssertionError("it is not opened")

    options = ClientOptions()
    subscription = Subscription(
        Topic(TOPIC),
        SubscriberId(b"s"),
        options,
        nobody,
        lambda _: None,
        LatePointers(1.0),
        Activity(),
        auto_consume=True,
        resubscribe=True,
    )
    history = ChaosHistory()
    tap = Tap(subscription, history, lambda *_: None)
    asked = tap.session.asked
    await until(lambda: time.monotonic() > asked + 0.01, "some time")
    assert not history.sessions
    tap.begin_session()
    assert tap.deliver(Message(b"m").accepted(MessageSeqId(7), b"here"))
    assert not tap.deliver(Message(b"m").accepted(MessageSeqId(7), b"here")), "the client drops it"
    assert history.sessions == [tap.session]
    assert tap.session.asked == asked
    assert tap.session.attached > asked + 0.01
    assert [local for local, _ in tap.session.deliveries] == [7, 7]


async def test_a_message_that_a_client_drops_is_a_breach() -> None:
    history = ChaosHistory()
    async with RecordedClient(ClientOptions(), history, lambda *_: None) as client:
        client._attachments.count_dropped(
            Delivery(topic=Topic(TOPIC), subscriber=SubscriberId(b"s"), message=Message(b"m"))
        )
        assert client.counters.dropped == 1
    (finding,) = breaches(history, [], [], [])
    assert "unasked" in finding


def test_evidence_of_a_topic_is_written_down(tmp_path: Path) -> None:
    run = Run()
    path = tmp_path / "t.history"
    run.history.write(path, [TOPIC])
    assert len(path.read_text().splitlines()) == 10 + 10 + 2 + 1
