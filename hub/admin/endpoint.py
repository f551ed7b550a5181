"""The admin endpoint of a hub: its state, its counters, and a few actions of operators, over HTTP."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from hedwig.access import Action
from hedwig.concurrency.tasks import Tasks
from hedwig.hub.admin.busy_topics import BusyTopics
from hedwig.hub.admin.http.errors import BadRequestError, ConflictError
from hedwig.hub.admin.http.operators import Operators, operator_of
from hedwig.hub.admin.http.parameters import flag_of, ledgers_of, limit_of, state_of
from hedwig.hub.admin.http.route import Route, Scope
from hedwig.hub.admin.http.server import AdminServer, json_response
from hedwig.hub.admin.http.token_file import TokenFile
from hedwig.hub.admin.load import LoadSampler
from hedwig.hub.admin.metrics import CONTENT_TYPE_LATEST, Metrics
from hedwig.hub.admin.orphans import OrphanDeletion
from hedwig.hub.admin.pinned_topics import pinned_topics
from hedwig.hub.admin.topics import TopicRoutes
from hedwig.hub.connections.tls.settings import TlsSettings
from hedwig.hub.freezing import NotFrozenError, StillFrozenError
from hedwig.hub.options.access_options import AccessMode
from hedwig.hub.options.configuration import Configuration
from hedwig.hub.options.keys import find_key
from hedwig.hub.options.options import HubOptions
from hedwig.private_files import ADMIN_TOKEN

if TYPE_CHECKING:
    from hedwig.hub.hub import Hub

__all__ = ["AdminEndpoint"]


class AdminEndpoint:
    """Answers requests about one hub, on its own port."""

    def __init__(self, hub: "Hub", origins: Mapping[str, str]) -> None:
        self._hub = hub
        self._configuration = Configuration(hub.options, origins)
        self._started = hub.clock.monotonic()
        self._load = LoadSampler(hub)
        self._tasks = Tasks()
        self._metrics = Metrics(hub, self._load)
        self._busy = BusyTopics(hub)
        self._orphans = OrphanDeletion(hub)
        options = hub.options
        operators = Operators(options, hub.access, hub.audit, _token_file(options), hub.listeners.files)
        self._server = AdminServer(self._routes(), options.operation_timeout_s, operators, options.admin_names)

    async def listen(self) -> int:
        """Bind the address, and return the port. Raises: ConfigurationError - the address cannot be used."""
        options = self._hub.options
        tls = TlsSettings.of_the_admin_endpoint(options) if options.has_admin_tls else None
        return await self._server.listen(options.admin_host, options.admin_port, self._hub.listeners.files, tls)

    async def serve(self) -> None:
        """Start to answer requests."""
        await self._server.serve()
        self._tasks.start(self._load.run())

    async def close(self) -> None:
        """Stop answering requests."""
        await self._server.close()
        await self._tasks.cancel()
        await self._orphans.close()

    def _routes(self) -> list[Route]:
        operate = Action.OPERATE
        return [
            Route("GET", "/health", self._health, scope=Scope.ANYBODY),
            Route("GET", "/ready", self._ready, scope=Scope.ANYBODY),
            Route("GET", "/metrics", self._show_metrics),
            Route("GET", "/options", self._options),
            Route("GET", "/access", self._show_access),
            Route("GET", "/load", self._show_load, frozenset({"lag"})),
            Route("GET", "/busy", self._show_busy, frozenset({"limit"}), scope=Scope.OPERATORS),
            Route("GET", "/pinned", self._show_pinned, scope=Scope.OPERATORS),
            *TopicRoutes(self._hub).routes(),
            Route("GET", "/delete-orphans", self._orphans_gone),
            Route("POST", "/delete-orphans", self._delete_orphans, frozenset({"ledgers"}), operate),
            Route("GET", "/read-only", self._read_only),
            Route("POST", "/read-only", self._set_read_only, frozenset({"state"}), operate),
            Route("GET", "/freeze", self._frozen),
            Route("POST", "/freeze", self._freeze, action=operate),
            Route("POST", "/thaw", self._thaw, action=operate),
            Route("GET", "/drain", self._draining),
            Route("POST", "/drain", self._drain, frozenset({"state"}), operate),
        ]

    # ------------------------------------------------------------------------------------------------- the hub

    async def _health(self, request: web.Request) -> web.Response:
        """Say that the process answers, and what hinders it. Supervisors restart processes that do not answer."""
        hub = self._hub
        hindrances = await self._hindrances()
        status = "hindered" if hindrances else "ok"
        if not operator_of(request).sees_hub:
            return json_response({"status": status})
        return json_response(
            {
                "status": status,
                "hindrances": hindrances,
                "address": hub.me.address,
                "epoch": hub.me.epoch,
                "uptime_s": round(hub.clock.monotonic() - self._started, 3),
            }
        )

    async def _ready(self, request: web.Request) -> web.Response:
        """Say whether the hub would accept a publish and a subscription now."""
        hindrances = await self._hindrances()
        details = {"hindrances": hindrances} if operator_of(request).sees_hub else {}
        return json_response({"ready": not hindrances, **details}, 503 if hindrances else 200)

    async def _hindrances(self) -> list[str]:
        hindrances = []
        if self._hub.is_closing:
            hindrances.append("the hub is shutting down")
        incarnation = self._hub.incarnation
        if incarnation.why_over is not None:
            hindrances.append(incarnation.why_over)
        if self._hub.freezing.why is not None:
            hindrances.append(f"nothing is written: {self._hub.freezing.why}")
        if self._hub.requests.is_read_only:
            hindrances.append("the hub is read-only: publishes are refused")
        if self._hub.access is not None and (why := self._hub.access.why_unknown) is not None:
            hindrances.append(f"everything is refused: {why}")
        if not self._hub.is_closing and (await self._hub.ledgers.stats()).is_full:
            hindrances.append(
                "there are too few bookies for a new ledger: publishes to topics without one are refused"
                if self._hub.options.is_clustered
                else "the disk is full: publishes are refused until there is space"
            )
        return hindrances

    async def _show_metrics(self, _: web.Request) -> web.Response:
        body = self._metrics.render(await self._hub.ledgers.stats())
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _options(self, _: web.Request) -> web.Response:
        options = {
            key: {
                "value": str(value) if isinstance(value, Path) else value,
                "origin": self._configuration.origin(key),
                "what": find_key(key).what,
            }
            for key, value in self._configuration.values().items()
        }
        return json_response(options)

    async def _show_access(self, _: web.Request) -> web.Response:
        """Say what the hub knows of the rules, and how often it has refused something."""
        access, mode = self._hub.access, self._hub.options.access.mode or AccessMode.OPEN
        state = {} if access is None else access.state()
        return json_response({"mode": mode, "asks_operators": self._hub.options.are_operators_asked, **state})

    async def _show_load(self, request: web.Request) -> web.Response:
        lag = {"attached_lag_messages": await self._load.attached_lag()} if flag_of(request, "lag") else {}
        seconds, rates = self._load.rates_per_s()
        return json_response(
            {
                **self._load.levels(),
                **lag,
                "since_start": self._load.counters(),
                "rates_per_s": {key: round(rate, 3) for key, rate in rates.items()},
                "rates_over_s": round(seconds, 3),
            }
        )

    async def _show_busy(self, request: web.Request) -> web.Response:
        return json_response(await self._busy.look(limit_of(request), operator_of(request).sees))

    async def _show_pinned(self, request: web.Request) -> web.Response:
        return json_response(await pinned_topics(self._hub, operator_of(request).sees))

    async def _orphans_gone(self, _: web.Request) -> web.Response:
        return json_response(self._orphans.state())

    async def _delete_orphans(self, request: web.Request) -> web.Response:
        """Start to delete those of the given ledgers that no record names."""
        ledger_ids = ledgers_of(request)
        if self._hub.options.is_clustered:
            raise BadRequestError("this hub's ledgers are on bookies: use hedwig-admin ledger delete-orphans")
        self._orphans.begin(ledger_ids)
        return await self._orphans_gone(request)

    async def _read_only(self, _: web.Request) -> web.Response:
        return json_response({"read_only": self._hub.requests.is_read_only})

    async def _set_read_only(self, request: web.Request) -> web.Response:
        self._hub.requests.is_read_only = state_of(request)
        return await self._read_only(request)

    async def _frozen(self, _: web.Request) -> web.Response:
        return json_response(self._hub.freezing.state())

    async def _freeze(self, _: web.Request) -> web.Response:
        """Answer once this hub writes no more metadata; the migration that froze the store requests it."""
        try:
            return json_response(await self._hub.freezing.freeze(self._hub.incarnation))
        except NotFrozenError as exc:
            raise ConflictError(str(exc)) from exc

    async def _thaw(self, _: web.Request) -> web.Response:
        """Thaw the hub at once if the store is no longer frozen."""
        try:
            return json_response(await self._hub.freezing.thaw())
        except StillFrozenError as exc:
            raise ConflictError(str(exc), **self._hub.freezing.state()) from exc

    async def _draining(self, _: web.Request) -> web.Response:
        balance = self._hub.shape.balance
        is_draining = balance is not None and balance.is_draining
        return json_response(
            {
                "draining": is_draining,
                "topics": len(self._hub.topics),
                "other_hubs": balance.others if balance is not None else 0,
            }
        )

    async def _drain(self, request: web.Request) -> web.Response:
        balance = self._hub.shape.balance
        if balance is None:
            raise BadRequestError("a standalone hub cannot be drained: there is no other to take its topics")
        balance.drain(state_of(request))
        return await self._draining(request)


def _token_file(options: HubOptions) -> TokenFile | None:
    if options.admin_token_file:
        return TokenFile(Path(options.admin_token_file), makes=False)
    if options.access.mode == AccessMode.OPEN:
        return None
    return TokenFile(options.data_directory / ADMIN_TOKEN, makes=True)
