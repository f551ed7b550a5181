"""Prove the judgement over runs on histories made by hand: what can happen passes, and each breach is found."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.chaos.history import Attempt, ChaosHistory, Fault
from tests.chaos.terms import Term, terms_of
from tests.chaos.turmoil import too_slow
from tests.chaos.verdict import breaches, require_linearizable
from tests.faults.linearizability import UNKNOWN, NotLinearizableError, Operation
from tests.faults.linearizability import versioned_register as cas
from tests.faults.linearizability.ownership import Owner
from tests.hub.delivery_history import Acknowledged, Publish, Refused, Session, Unknown

A: Final = "127.0.0.1:1"
B: Final = "127.0.0.1:2"
TOPIC: Final = b"t"
MOVED: Final = 5
"""The last message that the first of the two hubs acknowledged."""


def at(number: int) -> float:
    return 10.0 + number


def over_a_version(hub: str, began: float) -> Term:
    return Term(TOPIC, hub, began, began)


class Run:
    """Ten messages: the first hub acknowledges five, is taken over, and the other acknowledges five more."""

    def __init__(self) -> None:
        self.history = ChaosHistory()
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
        self.history.attempts.append(Attempt(TOPIC, "Publish", hub, sent, sent + 0.5, "SUCCESS", "", local))

    def subscribe(self, name: str, ids: range, asked: float) -> Session:
        session = Session(TOPIC, name, asked, asked + 0.1, [(local, b"m%d" % local) for local in ids])
        session.consumed += [(local, asked + 0.2) for local in ids]
        self.history.sessions.append(session)
        return session

    def replace(self, number: int, **changes: object) -> None:
        """Change a publish and the attempt that it was."""
        publishes, attempts = self.history.publishes, self.history.attempts
        for index, publish in enumerate(publishes):
            if publish.body == b"m%d" % number:
                publishes[index] = dataclasses.replace(publish, **{k: v for k, v in changes.items() if k != "hub"})  # type: ignore[arg-type]
        if "hub" in changes:
            attempts[number - 1] = dataclasses.replace(attempts[number - 1], hub=str(changes["hub"]))

    @property
    def found(self) -> list[str]:
        return [*breaches(self.history, self.terms), *too_slow(self.history.faults, 0.0)]


def test_a_takeover_in_order_passes() -> None:
    assert Run().found == []


def steps(*changes: Callable[[Run], object]) -> Callable[[Run], object]:
    """Return all these changes as one."""

    def change(run: Run) -> None:
        for each in changes:
            each(run)

    return change


def _good() -> Iterator[Callable[[Run], object]]:
    yield lambda run: run.replace(3, outcome=Unknown())
    # Not acknowledged, and behind the end that the successor found.
    yield lambda run: run.history.publishes.append(Publish(TOPIC, "q", b"q", 14.0, 18.0, Unknown()))
    # The same hub again: after the other one, with a claim of its own.
    yield steps(
        lambda run: run.terms.append(over_a_version(A, at(8) + 0.1)),
        lambda run: run.replace(9, hub=A),
        lambda run: run.replace(10, hub=A),
    )
    # There was no processor.
    yield steps(
        lambda run: setattr(run.history.faults[0], "served_s", 8.6),
        lambda run: setattr(run.history.faults[0], "starved_s", 1.7),
    )
    # A claim that nobody heard the outcome of.
    yield lambda run: run.terms.insert(1, over_a_version(B, 1.0))
    # A claim of a topic without an owner, that waited in the network while the other claimed, served and released.
    yield lambda run: run.terms.__setitem__(1, Term(TOPIC, B, -1.0, at(MOVED) + 0.6))
    # Nobody knows how it ended.
    yield lambda run: run.terms.__setitem__(1, Term(TOPIC, B, -1.0, math.inf))
    # The first claim of the other one served nobody; which of the two it was that did cannot be told.
    yield steps(
        lambda run: run.terms.insert(0, Term(TOPIC, A, -1.0, at(8) + 0.1)),
        lambda run: run.replace(9, hub=A),
        lambda run: run.replace(10, hub=A),
    )


@pytest.mark.parametrize("change", list(_good()))
def test_what_can_happen_passes(change: Callable[[Run], object]) -> None:
    run = Run()
    change(run)
    assert run.found == []


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


@pytest.mark.parametrize(("change", "what"), [each[1:] for each in _bad()], ids=[each[0] for each in _bad()])
def test_what_must_not_happen_is_found(change: Callable[[Run], object], what: str) -> None:
    run = Run()
    change(run)
    assert any(what in each for each in run.found), run.found


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


def test_evidence_of_a_topic_is_written_down(tmp_path: Path) -> None:
    run = Run()
    path = tmp_path / "t.history"
    run.history.write(path, [TOPIC])
    assert len(path.read_text().splitlines()) == 10 + 10 + 2 + 1
