"""A hub of the simulation: a real hub, except for its sockets, its lease, and the servers that it talks to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import cache, partial
from random import Random
from typing import Any, Final, cast

from hedwig.clock import Clock
from hedwig.concurrency.tasks import Tasks
from hedwig.errors import HedwigError, LedgerStoreUnavailableError
from hedwig.hub.connections.channel import Channel
from hedwig.hub.connections.listeners import Listeners
from hedwig.hub.hub import Hub
from hedwig.hub.ledgers.bookkeeper.cluster import BookieCluster
from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import LedgerMetadata
from hedwig.hub.ledgers.bookkeeper.store import BookkeeperLedgerStore
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from hedwig.hub.log_sweep import LogSweep
from hedwig.hub.membership import Membership
from hedwig.hub.options.options import HubOptions
from hedwig.hub.subscriptions.filters import FilterRegistry
from hedwig.hub.subscriptions.operator_actions import OperatorActions
from hedwig.hub.topics.takeover import Takeover
from hedwig.hub.topics.topic import OwnedTopic
from hedwig.metadata import StoreOptions
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.model import HubInfo
from hedwig.versions import Version, Versioned
from tests.hub.ledgers.bookkeeper.support.model import ModelBookies, ModelMetadata, View
from tests.simulation.liveness_model import LivenessModel, Register
from tests.simulation.metadata_model import ModelWay, open_model
from tests.simulation.network import MACHINE, Network

__all__ = ["PORT", "SimulatedHub", "VirtualClock"]

PORT: Final = 4080
_EPOCH_S: Final = 1_700_000_000


@cache
def _filters() -> FilterRegistry:
    """Return the filters of every hub. They are cached, since looking for them takes longer than a run."""
    return FilterRegistry({"even": "tests.simulation.filters:EvenFilter"})


class VirtualClock(Clock):
    """The clock of the running loop, whose time is virtual."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        return _EPOCH_S + self.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class LedgerRecords:
    """The ledger metadata as one hub sees them."""

    def __init__(self, model: ModelMetadata) -> None:
        self._model = model
        self.is_cut = False

    async def new_ledger_id(self) -> int:
        return await self._reached().new_ledger_id()

    async def create(self, ledger_id: int, metadata: LedgerMetadata) -> Version | None:
        return await self._reached().create(ledger_id, metadata)

    async def read(self, ledger_id: int) -> Versioned[LedgerMetadata]:
        return await self._reached().read(ledger_id)

    async def write(self, ledger_id: int, metadata: LedgerMetadata, version: Version) -> Version:
        return await self._reached().write(ledger_id, metadata, version)

    async def delete(self, ledger_id: int) -> None:
        await self._reached().delete(ledger_id)

    async def delete_at(self, ledger_id: int, version: Version) -> bool:
        return await self._reached().delete_at(ledger_id, version)

    def ledgers(self) -> AsyncIterator[int]:
        return self._model.ledgers()

    def _reached(self) -> ModelMetadata:
        if self.is_cut:
            raise LedgerStoreUnavailableError("nobody answers")
        return self._model


class _Shape:
    """As hub.membership.Membership, for a hub without a lease: it serves until `notice` or `crash`."""

    balance = None

    def is_proven(self) -> bool:
        return True


class _Listeners:
    """As hub.connections.listeners.Listeners, on the simulated network."""

    port = PORT
    tls_port = files = None
    handshakes = failed_handshakes = 0

    def __init__(self, network: Network, host: str) -> None:
        self._network = network
        self._host = host

    def takes(self, _channel: Channel) -> bool:
        return True

    def close(self) -> None:
        self._network.stop_listening(self._host)


class SimulatedHub(Hub):
    """A hub at `host`. `start_up` begins its first incarnation."""

    def __init__(
        self,
        host: str,
        options: HubOptions,
        network: Network,
        register: Register,
        way: ModelWay,
        bookies: ModelBookies,
        ledgers: ModelMetadata,
        bookkeeper: BookkeeperOptions,
        logs: SharedLogOptions | None,
        random: Random,
        on_given_up: Callable[["SimulatedHub", OwnedTopic, HedwigError], None],
    ) -> None:
        super().__init__(options, VirtualClock())
        self.host = host
        self.network = network
        self.register = register
        self.way = way
        self.view = View(bookies)
        self.records = LedgerRecords(ledgers)
        self.has_begun = False
        """Whether it has a first incarnation."""
        self.is_down = False
        self.is_zombie = False
        self.is_draining = False
        self._bookkeeper = bookkeeper
        self._logs = logs
        self._random = random
        self._on_given_up = on_given_up
        self.bookies: list[BookkeeperLedgerStore] = []
        """The stores on bookies of all incarnations, below those of shared logs."""
        self.stores: list[SharedLedgerStore] = []
        """The ledger stores of all incarnations."""
        self.clusters: list[BookieCluster] = []
        self._upkeep = Tasks()
        self.liveness: LivenessModel

    async def start_up(self) -> None:
        """Register, and listen. Run it in a context whose `MACHINE` is the hub's machine."""
        self._filters = _filters()
        self.shape = cast(Membership, _Shape())
        self.listeners = cast(Listeners, _Listeners(self.network, self.host))
        store_options = StoreOptions(
            operation_timeout_s=self.options.operation_timeout_s,
            gather=True,
            gate=self._gate,
            clock=self.clock,
            random=self._random,
            page_rows=2,
        )
        self.metadata = open_model(self.way, store_options)
        self.freezing.attach(self.metadata)
        self._stack.push_async_callback(self._let_go)
        self._stack.push_async_callback(self.deletions.close)
        self._stack.push_async_callback(self._end_incarnation)
        self._stack.push_async_callback(self._upkeep.cancel)
        self._stack.push_async_callback(self._tasks.cancel)
        await self.serve_anew()
        self._tasks.start(self.freezing.run())
        loop = asyncio.get_running_loop()
        self.network.listen(self.host, lambda: Channel(self, self.options, loop))

    async def serve_anew(self) -> None:
        """Begin an incarnation with a new registration."""
        me = self.register.add(self.host, PORT)
        self.liveness = LivenessModel(self.register, me)
        cluster = BookieCluster(self.view, self.view, self.records, self._bookkeeper.cluster, self._random)
        self.clusters.append(cluster)
        bookies = BookkeeperLedgerStore(cluster, self._bookkeeper)
        self.bookies.append(bookies)
        store = self._with_logs(bookies, me)
        self.stores.append(store)
        incarnation = self.registered(me, self.liveness, store, store)
        if self._logs is not None:
            records, interval_s = KeptLogRecords(self.metadata.named_records), self._logs.sweep_interval_s
            # A zombie sweeps, too.
            sweep = LogSweep(
                store, records, self.metadata, me, self.clock, interval_s, lambda: not incarnation.is_frozen()
            )
            self._upkeep.start(sweep.run())
        if rate := self.options.cluster.takeover_rate:
            # So does it take over.
            takeover = Takeover(
                rate,
                me,
                self.register.live,
                incarnation.topics,
                self.metadata,
                self.clock,
                lambda: not incarnation.is_frozen(),
            )
            self._upkeep.start(takeover.run())
        self.has_begun = True
        give_up = self.topics.give_up

        def tell(topic: OwnedTopic, error: HedwigError) -> None:
            if topic.is_serving:
                self._on_given_up(self, topic, error)
            give_up(topic, error)

        self.topics.give_up = tell  # type: ignore[method-assign]
        self.interventions = OperatorActions(self.metadata.subscriptions, self.subscribing, incarnation.backlogs)

    def _with_logs(self, bookies: BookkeeperLedgerStore, me: HubInfo) -> SharedLedgerStore:
        records, options = KeptLogRecords(self.metadata.named_records), self._logs
        is_alive = self.liveness.is_alive
        if options is None:
            return SharedLedgerStore.without_log(bookies, records, self.clock, SharedLogOptions(), is_alive=is_alive)
        return SharedLedgerStore.with_log(
            bookies, records, partial(records.create, me), self.clock, options, is_alive=is_alive, on_over=self._on_over
        )

    def _on_over(self, error: HedwigError) -> None:
        """Register again, since another hub took this one for dead, and has shut it out of its log."""
        self._tasks.start(self.notice())

    def declare_dead(self) -> None:
        """Remove the hub from the register, so that all others consider it dead, while it goes on."""
        self.is_zombie = True
        self.register.remove(self.incarnation.me)

    async def notice(self) -> None:
        """Learn that the hub was declared dead, and register it again. Nothing happens if it is doing so already."""
        if self.incarnation.why_over is not None:
            return
        self.is_draining = False
        self.register.remove(self.incarnation.me)
        await self.lost("it was declared dead")
        await self._abandon_stores()
        self.is_zombie = False
        if not self.is_down and not self.is_closing:
            await self.serve_anew()

    def cut_off(self) -> None:
        """Cut this hub off from every server."""
        self.way.is_cut = self.records.is_cut = self.liveness.is_cut = True
        self.view.cut_off = set(self.view.bookies)

    def reach_all(self) -> None:
        """Let this hub reach every server again."""
        self.way.is_cut = self.records.is_cut = self.liveness.is_cut = False
        self.view.cut_off.clear()

    async def crash(self) -> None:
        """End at once: nothing that the hub sends from now on arrives, except what is on its way already."""
        self.is_down = True
        self.cut_off()
        self.listeners.close()
        self.network.break_connections(self.host)
        await self.lost("it crashed")
        await self._abandon_stores()
        await self._stack.aclose()

    async def _abandon_stores(self) -> None:
        await self._upkeep.cancel()
        await self.stores[-1].abandon()
        await self.bookies[-1].abandon()

    def forget(self) -> None:
        """Remove the crashed hub from the register, so that the others learn of the crash."""
        self.register.remove(self.incarnation.me)

    async def _let_go(self) -> None:
        await self.stores[-1].aclose()
        self.register.remove(self.incarnation.me)

    def as_owner(self) -> HubInfo:
        return self.incarnation.me

    def inside(self, work: Any) -> "asyncio.Task[Any]":
        """Run work on this hub's machine."""
        token = MACHINE.set(self.host)
        try:
            return asyncio.get_running_loop().create_task(work)
        finally:
            MACHINE.reset(token)
