"""Probes without a client: a port, one frame, one word. With `tls` the connection speaks TLS."""

import socket
from typing import Final

from hedwig.cli.dev.ports import LOOPBACK
from hedwig.store_access import TlsFiles

__all__ = ["PROBE_TIMEOUT_S", "check_listening", "four_letter_word", "is_answered"]

PROBE_TIMEOUT_S: Final = 3.0
_ANSWER_BYTES_MAX: Final = 1 << 24
_LENGTH_BYTES: Final = 4


def check_listening(port: int) -> None:
    """Return if a server listens at the port."""
    _connected(port).close()


def is_answered(port: int, frame: bytes, begins: bytes, tls: TlsFiles | None = None, before_tls: bytes = b"") -> bool:
    """Send a frame after its length in four bytes, and say whether the answering frame begins with `begins`.

    TLS begins after the answer to the frame `before_tls`, whose length is in it.
    """
    connection = _connected(port)
    try:
        if tls is not None:
            connection.sendall(before_tls)
            _read(connection, int.from_bytes(_read(connection, _LENGTH_BYTES), "big"))
            connection = tls.context().wrap_socket(connection, server_hostname=LOOPBACK)
        connection.sendall(len(frame).to_bytes(_LENGTH_BYTES, "big") + frame)
        return _read(connection, _LENGTH_BYTES + len(begins))[_LENGTH_BYTES:] == begins
    finally:
        connection.close()


def _read(connection: socket.socket, size: int) -> bytes:
    """Return N bytes, fewer if the server ends the connection. Nothing is read beyond, since TLS may follow."""
    data = b""
    while len(data) < size and (more := connection.recv(size - len(data))):
        data += more
    return data


def four_letter_word(port: int, word: str, tls: TlsFiles | None = None) -> str:
    """Return ZooKeeper's answer to `word`, for instance `srvr`."""
    with _connected(port, tls) as connection, connection.makefile("rb") as answer:
        connection.sendall(word.encode())
        return answer.read(_ANSWER_BYTES_MAX).decode(errors="replace")


def _connected(port: int, tls: TlsFiles | None = None) -> socket.socket:
    connection = socket.create_connection((LOOPBACK, port), PROBE_TIMEOUT_S)
    if tls is None:
        return connection
    try:
        return tls.context().wrap_socket(connection, server_hostname=LOOPBACK)
    except BaseException:
        connection.close()
        raise
