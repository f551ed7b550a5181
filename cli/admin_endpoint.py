"""The admin endpoint of a hub, as commands use it: HTTP and JSON, one connection for each request."""

import json
from http.client import HTTPConnection, HTTPException
from typing import Any, Final

from cli.errors import CommandError, ExitCode

__all__ = ["AdminEndpoint"]

_OK: Final = 200


class AdminEndpoint:
    """Asks the hub `hub` at `address`, host:port. Calls block, for `timeout_s` at most.

    Raises, in all: CommandError - it does not answer, or refuses; the text says what and what to do.
    """

    def __init__(self, command: str, hub: str, address: str, timeout_s: float) -> None:
        self._what = f"{command} failed on hub {hub}"
        self._address = address
        self._timeout_s = timeout_s

    def get(self, path: str) -> Any:
        """Return what is at `path`."""
        return self._ask("GET", path)

    def post(self, path: str) -> Any:
        """Have something done, and return what the hub says of it then."""
        return self._ask("POST", path)

    def _ask(self, method: str, path: str) -> Any:
        try:
            status, body = self._exchange(method, path)
            answer = json.loads(body)
        except TimeoutError as exc:
            raise CommandError(
                f"{self._what}: its admin endpoint at {self._address} did not answer within {self._timeout_s:g} s; "
                "it may or may not have been done: look before you try again",
                ExitCode.OUTCOME_UNKNOWN,
            ) from exc
        except OSError as exc:
            raise CommandError(
                f"{self._what}: its admin endpoint at {self._address} cannot be reached: {exc.strerror or exc}; it may "
                "listen on the hub's own machine only: run this there, or name a way to it with --admin HOST:PORT",
                ExitCode.UNAVAILABLE,
            ) from exc
        except (HTTPException, ValueError) as exc:
            raise CommandError(f"{self._what}: what answers at {self._address} is no admin endpoint") from exc
        if status != _OK:
            said = answer.get("error") if isinstance(answer, dict) else None
            raise CommandError(f"{self._what}: its admin endpoint answers {status}: {said or body.decode()}")
        return answer

    def _exchange(self, method: str, path: str) -> tuple[int, bytes]:
        connection = HTTPConnection(self._address, timeout=self._timeout_s)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()
