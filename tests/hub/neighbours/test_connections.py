"""Prove that idle, half-open and too many connections hold up no other client."""

import resource
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from hedwig.model import Topic
from hedwig.status import StatusCode
from hedwig.wire import HUB_FRAME_BYTES_MAX, Message, Publish, Request, encode_frame, encode_request
from tests.faults.support.waiting import until
from tests.hub.neighbours.support.clients import KIB, SETTINGS, attach, before_hub, open_channel
from tests.hub.neighbours.support.good_topic import GoodTopic, memory_peak
from tests.hub.support.running import RunningHub

IDLE: Final = 5000


@contextmanager
def _files(count: int) -> Iterator[None]:
    """Let this process, and those that it starts, open at least `count` files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard == resource.RLIM_INFINITY or hard >= count, f"at most {hard} open files; do: ulimit -Hn {count}"
    resource.setrlimit(resource.RLIMIT_NOFILE, (count if soft != resource.RLIM_INFINITY else soft, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _open_files(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


async def test_thousands_of_idle_connections_cost_little_and_hold_up_nobody(tmp_path: Path) -> None:
    with _files(2 * IDLE), RunningHub(tmp_path, *SETTINGS) as hub:
        async with await GoodTopic.open(hub.port) as good:
            await good.exchange(5)
            before = memory_peak(hub.pid)
            idle = []
            try:
                for _ in range(IDLE):
                    idle.append(socket.create_connection(("127.0.0.1", hub.port), timeout=30))
                await until(lambda: _open_files(hub.pid) >= IDLE, "all connections are accepted")
                await good.exchange(50)
                # A connection takes about 5 KiB: a transport, a channel with its decoder, and the overhead of the
                # allocator.
                assert memory_peak(hub.pid) - before < IDLE * 16 * KIB
            finally:
                for each in idle:
                    each.close()
            await until(lambda: _open_files(hub.pid) < 100, "all connections are closed")
            await good.exchange(20)


async def test_connections_beyond_the_bound_are_closed_and_the_others_stay(tmp_path: Path) -> None:
    with RunningHub(tmp_path, *SETTINGS, "channels_max=50") as hub:
        async with await GoodTopic.open(hub.port) as good, AsyncExitStack() as opened:
            # The connections use different addresses. For a single one, the hub would keep the last slots for others.
            kept = [await open_channel(opened, hub, source=f"127.0.1.{number}") for number in range(48)]
            for number, channel in enumerate(kept):
                await attach(channel, b"t", b"s-%d" % number)
            for _ in range(20):
                with pytest.raises(OSError, match=r"closed|reset"):
                    await (await open_channel(opened, hub)).receive()
            await good.exchange(20)
            kept[0].abort()
            await _attach_when_free(opened, hub, b"t", b"s-0")


async def _attach_when_free(opened: AsyncExitStack, hub: RunningHub, topic: bytes, subscriber: bytes) -> None:
    for _ in range(100):
        try:
            channel = await open_channel(opened, hub, source="127.0.1.0")
            answer = await channel.answer(await channel.subscribe(topic, subscriber))
        except OSError:
            continue
        if answer.status is StatusCode.SUCCESS:
            return
    raise AssertionError("there is no slot for a connection, though one has ended")


FEW_FILES: Final = """
import resource

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 256))
"""


async def test_hub_that_may_open_few_files_refuses_connections_and_stores_messages(tmp_path: Path) -> None:
    """Connections take descriptors that the ledgers need too."""
    settings = (*SETTINGS, "ledgers.segment_bytes=65536", "ledger_messages_max=5")
    with RunningHub(tmp_path, *settings, environment=before_hub(tmp_path, FEW_FILES)) as hub:
        async with await GoodTopic.open(hub.port) as good:
            await good.exchange(5)
            idle: list[socket.socket] = []
            try:
                while len(idle) < 400:
                    idle.append(socket.create_connection(("127.0.0.1", hub.port), timeout=30))
                await good.exchange(100)
                assert 60 < _open_files(hub.pid) < 250
            finally:
                for each in idle:
                    each.close()
            await good.exchange(20)
        assert "at most 96 connections are served, not 20000" in hub.log


async def test_half_closed_and_half_sent_requests_hold_up_nobody(
    hub: RunningHub, good: GoodTopic, opened: AsyncExitStack
) -> None:
    request = Request(topic=Topic(b"t"), txn_id=1, action=Publish(Message(bytes(1000))))
    frame = encode_frame(encode_request(request), HUB_FRAME_BYTES_MAX)
    for cut in (1, 3, 4, 5, 500, len(frame) - 1):
        stalled = await open_channel(opened, hub)
        await stalled.send_bytes(frame[:cut])
        ended = await open_channel(opened, hub)
        await ended.send_bytes(frame[:cut])
        ended.writer.write_eof()
        with pytest.raises(ConnectionResetError):
            await ended.receive()
    # A subscriber that ended its half is detached, even if it keeps reading.
    for _ in range(5):
        half = await open_channel(opened, hub)
        await attach(half, b"t", b"s")
        half.writer.write_eof()
        with pytest.raises(ConnectionResetError):
            await half.receive()
    await good.exchange(20)


async def test_connections_whose_peer_is_silent_are_probed(hub: RunningHub, opened: AsyncExitStack) -> None:
    """Otherwise a subscriber whose machine has vanished would keep its subscription for ever."""
    channel = await open_channel(opened, hub)
    await attach(channel, b"t", b"s")
    port = channel.writer.get_extra_info("sockname")[1]
    assert _is_probed(hub.port, port)


def _is_probed(local: int, remote: int) -> bool:
    """Return whether the kernel has a keepalive timer for a connection of this machine."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        ports = tuple(int(each.rpartition(":")[2], 16) for each in fields[1:3])
        if ports == (local, remote):
            return fields[5].startswith("02:")
    raise AssertionError("there is no such connection")
