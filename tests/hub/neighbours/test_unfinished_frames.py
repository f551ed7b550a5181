"""Prove that incomplete requests take no memory from others, and that the hub serves slow senders."""

import asyncio
import os
import signal
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from hedwig.hub.connections.unfinished_frames import UnfinishedFrames
from hedwig.hub.hub import Hub
from hedwig.model import Topic
from hedwig.status import StatusCode
from hedwig.wire import HUB_FRAME_BYTES_MAX, Answer, Message, Publish, Request, encode_frame, encode_request
from tests.faults.support.waiting import until
from tests.hub.conftest import StartHub
from tests.hub.neighbours.support.clients import KIB, MIB, SETTINGS, open_channel
from tests.hub.neighbours.support.good_topic import GoodTopic
from tests.hub.support.locked_metadata import locked
from tests.hub.support.running import RunningHub
from tests.hub.support.wire_channel import WireChannel
from tests.hub.support.wire_client import eventually
from tests.support.virtual_time import VirtualTime

FRAME_S: Final = 2.0


def _frame(size: int, txn_id: int = 1) -> bytes:
    request = Request(topic=Topic(b"of large messages"), txn_id=txn_id, action=Publish(Message(bytes(size))))
    return encode_frame(encode_request(request), HUB_FRAME_BYTES_MAX)


async def _open(opened: AsyncExitStack, hub: Hub) -> WireChannel:
    return await opened.enter_async_context(await WireChannel.open(hub.port))


async def _is_closed(channel: WireChannel) -> None:
    with pytest.raises(OSError, match=r"closed|reset"):
        await channel.receive()


async def _held(hub: Hub, size: int) -> None:
    await eventually(lambda: hub.frames.bytes == size, f"the hub holds {size} bytes of frames")


# ------------------------------------------------------------------------------------------------------------ a hub


async def test_unfinished_frames_keep_no_memory_from_large_ones(tmp_path: Path, opened: AsyncExitStack) -> None:
    """Unfinished frames hold all of the memory. Each new one displaces one of them."""
    with RunningHub(tmp_path, *SETTINGS, f"receive_bytes_max={4 * MIB}") as hub:
        async with await GoodTopic.open(hub.port) as good:
            await good.exchange(5)
            frame = _frame(MIB)
            unfinished = [await open_channel(opened, hub) for _ in range(12)]
            for channel in unfinished:
                await channel.send_bytes(frame[:-1])
            for _ in range(5):
                newcomer = await open_channel(opened, hub)
                await newcomer.send_bytes(frame)
                answer = await newcomer.answer(1)
                assert answer.status is StatusCode.SUCCESS
                await good.exchange(2)
            for channel in unfinished[:8]:
                await _is_closed(channel)
            assert "the hub drops its own" in hub.log
        hub.stop()


async def test_what_came_while_the_hub_stood_still_was_not_late(tmp_path: Path, opened: AsyncExitStack) -> None:
    """This happens after SIGSTOP, or in a virtual machine that was moved."""
    with RunningHub(tmp_path, *SETTINGS, f"frame_s={FRAME_S}") as hub:
        channel = await open_channel(opened, hub)
        frame = _frame(64 * KIB)
        await channel.send_bytes(frame[: 32 * KIB])
        os.kill(hub.pid, signal.SIGSTOP)
        stopped_at = time.monotonic()
        try:
            await channel.send_bytes(frame[32 * KIB :])
            await until(lambda: time.monotonic() - stopped_at > 1.5 * FRAME_S, "the frame would be late")
        finally:
            os.kill(hub.pid, signal.SIGCONT)
        assert (await channel.answer(1)).status is StatusCode.SUCCESS
        hub.stop()


# ----------------------------------------------------------------------------------------------------- one in here


async def test_frame_that_takes_too_long_ends_its_connection(
    start_hub: StartHub, opened: AsyncExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    """This holds for a small frame too. Between two frames, a connection may be idle for any time."""
    hub = await start_hub(frame_s=FRAME_S)
    idle, stalled, dripping = [await _open(opened, hub) for _ in range(3)]
    frame = _frame(100)
    await idle.send_bytes(frame)
    await idle.answer(1)
    await stalled.send_bytes(frame + frame[:2])
    began_at = time.monotonic()
    drips = asyncio.create_task(_drip(dripping, _frame(1000)))
    await _is_closed_after_answer(stalled)
    assert time.monotonic() - began_at >= FRAME_S
    await _is_closed(dripping)
    with pytest.raises(OSError, match=r"closed|reset|lost|pipe"):
        await drips
    assert hub.counters()["late_frames"] == 2
    assert f"a frame has not arrived within {FRAME_S:g} s" in caplog.text
    await idle.send_bytes(frame)
    assert (await idle.answer(1)).status is StatusCode.SUCCESS


async def _is_closed_after_answer(channel: WireChannel) -> None:
    assert isinstance(await channel.receive(), Answer)
    await _is_closed(channel)


async def _drip(channel: WireChannel, frame: bytes) -> None:
    """Send a frame byte by byte, for longer than a frame may take."""
    for byte in frame:
        await channel.send_bytes(bytes((byte,)))
        await asyncio.sleep(FRAME_S / 50)
    raise AssertionError("the frame arrived")


async def test_frames_that_follow_each_other_have_their_time_each(start_hub: StartHub, opened: AsyncExitStack) -> None:
    """At each moment there is an incomplete frame."""
    hub = await start_hub(frame_s=FRAME_S)
    channel = await _open(opened, hub)
    frame = _frame(10)
    half = len(frame) // 2
    began_at = time.monotonic()
    await channel.send_bytes(frame[:half])
    sent = 0
    while time.monotonic() - began_at < 2.5 * FRAME_S:
        await channel.send_bytes(frame[half:] + frame[:half])
        sent += 1
        await asyncio.sleep(FRAME_S / 50)  # Do not wait for the answers, which may come later.
    assert {await _status(channel) for _ in range(sent)} == {StatusCode.SUCCESS}
    assert hub.counters()["late_frames"] == 0


async def test_slow_sender_is_not_the_one_to_go(start_hub: StartHub, opened: AsyncExitStack) -> None:
    """Its frame is the oldest, but other senders have stalled."""
    hub = await start_hub(receive_bytes_max=400_000)
    frame = _frame(150_000)
    slow, *stalled = [await _open(opened, hub) for _ in range(3)]
    await slow.send_bytes(frame[:100_000])
    await _held(hub, 100_000)
    for number, channel in enumerate(stalled, 1):
        await channel.send_bytes(frame[:100_000])
        await _held(hub, 100_000 + number * 100_000)
    stalled_at = time.monotonic()
    await until(lambda: time.monotonic() - stalled_at > 1.5, "they have stalled")
    await slow.send_bytes(frame[100_000:110_000])
    await _held(hub, 310_000)
    newcomer = await _open(opened, hub)
    await newcomer.send_bytes(frame[:100_000])
    await _is_closed(stalled[0])
    await _held(hub, 310_000)
    for channel, rest in ((slow, frame[110_000:]), (newcomer, frame[100_000:])):
        await channel.send_bytes(rest)
        assert (await channel.answer(1)).status is StatusCode.SUCCESS
    assert hub.counters()["displaced_frames"] == 1
    await _held(hub, 100_000)


async def test_frame_that_the_hub_does_not_read_is_not_late(start_hub: StartHub, opened: AsyncExitStack) -> None:
    """The frame waits behind requests that wait. Meanwhile, a frame that the hub reads is late twice."""
    hub = await start_hub(frame_s=FRAME_S, channel_requests_max=20)
    channel = await _open(opened, hub)
    waiting = [
        encode_frame(
            encode_request(Request(topic=Topic(b"new %d" % number), txn_id=number, action=Publish(Message(b"m")))),
            HUB_FRAME_BYTES_MAX,
        )
        for number in range(20)
    ]
    last = _frame(1000, 20)
    with locked(hub):
        await channel.send_bytes(b"".join(waiting) + last[:500])
        await eventually(lambda: any(each._is_paused and each._is_holding for each in hub.channels), "it is not read")
        for _ in range(2):
            stalled = await _open(opened, hub)
            await stalled.send_bytes(last[:500])
            await _is_closed(stalled)
    statuses = [await _status(channel) for _ in waiting]
    await channel.send_bytes(last[500:])
    assert {*statuses, await _status(channel)} == {StatusCode.SUCCESS}


async def _status(channel: WireChannel) -> StatusCode:
    heard = await channel.receive()
    assert isinstance(heard, Answer)
    return heard.status


# --------------------------------------------------------------------------------------------- which frame goes, alone


class _Sender:
    def __init__(self, name: str, closed: list[str]) -> None:
        self.peer = name
        self._closed = closed

    def close(self) -> None:
        self._closed.append(self.peer)


class _Senders:
    """Senders a, b, c ..., and those that were closed."""

    def __init__(self, count: int, bytes_max: int = 1 << 30) -> None:
        self.closed: list[str] = []
        self.frames = UnfinishedFrames(asyncio.get_running_loop(), 30.0, bytes_max)
        self.each = [_Sender(chr(ord("a") + number), self.closed) for number in range(count)]


def test_frame_that_is_not_read_stays_while_one_that_is_stands_still() -> None:
    async def run() -> None:
        senders = _Senders(4, bytes_max=300_000)
        unread, stalled, third, newcomer = senders.each
        senders.frames.grow(unread, 100_000, is_read=False)
        senders.frames.grow(stalled, 100_000, is_read=True)
        await asyncio.sleep(2)
        senders.frames.grow(third, 100_000, is_read=True)
        senders.frames.grow(newcomer, 100_000, is_read=True)
        assert senders.closed == ["b"]
        # The remaining senders send at full speed, so the oldest one goes: an unread frame may not keep memory for
        # ever.
        senders.frames.grow(newcomer, 150_000, is_read=True)
        assert senders.closed == ["b", "a"]
        assert senders.frames.bytes == 250_000

    VirtualTime().run(run())


def test_time_in_which_the_hub_does_not_read_is_not_the_senders() -> None:
    async def run() -> None:
        senders = _Senders(3)
        one, _, third = senders.each
        for each in senders.each:
            senders.frames.grow(each, 100, is_read=True)
        await asyncio.sleep(20)
        senders.frames.pause(one)
        senders.frames.over(third)
        await asyncio.sleep(20)
        assert senders.closed == ["b"]
        senders.frames.go_on(one)
        await asyncio.sleep(29)
        assert senders.closed == ["b"]
        await asyncio.sleep(3)
        assert senders.closed == ["b", "a"]

    VirtualTime().run(run())
