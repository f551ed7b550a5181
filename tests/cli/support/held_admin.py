"""A way to a hub's admin endpoint on which the answer to a freeze is held back, so that a pause lasts."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from tests.cli.support.admin import DEADLINE_S
from tests.hub.support.admin_client import AdminClient

__all__ = ["HeldAdmin"]


class HeldAdmin:
    """Passes requests on to the admin endpoint of `hub`. Once that has answered `POST /freeze`, the answer waits.

    `is_held` is set then; `release` lets this answer, and all later ones, go.
    """

    def __init__(self, hub: str) -> None:
        self.is_held = threading.Event()
        self._released = threading.Event()
        self._client = AdminClient(hub)
        held = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                held.pass_on(self)

            def do_POST(self) -> None:
                held.pass_on(self)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(DEADLINE_S)

    def release(self) -> None:
        """Let answers go."""
        self._released.set()

    def pass_on(self, request: BaseHTTPRequestHandler) -> None:
        """Have one request answered by the hub."""
        told = self._client.ask(request.command, request.path)
        if request.command == "POST" and request.path == "/freeze":
            self.is_held.set()
            self._released.wait(DEADLINE_S)
        body = told.text.encode()
        try:
            request.send_response(told.status)
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)
        except OSError:
            pass  # Whoever asked was killed.
