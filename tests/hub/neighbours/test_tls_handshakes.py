"""Prove that connections to the TLS port without a handshake take nothing from other clients."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest
import uvloop

import hedwig.hub.connections.tls.listener
from hedwig.hub.hub import Hub
from hedwig.hub.options.configuration import Configuration
from hedwig.hub.options.options import HubOptions
from hedwig.hub.process import start_hub
from hedwig.status import StatusCode
from tests.faults.support.waiting import until
from tests.hub.neighbours.support.clients import SETTINGS, before_hub
from tests.hub.neighbours.support.good_topic import GoodTopic
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.running import RunningHub
from tests.hub.support.tls_client import make_certificate, trusting
from tests.hub.support.wire_channel import WireChannel
from tests.hub.support.wire_client import WireClient, eventually

FEW_FILES = """
import resource

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 320))
"""
"""Of these, 144 are for connections, and 48 for those that wait."""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PEM file with a key and a self-signed certificate."""
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def connections() -> Iterator[ExitStack]:
    """Return a stack that closes the sockets of this test."""
    with ExitStack() as stack:
        yield stack


async def test_handshakes_that_do_not_come_leave_descriptors_for_clients_and_operators(
    tmp_path: Path, certificate: Path, connections: ExitStack
) -> None:
    settings = (*SETTINGS, "tls_port=0", f"tls_certificate={certificate}", "handshake_s=3")
    with RunningHub(tmp_path, *settings, environment=before_hub(tmp_path, FEW_FILES)) as hub:
        admin = AdminClient(hub.admin)
        tls_port = int(hub.log.partition("TLS 127.0.0.1:")[2].partition(",")[0])
        async with await GoodTopic.open(hub.port) as good:
            await good.exchange(5)
            for _ in range(400):
                connections.enter_context(_connect(tls_port))
            assert admin.ask("GET", "/health").status == 200
            await good.exchange(20)
            await _until_served(hub.port)
            await until(lambda: "no TLS handshake within 3 s" in hub.log, "a handshake is late")
            await until(lambda: admin.ask("GET", "/load").json["handshakes"] == 0, "all are closed")
            assert admin.ask("GET", "/load").json["since_start"]["failed_handshakes"] > 10
            async with await WireClient.connect(tls_port, trusting()) as client:
                await client.publish(b"t", b"m")
            await good.exchange(5)
        hub.stop()


def _connect(port: int) -> "closing[socket.socket]":
    return closing(socket.create_connection(("127.0.0.1", port), timeout=30))


async def _until_served(port: int) -> None:
    """Have a new client publish. The hub may refuse it until others have been silent for a second."""
    async with asyncio.timeout(8):
        while True:
            with contextlib.suppress(OSError):
                async with await WireChannel.open(port) as channel:
                    answer = await channel.answer(await channel.publish(b"of a newcomer", b"m"))
                    assert answer.status is StatusCode.SUCCESS
                    return
            await asyncio.sleep(0.01)


# --------------------------------------------------------------------------------------- on either loop of a hub's own


class WithHub(Protocol):
    """Starts a hub with a TLS port, and runs a scenario on its event loop."""

    def __call__(self, scenario: Callable[[Hub, AsyncExitStack], Awaitable[None]], **options: float) -> None: ...


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def with_hub(request: pytest.FixtureRequest, hub_options: HubOptions, certificate: Path) -> WithHub:
    """Each loop ends handshakes in its own way."""

    def run(scenario: Callable[[Hub, AsyncExitStack], Awaitable[None]], **options: Any) -> None:
        async def start_and_run() -> None:
            given = replace(hub_options, tls_port=0, tls_certificate=str(certificate), **options)
            async with await start_hub(Configuration(given)) as secure, AsyncExitStack() as opened:
                await scenario(secure, opened)

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(start_and_run())

    return run


def _tls_port(secure: Hub) -> int:
    assert secure.tls_port is not None
    return secure.tls_port


async def _open(opened: AsyncExitStack, secure: Hub) -> WireChannel:
    """Open a connection to the TLS port without a handshake."""
    return await opened.enter_async_context(await WireChannel.open(_tls_port(secure)))


async def _publish(secure: Hub) -> None:
    async with await WireClient.connect(_tls_port(secure), trusting()) as client:
        await client.publish(b"t", b"m")


async def _is_closed(channel: WireChannel) -> None:
    with pytest.raises(OSError, match=r"closed|reset"):
        await channel.receive()


def test_handshake_that_takes_too_long_is_told_and_counted(with_hub: WithHub, caplog: pytest.LogCaptureFixture) -> None:
    async def wait(secure: Hub, opened: AsyncExitStack) -> None:
        silent = await _open(opened, secure)
        await eventually(lambda: (len(secure.slots), secure.handshakes) == (1, 1), "it counts from its acceptance on")
        assert not secure.channels
        await _is_closed(silent)
        await eventually(lambda: (len(secure.slots), secure.handshakes) == (0, 0), "it is forgotten")
        assert secure.counters()["failed_handshakes"] == 1

    with_hub(wait, handshake_s=0.5)
    assert "no TLS handshake within 0.5 s" in caplog.text


def test_handshake_that_fails_is_told_and_counted(with_hub: WithHub, caplog: pytest.LogCaptureFixture) -> None:
    async def send_noise(secure: Hub, opened: AsyncExitStack) -> None:
        confused = await _open(opened, secure)
        await confused.send_bytes(b"this is no handshake at all")
        with contextlib.suppress(OSError):
            await confused.reader.read()
        await eventually(lambda: not secure.slots, "it is forgotten")
        assert secure.counters()["failed_handshakes"] == 1

    with_hub(send_noise)
    assert "the TLS handshake failed" in caplog.text


def test_whoever_only_looks_whether_the_port_answers_is_no_failure(with_hub: WithHub) -> None:
    async def look(secure: Hub, _opened: AsyncExitStack) -> None:
        for _ in range(20):
            (await WireChannel.open(_tls_port(secure))).abort()
        await _publish(secure)
        await eventually(lambda: not secure.slots, "all are forgotten")
        assert secure.counters()["failed_handshakes"] == 0

    with_hub(look)


def test_oldest_of_too_many_handshakes_makes_room(
    with_hub: WithHub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def crowd(secure: Hub, opened: AsyncExitStack) -> None:
        silent = [await _open(opened, secure) for _ in range(3)]
        await eventually(lambda: secure.handshakes == 3, "they are accepted")
        await _publish(secure)
        await _is_closed(silent[0])
        await eventually(lambda: len(secure.slots) == 2, "it is forgotten")
        assert secure.counters()["failed_handshakes"] == 1

    monkeypatch.setattr(hedwig.hub.connections.tls.listener, "_HANDSHAKES_MAX", 3)
    with_hub(crowd)
    assert "its own is the oldest" in caplog.text


def test_silent_handshakes_make_place_for_others(with_hub: WithHub) -> None:
    async def fill(secure: Hub, opened: AsyncExitStack) -> None:
        silent = [await _open(opened, secure) for _ in range(7)]
        await eventually(lambda: secure.handshakes == 7, "they are accepted")
        came_at = secure.clock.monotonic()
        await until(lambda: secure.clock.monotonic() - came_at > 2.5, "they have been silent for long")
        await _publish(secure)
        await _is_closed(silent[0])
        assert secure.counters()["displaced_connections"] >= 1

    with_hub(fill, channels_max=8)


def test_hub_that_ends_waits_for_no_handshake(with_hub: WithHub) -> None:
    async def end(secure: Hub, opened: AsyncExitStack) -> None:
        silent = await _open(opened, secure)
        await eventually(lambda: secure.handshakes == 1, "it is accepted")
        async with asyncio.timeout(2.5):  # Peers may take 3 s to read their last answers. This end is sooner.
            await secure.close()
        await _is_closed(silent)
        assert not secure.slots

    with_hub(end)
