"""Read one node of ZooKeeper, with only those parts of its protocol that this takes.

Numbers are big-endian. A frame is a length N in four bytes and N bytes. Text and content are a length N in four bytes
(-1: none) and N bytes. A frame opens the session (protocol 0, last zxid seen 0, timeout, session id 0, password, may be
read-only), and another frame ends it. In between, each request has a number and a type. A login is a request too, with
the number -4: kind 0, scheme, text.
"""

import asyncio
import struct
from collections.abc import Sequence
from typing import Final

from hedwig.clock import Deadline
from hedwig.errors import ConfigurationError
from hedwig.outcomes import NotAppliedError
from hedwig.reasons import reason_of
from hedwig.store_access import NO_ACCESS, ZooKeeperAccess

__all__ = ["read_node"]

_CONNECT: Final = struct.Struct(">iqiqi16s?")
_REQUEST: Final = struct.Struct(">ii")
_REPLY: Final = struct.Struct(">iqi")
_LENGTH: Final = struct.Struct(">i")
_GET: Final = 4
_CLOSE: Final = -11
_LOG_IN: Final = 100
_LOG_IN_NUMBER: Final = -4
_NO_NODE: Final = -101
_SESSION_TIMEOUT_MS: Final = 10_000
_PASSWORD_BYTES: Final = 16
_FRAME_BYTES_MAX: Final = 1 << 20


async def read_node(
    host: str, port: int, path: str, deadline: Deadline, access: ZooKeeperAccess = NO_ACCESS
) -> bytes | None:
    """Return the content of the node at `path`; None if there is no such node. `access` is what to show.

    Raises: NotAppliedError - ZooKeeper did not answer before the deadline, or answered with an error.
    """
    server = f"ZooKeeper at {host}:{port}"
    try:
        async with asyncio.timeout(deadline.remaining_s()):
            tls = None if access.tls is None else access.tls.context()
            reader, writer = await asyncio.open_connection(host, port, ssl=tls)
            try:
                return await _read(reader, writer, path, access.logins)
            finally:
                writer.transport.abort()
    except TimeoutError as exc:
        raise NotAppliedError(f"{server} did not answer in time") from exc
    except (OSError, EOFError, ConfigurationError) as exc:
        raise NotAppliedError(f"cannot read {path} of {server}: {reason_of(exc)}") from exc


async def _read(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, logins: Sequence[str]
) -> bytes | None:
    connect = _CONNECT.pack(0, 0, _SESSION_TIMEOUT_MS, 0, _PASSWORD_BYTES, bytes(_PASSWORD_BYTES), False)
    kind = _LENGTH.pack(0)
    log_ins = [_REQUEST.pack(_LOG_IN_NUMBER, _LOG_IN) + kind + _text("digest") + _text(login) for login in logins]
    get = _REQUEST.pack(1, _GET) + _text(path) + b"\x00"
    # Send the end of the session too, so that ZooKeeper keeps no session.
    for frame in (connect, *log_ins, get, _REQUEST.pack(2, _CLOSE)):
        writer.write(_LENGTH.pack(len(frame)) + frame)
    for _ in range(1 + len(log_ins)):
        await _frame(reader)
    reply = await _frame(reader)
    if len(reply) < _REPLY.size:
        raise OSError("a reply is cut short")
    _, _, error = _REPLY.unpack_from(reply)
    if error == _NO_NODE:
        return None
    if error:
        raise OSError(f"ZooKeeper's error {error}")
    (size,) = _LENGTH.unpack_from(reply, _REPLY.size)
    start = _REPLY.size + _LENGTH.size
    return reply[start : start + max(size, 0)]


def _text(text: str) -> bytes:
    data = text.encode()
    return _LENGTH.pack(len(data)) + data


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if not 0 <= size <= _FRAME_BYTES_MAX:
        raise OSError(f"a frame of {size} bytes was announced")
    return await reader.readexactly(size)
