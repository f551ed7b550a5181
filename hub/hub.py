"""A hub: builds its parts, and starts and stops them in order."""

import asyncio
import contextlib
import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Final, Protocol, Self

from hedwig.clock import Clock, SystemClock
from hedwig.concurrency.tasks import Tasks, repeat
from hedwig.errors import HedwigError, NotResponsibleForTopicError, ServiceDownError
from hedwig.extras import needed
from hedwig.hub.access.access_control import AccessControl
from hedwig.hub.access.audit import COUNTED_S, Audit
from hedwig.hub.access.opening import KEYS_LOOK_S, open_access, open_audit
from hedwig.hub.access.revocation import close_revoked, look_up_anew
from hedwig.hub.connections.answer_gate import AnswerTurns
from hedwig.hub.connections.channel import Channel
from hedwig.hub.connections.descriptors import ConnectionLimits
from hedwig.hub.connections.fair_reading import FairReading
from hedwig.hub.connections.listeners import Listeners
from hedwig.hub.connections.slots import Slots
from hedwig.hub.connections.tls.settings import check_tls
from hedwig.hub.connections.unfinished_frames import UnfinishedFrames
from hedwig.hub.connections.unsent import Unsent
from hedwig.hub.freezing import Freezing
from hedwig.hub.incarnation import Incarnation
from hedwig.hub.ledgers import LedgerStore
from hedwig.hub.logs.ledger_deletions import LedgerDeletions
from hedwig.hub.logs.recent_messages import RecentMessages
from hedwig.hub.membership import Membership
from hedwig.hub.options.access_options import AccessMode
from hedwig.hub.options.options import HubOptions
from hedwig.hub.requests import Requests
from hedwig.hub.retention import Retention
from hedwig.hub.standalone import Standalone
from hedwig.hub.subscriptions.filters import FilterRegistry
from hedwig.hub.subscriptions.read_budget import ReadBudget
from hedwig.hub.subscriptions.subscribing import Subscribing
from hedwig.hub.topics.ownership import Liveness, SharedLogs
from hedwig.hub.topics.topics import Topics
from hedwig.metadata import MetadataStore, StoreOptions, WriteGate, open_metadata
from hedwig.model import HubInfo
from hedwig.wire import Request

__all__ = ["AdminListener", "Hub"]

_log = logging.getLogger(__name__)

_LAST_WORDS_S: Final = 3.0
"""How long peers have to take their last answers when the hub ends."""
_SILENT_S: Final = 0.25
"""How long no request may arrive before a closing hub assumes that no more are on their way.

This is for clients of the original, which cannot be told to close their connections. The time is fixed, because the hub
cannot see what is on its way. Such a client sends until an answer tells it to stop. A request that the hub has not read
when it closes the connection is in doubt. Few networks have a longer round trip.
"""
_LISTENING_S: Final = 0.02
_HEARD_S: Final = 0.2
"""How long the other hubs have to learn that this hub is closing, before its subscribers connect to them.

The time is fixed, because this hub cannot see that they know. ZooKeeper does not report which watches it has served.
The loads that hubs write do not depend on what they have read. Each hub would need an extra write to acknowledge the
end. Hubs of the original never do that, so this hub would wait for the full time beside them anyway.
"""
_QUIET_S: Final = 1.0
"""How long no client may connect before a closing hub assumes that all its subscribers are at other hubs.

The time is fixed, because a client whose connection is closed does not say where it asks next. It asks this hub if it
knows this hub as the first to ask, else another hub, which reports that to nobody. A new owner of a topic proves only
that one of the topic's subscribers has connected there. A subscriber that has ended never connects again.
"""
_TURNS_MAX: Final = 300
_QUIET_TURNS: Final = 3
"""After N turns of the event loop without a request, the hub assumes that it has read all waiting requests."""
_TLS_FILES_S: Final = 30.0
"""How often the hub looks whether the files of its TLS listener have changed."""
_BACK_S: Final = 5.0
"""The maximum time that the hub waits for subscribers to reconnect."""


class AdminListener(Protocol):
    """The admin endpoint, as its hub uses it."""

    async def listen(self) -> int:
        """Bind the address, and return the port. Raises: ConfigurationError - the address cannot be used."""
        ...

    async def serve(self) -> None:
        """Start to answer requests."""
        ...

    async def close(self) -> None:
        """Stop answering requests."""
        ...


class Hub:
    """A hub that serves. `start` makes one; use it as an async context manager, or close it."""

    def __init__(self, options: HubOptions, clock: Clock) -> None:
        self.options = options
        self.clock = clock
        self.channels: dict[Channel, None] = {}
        self._stack = AsyncExitStack()
        self.reading = FairReading(clock)
        self.unsent = Unsent(options)
        self.answer_turns = AnswerTurns()
        self._limits = ConnectionLimits.fit(options.channels_max)
        self.slots = Slots(self._limits.connections, clock.monotonic)
        loop = asyncio.get_running_loop()
        self.frames = UnfinishedFrames(loop, options.frame_s, options.receive_bytes_max)
        self._is_closing = False
        self._is_deaf = False
        """Whether new connections are closed at once."""
        self._last_opened_at = -math.inf
        self.failed: asyncio.Future[HedwigError] = loop.create_future()
        """Done, with the reason, once this hub can serve no client any more and must be closed."""
        self._tasks = Tasks()
        self._gate = WriteGate(clock, options.operation_timeout_s)
        self.deletions = LedgerDeletions(clock, options.operation_timeout_s)
        self.freezing = Freezing(self._gate, options.metadata_url, clock)
        self.access: AccessControl | None = None
        """Who may do what; None if everybody may do everything."""
        self.audit: Audit | None = None
        self._all_gone = asyncio.Event()
        self._counted: Counter[str] = Counter()
        """The counts of the incarnations before the present one."""

    metadata: MetadataStore
    incarnation: Incarnation
    """The present incarnation. Between two registrations it is the last one, which is over."""
    listeners: Listeners
    admin_port: int | None = None
    shape: Membership
    _filters: FilterRegistry

    @classmethod
    async def start(
        cls,
        options: HubOptions,
        clock: Clock | None = None,
        *,
        make_admin: Callable[[Self], AdminListener] | None = None,
        replace_standalone: bool = False,
    ) -> Self:
        """Open what the hub needs, register it, and serve, with what `make_admin` returns as its admin endpoint.

        Raises: ConfigurationError - an option cannot work, a port is taken; LedgerStoreLockedError - another process
            uses the data directory; LayoutError, MetadataUnavailableError - the metadata cannot be used;
            StandaloneHubExistsError - it belongs to another standalone hub, and `replace_standalone` is not set;
            ServiceDownError - the cluster cannot be joined.
        """
        hub = cls(options, clock or SystemClock())
        try:
            await hub._open(make_admin, replace_standalone=replace_standalone)
        except BaseException:
            await hub._stack.aclose()
            raise
        return hub

    async def _open(self, make_admin: Callable[[Self], AdminListener] | None, *, replace_standalone: bool) -> None:
        options, stack = self.options, self._stack
        self._filters = FilterRegistry(options.filters)
        loop = asyncio.get_running_loop()
        self.listeners = Listeners(options, partial(Channel, self, options, loop), self._limits.backlog, self.clock)
        check_tls(options)
        self.shape = _shape_of(options, self.clock, replace_standalone=replace_standalone)
        stack.push_async_callback(self.shape.close)
        await self.shape.open()
        store_options = StoreOptions(
            operation_timeout_s=options.operation_timeout_s,
            stores_file=options.stores_file,
            gather=True,
            gate=self._gate,
        )
        self.metadata = await stack.enter_async_context(await open_metadata(options.metadata_url, store_options))
        self.audit = open_audit(options.access, self.clock, stack)
        if options.access.are_rules_asked:
            self.access = await open_access(options, self.metadata.named_records, self.clock, stack, self.audit)
            await self.access.look(self._rules_changed)
        stack.push_async_callback(self.shape.leave)
        self.freezing.attach(self.metadata)
        await self.freezing.check_usable()
        # The sockets are bound before an owner record can name them. They answer once the hub is complete.
        stack.callback(self.listeners.close)
        await self.listeners.bind()
        admin = await self._listen_admin(make_admin(self)) if make_admin is not None else None
        stack.push_async_callback(self._end_incarnation)
        stack.push_async_callback(self._tasks.cancel)
        await self.shape.join(self.listeners.own, self.listeners.addresses, self.admin_port, self, self.metadata)
        # From here on, an operator who freezes the store finds this hub registered. So check now whether it is frozen.
        await self.freezing.check_usable()
        await self.freezing.look()
        self._tasks.start(self.freezing.run())
        if (files := self.listeners.files) is not None:
            look = partial(files.look, self.channels)
            self._tasks.start(repeat("TLS files", self.clock, _TLS_FILES_S, look))
        if (access := self.access) is not None:
            look = partial(access.look, self._rules_changed)
            self._tasks.start(repeat("access", self.clock, options.access.refresh_s, look))
            if access.logins is not None and (tokens := access.logins.tokens) is not None:
                self._tasks.start(repeat("keys of tokens", self.clock, KEYS_LOOK_S, tokens.look))
        if (audit := self.audit) is not None:
            mode = options.access.mode or AccessMode.OPEN
            audit.write("start", address=self.me.address, epoch=self.me.epoch, mode=mode)
            self._tasks.start(repeat("audit log", self.clock, COUNTED_S, audit.sweep))
        if admin is not None:
            await admin.serve()
        await self.listeners.serve()

    async def _listen_admin(self, admin: AdminListener) -> AdminListener:
        self.admin_port = await admin.listen()
        # The endpoint answers until the topics are released.
        self._stack.push_async_callback(admin.close)
        return admin

    @property
    def port(self) -> int:
        """The port that owner records name: the plain one, or that of TLS if there is no other."""
        return self.listeners.own.port

    @property
    def tls_port(self) -> int | None:
        return self.listeners.tls_port

    # ----------------------------------------------------------------------------------------- what it serves with

    @property
    def me(self) -> HubInfo:
        return self.incarnation.me

    @property
    def ledgers(self) -> LedgerStore:
        return self.incarnation.ledgers

    @property
    def tails(self) -> RecentMessages:
        return self.incarnation.tails

    @property
    def topics(self) -> Topics:
        return self.incarnation.topics

    @property
    def delivery(self) -> ReadBudget:
        return self.incarnation.delivery

    @property
    def subscribing(self) -> Subscribing:
        return self.incarnation.subscribing

    @property
    def requests(self) -> Requests:
        return self.incarnation.requests

    @property
    def retention(self) -> Retention:
        return self.incarnation.retention

    # ------------------------------------------------------------------------------ what the shape reports (Member)

    def registered(
        self,
        me: HubInfo,
        liveness: Liveness,
        ledgers: LedgerStore,
        logs: SharedLogs | None = None,
        *,
        stores_once: bool = True,
    ) -> Incarnation:
        """Serve under a new registration, with no topics."""
        incarnation = Incarnation(
            me,
            liveness,
            self.metadata,
            ledgers,
            logs,
            self.options,
            self._filters,
            self.clock,
            self._gate,
            self.deletions,
            self.access,
            stores_once=stores_once,
        )
        self.freezing.registered()
        if hasattr(self, "incarnation"):
            # The hub keeps what the operator set and what it counted, but not what it owned.
            incarnation.requests.is_read_only = self.requests.is_read_only
            self._counted.update(self.incarnation.counters())
        self.incarnation = incarnation
        self.incarnation.begin()
        _log.info("registered as %s, epoch %d", me.address, me.epoch)
        return self.incarnation

    def counters(self) -> Mapping[str, int]:
        """Return the counters that only grow, since the start of the hub."""
        counted = {key: number + self._counted[key] for key, number in self.incarnation.counters().items()}
        logins = self.access.logins if self.access is not None else None
        return counted | {
            "metadata_conflicts": self.metadata.conflicts,
            "left_ledgers": self.deletions.left,
            "refused_connections": self.slots.refused,
            "displaced_connections": self.slots.displaced,
            "failed_handshakes": self.listeners.failed_handshakes,
            "late_frames": self.frames.late,
            "displaced_frames": self.frames.displaced,
            "unpermitted_requests": self.access.refused if self.access is not None else 0,
            "publishes_over_limits": self.access.over_limits if self.access is not None else 0,
            "connections_over_limits": self.access.connections_over_limits if self.access is not None else 0,
            "makings_over_limits": self.access.makings_over_limits if self.access is not None else 0,
            "logins": logins.done if logins is not None else 0,
            "failed_logins": logins.failed if logins is not None else 0,
        }

    @property
    def handshakes(self) -> int:
        """How many connections have not finished their TLS handshake."""
        return self.listeners.handshakes

    async def lost(self, why: str) -> None:
        """Serve no client under the present registration any more; return once all its work has ended."""
        incarnation = self.incarnation
        incarnation.why_over = why
        _log.error("%s; %d topics are left to others", why, len(incarnation.topics))
        for channel in list(self.channels):
            channel.mute()
        await self._turn_away_waiting(incarnation.requests)
        for channel in list(self.channels):
            channel.close()
        await incarnation.abandon(why)

    async def _turn_away_waiting(self, requests: Requests) -> None:
        """Refuse the requests that wait in the sockets, so that clients learn that they were not done.

        Many wait there after a pause of the process.
        """
        for _ in range(_TURNS_MAX):
            refused = requests.refused
            for _ in range(_QUIET_TURNS):
                await asyncio.sleep(0)
            if requests.refused == refused:
                return

    def give_up(self, error: HedwigError) -> None:
        """Record that this hub will not be registered again."""
        if not self.failed.done():
            _log.error("%s", error)
            self.failed.set_result(error)
            self._stop_listening()

    def _stop_listening(self) -> None:
        self._is_deaf = True
        self.listeners.close()

    # ------------------------------------------------------------------------------------------------ channels

    def _rules_changed(self) -> None:
        assert self.access is not None, "it has read them"
        if self.access.logins is not None:
            look_up_anew(self.channels, self.access.logins, self.access)
        self._tasks.start(close_revoked(self.channels, self.access))

    def admit(self, channel: Channel) -> bool:
        if self._is_deaf or self.failed.done():
            _log.debug("%s: refused: the hub is closing", channel.peer)
            return False
        if not self.listeners.takes(channel):
            return False
        return self.slots.take(channel)

    def opened(self, channel: Channel) -> None:
        if self.access is not None:
            channel.caller = self.access.caller(channel.peer, channel.certificate, channel.listener)
            if (logins := self.access.logins) is not None and logins.offers(channel.listener):
                channel.end_point = self.listeners.end_point(channel)
                if channel.caller is None and self.options.access.mode == AccessMode.RULES:
                    logins.newcomers.add(channel)
            self.access.count_connection(channel)
        self.channels[channel] = None
        self._last_opened_at = self.clock.monotonic()
        if self.listeners.files is not None:
            self.listeners.files.look_at_new(channel)

    def heard(self, channel: Channel) -> None:
        self.slots.heard(channel)

    def may_answer(self) -> bool:
        return self.incarnation.why_over is not None or self.shape.is_proven()

    def redirect(self, listener: str, error: NotResponsibleForTopicError) -> HedwigError:
        return self.listeners.redirect(listener, error, self.shape.listeners)

    def handle(self, channel: Channel, request: Request, size: int) -> None:
        if channel.listener:
            request = self.listeners.with_hubs(request, self.shape.listeners)
        if self.may_answer():
            self.incarnation.handle(channel, request, size)
            return
        # The registration has run out, and the task that ends it has not run yet. After a pause of the process this
        # holds for all requests that waited in the sockets. Bookies would take their messages until another hub takes
        # the topics over.
        channel.mute()
        self.requests.refuse(channel, request, size, ServiceDownError("this hub cannot prove that it is alive"))

    def answered(self, size: int) -> None:
        self.requests.answered(size)

    def ended(self, channel: Channel) -> None:
        self.channels.pop(channel, None)
        if self.access is not None:
            self.access.forget_connection(channel)
            if self.access.logins is not None:
                self.access.logins.newcomers.remove(channel)
        self.incarnation.channel_ended(channel)

    def gone(self, channel: Channel) -> None:
        self.slots.leave(channel)
        if not self.slots:
            self._all_gone.set()

    # ------------------------------------------------------------------------------------------------ the end

    @property
    def is_closing(self) -> bool:
        return self._is_closing

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Claim no more topics, finish requests, store consume pointers, release all topics, close everything.

        In a cluster this hub answers until its topics are released, and redirects clients to other hubs. So each
        subscriber finds its topic released when it connects again, here or elsewhere.

        The hub abandons the topics that it has not released within `shutdown_s`. The next hub that is asked for them
        takes them over. A hub that is no longer registered releases nothing, since other hubs may own its topics.
        """
        if self._is_closing:
            return
        self._is_closing = True
        if self.shape.balance is not None:
            self.shape.balance.close()  # Else the other hubs would send clients here, where nobody serves them.
        else:
            self._stop_listening()
        incarnation = self.incarnation
        try:
            if incarnation.why_over is None and self.freezing.why is not None:
                _log.warning("%d topics are left as they are: %s", len(self.topics), self.freezing.why)
                await self.topics.abandon()
            elif incarnation.why_over is None:
                async with asyncio.timeout(self.options.shutdown_s or None):
                    await self._release_all(incarnation)
                    await self._settle()
        except TimeoutError:
            _log.warning(
                "not released within %g s: %d topics; the next start takes them over",
                self.options.shutdown_s,
                len(self.topics),
            )
            await self.topics.abandon()
        finally:
            self._stop_listening()
            await self._answer_the_last()
            await self._close_channels()
            await self._stack.aclose()

    async def _release_all(self, incarnation: Incarnation) -> None:
        """Release all topics. In a cluster, each subscriber then finds its topic at another hub at the first try."""
        balance = self.shape.balance
        if balance is None:
            await incarnation.close()
            return
        await balance.tell_others()
        had_subscribers = bool(balance.others) and any(channel.subscriptions for channel in self.channels)
        if had_subscribers:
            await self.clock.sleep(_HEARD_S)
        await incarnation.close()
        if had_subscribers:
            await self._send_on()

    async def _send_on(self) -> None:
        """Answer the subscribers that come back here first, as long as they come. Other hubs own their topics now."""
        closed_at = self.clock.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_BACK_S):
                while (left_s := max(closed_at, self._last_opened_at) + _QUIET_S - self.clock.monotonic()) > 0:
                    await self.clock.sleep(left_s)

    async def _settle(self) -> None:
        """Wait for the requests under way, but not for clients that would have to read first."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await self.requests.tasks.settle()

    async def _answer_the_last(self) -> None:
        """Answer the requests that clients sent before they could know of the end, so that none is in doubt.

        The hub refuses most of them, or redirects the client. At the end it refuses those that wait for another hub.
        Our own clients are told to send no more, and close their connections once all is answered.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                last, since = None, self.clock.monotonic()
                while self.channels:
                    are_leaving = sum(channel.takes_leave() for channel in self.channels)
                    if not are_leaving and self.clock.monotonic() - since >= _SILENT_S:
                        break
                    await self.clock.sleep(_LISTENING_S)
                    requests = self.requests
                    now = requests.published, requests.refused, requests.unanswered_bytes, self.frames.bytes
                    if now != last or requests.unanswered_bytes:
                        last, since = now, self.clock.monotonic()
        await self.topics.abandon()

    async def _close_channels(self) -> None:
        """Close each connection once what was sent on it has left; cut off a peer that does not read."""
        for channel in list(self.channels):
            channel.close()
        if self.slots:
            self._all_gone.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS_S):
                    await self._all_gone.wait()

    async def _end_incarnation(self) -> None:
        if hasattr(self, "incarnation"):
            await self.incarnation.stop()
        await self.deletions.close()


def _shape_of(options: HubOptions, clock: Clock, *, replace_standalone: bool) -> Membership:
    if options.is_clustered:
        with needed("zookeeper,bookkeeper", "a hub of a cluster needs"):
            from hedwig.hub.cluster import ClusterMembership
        return ClusterMembership(options, clock)
    return Standalone(options, clock, replace=replace_standalone)
