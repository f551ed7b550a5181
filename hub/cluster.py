"""The cluster shape: one hub of several, registered in ZooKeeper, with its messages on BookKeeper's bookies."""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final

from hedwig.clock import Clock, Deadline
from hedwig.concurrency.tasks import Tasks
from hedwig.errors import HedwigError, LedgerStoreUnavailableError, ServiceDownError
from hedwig.hub.ledgers.bookkeeper.cluster import BookieClusterOptions
from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.bookkeeper.records.session import BridgedSession
from hedwig.hub.ledgers.bookkeeper.store import BookkeeperLedgerStore
from hedwig.hub.ledgers.bookkeeper.wire.codec import PAYLOAD_BYTES_MAX
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.ledgers.shared.store import SharedLedgerStore, Shares
from hedwig.hub.liveness import ClusterLiveness, LivenessOptions, Placement, Registration
from hedwig.hub.log_sweep import LogSweep
from hedwig.hub.membership import Member
from hedwig.hub.options.cluster_options import hosts_and_path
from hedwig.hub.options.options import HubOptions
from hedwig.hub.options.patterns import topic_matcher
from hedwig.hub.topics.balance import Balance
from hedwig.hub.topics.takeover import Takeover
from hedwig.metadata import MetadataStore
from hedwig.metadata.logs.format import raise_format
from hedwig.metadata.logs.record import LogRecord
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.model import HubInfo
from hedwig.outcomes import NotAppliedError
from hedwig.store_access import StoreAccess
from hedwig.zookeeper import Bridge, BridgeOptions, exists

__all__ = ["ClusterMembership"]

_log = logging.getLogger(__name__)

_LEDGERS_ROOT: Final = "/ledgers"
_RETRY_S: Final = 1.0
_QUESTION_S: Final = 5.0
"""The maximum time that ZooKeeper may take to say which hubs are alive."""


class ClusterMembership:
    """A Membership with liveness in ZooKeeper and ledgers on bookies.

    Other hubs take its topics over once it cannot prove that it is alive.
    """

    def __init__(self, options: HubOptions, clock: Clock) -> None:
        """Prepare for it. Raises: ConfigurationError - the stores file cannot be used."""
        self._options = options
        self._access = StoreAccess.read(options.stores_file)
        self._clock = clock
        self._random = Random()
        self._tasks = Tasks()
        self._stack = AsyncExitStack()
        self._joined = AsyncExitStack()
        self._session: BridgedSession | None = None
        self._root = ""
        self._serving: Registration | None = None
        """The registration under which the present incarnation serves."""
        self._bookies: BookkeeperLedgerStore | None = None
        self._store: BookkeeperLedgerStore | SharedLedgerStore | None = None
        """The store of the present incarnation: `_bookies`, or one with shared logs on it."""
        self._upkeep = Tasks()
        """The work that runs for as long as the present incarnation lives."""
        self._changes: deque[tuple[Registration, bool]] = deque()
        self._changed = asyncio.Event()
        self._why_over: str | None = None
        """Why no further registration follows; None while one may."""
        self.balance: Balance | None = None

    async def open(self) -> None:
        if self._options.frame_bytes_max > PAYLOAD_BYTES_MAX:
            _log.warning(
                "frame_bytes_max is %d, and bookies take messages of at most %d bytes: larger ones are refused",
                self._options.frame_bytes_max,
                PAYLOAD_BYTES_MAX,
            )
        url = self._options.bookkeeper.zookeeper
        if url:
            hosts, self._root = hosts_and_path("bookkeeper.zookeeper", url)
        else:
            hosts, _ = hosts_and_path("cluster.zookeeper", self._options.cluster.zookeeper)
            self._root = _LEDGERS_ROOT
        timeout_s, access = self._options.operation_timeout_s, self._access.zookeeper
        # Bookies read and delete the nodes of ledgers, and have logins of their own.
        open_nodes = replace(access, closes_nodes=False)
        bridge = Bridge(hosts, BridgeOptions(connect_timeout_s=timeout_s, access=open_nodes, clock=self._clock))
        self._stack.push_async_callback(bridge.close)
        try:
            await bridge.connect()
        except NotAppliedError as exc:
            raise ServiceDownError(f"cannot join the cluster: {exc}") from exc
        self._session = BridgedSession(bridge)
        await self._wait_for_root(self._session, hosts)

    async def _wait_for_root(self, session: BridgedSession, hosts: str) -> None:
        """Wait until BookKeeper is set up, before a client can be sent to this hub. Raises: ServiceDownError."""
        is_waiting = False
        while True:
            deadline = Deadline.after(self._clock, self._options.operation_timeout_s)
            try:
                (stat,) = await session.send(deadline, exists(self._root))
            except LedgerStoreUnavailableError as exc:
                if not is_waiting:
                    raise ServiceDownError(f"cannot join the cluster: {exc}") from exc
                _log.info("cannot tell whether BookKeeper is set up: %s", exc)
            else:
                if stat is not None:
                    break
                if not is_waiting:
                    is_waiting = True
                    _log.warning(
                        "waits for BookKeeper: there is no %s in ZooKeeper at %s; start a bookie with this root, or "
                        "correct bookkeeper.zookeeper",
                        self._root,
                        hosts,
                    )
            await self._clock.sleep(_RETRY_S)
        if is_waiting:
            _log.info("BookKeeper is set up now: there is %s", self._root)
            # The bookie that made it is about to record the layout of ledgers. It may fail if that exists already.
            await self._clock.sleep(_RETRY_S)

    async def join(
        self,
        address: HubInfo,
        listeners: Mapping[str, str],
        admin_port: int | None,
        hub: Member,
        metadata: MetadataStore,
    ) -> None:
        """Register as one of the hubs.

        Raises: ServiceDownError - ZooKeeper does not answer, or another hub is registered at this address;
            ConfigurationError - a BookKeeper that is not known here is set up.
        """
        hosts, prefix = hosts_and_path("cluster.zookeeper", self._options.cluster.zookeeper)
        cluster = self._options.cluster
        self.liveness = ClusterLiveness(
            address,
            LivenessOptions(
                zookeeper=hosts,
                prefix=prefix,
                session_timeout_s=cluster.session_timeout_s,
                operation_timeout_s=min(_QUESTION_S, self._options.operation_timeout_s),
                # If a predecessor at this address was killed, maybe on another machine, its session must end first.
                start_timeout_s=2 * max(self._options.operation_timeout_s, cluster.session_timeout_s),
                placement=Placement(cluster.placement),
                access=self._access.zookeeper,
                clock=self._clock,
            ),
            admin=None if admin_port is None else self._options.admin_address(admin_port),
            listeners=listeners,
            on_registered=lambda registration: self._note(registration, holds=True),
            on_lost=lambda registration: self._note(registration, holds=False),
            on_failed=self._end_following,
        )
        self._joined.push_async_callback(self._end, self.liveness)
        self._joined.push_async_callback(self._upkeep.cancel)
        self._joined.push_async_callback(self._tasks.cancel)
        self.balance = Balance(cluster, self.liveness, self._clock, self._random)
        await self.liveness.start()
        registration, _ = self._changes.popleft()
        try:
            await self._serve(registration, hub, metadata)
        except LedgerStoreUnavailableError as exc:
            raise ServiceDownError(f"cannot join the cluster: {exc}") from exc
        self._tasks.start(self._follow_to_the_end(hub, metadata))
        self._tasks.start(self.balance.run())

    def listeners(self) -> Mapping[str, Mapping[str, str]]:
        return {hub.info.address: hub.listeners for hub in self.liveness.live}

    def is_proven(self) -> bool:
        return self._serving is not None and self._serving.is_proven()

    async def leave(self) -> None:
        await self._joined.aclose()

    async def close(self) -> None:
        await self._stack.aclose()

    async def _end(self, liveness: ClusterLiveness) -> None:
        """Close the ledgers first, then end the registration. Until that end no other hub takes topics over."""
        if self._store is not None:
            await self._store.aclose()
        await liveness.close()

    # ----------------------------------------------------------------------------------- one registration after another

    def _note(self, registration: Registration, *, holds: bool) -> None:
        self._changes.append((registration, holds))
        self._changed.set()

    def _end_following(self, why: str) -> None:
        self._why_over = why
        self._changed.set()

    async def _follow_to_the_end(self, hub: Member, metadata: MetadataStore) -> None:
        # Nobody would notice a process that serves no client and does not end.
        try:
            await self._follow(hub, metadata)
            hub.give_up(ServiceDownError(f"this hub cannot go on: {self._why_over}"))
        except Exception:
            _log.exception("this hub cannot go from one registration to the next")
            hub.give_up(ServiceDownError("this hub cannot register anew; its log says why"))

    async def _follow(self, hub: Member, metadata: MetadataStore) -> None:
        """Handle the changes that liveness reports, one by one, until it fails.

        A hub serves under one registration at a time.
        """
        while True:
            while self._changes:
                registration, holds = self._changes.popleft()
                if not holds:
                    await self._stop(hub, registration)
                elif registration.is_proven():
                    await self._serve_at_last(registration, hub, metadata)
            if self._why_over is not None:
                return
            self._changed.clear()
            await self._changed.wait()

    async def _serve_at_last(self, registration: Registration, hub: Member, metadata: MetadataStore) -> None:
        """Serve as soon as the bookies are found; the registration may end before."""
        while registration.is_proven() and self._why_over is None:
            try:
                await self._serve(registration, hub, metadata)
                return
            except HedwigError as exc:
                _log.warning("hub %s does not serve yet: %s", registration.hub.address, exc)
                await self._clock.sleep(_RETRY_S)

    async def _serve(self, registration: Registration, hub: Member, metadata: MetadataStore) -> None:
        assert self._session is not None, "it was opened"
        assert self.balance is not None, "it is joining"
        # Each incarnation gets its own stores, because its writers end with it.
        options = replace(self._ledger_options(), tls=self._access.bookkeeper)
        bookies = await BookkeeperLedgerStore.open(self._session, self._root, options, self._clock, self._random)
        try:
            # Beside hubs of the original, their presence is no news.
            is_beside = self._options.is_beside_originals
            has_others = not is_beside and await self._has_older_hubs(registration)
            shared = await self._with_logs(bookies, registration, metadata, has_others=has_others)
        except BaseException:
            await bookies.aclose()
            raise
        self._bookies, self._store = bookies, shared
        self._serving = registration
        # A hub of an older release, or of the original, keeps nothing of what may be published again.
        stores_once = not has_others and not is_beside
        incarnation = hub.registered(registration.hub, registration, shared, shared, stores_once=stores_once)
        self.balance.attach(incarnation.topics, incarnation.is_frozen)
        sweep = LogSweep(
            shared,
            KeptLogRecords(metadata.named_records, metadata.write_gate),
            metadata,
            registration.hub,
            self._clock,
            SharedLogOptions().sweep_interval_s,
            lambda: registration.is_proven() and not incarnation.is_frozen(),
        )
        self._upkeep.start(sweep.run())
        # Beside hubs of the original, topics go to whoever is asked, as those hubs expect.
        if (rate := self._options.cluster.takeover_rate) and not is_beside:
            takeover = Takeover(
                rate,
                registration.hub,
                lambda: self.liveness.live,
                incarnation.topics,
                metadata,
                self._clock,
                lambda: registration.is_proven() and not incarnation.is_frozen(),
            )
            self._upkeep.start(takeover.run())

    async def _with_logs(
        self, bookies: BookkeeperLedgerStore, registration: Registration, metadata: MetadataStore, *, has_others: bool
    ) -> SharedLedgerStore:
        """Return a store that reads shared logs, and writes one if the options say so and all hubs can read it."""
        records = KeptLogRecords(metadata.named_records, metadata.write_gate)
        options, is_alive, shares = SharedLogOptions(), registration.is_alive, self._shares()
        if not self._options.bookkeeper.is_shared or has_others:
            return SharedLedgerStore.without_log(bookies, records, self._clock, options, is_alive=is_alive)

        begin = partial(self._begin_log, registration, records, metadata, is_alone=shares is None)
        return SharedLedgerStore.with_log(
            bookies,
            records,
            begin,
            self._clock,
            options,
            is_alive=is_alive,
            shares=shares,
            on_over=lambda why: self._shut_out(registration, why),
        )

    async def _begin_log(
        self, registration: Registration, records: KeptLogRecords, metadata: MetadataStore, *, is_alone: bool
    ) -> LogRecord | None:
        """Make a log, and return its record; None if a hub is alive that cannot read shared logs.

        This hub is registered. It looks for such hubs once more, then makes its log, then raises the format of the
        metadata, and claims its first topic only then. Such a hub that starts later refuses the metadata. One that
        starts in between may have read the format before it was raised, and registered after the look. It loses
        nothing:

        - It can neither fence nor read ledgers in a log, since there are none of such ids. So it does not serve a topic
          whose last range is open in one, and a subscriber that comes to a closed one waits there.
        - It changes such ranges only when their messages are consumed, or the topic is deleted.
        - Whatever it publishes is in ledgers that all hubs read.
        """
        if await self._has_older_hubs(registration):
            return None
        record = await records.create(registration.hub, is_alone=is_alone)
        await raise_format(metadata)
        return record

    def _shares(self) -> Shares | None:
        own = self._options.bookkeeper.own_ledgers
        if not own:
            return None
        has_own = topic_matcher(own)
        return lambda topic: topic is None or not has_own(topic)

    async def _has_older_hubs(self, registration: Registration) -> bool:
        """Say whether a hub is alive that neither reads shared logs nor recognises what is published again.

        Raises: ServiceDownError - it is not known.
        """
        assert self.liveness is not None, "it has joined"
        hubs = [each for each in await self.liveness.read_hubs() if not each.reads_shared_logs]
        others = [each.info.address for each in hubs if not each.info.is_same(registration.hub)]
        if others:
            _log.warning(
                "hub %s does not recognise what is published again%s: hub %s%s, of an older release or the original, "
                "could not go on with that. Upgrade or stop it, then start this hub again",
                registration.hub.address,
                ", and writes ledgers per topic" if self._options.bookkeeper.is_shared else "",
                others[0],
                f" and {len(others) - 1} more" if others[1:] else "",
            )
        return bool(others)

    def _shut_out(self, registration: Registration, why: HedwigError) -> None:
        """Serve no more under a registration that another hub took for over, and make another."""
        _log.error("hub %s: %s", registration.hub.address, why)
        assert self.liveness is not None, "it has joined"
        self.liveness.give_up(registration)

    async def _stop(self, hub: Member, registration: Registration) -> None:
        if self._serving is not registration:
            return
        await hub.lost(f"hub {registration.hub.address} could not prove that it is alive; it registers anew")
        self._serving = None
        await self._upkeep.cancel()
        if self._store is not None and self._bookies is not None:
            await self._store.abandon()
            await self._bookies.abandon()
            self._store = self._bookies = None

    def _ledger_options(self) -> BookkeeperOptions:
        given = self._options.bookkeeper
        quorums = Quorums(ensemble=given.ensemble, write=given.write_quorum, ack=given.ack_quorum)
        bounds = BookieClusterOptions(append_timeout_s=given.append_timeout_s)
        if given.compat:
            return BookkeeperOptions.for_original_hub(quorums, bounds)
        return BookkeeperOptions.for_hubs(self._options.cluster.zookeeper.encode(), quorums, bounds)
