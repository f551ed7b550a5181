"""Prove that a hub stops by its own clock before ZooKeeper can report its end to others, and then registers anew."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from hedwig.cli.dev import DevServers
from hedwig.errors import ServiceDownError
from hedwig.hub.liveness import LivenessOptions
from hedwig.hub.liveness.boot_clock import boot_time_s
from tests.faults.support.proxy import PASS, Action, Exchange, Proxy, Step, scripted
from tests.faults.support.waiting import until
from tests.faults.support.wires import ZooKeeperWire
from tests.hub.liveness.support.hubs import (
    SESSION_S,
    Apart,
    Hubs,
    Member,
    czxid_of,
    gone_at,
    hub_at,
    is_leader,
    proven_until,
)


async def _stop_past_the_session(apart: Apart, raw: KazooClient, options: LivenessOptions) -> None:
    """The hub claims nothing after others could see its end, and returns as another incarnation."""
    (first,) = apart.events("registered")
    apart.pause()
    paused_at = boot_time_s()
    gone = await gone_at(raw, options, 1, first["epoch"])
    goes_on_at = boot_time_s()
    apart.go_on()
    await until(lambda: apart.events("proven")[-1]["epoch"] != first["epoch"], "it is proven anew")
    claimed = max(event["at"] for event in apart.events("proven") if event["epoch"] == first["epoch"])
    assert paused_at - 0.5 < claimed < gone
    (lost,) = apart.events("lost")
    _, second = apart.events("registered")
    assert goes_on_at < lost["at"] < second["at"]
    assert lost["epoch"] == first["epoch"]
    assert second["epoch"] == czxid_of(raw, options, 1)


async def _stop_past_the_lease_only(apart: Apart, raw: KazooClient, options: LivenessOptions) -> None:
    """The session lives on, but no work under the doubtful registration counts any more."""
    host = f"{options.prefix}/hosts/{hub_at(2).address}"
    (first,) = apart.events("registered")
    owner = raw.exists(host).ephemeralOwner
    apart.pause()
    paused_at = boot_time_s()
    await until(lambda: boot_time_s() - paused_at > SESSION_S * 0.72, "its lease has run out")
    assert czxid_of(raw, options, 2) == first["epoch"]
    apart.go_on()
    await until(lambda: len(apart.events("registered")) == 2, "it registers anew")
    stat = raw.exists(host)
    assert apart.events("registered")[1]["epoch"] == stat.czxid != first["epoch"]
    assert stat.ephemeralOwner == owner
    endpoints = raw.get_children(f"{options.prefix}/endpoints")
    assert len([name for name in endpoints if name.startswith(hub_at(2).address)]) == 1
    assert max(event["at"] for event in apart.events("proven") if event["epoch"] == first["epoch"]) < paused_at + 0.1


async def test_a_stopped_process_is_not_proven_when_it_goes_on(
    hubs: Hubs, raw: KazooClient, options: LivenessOptions, tmp_path: Path
) -> None:
    long, short = await hubs.start_apart(1, tmp_path / "long"), await hubs.start_apart(2, tmp_path / "short")
    await until(lambda: all(len(apart.events("proven")) > 100 for apart in (long, short)), "they are at work")
    await asyncio.gather(_stop_past_the_session(long, raw, options), _stop_past_the_lease_only(short, raw, options))


def _hold_requests(_: Exchange) -> Step:
    return Step(Action.HOLD_REQUEST)


async def _partition(member: Member, number: int, proxy: Proxy, cut: Callable[[], object], raw: KazooClient) -> None:
    options = member.options
    registration = member.liveness.registration
    await until(lambda: proxy.seen["set"] >= 2, "it beats")
    cut_at = boot_time_s()
    cut()
    claimed, gone = await asyncio.gather(
        proven_until(registration.is_proven), gone_at(raw, options, number, registration.hub.epoch)
    )
    print(f"hub {number}: proven for {claimed - cut_at:.2f} s after the cut, gone after {gone - cut_at:.2f} s")
    assert claimed < gone
    # The hub did not give up at the first fault either.
    assert claimed - cut_at > SESSION_S / 3
    assert member.lost == [registration]
    with pytest.raises(ServiceDownError):
        _ = registration.me
    if proxy.plan is _hold_requests:
        proxy.plan = lambda _: PASS
        proxy.release()
    else:
        await proxy.come_back()
    await until(lambda: len(member.registered) == 2, "it registers anew")
    assert member.registered[1].hub.epoch == czxid_of(raw, options, number)
    assert not registration.is_proven()
    assert member.liveness.registration is member.registered[1]


async def _deafen(member: Member, number: int, proxy: Proxy, raw: KazooClient) -> None:
    """Hold all replies: the hub stops though its session lives, and registers anew without its endpoint node."""
    options = member.options
    registration = member.liveness.registration
    await until(lambda: proxy.seen["set"] >= 2, "it beats")
    proxy.plan = lambda _: Step(Action.HOLD_REPLY)
    cut_at = boot_time_s()
    claimed = await proven_until(registration.is_proven)
    assert SESSION_S / 3 < claimed - cut_at < SESSION_S
    assert czxid_of(raw, options, number) == registration.hub.epoch
    endpoints = f"{options.prefix}/endpoints"
    (name,) = (name for name in raw.get_children(endpoints) if name.startswith(hub_at(number).address))
    raw.delete(f"{endpoints}/{name}")
    await until(lambda: member.lost, "it says so")
    proxy.plan = lambda _: PASS
    await until(lambda: len(member.registered) == 2, "it registers anew")
    assert member.registered[1].hub.epoch == czxid_of(raw, options, number) != registration.hub.epoch


async def test_a_hub_cut_off_stops_before_others_can_see_it_gone(
    hubs: Hubs, raw: KazooClient, options: LivenessOptions
) -> None:
    async with AsyncExitStack() as stack:
        proxies = [await stack.enter_async_context(Proxy(options.zookeeper, ZooKeeperWire)) for _ in range(3)]
        members = [await hubs.start(number, zookeeper=proxy.address) for number, proxy in enumerate(proxies)]

        def hold_requests() -> None:
            proxies[1].plan = _hold_requests

        await asyncio.gather(
            _partition(members[0], 0, proxies[0], proxies[0].vanish, raw),
            _partition(members[1], 1, proxies[1], hold_requests, raw),
            _deafen(members[2], 2, proxies[2], raw),
        )
        for member in members:
            await member.liveness.close()


async def test_one_silent_connection_costs_nothing(hubs: Hubs, raw: KazooClient, options: LivenessOptions) -> None:
    """The hub asks another server in time. Here that is the same one, at another address."""
    async with Proxy(f"{options.zookeeper},{options.zookeeper}", ZooKeeperWire) as proxy:
        member = await hubs.start(1, zookeeper=proxy.address)
        registration = member.liveness.registration
        proxy.plan = scripted("set", [Step(Action.HOLD_REPLY)])
        await until(lambda: len(proxy.wires) == 2, "it tries the other")
        beats = proxy.seen["set"]
        await until(lambda: proxy.seen["set"] >= beats + 3, "it goes on")
        assert proxy.done[Action.HOLD_REPLY] == 1
        assert registration.is_proven()
        assert member.lost == []
        assert czxid_of(raw, options, 1) == registration.hub.epoch
        await member.liveness.close()


async def test_a_lost_answer_to_the_registration_is_not_taken_for_either(
    hubs: Hubs, raw: KazooClient, options: LivenessOptions
) -> None:
    """The server made the nodes, and the hub received no answer. The hub replaces them at once."""
    async with Proxy(options.zookeeper, ZooKeeperWire, scripted("multi", [PASS, Step(Action.CUT_REPLY)])) as proxy:
        member = await hubs.start(1, zookeeper=proxy.address)
        assert proxy.done[Action.CUT_REPLY] == 1
        assert member.liveness.registration.hub.epoch == czxid_of(raw, options, 1)
        assert len(member.registered) == 1
        assert len(raw.get_children(f"{options.prefix}/endpoints")) == 1
        await member.liveness.close()


async def test_a_node_deleted_by_hand_ends_the_registration(
    hubs: Hubs, raw: KazooClient, options: LivenessOptions
) -> None:
    member = await hubs.start(1)
    registration = member.liveness.registration
    raw.delete(f"{options.prefix}/hosts/{hub_at(1).address}")
    await until(lambda: member.lost, "it notices", timeout_s=SESSION_S / 2)
    await until(lambda: len(member.registered) == 2, "it registers anew")
    assert not registration.is_proven()
    assert member.registered[1].hub.epoch == czxid_of(raw, options, 1)


async def test_a_session_that_was_ended_is_noticed_at_once(
    hubs: Hubs, raw: KazooClient, options: LivenessOptions
) -> None:
    async with Proxy(options.zookeeper, ZooKeeperWire) as proxy:
        member = await hubs.start(1, zookeeper=proxy.address)
        registration = member.liveness.registration
        (wire,) = proxy.wires
        assert isinstance(wire, ZooKeeperWire)
        usurper = KazooClient(options.zookeeper, client_id=wire.session)
        await asyncio.to_thread(usurper.start, 30)
        await asyncio.to_thread(usurper.stop)
        usurper.close()
        await until(lambda: len(member.registered) == 2, "it registers anew", timeout_s=SESSION_S)
        assert member.lost == [registration]
        assert member.registered[1].hub.epoch == czxid_of(raw, options, 1)
        await member.liveness.close()


async def test_no_zookeeper_is_said_in_time(hubs: Hubs) -> None:
    member = hubs.make(1, zookeeper="127.0.0.1:1", start_timeout_s=0.5, operation_timeout_s=0.2)
    with pytest.raises(ServiceDownError, match=r"cannot register hub 127\.0\.0\.1:4001:5001 .* 127\.0\.0\.1:1"):
        await member.liveness.start()
    assert not member.liveness.is_proven()
    with pytest.raises(ServiceDownError, match="not registered"):
        _ = member.liveness.registration


async def test_a_silent_server_of_a_quorum_costs_no_registration_of_who_knows_others(
    quorum: DevServers, hubs: Hubs
) -> None:
    """Hubs that know only that server stop before the leader ends their sessions. The leader heard of these later."""
    follower = next(server for server in quorum.status() if not is_leader(server))
    leader = next(server for server in quorum.status() if is_leader(server))
    hubs.options = replace(hubs.options, zookeeper=quorum.address("zookeeper"))
    members = [await hubs.start(number) for number in range(6)]
    lonely = [await hubs.start(number, zookeeper=f"{follower.host}:{follower.port}") for number in range(6, 12)]
    await until(lambda: all(len(member.liveness.live) == 12 for member in members), "all see all")
    registrations = [member.liveness.registration for member in lonely]
    raw = KazooClient(f"{leader.host}:{leader.port}")
    await asyncio.to_thread(raw.start, 30)
    paused_at = boot_time_s()
    quorum.pause(follower.name)
    times = await asyncio.gather(
        *(proven_until(registration.is_proven) for registration in registrations),
        *(gone_at(raw, hubs.options, 6 + i, it.hub.epoch) for i, it in enumerate(registrations)),
    )
    for claimed, gone in zip(times[:6], times[6:], strict=True):
        print(f"proven for {claimed - paused_at:.2f} s after the pause, gone after {gone - paused_at:.2f} s")
        assert claimed < gone
    assert max(times) - paused_at > 2 / 3 * SESSION_S
    assert [len(member.registered) for member in members] == [1] * 6
    assert all(member.registered[0].is_proven() for member in members)
    quorum.resume(follower.name)
    await until(lambda: all(len(member.registered) == 2 for member in lonely), "they register anew")
    raw.stop()
    raw.close()
    await asyncio.gather(*(member.liveness.close() for member in [*members, *lonely]))
