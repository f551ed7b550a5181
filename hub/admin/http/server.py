"""The HTTP side of the admin endpoint: connections, deadlines, and errors as JSON that says what to do."""

import asyncio
import json
import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from hedwig.errors import ConfigurationError, HedwigError, InvalidArgumentError
from hedwig.hub.admin.http.callers import Callers
from hedwig.hub.admin.http.connection import AdminConnection
from hedwig.hub.admin.http.errors import BadRequestError, ConflictError, NotFoundError
from hedwig.hub.admin.http.operators import Operators
from hedwig.hub.admin.http.route import Handler, Route
from hedwig.hub.connections.listening import Listener, serve
from hedwig.hub.connections.tls.files import TlsFiles
from hedwig.hub.connections.tls.listener import TlsListener
from hedwig.hub.connections.tls.settings import TlsSettings

__all__ = ["AdminServer", "json_response"]

_log = logging.getLogger(__name__)
_http_log = logging.getLogger(f"{__name__}.http")
_http_log.addFilter(lambda record: not _is_up_to_the_client(record))

_CONNECTIONS_MAX: Final = 64
"""These fit into the descriptors that hub.connections.descriptors reserves for everything but clients."""
_REQUESTS_MAX: Final = 16
_LINE_BYTES_MAX: Final = 64 << 10
"""Room for the longest name of a topic with each byte escaped twice."""
_BODY_BYTES_MAX: Final = 4096
_BODY_S: Final = 10.0
_IDLE_S: Final = 30.0
"""The maximum time from one answer to the last header of the next request."""
_LINGER_S: Final = 1.0
"""How long the server drops the rest of a refused request, so that the client can read the answer."""
_END_S: Final = 2.0
_HANDSHAKE_S: Final = 10.0


class AdminServer:
    """Answers the requests of operators and their programs: at most 16 at once, each within a deadline."""

    def __init__(
        self, routes: Sequence[Route], deadline_s: float, operators: Operators, names: Iterable[str] = ()
    ) -> None:
        """Prepare to answer under `names`, besides localhost and addresses, those that `operators` admits."""
        self._deadline_s = deadline_s
        self._operators = operators
        self._callers = Callers(names)
        self._running = 0
        self._connections: dict[AdminConnection, None] = {}
        """The open connections, the oldest first."""
        self._routes: dict[tuple[str, str], Route] = {}
        application = web.Application(middlewares=[self._answer], client_max_size=_BODY_BYTES_MAX)
        for route in routes:
            resource = application.router.add_route(route.method, route.path, route.handler).resource
            assert resource is not None, "a route that was added has its resource"
            self._routes[route.method, resource.canonical] = route
        self._paths = ", ".join(dict.fromkeys(path for _, path in self._routes))
        self._runner = web.AppRunner(
            application,
            access_log=None,
            logger=_http_log,
            lingering_time=_LINGER_S,
            auto_decompress=False,
            keepalive_timeout=_IDLE_S,
            max_line_size=_LINE_BYTES_MAX,
            shutdown_timeout=_END_S,
        )
        self._listener: Listener | None = None
        self._address = "", 0

    async def listen(self, host: str, port: int, files: TlsFiles | None = None, tls: TlsSettings | None = None) -> int:
        """Bind the address, and return the port. With `tls`, it speaks TLS with the certificate in `files`.

        Raises: ConfigurationError - the address cannot be used.
        """
        await self._runner.setup()
        try:
            if tls is not None:
                assert files is not None, "the hub has a certificate"
                secure = await TlsListener.bind(
                    host,
                    port,
                    self._connection,
                    files.context(tls),
                    backlog=_CONNECTIONS_MAX,
                    handshake_s=_HANDSHAKE_S,
                )
                files.follow(secure, tls)
                self._listener = secure
            else:
                self._listener = await asyncio.get_running_loop().create_server(
                    self._connection, host, port, reuse_address=True, start_serving=False
                )
        except OSError as exc:
            await self._runner.cleanup()
            raise ConfigurationError(
                f"cannot listen on {host}:{port} for the admin endpoint: {exc.strerror or exc}; "
                "choose another admin_port, or -1 for none"
            ) from exc
        bound: int = self._listener.sockets[0].getsockname()[1]
        self._address = host, bound
        return bound

    async def serve(self) -> None:
        """Start to answer requests. Raises: ConfigurationError - another program has begun to listen there."""
        assert self._listener is not None, "it listens"
        await serve(self._listener, *self._address)

    async def close(self) -> None:
        """Stop listening, and end the requests under way."""
        if self._listener is not None:
            self._listener.close()
        await self._runner.cleanup()

    def _connection(self) -> AdminConnection:
        server = self._runner.server
        assert server is not None, "the runner is set up before it listens"
        return AdminConnection(server(), self._opened, self._lost)

    def _opened(self, connection: AdminConnection) -> None:
        if len(self._connections) >= _CONNECTIONS_MAX:
            # Close the oldest one. Clients that keep idle connections must not lock operators out.
            oldest = next(iter(self._connections))
            self._lost(oldest)
            oldest.abort()
        self._connections[connection] = None

    def _lost(self, connection: AdminConnection) -> None:
        self._connections.pop(connection, None)

    @web.middleware
    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._callers.check(request)
            await _receive(request)
        except web.HTTPException as exc:
            return _error(exc.status, exc.reason)
        if request.transport is None:
            return _error(400, "the connection is over")
        connection = cast("AdminConnection", request.transport.get_protocol())
        connection.received()
        if self._running >= _REQUESTS_MAX:
            return _error(503, f"{_REQUESTS_MAX} requests are being answered; try again")
        self._running += 1
        try:
            answer = await self._handled(request, connection, handler)
        finally:
            self._running -= 1
        self._operators.done(request, answer.status)
        return answer

    async def _handled(self, request: web.Request, connection: AdminConnection, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        route = self._routes.get((request.method, resource.canonical)) if resource is not None else None
        try:
            async with asyncio.timeout(self._deadline_s):
                await self._operators.admit(request, connection, route)
                if route is not None:  # Else the router reports what is wrong.
                    _check_parameters(request, route.parameters)
                return await handler(request)
        except web.HTTPNotFound:
            return _error(404, f"there is nothing at {request.path}; there is: {self._paths}")
        except web.HTTPMethodNotAllowed as exc:
            return _error(405, f"{request.path} takes {', '.join(sorted(exc.allowed_methods))}, not {request.method}")
        except web.HTTPUnauthorized as exc:
            answer = _error(exc.status, exc.reason)
            if (ways := exc.headers.get("WWW-Authenticate")) is not None:
                answer.headers["WWW-Authenticate"] = ways
            return answer
        except web.HTTPException as exc:
            return _error(exc.status, exc.reason)
        except (BadRequestError, InvalidArgumentError) as exc:
            return _error(400, str(exc))
        except NotFoundError as exc:
            return json_response({"error": str(exc), **exc.facts}, 404)
        except ConflictError as exc:
            return json_response({"error": str(exc), **exc.facts}, 409)
        except TimeoutError:
            if _reads(request):
                return _error(503, f"not answered within {self._deadline_s:g} s; nothing was changed: ask again")
            return _error(504, f"not done within {self._deadline_s:g} s; it may go on: look before you ask again")
        except HedwigError as exc:
            # 504 means that it is unknown whether the request was done.
            return _error(503 if exc.happened == "no" or _reads(request) else 504, str(exc))
        except Exception:
            _log.exception("%s %s failed", request.method, request.path)
            return _error(500, "the hub failed to answer; its log says why")


def _check_parameters(request: web.Request, known: frozenset[str]) -> None:
    for name in request.query:
        if name not in known:
            choice = f"it has {', '.join(sorted(known))}" if known else "it has none"
            raise BadRequestError(f"{request.path} has no parameter {name!r}; {choice}")
        if len(request.query.getall(name)) > 1:
            raise BadRequestError(f"the parameter {name!r} is given twice")


def _is_up_to_the_client(record: logging.LogRecord) -> bool:
    """Say whether a log line of the HTTP library is about a malformed request, or a client that has gone."""
    error = record.exc_info[1] if record.exc_info else None
    return isinstance(error, HttpProcessingError | ConnectionError)


async def _receive(request: web.Request) -> None:
    """Wait for the rest of a request. Raises: HTTPException - it is too large, too slow, or damaged."""
    try:
        async with asyncio.timeout(_BODY_S):
            await request.read()
    except web.HTTPRequestEntityTooLarge as exc:
        raise web.HTTPRequestEntityTooLarge(
            _BODY_BYTES_MAX, reason=f"the body has over {_BODY_BYTES_MAX} bytes; put the parameters in the URL"
        ) from exc
    except (web.RequestPayloadError, ConnectionError) as exc:
        raise web.HTTPBadRequest(reason="the body is no HTTP, or was not sent in full") from exc
    except TimeoutError as exc:
        raise web.HTTPRequestTimeout(reason=f"the body did not come within {_BODY_S:g} s") from exc


def _reads(request: web.Request) -> bool:
    """Say whether a request changes nothing, whatever its outcome."""
    return request.method in ("GET", "HEAD")


def json_response(content: Any, status: int = 200) -> web.Response:
    """Return `content` as a line of JSON."""
    return web.Response(text=json.dumps(content) + "\n", status=status, content_type="application/json")


def _error(status: int, text: str) -> web.Response:
    return json_response({"error": text}, status)
