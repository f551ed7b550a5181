"""Prove that the right to serve ends by the hub's own clock, once and for good."""

import pytest

from hedwig.hub.liveness.lease import Lease

SESSION_S = 9.0


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ends() -> list[None]:
    return []


@pytest.fixture
def lease(clock: Clock, ends: list[None]) -> Lease:
    return Lease(clock, clock.now_s, SESSION_S, lambda: ends.append(None))


def test_it_lasts_two_thirds_of_a_session_from_when_the_request_was_sent(clock: Clock, lease: Lease) -> None:
    clock.now_s += 5.99
    assert lease.is_proven()
    assert lease.remaining_s() == pytest.approx(0.01)
    clock.now_s += 0.02
    assert not lease.is_proven()
    assert lease.remaining_s() == 0


def test_a_confirmation_counts_from_when_it_was_asked_for(clock: Clock, lease: Lease) -> None:
    sent_at_s = clock.now_s + 1
    clock.now_s += 5
    lease.confirm(sent_at_s, SESSION_S)
    assert lease.remaining_s() == pytest.approx(2)


def test_the_session_that_the_server_grants_later_counts(clock: Clock, lease: Lease) -> None:
    lease.confirm(clock.now_s, 3.0)
    assert lease.remaining_s() == pytest.approx(2)


def test_a_confirmation_that_comes_too_late_changes_nothing(clock: Clock, lease: Lease, ends: list[None]) -> None:
    clock.now_s += 7
    lease.confirm(clock.now_s, SESSION_S)
    assert not lease.is_proven()
    assert ends == [None]


def test_it_never_comes_back_even_if_the_clock_does(clock: Clock, lease: Lease, ends: list[None]) -> None:
    clock.now_s += 7
    assert not lease.is_proven()
    clock.now_s -= 6
    assert not lease.is_proven()
    lease.confirm(clock.now_s, SESSION_S)
    lease.end()
    assert not lease.is_proven()
    assert ends == [None]


def test_a_request_sent_before_a_long_sleep_proves_nothing_after_it(clock: Clock, ends: list[None]) -> None:
    sent_at_s = clock.now_s
    clock.now_s += 100
    assert not Lease(clock, sent_at_s, SESSION_S, lambda: ends.append(None)).is_proven()
    assert ends == [None]
