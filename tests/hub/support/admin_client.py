"""Asks the admin endpoint of a hub as any HTTP client does, and waits for its expected answers."""

import json
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from typing import Any, Final

__all__ = ["AdminAnswer", "AdminClient"]

_TIMEOUT_S: Final = 60.0
_PAUSE_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class AdminAnswer:
    """An answer: its status, its body as text, and how a client may say who it is."""

    status: int
    text: str
    content_type: str
    ways: str | None = None

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class AdminClient:
    """A client of the admin endpoint at `address`, host:port. It blocks. With `tls`, it speaks HTTPS."""

    def __init__(self, address: str, tls: ssl.SSLContext | None = None) -> None:
        self._address = address
        self._tls = tls

    def ask(self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> AdminAnswer:
        """Send a request on a connection of its own."""
        connection = (
            HTTPConnection(self._address, timeout=_TIMEOUT_S)
            if self._tls is None
            else HTTPSConnection(self._address, timeout=_TIMEOUT_S, context=self._tls)
        )
        try:
            connection.request(method, path, body=body or None, headers=dict(headers or {}))
            response = connection.getresponse()
            return AdminAnswer(
                response.status,
                response.read().decode(),
                response.headers.get_content_type(),
                response.headers.get("WWW-Authenticate"),
            )
        finally:
            connection.close()

    def exchange(self, request: bytes) -> bytes:
        """Send bytes, and return all that comes until the endpoint closes the connection."""
        host, _, port = self._address.rpartition(":")
        answer = bytearray()
        with socket.create_connection((host, int(port)), _TIMEOUT_S) as connection:
            connection.sendall(request)
            while data := connection.recv(1 << 16):
                answer += data
        return bytes(answer)

    def get(self, path: str) -> Any:
        """Return the JSON at `path`, which must be there."""
        answer = self.ask("GET", path)
        assert answer.status == 200, answer
        return answer.json

    def post(self, path: str) -> Any:
        """Post to `path`, which must be accepted, and return its JSON."""
        answer = self.ask("POST", path)
        assert answer.status == 200, answer
        return answer.json

    def wait(self, path: str, holds: Callable[[Any], object], what: str) -> Any:
        """Return the JSON at `path` once `holds` is true of it; fail with `what` when that takes too long."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            answer = self.ask("GET", path)
            if answer.status == 200 and holds(answer.json):
                return answer.json
            assert time.monotonic() < deadline, f"{what}: not within {_TIMEOUT_S:g} s; {path} says {answer}"
            time.sleep(_PAUSE_S)
