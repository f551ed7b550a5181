"""Prove that the client reports a failed connection with a reason in words, not with an error number of the system."""

import asyncio
import errno
import socket

import pytest

from hedwig.reasons import reason_of

_REFUSED = "Connection refused"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"), _REFUSED),
        (OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 1), [Errno 111] Connect …"), _REFUSED),
        (
            OSError("Multiple exceptions: [Errno 111] Connect call failed, [Errno 101] Connect call failed"),
            "Connection refused, Network is unreachable",
        ),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (ConnectionResetError("Connection lost"), "Connection lost"),
        (TimeoutError(), ""),
        (ValueError("no socket at all"), "no socket at all"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_reason_is_what_the_operating_system_calls_it(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason


async def _connect(host: str) -> None:
    await asyncio.open_connection(host, 1)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_asyncio_has_the_reason_that_is_read(host: str) -> None:
    with pytest.raises(OSError, match="Connect call failed") as caught:
        asyncio.run(_connect(host))
    assert reason_of(caught.value) == _REFUSED
