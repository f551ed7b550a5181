"""Prove that the proxy does to a connection exactly what its plan says."""

import asyncio
import random
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import pytest

from tests.faults.support.proxy import PASS, Action, Exchange, Proxy, Step, at_random, scripted
from tests.faults.support.waiting import TIMEOUT_S, until
from tests.faults.support.wires import ThriftWire, ZooKeeperWire


class _Upstream:
    """A server that answers every call with the request, in Thrift's framing of names; it records all requests."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self._server: asyncio.Server | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        try:
            yield f"{host}:{port}"
        finally:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                self.got.append(data)
                writer.write(b"answer to " + data)
        except OSError:
            return
        finally:
            writer.close()


def _call(name: str) -> bytes:
    return b"\x80\x01\x00\x01" + struct.pack(">i", len(name)) + name.encode() + b"\0\0\0\0"


@pytest.fixture
async def upstream() -> AsyncIterator[tuple[_Upstream, str]]:
    server = _Upstream()
    async with server.running() as address:
        yield server, address


class _Client:
    """One connection through the proxy."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, address: str) -> "_Client":
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def ask(self, name: str) -> bytes:
        """Send a call and return its reply. Raises ConnectionResetError if the connection is cut."""
        self._writer.write(_call(name))
        async with asyncio.timeout(TIMEOUT_S):
            return await self._reader.read(1 << 16)

    def close(self) -> None:
        self._writer.close()


async def test_forwards_what_the_plan_lets_pass(upstream: tuple[_Upstream, str]) -> None:
    server, address = upstream
    async with Proxy(address, ThriftWire) as proxy:
        with closing(await _Client.to(proxy.address)) as client:
            for _ in range(3):
                assert await client.ask("read") == b"answer to " + _call("read")
            assert await client.ask("write") == b"answer to " + _call("write")
    assert proxy.seen == {"read": 3, "write": 1}
    assert proxy.done == {Action.PASS: 4}
    assert server.got == [*[_call("read")] * 3, _call("write")]


async def test_cuts_before_the_request_is_forwarded(upstream: tuple[_Upstream, str]) -> None:
    server, address = upstream
    async with Proxy(address, ThriftWire, scripted("write", [PASS, Step(Action.CUT_REQUEST)])) as proxy:
        with closing(await _Client.to(proxy.address)) as client:
            await client.ask("write")
            with pytest.raises(ConnectionResetError):
                await client.ask("write")
        with closing(await _Client.to(proxy.address)) as client:
            await client.ask("write")
    assert server.got == [_call("write")] * 2, "the second of three never arrived"


async def test_cuts_after_the_answer_and_before_the_reply(upstream: tuple[_Upstream, str]) -> None:
    server, address = upstream
    seen_by_then: list[int] = []

    async def meanwhile() -> None:
        seen_by_then.append(len(server.got))

    steps = [Step(Action.CUT_REPLY, meanwhile=meanwhile)]
    async with Proxy(address, ThriftWire, scripted("write", steps)) as proxy:
        with closing(await _Client.to(proxy.address)) as client:
            await client.ask("read")
            with pytest.raises(ConnectionResetError):
                await client.ask("write")
    assert server.got == [_call("read"), _call("write")]
    assert seen_by_then == [2], "the server had the request before the others got their turn"


async def test_what_others_do_before_a_cut_is_not_stopped_by_another_end(upstream: tuple[_Upstream, str]) -> None:
    _, address = upstream
    begun, may_end, ended = asyncio.Event(), asyncio.Event(), []

    async def meanwhile() -> None:
        begun.set()
        await may_end.wait()
        ended.append(True)

    steps = [Step(Action.CUT_REPLY, meanwhile=meanwhile)]
    async with Proxy(address, ThriftWire, scripted("write", steps)) as proxy:
        with closing(await _Client.to(proxy.address)) as client:
            asked = asyncio.create_task(client.ask("write"))
            await begun.wait()
            proxy.vanish()
            with pytest.raises(ConnectionResetError):
                await asked
        assert not ended
        may_end.set()
    assert ended


async def test_held_request_arrives_after_its_client_has_gone(upstream: tuple[_Upstream, str]) -> None:
    server, address = upstream
    async with Proxy(address, ThriftWire, scripted("write", [Step(Action.HOLD_REQUEST)])) as proxy:
        with closing(await _Client.to(proxy.address)) as first:
            held = asyncio.create_task(first.ask("write"))
            await until(lambda: proxy.done[Action.HOLD_REQUEST], "the request")
            held.cancel()
        with closing(await _Client.to(proxy.address)) as second:
            await second.ask("read")
            assert server.got == [_call("read")]
            proxy.release()
            await until(lambda: proxy.late_answers, "the request")
    assert server.got == [_call("read"), _call("write")]


async def test_held_reply_never_comes_and_the_connection_stays(upstream: tuple[_Upstream, str]) -> None:
    server, address = upstream
    async with Proxy(address, ThriftWire, scripted("write", [Step(Action.HOLD_REPLY)])) as proxy:
        with closing(await _Client.to(proxy.address)) as client:
            asked = asyncio.create_task(client.ask("write"))
            await until(lambda: server.got, "the request")
            with closing(await _Client.to(proxy.address)) as other:
                await other.ask("read")
            assert not asked.done()
            asked.cancel()


@pytest.mark.parametrize("action", [Action.DELAY_REQUEST, Action.DELAY_REPLY])
async def test_delayed_messages_arrive(action: Action, upstream: tuple[_Upstream, str]) -> None:
    _, address = upstream
    async with Proxy(address, ThriftWire, scripted("write", [Step(action, seconds=0.05)])) as proxy:
        with closing(await _Client.to(proxy.address)) as client:
            assert await client.ask("write") == b"answer to " + _call("write")
    assert proxy.done == {action: 1}


async def test_unreachable_server_is_counted_and_the_client_is_cut() -> None:
    gone = _Upstream()
    async with gone.running() as address:
        pass
    async with Proxy(address, ThriftWire) as proxy:
        with closing(await _Client.to(proxy.address)) as client, pytest.raises(ConnectionResetError):
            await client.ask("read")
        assert proxy.done["unreachable"] == 1


async def test_vanishes_and_comes_back_at_the_same_address(upstream: tuple[_Upstream, str]) -> None:
    _, address = upstream
    async with Proxy(address, ThriftWire) as proxy:
        before = proxy.address
        with closing(await _Client.to(proxy.address)) as client:
            await client.ask("read")
            proxy.vanish()
            with pytest.raises(ConnectionResetError):
                await client.ask("read")
        with pytest.raises(ConnectionRefusedError):
            await _Client.to(proxy.address)
        await proxy.come_back()
        assert proxy.address == before
        with closing(await _Client.to(proxy.address)) as client:
            await client.ask("read")
    assert proxy.done == {Action.PASS: 2}


def test_same_seed_gives_the_same_faults() -> None:
    def drawn(seed: int) -> list[Action]:
        plan = at_random(random.Random(seed), "write", {Step(Action.CUT_REPLY): 0.3, Step(Action.CUT_REQUEST): 0.2})
        return [plan(Exchange(name, 1)).action for name in ("write", "read") * 200]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert drawn(1).count(Action.CUT_REPLY) in range(30, 90)
    assert set(drawn(1)[1::2]) == {Action.PASS}, "requests of other names pass"


def test_zookeeper_frames_are_told_apart_however_they_are_cut() -> None:
    greeting = struct.pack(">iiqiqi", 44, 0, 0, 4000, 0, 16) + bytes(16)
    write, ping = struct.pack(">iii", 12, 7, 14) + b"body", struct.pack(">iii", 8, -2, 11)
    welcome = struct.pack(">iiiqi", 36, 0, 4000, 0xABC, 16) + b"p" * 16
    done, pong = struct.pack(">iiqi", 16, 7, 1, 0), struct.pack(">iiqi", 16, -2, 1, 0)
    sent, received = greeting + write + ping, welcome + pong + done
    for size in range(1, len(sent)):
        wire = ZooKeeperWire()
        requests = [item for part in _cut(sent, size) for item in wire.requests(part)]
        assert [(item.name, item.data) for item in requests if not isinstance(item, bytes)] == [
            ("connect", greeting),
            ("multi", write),
            ("ping", ping),
        ]
        replies = [reply for part in _cut(received, size) for reply in wire.replies(part)]
        assert [(reply.mark, reply.data) for reply in replies] == [(0, welcome), (None, pong), (7, done)]
        assert wire.session == (0xABC, b"p" * 16)


def _cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]
