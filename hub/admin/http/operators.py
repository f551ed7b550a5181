"""Operators: who sends a request to the admin endpoint, and what they may do.

Whoever shows the token in the hub's file may do everything. Others are users: by a client certificate, a password or a
token of an issuer, as at the listeners. For them the rules count.
"""

import base64
import binascii
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from ssl import cert_time_to_seconds
from typing import Final

from aiohttp import web

from hedwig.errors import InvalidArgumentError, NotAuthenticatedError
from hedwig.hub.access.access_control import AccessControl
from hedwig.hub.access.audit import Audit
from hedwig.hub.access.caller import Caller
from hedwig.hub.admin.http.connection import AdminConnection
from hedwig.hub.admin.http.errors import BadRequestError
from hedwig.hub.admin.http.route import Route, Scope, topic_in
from hedwig.hub.admin.http.token_file import TokenFile
from hedwig.hub.connections.tls.files import TlsFiles
from hedwig.hub.options.options import HubOptions
from hedwig.model import Topic
from hedwig.names import show_name

__all__ = ["Operator", "Operators", "operator_of"]

_TOKEN: Final = "the admin token"
_NOBODY: Final = "nobody"
_HUB: Final = b""
"""The name of no topic, about which only rules on `*` say something."""
_TEXT_CHARACTERS_MAX: Final = 256
_PARAMETERS_MAX: Final = 16


@dataclass(slots=True)
class Operator:
    """Who has sent a request. `caller` is None for the holder of the hub's token, and for nobody."""

    peer: str
    who: str
    caller: Caller | None
    sees: Callable[[Topic], bool]
    """Says whether the operator may know of a topic."""
    sees_hub: bool
    """Whether the operator may know how the hub is."""


_KEY: Final = web.RequestKey("operator", Operator)


class Operators:
    """Admits requests, as the options of the hub and the rules say."""

    def __init__(
        self,
        options: HubOptions,
        access: AccessControl | None,
        audit: Audit | None,
        token: TokenFile | None,
        files: TlsFiles | None,
    ) -> None:
        """`token`: None if nobody is asked for it. `files` have the revocation lists of client certificates."""
        self._asks = options.are_operators_asked
        self._access = access
        self._audit = audit
        self._token = token
        self._files = files

    async def admit(self, request: web.Request, connection: AdminConnection, route: Route | None) -> None:
        """Let a request pass, and note who sends it; `route` is None if there is nothing at its path.

        Raises: HTTPUnauthorized - it is not known who sends it; HTTPForbidden - the rules do not allow it;
            InvalidArgumentError, BadRequestError - it names no topic; ServiceDownError - the rules are not known.
        """
        operator = await self._identify(request, connection)
        if route is not None:
            self._check(operator, request, route)
        request[_KEY] = operator

    def _check(self, operator: Operator, request: web.Request, route: Route) -> None:
        if route.scope is Scope.ANYBODY or operator.who == _TOKEN:
            return
        if self._access is None:
            if self._asks:
                raise self._is_unknown()
            return
        topic: bytes = _HUB
        if route.scope is Scope.OPERATORS and operator.caller is not None:
            return
        if route.scope is Scope.TOPIC and (operator.caller is not None or not self._asks):
            topic = topic_in(request)
        if self._access.check_operator(operator, route.action, topic) or not self._asks:
            return
        if operator.caller is None:
            raise self._is_unknown()
        what = f"topic '{show_name(topic)}'" if topic else "this hub"
        raise web.HTTPForbidden(reason=f"not permitted: {route.action.spelled} {what} by {operator.who}")

    def done(self, request: web.Request, status: int) -> None:
        """Write to the audit log that a request was answered which was to change something."""
        operator = request.get(_KEY)
        if self._audit is None or operator is None or request.method in ("GET", "HEAD"):
            return
        asked = {_cut(name): _cut(value) for name, value in islice(request.query.items(), _PARAMETERS_MAX)}
        if "topic_base64" in asked:
            with suppress(InvalidArgumentError, BadRequestError):
                asked["topic"] = _cut(show_name(topic_in(request)))
                del asked["topic_base64"]
        what = f"{request.method} {_cut(request.path)}"
        self._audit.write(
            "operator", peer=operator.peer, who=operator.who, action=what, parameters=asked, status=status
        )

    async def _identify(self, request: web.Request, connection: AdminConnection) -> Operator:
        header = request.headers.get("Authorization")
        if header is not None and (self._token is not None or self._access is not None):
            return await self._named(header, connection)
        if self._access is not None and (certificate := connection.certificate) is not None:
            self._check_certificate(connection, str(certificate["notAfter"]))
            if (caller := self._access.caller(connection.peer, certificate)) is not None:
                return self._user(connection, caller)
        may = not self._asks
        return Operator(connection.peer, _NOBODY, None, lambda _: may, may)

    def _check_certificate(self, connection: AdminConnection, ends: str) -> None:
        """Raise HTTPUnauthorized if a certificate does not count any more that counted when the connection began."""
        der = connection.certificate_der
        revoked = self._files.revoked if self._files is not None else None
        if cert_time_to_seconds(ends) < time.time():
            raise self._is_unknown("the certificate has ended")
        if revoked is not None and der is not None and revoked.has(der):
            raise self._is_unknown("the certificate is revoked")

    async def _named(self, header: str, connection: AdminConnection) -> Operator:
        scheme, _, shown = header.partition(" ")
        shown = shown.strip()
        logins = self._access.logins if self._access is not None else None
        try:
            match scheme.lower():
                case "bearer":
                    if self._token is not None and self._token.is_shown(shown):
                        return Operator(connection.peer, _TOKEN, None, lambda _: True, sees_hub=True)
                    if logins is not None and logins.tokens is not None and "." in shown:
                        return self._user(connection, logins.check_token(connection, shown))
                    if self._audit is not None:
                        self._audit.refused(connection.peer, _NOBODY, "login", None)
                    raise self._is_unknown("the token is another")
                case "basic" if logins is not None and logins.takes_passwords:
                    name, password = _basic(shown)
                    return self._user(connection, await logins.check_password(connection, name, password))
        except NotAuthenticatedError as exc:
            raise self._is_unknown(str(exc)) from exc
        raise self._is_unknown(f"it does not take {_cut(scheme)!r} here")

    def _user(self, connection: AdminConnection, caller: Caller) -> Operator:
        access = self._access
        assert access is not None, "without access control there are no users"

        def sees(topic: Topic) -> bool:
            return not self._asks or access.may_view(caller, topic)

        return Operator(connection.peer, str(caller.principal), caller, sees, sees(Topic(_HUB)))

    def _is_unknown(self, why: str | None = None) -> web.HTTPUnauthorized:
        ways = ["Bearer"] if self._token is not None or (self._access is not None and self._takes_tokens()) else []
        if self._access is not None and (logins := self._access.logins) is not None and logins.takes_passwords:
            ways.append("Basic")
        headers = {"WWW-Authenticate": ", ".join(f'{way} realm="hedwig"' for way in ways)} if ways else {}
        said = f": {why}" if why is not None else ""
        return web.HTTPUnauthorized(reason=f"this admin endpoint asks who you are{said}", headers=headers)

    def _takes_tokens(self) -> bool:
        logins = self._access.logins if self._access is not None else None
        return logins is not None and logins.tokens is not None


def operator_of(request: web.Request) -> Operator:
    """Return who has sent a request that was admitted."""
    return request[_KEY]


def _basic(shown: str) -> tuple[str, str]:
    """Return the name and the password of an Authorization header (RFC 7617). Raises: NotAuthenticatedError."""
    try:
        name, colon, password = base64.b64decode(shown, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as exc:
        raise NotAuthenticatedError("not authenticated: the header is no name and password in base64") from exc
    if not colon:
        raise NotAuthenticatedError("not authenticated: the header has no password")
    return name, password


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_CHARACTERS_MAX else f"{text[:_TEXT_CHARACTERS_MAX]}…"
