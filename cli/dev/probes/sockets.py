"""Probes without a client: a port, one frame, one word."""

import socket
from typing import Final

from hedwig.cli.dev.ports import LOOPBACK

__all__ = ["PROBE_TIMEOUT_S", "check_listening", "four_letter_word", "is_answered"]

PROBE_TIMEOUT_S: Final = 3.0
_ANSWER_BYTES_MAX: Final = 1 << 24
_LENGTH_BYTES: Final = 4


def check_listening(port: int) -> None:
    """Return if a server listens at the port."""
    _connected(port).close()


def is_answered(port: int, frame: bytes, begins: bytes) -> bool:
    """Send a frame after its length in four bytes, and say whether the answering frame begins with `begins`."""
    with _connected(port) as connection, connection.makefile("rb") as answer:
        connection.sendall(len(frame).to_bytes(_LENGTH_BYTES, "big") + frame)
        return answer.read(_LENGTH_BYTES + len(begins))[_LENGTH_BYTES:] == begins


def four_letter_word(port: int, word: str) -> str:
    """Return ZooKeeper's answer to `word`, for instance `srvr`."""
    with _connected(port) as connection, connection.makefile("rb") as answer:
        connection.sendall(word.encode())
        return answer.read(_ANSWER_BYTES_MAX).decode(errors="replace")


def _connected(port: int) -> socket.socket:
    return socket.create_connection((LOOPBACK, port), PROBE_TIMEOUT_S)
