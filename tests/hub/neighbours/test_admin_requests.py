"""Prove that the hub cuts endless requests to the admin endpoint, and serves operators and clients meanwhile."""

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, repeat
from pathlib import Path
from typing import Final

import pytest

from tests.hub.neighbours.support.clients import KIB, MIB, before_hub
from tests.hub.neighbours.support.good_topic import GoodTopic
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.running import RunningHub

ENDLESS: Final = 10**10
"""The size of the request that the client offers, in bytes."""
TAKEN: Final = 32 * MIB
"""The socket buffers of both sides may hold this much of it, which is more than the bound."""
SOON_S: Final = 60.0
HEAD: Final = b"%s HTTP/1.1\r\nHost: localhost\r\n"
BLOCK: Final = bytes(64 * KIB)
CHUNK: Final = b"%x\r\n%s\r\n" % (len(BLOCK), BLOCK)

SHORT_DEADLINES: Final = """

from hedwig.hub.admin.http import connection, server

connection._TAKE_S = server._IDLE_S = server._BODY_S = 1.0
"""


def _announced(method: bytes, path: bytes = b"/read-only?state=on", header: bytes = b"") -> Iterator[bytes]:
    yield HEAD % (method + b" " + path) + b"Content-Length: %d\r\n%s\r\n" % (ENDLESS, header)
    yield from repeat(BLOCK)


def _chunked(*chunks: bytes, path: bytes = b"/nowhere") -> Iterator[bytes]:
    yield HEAD % (b"POST " + path) + b"Transfer-Encoding: chunked\r\n\r\n"
    yield from chunks[:-1]
    yield from repeat(chunks[-1])


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        pytest.param(_announced(b"POST"), 413, id="announced"),
        pytest.param(_announced(b"GET"), 413, id="with-a-get"),
        pytest.param(_announced(b"POST", b"/nowhere"), 413, id="to-nowhere"),
        pytest.param(_announced(b"POST", header=b"Sec-Fetch-Site: cross-site\r\n"), 403, id="from-elsewhere"),
        pytest.param(_announced(b"POST", header=b"Expect: 100-continue\r\n"), 100, id="expecting"),
        pytest.param(_chunked(CHUNK), 413, id="chunked"),
        pytest.param(_chunked(b"1\r\na\r\n"), 413, id="in-small-chunks"),
        pytest.param(_chunked(b"1;", b"a" * KIB), None, id="in-the-extension-of-a-chunk"),
        pytest.param(_chunked(b"0\r\n", b"a: b\r\n" * KIB), 400, id="in-trailers"),
        pytest.param(chain([b"GET /"], repeat(b"a" * KIB)), 400, id="in-the-path"),
        pytest.param(chain([HEAD % b"GET /ready"], repeat(b"a: b\r\n")), 400, id="in-headers"),
        pytest.param(chain([HEAD % b"GET /ready"], repeat(b"a" * KIB)), 400, id="in-one-header"),
        pytest.param(
            chain([HEAD % b"GET /ready", b"a: b"], repeat(b"\r\n " + b"a" * KIB)), 400, id="in-a-folded-header"
        ),
        pytest.param(repeat(b"\r\n" * KIB), None, id="in-empty-lines"),
    ],
)
async def test_what_has_no_end_is_closed_at_the_bound(
    hub: RunningHub, good: GoodTopic, request_bytes: Iterator[bytes], status: int | None
) -> None:
    sending = asyncio.create_task(asyncio.to_thread(_send, hub, request_bytes))
    await good.exchange(20)
    assert (await asyncio.to_thread(AdminClient(hub.admin).get, "/read-only")) == {"read_only": False}
    sent, took_s, answer = await sending
    assert sent < TAKEN, f"{sent} bytes in {took_s:.1f} s"
    # It depends on the client's machine whether it receives an answer while it still sends.
    assert not answer or int(answer.split()[1]) == status, answer


def _send(hub: RunningHub, pieces: Iterator[bytes]) -> tuple[int, float, bytes]:
    """Send until the hub ends the connection; return the bytes sent, the time, and the bytes received."""
    host, _, port = hub.admin.rpartition(":")
    began, sent, answer = time.monotonic(), 0, b""
    with socket.create_connection((host, int(port)), SOON_S) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
                sent += len(piece)
                if sent > ENDLESS or time.monotonic() - began > SOON_S:
                    break
        except OSError:  # The hub has closed the connection.
            pass
        try:
            while data := connection.recv(KIB):
                answer += data
        except OSError:
            pass
    return sent, time.monotonic() - began, answer


async def test_requests_that_trickle_end_at_a_deadline_and_hold_up_nobody(tmp_path: Path) -> None:
    starts = (
        b"GET /rea",
        HEAD % b"GET /ready" + b"X-Header: ",
        HEAD % b"POST /read-only?state=on" + b"Content-Length: 4000\r\n\r\n",
        HEAD % b"POST /read-only?state=on" + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
    )
    with RunningHub(tmp_path, environment=before_hub(tmp_path, SHORT_DEADLINES)) as hub, ExitStack() as opened:
        slow = [opened.enter_context(_connected(hub)) for _ in range(60)]
        for number, connection in enumerate(slow):
            connection.sendall(starts[number % len(starts)])
        # There are more of them than the hub answers at once. An unfinished request does not count among those.
        assert AdminClient(hub.admin).get("/read-only") == {"read_only": False}
        ended = await asyncio.gather(*(asyncio.to_thread(_trickle, connection) for connection in slow))
        assert all(ended)
        assert AdminClient(hub.admin).get("/read-only") == {"read_only": False}
        hub.stop()


def _connected(hub: RunningHub) -> socket.socket:
    host, _, port = hub.admin.rpartition(":")
    return socket.create_connection((host, int(port)), SOON_S)


def _trickle(connection: socket.socket) -> bool:
    """Send byte after byte; return whether the hub ends the connection."""
    deadline = time.monotonic() + SOON_S
    connection.settimeout(0.1)
    while time.monotonic() < deadline:
        try:
            connection.sendall(b"1")
            if not connection.recv(KIB):
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


async def test_who_does_not_take_an_answer_is_cut_at_a_deadline(tmp_path: Path) -> None:
    with RunningHub(tmp_path, environment=before_hub(tmp_path, SHORT_DEADLINES)) as hub, ExitStack() as opened:
        deaf = [opened.enter_context(_connected(hub)) for _ in range(4)]
        ended = await asyncio.gather(*(asyncio.to_thread(_ask_and_never_read, connection) for connection in deaf))
        assert all(ended)
        assert AdminClient(hub.admin).get("/ready")["ready"]
        hub.stop()


def _ask_and_never_read(connection: socket.socket) -> bool:
    deadline = time.monotonic() + SOON_S
    while time.monotonic() < deadline:
        try:
            connection.sendall(HEAD % b"GET /options" + b"\r\n")
        except TimeoutError:
            return False
        except OSError:
            return True
    return False
