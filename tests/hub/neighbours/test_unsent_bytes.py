"""Clients that do not read: the hub bounds the unsent bytes of all of them together, and no other client waits."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from hedwig.model import SubscriberId, SubscriptionPreferences
from hedwig.status import StatusCode
from hedwig.wire import Answer, Subscribe
from tests.faults.support.waiting import until
from tests.hub.neighbours.support.clients import KIB, MEMORY_MAX, MIB, attach, flood, open_channel, received_ids
from tests.hub.neighbours.support.good_topic import GoodTopic, memory_peak
from tests.hub.support.running import RunningHub
from tests.hub.support.wire_channel import WireChannel

SMALL: Final = (f"cache_bytes={4 * MIB}", f"read_bytes_max={256 * KIB}")
ASKED: Final = 128
"""More requests than the gate of one channel admits at once."""


async def _prepare(hub: RunningHub, topic: bytes, subscribers: list[bytes], size: int) -> None:
    """Create subscriptions with preferences of `size` bytes, and leave them detached."""
    preferences = SubscriptionPreferences(options={"big": bytes(size)})
    async with await WireChannel.open(hub.port) as channel:
        for subscriber in subscribers:
            action = Subscribe(subscriber=SubscriberId(subscriber), preferences=preferences)
            answer = await channel.answer(await channel.send(topic, action))
            assert answer.status is StatusCode.SUCCESS
            closed = await channel.answer(await channel.close_subscription(topic, subscriber))
            assert closed.status is StatusCode.SUCCESS


async def _ask(channel: WireChannel, topic: bytes, subscribers: list[bytes]) -> None:
    """Send a SUBSCRIBE of some thirty bytes for each subscriber, all at once."""
    for each in subscribers:
        channel.write(topic, Subscribe(subscriber=SubscriberId(each)))
    await channel.writer.drain()


async def _answered(channel: WireChannel, size: int) -> list[int]:
    """Read the answers to all requests; return their numbers."""
    numbers: list[int] = []
    while len(numbers) < ASKED:
        heard = await channel.receive()
        assert isinstance(heard, Answer)
        assert heard.status is StatusCode.SUCCESS, heard
        assert heard.preferences is not None
        assert len(heard.preferences.options["big"]) == size
        numbers.append(heard.txn_id)
    return numbers


async def test_large_answers_that_nobody_reads_are_not_made(tmp_path: Path, opened: AsyncExitStack) -> None:
    """Each of 16 clients asks for 61 MiB with 3.5 KB. Then one of them reads all of it."""
    size = 500_000
    with RunningHub(tmp_path, *SMALL) as hub:
        async with await GoodTopic.open(hub.port) as good:
            topics = [b"t-%d" % number for number in range(16)]
            for topic in topics:
                await _prepare(hub, topic, [b"s"], size)
            deaf = []
            for topic in topics:
                deaf.append(await open_channel(opened, hub, receive_bytes=64 * KIB))
                await _ask(deaf[-1], topic, [b"s"] * ASKED)
            await good.exchange(50)
            async with await GoodTopic.open(hub.port, b"new") as newcomer:
                await newcomer.exchange(20)
            # The requests concern the same subscription, so the hub answers them in order.
            assert await _answered(deaf[0], size) == list(range(1, ASKED + 1))
            await good.exchange(20)
        assert memory_peak(hub.pid) < MEMORY_MAX
        hub.stop()
        assert "Traceback" not in hub.log


async def test_subscriptions_with_large_preferences_take_little_memory_and_their_answers_wait(
    tmp_path: Path, opened: AsyncExitStack
) -> None:
    """Each of 6 clients attaches 128 of them, with 16 MiB in all. Then one of them reads all answers."""
    size = 128 * KIB
    subscribers = [b"s-%d" % number for number in range(ASKED)]
    with RunningHub(tmp_path, *SMALL) as hub:
        async with await GoodTopic.open(hub.port) as good:
            topics = [b"t-%d" % number for number in range(6)]
            for topic in topics:
                await _prepare(hub, topic, subscribers, size)
            before = memory_peak(hub.pid)
            deaf = []
            for topic in topics:
                deaf.append(await open_channel(opened, hub, receive_bytes=64 * KIB))
                await _ask(deaf[-1], topic, subscribers)
            await good.exchange(50)
            # Each request has one answer. The requests concern different subscriptions, so the answers come in any
            # order.
            assert sorted(await _answered(deaf[0], size)) == list(range(1, ASKED + 1))
            await good.exchange(20)
            # The preferences are 96 MiB, and the answers as much again. The hub handles 12 MiB of them at once.
            assert memory_peak(hub.pid) - before < 80 * MIB
        hub.stop()
        assert "Traceback" not in hub.log


async def test_connection_that_has_not_taken_its_answers_for_longest_makes_room_and_no_other(
    tmp_path: Path, opened: AsyncExitStack
) -> None:
    """Answers may take 2 MiB. A subscriber that reads nothing has unsent deliveries only, and stays."""
    size, count = 500_000, 400
    with RunningHub(tmp_path, *SMALL, f"unsent_bytes_max={4 * MIB}") as hub:
        async with await GoodTopic.open(hub.port) as good:
            slow = await open_channel(opened, hub, receive_bytes=64 * KIB)
            await attach(slow, b"busy", b"slow")
            await flood(await open_channel(opened, hub), b"busy", 64 * KIB, count)
            topics = [b"t-%d" % number for number in range(20)]
            deaf = []
            for topic in topics:
                await _prepare(hub, topic, [b"s"], size)
                deaf.append(await open_channel(opened, hub, receive_bytes=64 * KIB))
                await _ask(deaf[-1], topic, [b"s"] * ASKED)
            await until(lambda: "has not taken its answers for longest" in hub.log, "a connection is closed")
            await good.exchange(50)
            # The last one has not read for less time than any other.
            assert await _answered(deaf[-1], size) == list(range(1, ASKED + 1))
            with pytest.raises(OSError, match=r"closed|reset"):
                await _answered(deaf[0], size)
            assert await received_ids(slow, count) == list(range(1, count + 1))
            await good.exchange(20)
        assert memory_peak(hub.pid) < MEMORY_MAX
        hub.stop()
        assert "Traceback" not in hub.log


async def test_deliveries_that_nobody_reads_are_bounded_over_all_connections(
    tmp_path: Path, opened: AsyncExitStack
) -> None:
    """Each of 60 connections may have 8 MiB unsent, and all together 16 MiB. None is closed, and all is delivered."""
    size, count = 64 * KIB, 512
    settings = (*SMALL, f"channel_unsent_bytes={8 * MIB}", f"unsent_bytes_max={16 * MIB}")
    with RunningHub(tmp_path, *settings) as hub:
        async with await GoodTopic.open(hub.port) as good:
            slow = [await open_channel(opened, hub, receive_bytes=64 * KIB) for _ in range(60)]
            for number, channel in enumerate(slow):
                await attach(channel, b"busy", b"slow-%d" % number)
            quick = await open_channel(opened, hub)
            await attach(quick, b"busy", b"quick")
            async with asyncio.TaskGroup() as group:
                group.create_task(flood(await open_channel(opened, hub), b"busy", size, count))
                got = group.create_task(received_ids(quick, count))
                await good.exchange(50)
            assert got.result() == list(range(1, count + 1))
            # A new connection, which must read all messages from the ledgers, receives them too.
            late = await open_channel(opened, hub)
            await late.answer(
                await late.send(b"busy", Subscribe(subscriber=SubscriberId(b"slow-0"), force_attach=True))
            )
            assert await received_ids(late, count) == list(range(1, count + 1))
            for channel in slow[-2:]:
                assert await received_ids(channel, count) == list(range(1, count + 1))
            await good.exchange(20)
        assert memory_peak(hub.pid) < MEMORY_MAX
        assert "closing the connection" not in hub.log
        hub.stop()
        assert "Traceback" not in hub.log
