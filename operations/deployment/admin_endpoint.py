"""The admin endpoint of a hub, for commands: HTTP or HTTPS, and JSON, with one connection for each request."""

import base64
import json
import ssl
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection, RemoteDisconnected
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode
from hedwig.names import show_name
from hedwig.operations.deployment.admin_access import AdminAccess
from hedwig.reasons import reason_of

__all__ = ["AdminClient", "EndpointError", "RefusedError", "named", "topic_path"]

_OK: Final = 200
_FOR_CLIENTS: Final = b"Hedwig hub's port for its clients"
"""What a hub answers to an HTTP request at its port for clients."""
_UNAUTHORIZED: Final = 401
_HTTPS: Final = "https://"
_CODES: Final = {
    404: ExitCode.NOT_FOUND,
    409: ExitCode.VERSION_CONFLICT,
    503: ExitCode.UNAVAILABLE,
    504: ExitCode.OUTCOME_UNKNOWN,
}


class EndpointError(OperationError):
    """A request without a proper answer. `why` says why in a few words, for texts that name the hub anyway."""

    def __init__(self, text: str, code: ExitCode, why: str) -> None:
        super().__init__(text, code)
        self.why = why


class RefusedError(EndpointError):
    """A request that the endpoint refused.

    `http_status` is the status of the answer, `said` only the reason in it, `answer` the whole answer.
    """

    def __init__(self, text: str, status: int, said: str, answer: Mapping[str, Any]) -> None:
        super().__init__(text, _CODES.get(status, ExitCode.FAILED), said)
        self.http_status = status
        self.said = said
        self.answer = answer


class AdminClient:
    """Sends requests to the hub `hub` at `address`, host:port or https://host:port, each within `timeout_s`.

    Raises, in all: RefusedError - the hub refuses; EndpointError - it does not answer; the text says what to do.
        ConfigurationError - a file of `access` cannot be used.
    """

    def __init__(self, command: str, hub: str, address: str, timeout_s: float, access: AdminAccess) -> None:
        self._what = f"{command} failed on hub {hub}"
        self.address = address
        self._timeout_s = timeout_s
        self._access = access
        self._has_tls = address.startswith(_HTTPS)
        self._at = address.removeprefix(_HTTPS)

    def health(self) -> dict[str, Any]:
        """Return which hub this is, and how it is. Raises also if it tells that nobody who does not say who he is."""
        health = self.get("/health")
        if isinstance(health, dict) and "status" in health and "address" not in health:
            self.get("/access")  # The hub says why not.
        if not isinstance(health, dict) or "address" not in health:
            raise self._is_none()
        return health

    def get(self, path: str) -> Any:
        """Return what is at `path`."""
        return self._ask("GET", path)

    def post(self, path: str) -> Any:
        """Send a command, and return the answer of the hub."""
        return self._ask("POST", path)

    def _ask(self, method: str, path: str) -> Any:
        connection = self._connection()
        host = urlsplit(f"//{self._at}").hostname or ""
        may_send = self._access.may_send(host, has_tls=self._has_tls)
        shown = self._access.header(host) if may_send else None
        try:
            status, body = self._exchange(connection, method, path, {"Authorization": shown} if shown else {})
        finally:
            connection.close()
        try:
            answer = json.loads(body)
        except ValueError as exc:
            raise (self._is_for_clients() if _FOR_CLIENTS in body else self._is_none()) from exc
        if status != _OK:
            fields = answer if isinstance(answer, dict) else {}
            said = str(fields.get("error") or body.decode(errors="replace"))
            if status == _UNAUTHORIZED:
                said = f"{said}. {_advice(may_send=may_send, has_shown=shown is not None)}"
            raise RefusedError(f"{self._what}: its admin endpoint answers {status}: {said}", status, said, fields)
        return answer

    def _connection(self) -> HTTPConnection:
        if self._has_tls:
            return HTTPSConnection(self._at, timeout=self._timeout_s, context=self._access.tls())
        return HTTPConnection(self._at, timeout=self._timeout_s)

    def _exchange(
        self, connection: HTTPConnection, method: str, path: str, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as exc:
            raise EndpointError(
                f"{self._what}: the certificate of its admin endpoint at {self.address} does not count: "
                f"{exc.verify_message}. Name its authority with --tls-ca FILE",
                ExitCode.FAILED,
                f"the certificate of its admin endpoint {self.address} does not count",
            ) from exc
        except OSError as exc:
            raise self._is_out_of_reach(reason_of(exc)) from exc
        try:
            connection.request(method, path, headers=dict(headers))
            response = connection.getresponse()
            return response.status, response.read()
        except TimeoutError as exc:
            why = f"did not answer within {self._timeout_s:g} s"
            if method == "GET":  # A GET changes nothing, so its outcome does not matter.
                raise self._is_unread(why) from exc
            raise self._is_uncertain(why) from exc
        except OSError as exc:
            if method == "GET":
                raise self._hung_up(exc) from exc
            raise self._is_uncertain(f"hung up: {reason_of(exc)}") from exc
        except HTTPException as exc:
            raise self._is_none() from exc

    def _is_out_of_reach(self, reason: str) -> EndpointError:
        return EndpointError(
            f"{self._what}: its admin endpoint at {self.address} cannot be reached: {reason}. It may listen on the "
            "hub's own machine only. Run this there, or name a way to it with --admin HOST:PORT",
            ExitCode.UNAVAILABLE,
            f"{reason} at its admin endpoint {self.address}",
        )

    def _hung_up(self, exc: OSError) -> EndpointError:
        if isinstance(exc, RemoteDisconnected):
            return EndpointError(
                f"{self._what}: what listens at {self.address} hung up without an answer, as the port for clients "
                "does. Name a way to the admin endpoint with --admin HOST:PORT",
                ExitCode.UNAVAILABLE,
                f"what listens at {self.address} hung up, as the port for clients does",
            )
        return self._is_out_of_reach(reason_of(exc))

    def _is_for_clients(self) -> EndpointError:
        return EndpointError(
            f"{self._what}: what listens at {self.address} is the port for clients; name a way to the admin endpoint "
            "with --admin HOST:PORT",
            ExitCode.UNAVAILABLE,
            f"what listens at {self.address} is the port for clients",
        )

    def _is_unread(self, why: str) -> EndpointError:
        return EndpointError(
            f"{self._what}: its admin endpoint at {self.address} {why}; the command only reads there, so "
            "nothing was changed: try again, or give a longer --timeout",
            ExitCode.UNAVAILABLE,
            f"its admin endpoint {self.address} {why}",
        )

    def _is_uncertain(self, why: str) -> EndpointError:
        return EndpointError(
            f"{self._what}: its admin endpoint at {self.address} {why}; it may or may not have been done: look before "
            "you try again",
            ExitCode.OUTCOME_UNKNOWN,
            f"its admin endpoint {self.address} {why}",
        )

    def _is_none(self) -> EndpointError:
        return EndpointError(
            f"{self._what}: what answers at {self.address} is no admin endpoint; name a way to it with --admin "
            "HOST:PORT",
            ExitCode.FAILED,
            f"what answers at {self.address} is no admin endpoint",
        )


def _advice(*, may_send: bool, has_shown: bool) -> str:
    if not may_send:
        return (
            "It speaks no TLS, so what it asks for was not sent. Let hubs speak it (admin_tls), or give --plain-token "
            "if nobody else reads on that network"
        )
    if has_shown:
        return "Give what counts there, with --admin-token-file FILE, or --user and --password-file"
    return (
        "A hub keeps its token in the file admin-token in its data directory, or where its option admin_token_file "
        "says: give --admin-token-file FILE"
    )


def named(path: str, *, topic: bytes, subscriber: bytes | None = None, **parameters: Any) -> str:
    """Return the path of a request about a topic or a subscription. Parameters that are None are left out."""
    query = {"topic_base64": base64.b64encode(topic).decode()}
    if subscriber is not None:
        query["subscriber_base64"] = base64.b64encode(subscriber).decode()
    query |= {name: str(value) for name, value in parameters.items() if value is not None}
    return f"{path}?{urlencode(query)}"


def topic_path(topic: bytes) -> str:
    """Return the path at which a hub shows one of its topics."""
    # HTTP clients take a component of dots for a step up, even if it is escaped.
    components = [
        "\\x2e" * len(component) if component in (".", "..") else component for component in show_name(topic).split("/")
    ]
    return f"/topics/{quote('/'.join(components), safe='')}"
