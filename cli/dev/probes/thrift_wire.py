"""One call to each HBase Thrift gateway, in Thrift's binary protocol over a plain (unframed) transport.

Source: the Thrift binary protocol specification; tableExists of THBaseService (Thrift2), getTableNames of Hbase
    (Thrift1).
"""

import struct

from hedwig.cli.dev.probes.socket_frames import FrameSocket

__all__ = ["ThriftCallError", "thrift1_lists_tables", "thrift2_finds_table"]

_VERSION_1 = 0x8001_0000
_CALL, _REPLY = 1, 2
_STOP, _BOOL, _STRING, _STRUCT, _LIST = 0, 2, 11, 12, 15


class ThriftCallError(ConnectionError):
    """The gateway answered the call with an exception."""


def thrift2_finds_table(port: int, namespace: str, table: str, timeout_s: float) -> bool:
    """Ask the Thrift2 gateway whether a table exists, which makes it read hbase:meta.

    Raises: ThriftCallError - it answered with an exception; OSError - it did not answer.
    """
    name = _string_field(1, namespace.encode()) + _string_field(2, table.encode()) + bytes([_STOP])
    with _call(port, "tableExists", struct.pack(">bh", _STRUCT, 1) + name, timeout_s) as connection:
        _expect_success(connection, "tableExists", _BOOL)
        return connection.receive(1) == b"\x01"


def thrift1_lists_tables(port: int, timeout_s: float) -> int:
    """Ask the Thrift1 gateway for the tables of the users, and return how many there are.

    Raises: as thrift2_finds_table.
    """
    with _call(port, "getTableNames", b"", timeout_s) as connection:
        _expect_success(connection, "getTableNames", _LIST)
        _element, count = struct.unpack(">bi", connection.receive(5))
        return int(count)


def _call(port: int, method: str, fields: bytes, timeout_s: float) -> FrameSocket:
    connection = FrameSocket(port, timeout_s)
    try:
        connection.send(
            struct.pack(">I", _VERSION_1 | _CALL)
            + _string(method.encode())
            + struct.pack(">i", 1)
            + fields
            + bytes([_STOP])
        )
    except OSError:
        connection.__exit__(None, None, None)
        raise
    return connection


def _expect_success(connection: FrameSocket, method: str, expected: int) -> None:
    """Read the reply up to its value, which is field 0 of the type `expected`; any other field is an exception."""
    (version,) = struct.unpack(">I", connection.receive(4))
    answered = connection.receive_frame().decode(errors="replace")
    connection.receive(4)
    if version != _VERSION_1 | _REPLY or answered != method:
        raise ThriftCallError(f"{method} was answered by {answered or 'nothing'} of message type {version & 0xFF}")
    (kind,) = struct.unpack(">b", connection.receive(1))
    number = struct.unpack(">h", connection.receive(2))[0] if kind != _STOP else -1
    if (kind, number) != (expected, 0):
        raise ThriftCallError(f"{method} was answered with an exception")


def _string(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def _string_field(number: int, value: bytes) -> bytes:
    return struct.pack(">bh", _STRING, number) + _string(value)
