"""A proxy to a hub's admin endpoint that holds back the answer to a freeze, so that a pause lasts."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from tests.cli.support.admin import DEADLINE_S
from tests.hub.support.admin_client import AdminClient

__all__ = ["HeldAdmin"]


class HeldAdmin:
    """Passes requests on to the admin endpoint of `hub`, and holds back its answers to `POST /freeze`.

    `is_held` is set once there is such an answer. `release` sends it, and lets all later ones through.
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
                """Log nothing."""

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
        """Send the held answer, and let later ones through."""
        self._released.set()

    def pass_on(self, request: BaseHTTPRequestHandler) -> None:
        """Pass one request on to the hub, and its answer back."""
        answer = self._client.ask(request.command, request.path)
        if request.command == "POST" and request.path == "/freeze":
            self.is_held.set()
            self._released.wait(DEADLINE_S)
        body = answer.text.encode()
        try:
            request.send_response(answer.status)
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)
        except OSError:
            pass  # The client was killed.
