"""Prove that no address takes all connections that a hub can serve, and that silent ones make room for others."""

import asyncio
import contextlib
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hedwig.hub.connections.slots import Slots
from hedwig.status import StatusCode
from tests.faults.support.waiting import until
from tests.hub.neighbours.support.clients import SETTINGS, attach, open_channel
from tests.hub.neighbours.support.good_topic import GoodTopic
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.running import RunningHub

SLOTS = 80
NEWCOMER_S = 8.0
"""A newcomer is served within a second on an idle machine. Without the limit it was never served."""


async def _publish(opened: AsyncExitStack, hub: RunningHub, source: str) -> None:
    """Connect, publish, and check that the connection stays. Raises OSError."""
    channel = await open_channel(opened, hub, source=source)
    answer = await channel.answer(await channel.publish(b"of a newcomer", b"m"))
    assert answer.status is StatusCode.SUCCESS


async def _publish_until_served(opened: AsyncExitStack, hub: RunningHub, source: str) -> None:
    async with asyncio.timeout(NEWCOMER_S):
        while True:
            with contextlib.suppress(OSError):
                await _publish(opened, hub, source)
                return
            await asyncio.sleep(0.01)


async def test_address_that_takes_all_it_can_leaves_places_to_others(tmp_path: Path, opened: AsyncExitStack) -> None:
    """Each of its connections has sent something, so only the address distinguishes them from others."""
    with RunningHub(tmp_path, *SETTINGS, f"channels_max={SLOTS}") as hub:
        async with await GoodTopic.open(hub.port) as good:
            await good.exchange(5)
            kept = await _attach_many(opened, hub, "127.0.0.2")
            assert kept >= SLOTS * 3 // 4, "a client of the original has a connection for each of its subscriptions"
            for source in ("127.0.0.3", "127.0.0.4", "127.0.0.1"):
                async with asyncio.timeout(NEWCOMER_S):
                    await _publish(opened, hub, source)
            with pytest.raises(OSError, match=r"closed|reset"):
                await _publish(opened, hub, "127.0.0.2")
            await good.exchange(20)
            counters = AdminClient(hub.admin).ask("GET", "/load").json["since_start"]
            assert (counters["refused_connections"], counters["displaced_connections"]) == (2, 0)
            assert "are for others, and its address has" in hub.log
        hub.stop()


async def _attach_many(opened: AsyncExitStack, hub: RunningHub, source: str) -> int:
    """Attach one subscription a connection, until one is refused; return the number of the others."""
    for number in range(SLOTS):
        try:
            await attach(await open_channel(opened, hub, source=source), b"t", b"s-%d" % number)
        except OSError:
            return number
    raise AssertionError("one address takes all slots")


async def test_silent_connections_make_place_even_for_their_own_address(tmp_path: Path, opened: AsyncExitStack) -> None:
    """This is the case where all clients use one proxy. A connection that has sent a request stays."""
    with RunningHub(tmp_path, *SETTINGS, f"channels_max={SLOTS}") as hub:
        async with await GoodTopic.open(hub.port) as good:
            await good.exchange(5)
            subscriber = await open_channel(opened, hub)
            await attach(subscriber, b"t", b"s")
            silent = [await open_channel(opened, hub) for _ in range(2 * SLOTS)]
            for _ in range(5):
                await _publish_until_served(opened, hub, "")
            await good.exchange(20)
            assert "it has sent no request, and another client needs its slot" in hub.log
            with pytest.raises(OSError, match=r"closed|reset"):
                await silent[0].receive()
            await subscriber.answer(await subscriber.publish(b"t", b"m"))
            await until(
                lambda: AdminClient(hub.admin).ask("GET", "/load").json["since_start"]["displaced_connections"] >= 5,
                "they are counted",
            )
        hub.stop()


# ----------------------------------------------------------------------------------------- which connections get one


class _Guest:
    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


class _House:
    """A hub's slots, and its clock."""

    def __init__(self, limit: int) -> None:
        self.now = 0.0
        self.slots = Slots(limit, lambda: self.now)
        self._ports = iter(range(1, 1 << 16))

    def come(self, host: str, *, speaks: bool = True) -> _Guest | None:
        """Connect from an address; return the guest if it may stay."""
        guest = _Guest(f"{host}:{next(self._ports)}")
        if not self.slots.take(guest):
            return None
        if speaks:
            self.slots.heard(guest)
        return guest

    def fill(self, host: str, *, speaks: bool = True) -> list[_Guest]:
        """Connect guests until one may not stay; return the others."""
        stayed = []
        while (guest := self.come(host, speaks=speaks)) is not None:
            stayed.append(guest)
        return stayed


def test_each_address_gets_less_the_fewer_places_are_left() -> None:
    house = _House(16_000)
    counts = [len(house.fill(f"10.0.0.{number}")) for number in range(10)]
    assert counts[0] == 14_000
    assert counts == sorted(counts, reverse=True)
    assert 16_000 - sum(counts) > 40


def test_addresses_that_grow_together_leave_places_too() -> None:
    house = _House(16_000)
    comers = [f"10.0.0.{number}" for number in range(100)]
    came = True
    while came:
        came = [host for host in comers if house.come(host) is not None] != []
    assert 16_000 - len(house.slots) > 100
    assert house.come("10.1.0.1") is not None


@pytest.mark.parametrize(
    ("one", "other", "are_one"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
    ],
)
def test_whoever_has_many_addresses_of_one_network_is_one(one: str, other: str, are_one: bool) -> None:
    house = _House(80)
    house.fill(one)
    assert (house.come(other) is None) is are_one


def test_a_place_that_is_left_is_free_once() -> None:
    house = _House(8)
    guests = house.fill("10.0.0.1")
    assert len(guests) == 7
    for _ in range(3):
        house.slots.leave(guests[0])
    assert house.come("10.0.0.1") is not None
    assert house.come("10.0.0.1") is None
    assert len(house.slots) == 7


def test_the_longest_silent_goes_and_nobody_who_may_be_about_to_speak() -> None:
    house = _House(8)
    first, *others = house.fill("10.0.0.1", speaks=False)
    house.slots.heard(others[0])
    assert house.come("10.0.0.1") is None, "all have just come"
    house.now += 3.0
    assert house.come("10.0.0.1", speaks=False) is not None
    assert house.come("10.0.0.1", speaks=False) is not None
    assert [each.is_aborted for each in (first, *others)] == [True, False, True, *[False] * 4]
    assert len(house.slots) == 7
    assert house.slots.displaced == 2
