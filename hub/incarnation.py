"""An incarnation: the state of a hub from one registration to the next. It starts empty, and ends for good."""

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hedwig.clock import Clock
from hedwig.concurrency.tasks import Tasks, repeat
from hedwig.errors import ServiceDownError
from hedwig.hub.access.access_control import AccessControl
from hedwig.hub.access.counts import IDLE_S, Counts
from hedwig.hub.ledgers import LedgerStore
from hedwig.hub.logs.ledger_deletions import LedgerDeletions
from hedwig.hub.logs.log_context import LogContext
from hedwig.hub.logs.recent_messages import RecentMessages
from hedwig.hub.options.options import HubOptions
from hedwig.hub.requests import Requests
from hedwig.hub.retention import Retention
from hedwig.hub.subscriptions.backlogs import Backlogs
from hedwig.hub.subscriptions.filters import FilterRegistry
from hedwig.hub.subscriptions.read_budget import ReadBudget
from hedwig.hub.subscriptions.subscribing import Subscribing
from hedwig.hub.topics.known_owners import KnownOwners
from hedwig.hub.topics.ownership import Liveness, Ownership, SharedLogs
from hedwig.hub.topics.topics import Topics
from hedwig.metadata import MetadataStore, WriteGate
from hedwig.metadata.access.count_records import CountRecords, count_of
from hedwig.model import HubInfo
from hedwig.wire import Promises, Request

if TYPE_CHECKING:
    from hedwig.hub.connections.channel import Channel

__all__ = ["Incarnation"]

_STANDBY_LOOK_S: Final = 0.5
"""How often the hub looks whether a client is gone for whose subscription others wait."""
_WINDOW_SWEEPS: Final = 8
"""How many times in the length of a window the hub looks for windows that are over."""


class Incarnation:
    """The topics, subscriptions and requests of one registration, put together.

    `me` names this registration in owner records. Once `why_over` is set it serves no client; only its counters remain.
    """

    def __init__(
        self,
        me: HubInfo,
        liveness: Liveness,
        metadata: MetadataStore,
        ledgers: LedgerStore,
        logs: SharedLogs | None,
        options: HubOptions,
        filters: FilterRegistry,
        clock: Clock,
        gate: WriteGate,
        deletions: LedgerDeletions,
        access: AccessControl | None,
        *,
        stores_once: bool,
    ) -> None:
        """`gate` is the gate of all writes of `metadata`; `deletions` and `access` outlive this incarnation.

        `stores_once`: no hub is alive that would not recognise what is published again.
        """
        self.me = me
        self.why_over: str | None = None
        self._liveness = liveness
        # All code of the incarnation must write through these leased managers.
        leased = metadata.leased(self._may_write_s)
        self.subscriptions = leased.subscriptions
        self.ledgers = ledgers
        self.tails = RecentMessages(options.cache_bytes)
        self._options = options
        self._clock = clock
        self._gate = gate
        deletions.attach(ledgers)
        self._log_store = LogContext(
            ledgers,
            leased.persistence,
            options,
            self.tails,
            options.region.encode(),
            deletions,
            clock,
            stores_once=stores_once,
        )
        cluster = options.cluster
        kept_s, for_originals = cluster.owners_kept_s, None
        if options.is_beside_originals:
            from hedwig.metadata.zookeeper.records.paths import (
                is_plain_topic,  # It needs kazoo, which other hubs may do without.
            )

            # A hub of the original that has released a topic may choose this hub. Do not redirect its client back.
            kept_s, for_originals = 0.0, is_plain_topic
        known = KnownOwners(cluster.owners_kept_max, kept_s, clock, liveness.seems_alive)
        ownership = Ownership(leased.ownership, liveness, known, for_originals, logs)
        self._counts: Counts | None = None
        if access is not None:
            records = CountRecords(metadata.named_records, gate)
            count = partial(count_of, metadata)
            self._counts = Counts(records, count, me, liveness.is_alive, self._may_write_s, clock)
        self.topics = Topics(options, ownership, self._log_store, clock, metadata.has_topic, self._counts)
        self.delivery = ReadBudget(options, clock)
        self.subscribing = Subscribing(options, leased.subscriptions, self.delivery, filters, clock, gate)
        self.retention = Retention(options, self.topics, leased.subscriptions, self.subscribing, ledgers)
        self.topics.attach_caretaker(self.retention)
        promises = Promises(refusals_are_definite=True, stores_once=self._log_store.repeats.is_on)
        self.subscribing.access = access
        self.subscribing.counts = self._counts
        tasks = Tasks()
        self.backlogs = Backlogs(leased.subscriptions, options, clock, tasks)
        self.requests = Requests(options, self.topics, self.subscribing, gate, promises, access, self.backlogs, tasks)
        self._upkeep = Tasks()

    def _may_write_s(self) -> float:
        """Return for how many seconds this incarnation may surely write. After that it may have been deposed."""
        return 0.0 if self.why_over is not None else self._liveness.remaining_s

    async def ledgers_in_the_making(self) -> frozenset[int]:
        """Return the ledgers that this incarnation has made and no record names yet."""
        return await self._log_store.in_the_making()

    def begin(self) -> None:
        """Start the work that runs for as long as this incarnation lives."""
        options, start = self._options, self._upkeep.start
        start(repeat("topic sweep", self._clock, options.topic_sweep_s, self._unless_frozen(self.topics.sweep)))
        start(repeat("retention", self._clock, options.retention_interval_s, self._unless_frozen(self.retention.sweep)))
        start(self.subscribing.pointers.run())
        start(repeat("standby", self._clock, _STANDBY_LOOK_S, self.subscribing.standbys.look))
        if (counts := self._counts) is not None:
            start(repeat("counts of limits", self._clock, IDLE_S, self._unless_frozen(counts.sweep)))
        repeats = self._log_store.repeats
        if repeats.is_on:
            start(repeat("repeat windows", self._clock, repeats.window_s / _WINDOW_SWEEPS, repeats.sweep))

    def _unless_frozen(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], Coroutine[Any, Any, None]]:
        """Return `work` as a function that does nothing while the metadata is frozen."""

        async def do() -> None:
            if not self.is_frozen():
                await work()

        return do

    def is_frozen(self) -> bool:
        """Say whether nothing may be written to the metadata now."""
        return self._gate.why_closed is not None

    def counters(self) -> Mapping[str, int]:
        """Return the counters that only grow, since the start of this incarnation."""
        return {
            "published_messages": self.requests.published,
            "refused_requests": self.requests.refused,
            "delivered_messages": self.delivery.delivered,
            "read_messages": self.delivery.read_messages,
            "lost_messages": self.delivery.lost_messages,
            "stored_consume_pointers": self.subscribing.pointers.stored,
            "acquired_topics": self.topics.acquired,
            "taken_over_topics": self.topics.taken_over,
            "released_topics": self.topics.released,
            "deleted_messages": self.retention.deleted_messages,
        }

    def handle(self, channel: "Channel", request: Request, size: int) -> None:
        """Run a request, or refuse it once the incarnation is over."""
        if self.why_over is None:
            self.requests.handle(channel, request, size)
        else:
            self.requests.refuse(channel, request, size, ServiceDownError(self.why_over))

    def channel_ended(self, channel: "Channel") -> None:
        """Detach the subscribers of a channel that is gone."""
        if self.why_over is None:
            self.requests.channel_ended(channel)

    async def close(self) -> None:
        """Finish what was begun, and release all topics.

        May be cancelled: other hubs, or the next start, take over the topics that remain. In a cluster, this hub
        redirects requests to other hubs from then on, until `stop`.
        """
        self.subscribing.is_leaving = True
        await self.topics.close()
        if self._counts is not None:
            await self._counts.close()

    async def abandon(self, why: str) -> None:
        """Serve no client from now on, and drop all topics as they are. Other hubs may own them already."""
        self.why_over = why
        await self.stop()

    async def stop(self) -> None:
        """Drop all topics, and cancel all work."""
        await self.topics.abandon()
        if self._counts is not None:
            await self._counts.abandon()
        for tasks in (
            self._upkeep,
            self.requests.tasks,
            self.subscribing.pointers.tasks,
            self.delivery.tasks,
            self._log_store.tasks,
        ):
            await tasks.cancel()
