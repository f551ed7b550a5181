"""Prove that a hub is declared dead only after its own node was read, and that such requests are not repeated."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest

from hedwig.cli.dev import DevServers
from hedwig.errors import ServiceDownError
from hedwig.hub.liveness import LivenessOptions, Registration
from hedwig.hub.liveness.boot_clock import boot_time_s
from hedwig.hub.liveness.directory import read_hubs
from hedwig.hub.liveness.lease import Lease
from hedwig.hub.liveness.live_set import LiveSet
from hedwig.hub.liveness.paths import HubPaths
from hedwig.hub.liveness.verdicts import Verdicts
from hedwig.zookeeper import Bridge, BridgeOptions
from tests.faults.support.proxy import Proxy
from tests.faults.support.waiting import until
from tests.faults.support.wires import ZooKeeperWire
from tests.hub.liveness.support.hubs import Hubs, hub_at, is_leader


@dataclass
class Asker:
    """A client of the verdicts, and the requests that it sends."""

    proxy: Proxy
    bridge: Bridge
    live_set: LiveSet
    verdicts: Verdicts

    @property
    def requests(self) -> dict[str, int]:
        return {name: count for name, count in self.proxy.seen.items() if name in ("multi", "get")}


@pytest.fixture
async def asker(options: LivenessOptions) -> AsyncIterator[Asker]:
    """Return an asker whose live set follows no changes before it is started."""
    options = replace(options, verdicts_max=3, operation_timeout_s=1.0, refresh_s=600.0)
    async with Proxy(options.zookeeper, ZooKeeperWire) as proxy:
        bridge = Bridge(proxy.address, BridgeOptions())
        await bridge.connect()
        paths = HubPaths(options.prefix)
        live_set = LiveSet(bridge, paths, options)
        asker = Asker(proxy, bridge, live_set, Verdicts(bridge, paths, live_set, options))
        yield asker
        await asker.verdicts.aclose()
        await live_set.aclose()
        await bridge.close()


async def test_a_hub_that_the_watch_missed_is_alive(hubs: Hubs, asker: Asker) -> None:
    member = await hubs.start(1)
    me = member.liveness.registration.hub
    assert asker.live_set.hubs == ()
    assert await asker.verdicts.is_alive(me)
    assert not await asker.verdicts.is_alive(replace(me, epoch=me.epoch + 1))
    assert not await asker.verdicts.is_alive(hub_at(2))
    assert asker.requests == {"multi": 3, "get": 3}


async def test_a_new_incarnation_is_not_taken_for_the_old_one_in_a_set_that_stands_still(
    hubs: Hubs, asker: Asker
) -> None:
    first = await hubs.start(1)
    asker.live_set.start()
    await until(lambda: asker.live_set.hubs, "it is seen")
    await asker.live_set.aclose()
    await first.liveness.close()
    second = await hubs.start(1)
    assert asker.live_set.has(first.registered[0].hub)
    assert await asker.verdicts.is_alive(second.liveness.registration.hub)


async def test_who_was_at_this_address_before_is_dead_though_the_set_still_shows_it(
    hubs: Hubs, asker: Asker, options: LivenessOptions
) -> None:
    """Otherwise a restarted hub would redirect the clients of its former topics to itself."""
    first = await hubs.start(1)
    before = first.liveness.registration.hub
    asker.live_set.start()
    await until(lambda: asker.live_set.hubs, "it is seen")
    await asker.live_set.aclose()
    await first.liveness.close()
    me = (await hubs.start(1)).liveness.registration.hub
    lease = Lease(boot_time_s, boot_time_s(), 60.0, lambda: None)
    registration = Registration(me, lease, asker.live_set, asker.verdicts, options)
    assert asker.live_set.is_watched
    assert asker.live_set.has(before)
    assert not asker.live_set.has(me)
    asked = asker.requests
    assert not registration.seems_alive(before)
    assert not await registration.is_alive(before)
    assert registration.seems_alive(me)
    assert await registration.is_alive(me)
    assert asker.requests == asked
    earlier = Registration(before, lease, asker.live_set, asker.verdicts, options)
    assert await earlier.is_alive(me), "it asks: its own node may have been taken away by hand"
    lease.end()
    assert not registration.seems_alive(me)
    with pytest.raises(ServiceDownError):
        await registration.is_alive(before)


async def test_the_set_answers_without_a_request(hubs: Hubs, asker: Asker) -> None:
    member = await hubs.start(1)
    asker.live_set.start()
    await until(lambda: asker.live_set.hubs, "it is seen")
    before = asker.requests
    for _ in range(100):
        assert await asker.verdicts.is_alive(member.liveness.registration.hub)
    assert asker.requests == before


async def test_questions_at_once_are_one_and_a_dead_verdict_is_kept(asker: Asker) -> None:
    dead = replace(hub_at(1), epoch=7)
    assert not any(await asyncio.gather(*(asker.verdicts.is_alive(dead) for _ in range(100))))
    assert not await asker.verdicts.is_alive(dead)
    assert asker.requests == {"multi": 1, "get": 1}
    # Later verdicts replace it.
    for epoch in (8, 9, 10):
        assert not await asker.verdicts.is_alive(replace(dead, epoch=epoch))
    assert not await asker.verdicts.is_alive(dead)
    assert asker.requests == {"multi": 5, "get": 5}


async def test_who_stops_waiting_does_not_end_the_question_for_others(asker: Asker) -> None:
    dead = replace(hub_at(1), epoch=7)
    first, second = (asyncio.create_task(asker.verdicts.is_alive(dead)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert not await second
    assert first.cancelled()
    assert asker.requests == {"multi": 1, "get": 1}


async def test_what_cannot_be_told_is_not_told(hubs: Hubs, asker: Asker) -> None:
    member = await hubs.start(1)
    me = member.liveness.registration.hub
    asker.live_set.start()
    await until(lambda: asker.live_set.is_watched, "it is seen")
    asker.proxy.vanish()
    await until(lambda: not asker.live_set.is_watched, "the connection is lost")
    with pytest.raises(ServiceDownError, match=r"cannot tell whether hub 127\.0\.0\.1:4001:5001 is alive"):
        await asker.verdicts.is_alive(me)
    await asker.proxy.come_back()
    async with asyncio.timeout(30):
        while True:
            try:
                assert await asker.verdicts.is_alive(me)
                break
            except ServiceDownError:
                continue


async def test_a_leader_that_nobody_follows_calls_nobody_dead(quorum: DevServers, options: LivenessOptions) -> None:
    """Such a leader answers a `sync` and a read alone, and may not know the decisions of the others."""
    leader = next(server for server in quorum.status() if is_leader(server))
    others = [server for server in quorum.status() if server.name != leader.name]
    options = replace(options, zookeeper=f"{leader.host}:{leader.port}", operation_timeout_s=1.0)
    bridge = Bridge(options.zookeeper, BridgeOptions())
    await bridge.connect()
    paths = HubPaths(options.prefix)
    verdicts = Verdicts(bridge, paths, LiveSet(bridge, paths, options), options)
    dead = replace(hub_at(1), epoch=7)
    for server in others:
        quorum.pause(server.name)
    with pytest.raises(ServiceDownError, match="cannot tell whether hub"):
        await verdicts.is_alive(dead)
    with pytest.raises(ServiceDownError, match="cannot list the hubs"):
        await read_hubs(bridge, options.prefix, timeout_s=1.0)
    for server in others:
        quorum.resume(server.name)
    async with asyncio.timeout(60):
        while True:
            try:
                assert not await verdicts.is_alive(dead)
                break
            except ServiceDownError:
                continue
    assert await read_hubs(bridge, options.prefix) == ()
    await verdicts.aclose()
    await bridge.close()


async def test_whoever_is_seen_to_live_is_alive_whatever_was_told_before(hubs: Hubs, asker: Asker) -> None:
    member = await hubs.start(1)
    me = member.liveness.registration.hub
    asker.verdicts._dead[me.address, me.epoch] = None
    assert not await asker.verdicts.is_alive(me)
    asker.live_set.start()
    await until(lambda: asker.live_set.has(me), "it is seen")
    assert await asker.verdicts.is_alive(me)


async def test_closing_answers_whoever_asks(asker: Asker) -> None:
    asker.proxy.vanish()
    await until(lambda: asker.bridge.connection is None, "the connection is lost")
    asking = asyncio.create_task(asker.verdicts.is_alive(hub_at(1)))
    await asyncio.sleep(0)
    await asker.verdicts.aclose()
    with pytest.raises(ServiceDownError, match="closing"):
        await asking


async def test_a_hub_that_is_not_proven_does_not_answer_for_itself(hubs: Hubs) -> None:
    member = await hubs.start(1)
    registration = member.liveness.registration
    await member.liveness.close()
    with pytest.raises(ServiceDownError):
        await registration.is_alive(registration.hub)
    with pytest.raises(ServiceDownError):
        registration.choose()
