"""Prove that at most one of two hubs at one address is registered, and that a restart waits only if it must."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from hedwig.errors import ServiceDownError
from hedwig.hub.liveness import LivenessOptions
from hedwig.hub.liveness.boot_clock import boot_time_s
from tests.faults.support.waiting import until
from tests.hub.liveness.support.hubs import SESSION_S, Hubs, czxid_of, hub_at


async def test_a_second_hub_waits_and_says_why_until_the_first_has_closed(
    hubs: Hubs, raw: KazooClient, options: LivenessOptions
) -> None:
    first = await hubs.start(1)
    late = hubs.make(1, start_timeout_s=1.0)
    with pytest.raises(ServiceDownError, match=r"another hub is registered there \(session 0x[0-9a-f]+\)"):
        await late.liveness.start()
    await late.liveness.close()
    second = hubs.make(1)
    starting = asyncio.create_task(second.liveness.start())
    await asyncio.wait([starting], timeout=1)
    assert not starting.done()
    assert first.liveness.is_proven()
    assert first.lost == []
    await first.liveness.close()
    registration = await starting
    assert registration.hub.epoch == czxid_of(raw, options, 1)


async def test_a_hub_that_was_killed_is_replaced_at_once_on_its_machine(
    hubs: Hubs, raw: KazooClient, options: LivenessOptions, tmp_path: Path
) -> None:
    former = await hubs.start_apart(1, tmp_path / "former")
    (registered,) = former.events("registered")
    former.kill()
    assert czxid_of(raw, options, 1) == registered["epoch"]
    killed_at = boot_time_s()
    successor = await hubs.start(1)
    assert boot_time_s() - killed_at < SESSION_S / 2
    assert successor.liveness.registration.hub.epoch == czxid_of(raw, options, 1)
    assert len(raw.get_children(f"{options.prefix}/endpoints")) == 1
    assert not await successor.liveness.registration.is_alive(replace(hub_at(1), epoch=registered["epoch"]))


async def test_a_process_that_is_only_stopped_is_not_replaced_before_its_session_ends(
    hubs: Hubs, raw: KazooClient, options: LivenessOptions, tmp_path: Path
) -> None:
    """Once it continues, it finds itself replaced, claims nothing, and registers only after its successor has ended."""
    former = await hubs.start_apart(1, tmp_path / "former")
    (registered,) = former.events("registered")
    await until(lambda: former.events("proven"), "it is at work")
    former.pause()
    successor = await hubs.start(1)
    registered_at = boot_time_s()
    assert registered_at - max(event["at"] for event in former.events("proven")) > SESSION_S / 2
    former.go_on()
    await until(lambda: former.events("lost"), "it notices")
    beaten_at = boot_time_s()
    await until(lambda: boot_time_s() > beaten_at + 1, "it had time to do wrong")
    assert successor.liveness.is_proven()
    assert len(former.events("registered")) == 1
    assert max(event["at"] for event in former.events("proven")) < registered_at
    await successor.liveness.close()
    await until(lambda: len(former.events("registered")) == 2, "it has its address back")
    assert former.events("registered")[1]["epoch"] == czxid_of(raw, options, 1) != registered["epoch"]


async def test_a_leftover_of_which_nothing_is_known_is_waited_for(
    hubs: Hubs, raw: KazooClient, options: LivenessOptions
) -> None:
    """The original's hubs leave no mark of their process. A hub cannot check the processes of other machines either."""
    original = KazooClient(options.zookeeper, timeout=SESSION_S)
    original.start(30)
    original.create(f"{options.prefix}/hosts/{hub_at(1).address}", b"numTopics: 3\n", ephemeral=True, makepath=True)
    member = hubs.make(1)
    starting = asyncio.create_task(member.liveness.start())
    await asyncio.wait([starting], timeout=1)
    assert not starting.done()
    assert raw.get(f"{options.prefix}/hosts/{hub_at(1).address}")[0] == b"numTopics: 3\n"
    await asyncio.to_thread(original.stop)
    original.close()
    assert (await starting).hub.epoch == czxid_of(raw, options, 1)


async def test_of_many_that_start_at_once_one_is_registered(hubs: Hubs) -> None:
    members = [hubs.make(1) for _ in range(5)]
    starting = [asyncio.create_task(member.liveness.start()) for member in members]
    for left in range(5, 0, -1):
        done, _ = await asyncio.wait(starting, return_when=asyncio.FIRST_COMPLETED, timeout=10)
        assert len(done) == 1
        assert len(starting) == left
        proven = [member for member in members if member.liveness.is_proven()]
        assert len(proven) == 1
        starting.remove(done.pop())
        await proven[0].liveness.close()
        members.remove(proven[0])
