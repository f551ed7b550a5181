"""The liveness of a hub of a cluster, from start to end: one registration after another."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError, ZookeeperError

from hedwig.clock import Deadline
from hedwig.errors import ConfigurationError, ServiceDownError
from hedwig.hub.liveness.directory import read_all
from hedwig.hub.liveness.lasting import LastingTask
from hedwig.hub.liveness.lease import Lease
from hedwig.hub.liveness.live_hub import Endpoint, LiveHub, encode_load
from hedwig.hub.liveness.live_set import LiveSet
from hedwig.hub.liveness.options import LivenessOptions
from hedwig.hub.liveness.paths import HubPaths
from hedwig.hub.liveness.process import this_process
from hedwig.hub.liveness.registrar import Enrolment, Registrar
from hedwig.hub.liveness.registration import Registration
from hedwig.hub.liveness.verdicts import Verdicts
from hedwig.model import HubInfo
from hedwig.outcomes import AbortedError, NotAppliedError, OutcomeUnknownError
from hedwig.zookeeper import ANY_VERSION, Bridge, BridgeOptions, NewSession, set_at

__all__ = ["ClusterLiveness"]

_log = logging.getLogger(__name__)

_BEAT_SHARE: Final = 1 / 6
"""The part of a session between two beats, which write this hub's load to ZooKeeper and prove that it is alive."""
_SILENCE_SHARE: Final = 1 / 4
_SILENCE_AT_FIRST_SHARE: Final = 1 / 8
"""The parts of a session that an answer, and a connection, may take before the hub tries another server.

After an answer, a lease covers the pause until the next beat, one unanswered beat, and one failed attempt to connect.
kazoo may make that attempt at the same silent server. Together these take 0.54 of a session, and a lease lasts two
thirds.
"""
_RETRY_S: Final = 0.25
_MILLISECOND_S: Final = 0.001


class ClusterLiveness:
    """Registers this hub, proves that it is alive, and follows the other hubs. For one event loop.

    `hub` is this hub as clients reach it, without an epoch. `admin` is host:port of its admin endpoint. `listeners` are
    the addresses of its named listeners; if it has some, `live` says those of other hubs too.

    `on_registered` is called with each new registration, including the first. `on_lost` is called once with each
    registration that is over. Then this class makes another one, with a new epoch. It never reuses an incarnation that
    has ended, even if its session turns out to be alive: it replaces its nodes.

    `on_failed` is called with a sentence once a defect has ended the work of registering, or of following the other
    hubs. The caller must then close this object. All callbacks run in the event loop, and must not block. `close` calls
    none of them.

    Code that serves under a registration must ask that registration whether it is proven, which hubs are alive, and
    which to choose.
    """

    def __init__(
        self,
        hub: HubInfo,
        options: LivenessOptions,
        *,
        admin: str | None = None,
        listeners: Mapping[str, str] | None = None,
        on_registered: Callable[[Registration], None] | None = None,
        on_lost: Callable[[Registration], None] | None = None,
        on_failed: Callable[[str], None] | None = None,
    ) -> None:
        if "/" in hub.address:
            raise ConfigurationError(
                f"the address {hub.address} of a hub cannot name a node in ZooKeeper: it has a slash"
            )
        self._hub = hub
        self._options = options
        self._on_registered = on_registered
        self._on_lost = on_lost
        self._on_failed = on_failed
        self._load = 0
        self._registration: Registration | None = None
        self._why_not = "it has not started"
        self._is_failed = False
        self._settled_s = 0.0
        """For how long ZooKeeper keeps a silent session, according to its last answer."""
        self._first = asyncio.Event()
        """Set once there was a registration, or no registration is possible any more."""
        self._woken = asyncio.Event()
        """Set when the registration is over, and when the next beat should be sent at once."""
        self._paths = HubPaths(options.prefix)
        self._bridge = Bridge(
            options.zookeeper,
            BridgeOptions(
                session_timeout_s=options.session_timeout_s,
                connect_timeout_s=options.start_timeout_s,
                access=options.access,
                clock=options.clock,
            ),
            self._on_connected,
        )
        self._live_set = LiveSet(self._bridge, self._paths, options, self._failed, has_listeners=bool(listeners))
        self._verdicts = Verdicts(self._bridge, self._paths, self._live_set, options)
        endpoint = Endpoint(admin, this_process(), reads_shared_logs=True, listeners=listeners or {})
        self._registrar = Registrar(self._bridge, self._paths, hub.address, endpoint, options)
        self._enrolment: Enrolment | None = None
        self._lease: Lease | None = None
        self._running = LastingTask("registering this hub", self._failed)

    # ----------------------------------------------------------------------------------------------- for the hub

    async def start(self) -> Registration:
        """Register for the first time, within `options.start_timeout_s`. Call `close` even if this fails.

        Raises: ServiceDownError - ZooKeeper does not answer, or another hub is registered at this address.
        """
        self._live_set.start()
        self._running.start(self._run())
        try:
            async with asyncio.timeout(self._options.start_timeout_s):
                await self._first.wait()
                if self._is_failed:
                    raise ServiceDownError(self._why_not)
                # Before that, this hub would know no other hub, and claim every topic.
                await self._live_set.known()
        except TimeoutError:
            raise ServiceDownError(
                f"cannot list the hubs under {self._paths.hosts} in time" if self._first.is_set() else self._why_not
            ) from None
        with contextlib.suppress(ServiceDownError):
            await self._registrar.say_if_open()
        assert self._registration is not None, "the first has been made"
        return self._registration

    @property
    def registration(self) -> Registration:
        """The registration that holds. Raises: ServiceDownError - none is proven now."""
        if self._registration is None or not self._registration.is_proven():
            raise ServiceDownError(f"hub {self._hub.address} is not registered: {self._why_not}")
        return self._registration

    def is_proven(self) -> bool:
        """Say whether a registration holds. Work that began under an earlier one must ask that one."""
        return self._registration is not None and self._registration.is_proven()

    @property
    def live(self) -> tuple[LiveHub, ...]:
        """The hubs that are alive, as far as this hub knows, with their loads; sorted by address."""
        return self._live_set.hubs

    async def refresh(self, within_s: float) -> None:
        """Read `live` and the loads again, unless they are at most `within_s` old. Raises: ServiceDownError."""
        await self._live_set.refresh(within_s)

    async def read_hubs(self) -> tuple[LiveHub, ...]:
        """Return the hubs that are alive now, with what their endpoint nodes say. Raises: ServiceDownError."""
        deadline = Deadline.after(self._options.clock, self._options.operation_timeout_s)
        return await read_all(self._bridge, self._paths, deadline)

    def set_load(self, load: int, *, at_once: bool = False) -> None:
        """Announce the number of topics of this hub, or DRAINING_LOAD, with the next beat. May be called often.

        With `at_once`, the beat is sent now; do not use that often.
        """
        self._load = load
        if self._registration is not None:
            self._registration.set_load(load)
        if at_once:
            self._woken.set()

    def give_up(self, registration: Registration) -> None:
        """End a registration at once, as if it were no longer proven. Nothing happens if it is over already."""
        if registration is self._registration and self._lease is not None:
            self._lease.end()

    async def leave(self) -> None:
        """Make the other hubs read the load that was set last at once. Raises: ServiceDownError."""
        await self._registrar.leave(self._load)

    async def close(self) -> None:
        """Serve no more, delete the nodes, and end the session. May be called twice."""
        if self._lease is not None:
            self._lease.end()
        self._why_not = "it is closing"
        await self._running.end()
        await self._verdicts.aclose()
        await self._live_set.aclose()
        if self._enrolment is not None and self._bridge.connection is not None:
            try:
                await self._registrar.withdraw(self._enrolment)
            except ServiceDownError as exc:
                _log.warning("%s; its nodes go with its session", exc)
        self._enrolment = None
        await self._bridge.close()

    # -------------------------------------------------------------------------------------------- one after another

    async def _run(self) -> None:
        while True:
            registration, lease, enrolment = await self._register()
            self._registration, self._lease, self._enrolment = registration, lease, enrolment
            self._live_set.poke()
            self._first.set()
            _log.info("hub %s is registered, epoch %d", self._hub.address, enrolment.epoch)
            self._tell(self._on_registered, registration)
            await self._keep(lease, enrolment)
            self._why_not = "its registration is over, and it makes another"
            _log.warning("hub %s can no longer prove that it is alive, epoch %d", self._hub.address, enrolment.epoch)
            self._tell(self._on_lost, registration)

    def _tell(self, whom: Callable[[Registration], None] | None, registration: Registration) -> None:
        if whom is None:
            return
        try:
            whom(registration)
        except Exception:
            _log.exception("the callback for registration %d failed", registration.hub.epoch)

    async def _register(self) -> tuple[Registration, Lease, Enrolment]:
        while True:
            try:
                enrolment = await self._registrar.enrol(self._load)
            except ServiceDownError as exc:
                if str(exc) != self._why_not:
                    self._why_not = str(exc)
                    _log.warning("%s", exc)
                await self._options.clock.sleep(_RETRY_S)
                continue
            lease = Lease(
                self._options.boot_time_s, enrolment.sent_at_s, enrolment.connection.session_timeout_s, self._woken.set
            )
            if lease.is_proven():
                hub = replace(self._hub, epoch=enrolment.epoch)
                registration = Registration(hub, lease, self._live_set, self._verdicts, self._options)
                registration.set_load(self._load)
                return registration, lease, enrolment

    async def _keep(self, lease: Lease, enrolment: Enrolment) -> None:
        """Send beats, which prove that the registration is alive, until it is over."""
        session_s = enrolment.connection.session_timeout_s
        clock = self._options.clock
        while lease.is_proven():
            # A wake-up from here on causes the next beat, even if this one already sends the new load.
            self._woken.clear()
            next_at_s = clock.monotonic() + session_s * _BEAT_SHARE
            await self._beat(lease, enrolment.epoch, session_s)
            pause_s = max(next_at_s - clock.monotonic(), _RETRY_S / 4)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(pause_s, lease.remaining_s())):
                    await self._woken.wait()

    async def _beat(self, lease: Lease, epoch: int, session_s: float) -> None:
        """Write the load into the host node, which proves that the session that made the node is alive.

        It is a write, not a read or a `sync`. Only an agreement of a majority of the servers proves that the leader,
        which could let the session expire, has not done so.
        """
        path = self._paths.host(self._hub.address)
        before = self._bridge.connection
        share = _SILENCE_AT_FIRST_SHARE if before is None else _SILENCE_SHARE
        timeout_s = min(share * session_s, lease.remaining_s())
        asked: list[tuple[float, NewSession]] = []

        def submit(client: KazooClient) -> Any:
            connection = self._bridge.connection
            assert connection is not None, "the bridge submits when there is one"
            asked.append((self._options.boot_time_s(), connection))
            return set_at(path, encode_load(self._load), ANY_VERSION)(client)

        try:
            (stat,) = await self._bridge.send(Deadline.after(self._options.clock, timeout_s), submit)
        except (NotAppliedError, OutcomeUnknownError, AbortedError) as exc:
            _log.info("hub %s could not prove that it is alive: %s", self._hub.address, exc)
            # Keep a connection that was made meanwhile, because it has only begun.
            if self._bridge.connection is before:
                self._bridge.drop_connection()
            return
        ((sent_at_s, connection),) = asked
        if isinstance(stat, NoNodeError) or (not isinstance(stat, ZookeeperError) and stat.czxid != epoch):
            lease.end()
        elif isinstance(stat, ZookeeperError):
            _log.warning("ZooKeeper answers %s %s to hub %s", type(stat).__name__, stat, self._hub.address)
        else:
            lease.confirm(sent_at_s, connection.session_timeout_s)

    def _say_if_other(self, session_s: float) -> None:
        """Log, once, that ZooKeeper has granted another session timeout than the hub proposed.

        The hub goes on, and computes with the granted timeout. The servers set the bounds, and an operator may change
        them while the hub runs. A hub that refused them would not come back from its next restart.
        """
        proposed_s = self._options.session_timeout_s
        if session_s != self._settled_s and abs(session_s - proposed_s) >= _MILLISECOND_S:
            _log.warning(
                "ZooKeeper keeps the session of a killed hub for %g s, not for session_timeout_s, %g s. Its "
                "minSessionTimeout or maxSessionTimeout, 2 and 20 ticks by default, forbids that",
                session_s,
                proposed_s,
            )
        self._settled_s = session_s

    def _failed(self, why: str) -> None:
        self._why_not = why
        self._is_failed = True
        self._first.set()
        if self._on_failed is not None:
            self._on_failed(why)

    def _on_connected(self, connection: NewSession) -> None:
        self._say_if_other(connection.session_timeout_s)
        self._registrar.note_session(connection.session_id)
        self._live_set.poke()
