"""Prove that the live set follows the start, work and end of hubs, and survives the loss of its connections."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from hedwig.cli.dev import DevServers
from hedwig.hub.liveness import LivenessOptions
from hedwig.hub.liveness.boot_clock import boot_time_s
from hedwig.hub.liveness.live_hub import decode_load
from hedwig.model import HubInfo
from tests.faults.support.proxy import Proxy
from tests.faults.support.waiting import until
from tests.faults.support.wires import ZooKeeperWire
from tests.hub.liveness.support.hubs import SESSION_S, Hubs, Member, czxid_of, hub_at


def _seen(member: Member) -> list[HubInfo]:
    return [hub.info for hub in member.liveness.live]


async def test_hubs_come_and_go_and_their_loads_follow(hubs: Hubs) -> None:
    first, second = await hubs.start(1), await hubs.start(2)
    # A started hub knows the hubs that were registered before it.
    assert first.liveness.registration.hub in _seen(second)
    both = [first.liveness.registration.hub, second.liveness.registration.hub]
    for member in (first, second):
        await until(lambda: _seen(member) == both, "both see both")  # noqa: B023 (waited for here)
        seems_alive = member.liveness.registration.seems_alive
        # A list that was read before the connection was known has no watch. The hub reads it again.
        await until(lambda: all(seems_alive(hub) for hub in both), "both seem alive")  # noqa: B023 (waited for here)
    second.liveness.set_load(41)
    await until(lambda: [hub.load for hub in first.liveness.live] == [0, 41], "the load")
    await second.liveness.close()
    await until(lambda: _seen(first) == both[:1], "one is gone")
    assert not first.liveness.registration.seems_alive(both[1])


async def test_load_that_others_must_know_at_once_does_not_wait_for_the_next_proof_of_life(
    hubs: Hubs, raw: KazooClient, options: LivenessOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The next beat would be later than the end of the registration.
    monkeypatch.setattr("hedwig.hub.liveness.cluster._BEAT_SHARE", 10.0)
    member = await hubs.start(1, session_timeout_s=40.0)
    node = f"{options.prefix}/hosts/{hub_at(1).address}"
    await until(lambda: raw.get(node)[1].version == 1, "it has proved once that it lives")
    for version, load in ((2, 41), (3, 42)):
        member.liveness.set_load(load, at_once=True)
        await until(lambda: raw.get(node)[1].version == version, "it has told more")  # noqa: B023 (waited for here)
        assert decode_load(raw.get(node)[0]) == load
    assert member.lost == []


async def test_a_killed_hub_is_gone_within_its_session(hubs: Hubs, options: LivenessOptions, tmp_path: Path) -> None:
    member = await hubs.start(1)
    apart = await hubs.start_apart(2, tmp_path / "apart")
    (registered,) = apart.events("registered")
    its = replace(hub_at(2), epoch=registered["epoch"])
    await until(lambda: its in _seen(member), "it is seen")
    apart.kill()
    killed_at = boot_time_s()
    await until(lambda: its not in _seen(member), "it is gone")
    took_s = boot_time_s() - killed_at
    print(f"gone {took_s:.2f} s after it was killed")
    assert not await member.liveness.registration.is_alive(its)


async def test_what_happened_while_the_connection_was_away_is_seen(
    hubs: Hubs, raw: KazooClient, options: LivenessOptions
) -> None:
    async with Proxy(options.zookeeper, ZooKeeperWire) as proxy:
        member = await hubs.start(1, zookeeper=proxy.address, refresh_s=600.0)
        other = await hubs.start(2)
        await until(lambda: other.liveness.registration.hub in _seen(member), "it is seen")
        proxy.vanish()
        await until(lambda: not member.liveness.registration.seems_alive(other.liveness.registration.hub), "in doubt")
        await other.liveness.close()
        third = await hubs.start(3)
        assert other.registered[0].hub in _seen(member)
        await proxy.come_back()
        await until(
            lambda: _seen(member) == [member.registered[0].hub, third.liveness.registration.hub], "what it missed"
        )
        assert member.lost == []
        await member.liveness.close()


async def test_names_that_are_no_hubs_are_passed_over(hubs: Hubs, raw: KazooClient, options: LivenessOptions) -> None:
    member = await hubs.start(1)
    raw.create(f"{options.prefix}/hosts/not a hub", b"")
    raw.create(f"{options.prefix}/hosts/10.0.0.1:4080:-1", b"7")
    await until(lambda: len(_seen(member)) == 2, "the other hub")
    assert [(hub.info.address, hub.load) for hub in member.liveness.live] == [
        ("10.0.0.1:4080:-1", 7),
        (hub_at(1).address, 0),
    ]


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[DevServers]:
    """Run a ZooKeeper for this test only."""
    launcher = DevServers(tmp_path / "servers")
    try:
        launcher.up(["zookeeper"])
        yield launcher
    finally:
        launcher.down()


async def test_a_restart_of_zookeeper_costs_nobody_more_than_a_registration(own_server: DevServers, hubs: Hubs) -> None:
    hubs.options = replace(hubs.options, zookeeper=own_server.address("zookeeper"))
    members = [await hubs.start(number) for number in range(3)]
    (name,) = [server.name for server in own_server.status()]
    raw = KazooClient(own_server.address("zookeeper"))
    # Use a thread: the event loop must keep three hubs registered meanwhile.
    await asyncio.to_thread(raw.start, 30)

    def all_see_all() -> bool:
        return all(
            member.liveness.is_proven()
            and len(member.lost) == len(member.registered) - 1
            and _seen(member) == [it.registered[-1].hub for it in members]
            for member in members
        )

    def nodes_are_theirs() -> bool:
        epochs = [member.registered[-1].hub.epoch for member in members]
        return raw.connected and [czxid_of(raw, hubs.options, number) for number in range(3)] == epochs

    for end in (own_server.stop, own_server.kill):
        end(name)
        own_server.start(name)
        # A hub may learn of the outage only after all seemed well for a moment.
        await until(lambda: all_see_all() and nodes_are_theirs(), "all see all")
    raw.stop()
    raw.close()
    for member in members:
        await member.liveness.close()


def test_sessions_of_the_tests_are_the_shortest_there_are(hubs: Hubs) -> None:
    assert hubs.options.session_timeout_s == SESSION_S
