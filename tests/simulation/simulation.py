"""One run: a cluster of real hubs and clients over models of all servers, faults, and what must hold at the end."""

import asyncio
import gc
import itertools
import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final

from hedwig.client import ClientOptions, HedwigClient
from hedwig.client.options import HubAddress
from hedwig.errors import BadVersionError, HedwigError
from hedwig.hub.subscriptions.operator_actions import Edge, Sought
from hedwig.hub.topics.topic import OwnedTopic
from hedwig.metadata.records.packing import unpack_hub_info
from hedwig.model import HubInfo, SubscriberId, Topic
from tests.hub.ledgers.bookkeeper.support.model import ModelBookies, ModelMetadata
from tests.simulation.clients import Publisher, Subscriber, at
from tests.simulation.faults import Turmoil
from tests.simulation.history import History, Reader
from tests.simulation.importer import Importer
from tests.simulation.leftovers import left_in_hub, left_in_tables, left_tasks, lost_ledgers
from tests.simulation.liveness_model import Register
from tests.simulation.metadata_model import ModelWay, open_tables
from tests.simulation.network import Network, NetworkedTime, SpinningError
from tests.simulation.options import LEFT_OUT, Faults, bookkeeper_options, hub_options, log_options, preferences
from tests.simulation.owners import ordered_owners
from tests.simulation.simulated_hub import PORT, SimulatedHub, VirtualClock

__all__ = ["Simulation", "SimulationFailed", "simulate"]

_CALM_S: Final = 120.0
"""How long after the last fault, in virtual time, all subscribers must have what they are owed."""


_RUNS_KEPT: Final = 20
_runs: Final = itertools.count()


class SimulationFailed(AssertionError):
    """A rule was broken. The text has the seed, the rule, and the schedule."""


class Simulation:
    """The cluster of one seed. Call `run` once, in virtual time."""

    late_s = 10.0

    def __init__(self, seed: int, left_out: Collection[str] = LEFT_OUT) -> None:
        self.seed = seed
        self._left_out = left_out
        self.random = random = Random(seed)
        self.history = History()
        self.faults = Faults.draw(random)
        delay_s = random.choice((0.0005, 0.002, 0.01))
        self.network = Network(random, random.choice((0.0005, 0.002, 0.01)))
        self.register = Register(random)
        self.tables = open_tables()
        self._delay_s = delay_s
        self._options = hub_options(random, left_out, takes_over=Random(f"takeover {seed}").random() < 0.5)
        self._bookkeeper = bookkeeper_options(random)
        self._logs = log_options(Random(seed))
        self._publishes_once = random.random() < 0.6
        size = self._bookkeeper.quorums.ensemble
        self.bookies = ModelBookies([f"b{number}" for number in range(size + random.choice((0, 1, 2)))], random)
        self.bookies.delay_s = delay_s
        self.topics = [Topic(b"t%d" % number) for number in range(random.choice((1, 1, 2, 3)))]
        self.hubs: dict[str, SimulatedHub] = {}
        self.ways: list[ModelWay] = []
        self.ended: list[SimulatedHub] = []
        self.readers: list[Reader] = []
        self.seekers: dict[asyncio.Task[Any], None] = {}
        self._sought: set[Reader] = set()
        self.is_calm = False
        self.is_over = False
        self.machines: list[str] = []
        """The machines of clients."""
        self.clients: list[HedwigClient] = []
        self.importer: Importer | None = None
        """Takes ranges out and brings them back, in runs with shared logs."""

    # ----------------------------------------------------------------------------------------------- the cluster

    async def start_hub(self, host: str) -> None:
        """Start the hub at a host, or start it again."""
        if (before := self.hubs.get(host)) is not None:
            self.ended.append(before)
        way = ModelWay(self.tables, self.random, self._delay_s)
        self.ways.append(way)
        way.on_answer = self._answered
        hub = SimulatedHub(
            host,
            self._options,
            self.network,
            self.register,
            way,
            self.bookies,
            self.ledgers,
            self._bookkeeper,
            self._logs,
            self.random,
            self._given_up,
        )
        self.hubs[host] = hub
        await hub.inside(hub.start_up())

    @property
    def has_leases(self) -> bool:
        return not self.faults.zombies

    def serving(self) -> list[SimulatedHub]:
        """Return the hubs that serve."""
        return [hub for hub in self.hubs.values() if hub.has_begun and not hub.is_down and not hub.is_closing]

    def owner(self, topic: Topic) -> tuple[SimulatedHub, OwnedTopic] | None:
        """Return the hub that serves a topic, unless it was declared dead, and the topic; None if there is none."""
        for hub in self.serving():
            owned = hub.topics.get(topic)
            if owned is not None and not hub.is_zombie:
                return hub, owned
        return None

    def recorded_owner(self, topic: Topic) -> HubInfo | None:
        """Return the hub that the owner record of a topic names."""
        found = self.tables.execute("SELECT record FROM ownership WHERE topic = ?", (topic,)).fetchone()
        return None if found is None else unpack_hub_info(found[0])

    def break_client(self, machine: str) -> None:
        self.network.break_connections(machine)

    def hold_up(self, machine: str, topic: Topic) -> None:
        if (owner := self.owner(topic)) is not None:
            self.network.cut.add((machine, owner[0].host))

    def let_through(self, machine: str) -> None:
        for hub in self.hubs.values():
            self.network.mend(machine, hub.host)

    def _given_up(self, hub: SimulatedHub, topic: OwnedTopic, error: HedwigError) -> None:
        self.history.note(f"{hub.host} gives {topic.name.decode()} up: {type(error).__name__}")
        is_broken = isinstance(error, BadVersionError) and self._is_owner(topic)
        if is_broken and not self._owners.has_others_beside(topic):
            self.history.broken("a record has one writer", f"{hub.host} owns {topic.name!r}, and met {error!r}")

    def _is_owner(self, topic: OwnedTopic) -> bool:
        row = self.tables.execute("SELECT version FROM ownership WHERE topic = ?", (topic.name,)).fetchone()
        return row is not None and row[0] in topic.owner_version.raw

    # ------------------------------------------------------------------------------------------------- operators

    async def seek_back(self, reader: Reader, *, is_apart: bool) -> None:
        """Move the consume pointer of a subscription to an earlier position, or to the oldest message that is kept."""
        owner = self.owner(reader.topic)
        if reader.finished is None or owner is None or reader in self._sought:
            return
        self._sought.add(reader)
        hub, topic = owner
        to = Edge.START if self.random.random() < 0.5 else self.random.randint(0, reader.finished)
        if isinstance(to, int):
            reader.targets.add(to)
        force = self.random.random() < 0.7
        self.history.act(f"{reader} is sought to {to} at {hub.host}{', by force' if force else ''}")
        seeker = hub.inside(self._seek(hub, topic, reader, to, force=force))
        self.seekers[seeker] = None
        await asyncio.wait([seeker])
        del self.seekers[seeker]
        self._sought.discard(reader)
        if seeker.cancelled():
            return
        sought = seeker.result()
        # With these faults, a deposed hub or an old connection may still deliver requests that were sent before.
        if sought is not None and is_apart and not (self.faults.zombies or self.faults.network):
            reader.finished = sought.next_id - 1
            reader.waived = min(reader.waived, reader.finished)
            reader.got = {position for position in reader.got if position < sought.next_id}

    async def _seek(
        self, hub: SimulatedHub, topic: OwnedTopic, reader: Reader, to: int | Edge, *, force: bool
    ) -> Sought | None:
        try:
            async with asyncio.timeout(1.0):
                sought = await hub.interventions.seek(topic, reader.name, to, force=force, expected=None)
        except (HedwigError, TimeoutError) as exc:
            self.history.note(f"{reader} is not sought: {type(exc).__name__}")
            return None
        self.history.note(f"{reader} was sought to {sought.consumed}")
        return sought

    def _answered(self) -> None:
        """Sometimes cancel a seek, near the moment when the metadata answer."""
        if self.seekers and self.faults.cancels and self.random.random() < 0.2:
            _after_turns(self.random.randrange(8), self.random.choice(list(self.seekers)).cancel)

    # ------------------------------------------------------------------------------------------------- the run

    async def run(self) -> None:
        """Run to the end. Raises SimulationFailed."""
        with _logged_defects(self.history), ordered_owners(self.history) as self._owners:
            asyncio.get_running_loop().set_exception_handler(
                lambda _, context: self.history.broken("no defect", str(context.get("exception") or context["message"]))
            )
            try:
                await self._run()
            except TimeoutError:
                self.history.broken("no hang", "something does not come to its end")
            except Exception as exc:
                self.history.broken("no defect", f"{type(exc).__name__}: {exc}")
            gc.collect()  # asyncio reports an exception that was never retrieved when its task is freed.
        if self.history.violations:
            raise SimulationFailed(self.report())

    def report(self) -> str:
        history = self.history
        return "\n".join((f"seed {self.seed}: {history.violations[0]}", *history.actions, *history.violations))

    async def _run(self) -> None:
        random = self.random
        self.ledgers = ModelMetadata(random, delay_s=self._delay_s)
        for number in range(random.choice((2, 3))):
            await self.start_hub(f"hub{number}")
        if self._logs is not None:
            self.importer = Importer(self.tables, self.register, random, self._delay_s, self._logs)
        publishers = [self._publisher(number) for number in range(random.choice((1, 2)))]
        subscribers = self._subscribers()
        works: list[Publisher | Subscriber] = [*publishers, *subscribers]
        clients = [asyncio.create_task(each.run()) for each in works]
        turmoil = Turmoil(self)
        async with asyncio.timeout(300):
            await turmoil.run(random.choice((2.0, 6.0, 12.0)))
        self.history.act("calm")
        self.is_calm = True
        async with asyncio.timeout(_CALM_S):
            await asyncio.wait(clients[: len(publishers)])
            await self._settle(publishers)
        self.is_over = True
        async with asyncio.timeout(_CALM_S):
            for client in clients:
                await client
            for subscriber in subscribers:
                await subscriber.finish()
            await self._close()
        self._check_left()
        self.history.check_order(of_all=self._options.repeat_window_s > 0 and self._publishes_once)

    def _client(self, machine: str, *, share: bool, consume_every: int = 5) -> HedwigClient:
        options = ClientOptions(
            hub=HubAddress(Network.any_host, PORT),
            connect_timeout_s=1.0,
            answer_timeout_s=self.random.choice((0.5, 2.0, 6.0)),
            share_channels=share,
            publish_once=self._publishes_once,
            consume_every=consume_every,
            deliveries_queued_max=self.random.choice((2, 100)),
            reconnect_pause_max_s=0.5,
            clock=VirtualClock(),
            random=self.random,
        )
        self.machines.append(machine)
        client = at(machine, lambda: HedwigClient(options))
        self.clients.append(client)
        return client

    def _publisher(self, number: int) -> Publisher:
        machine = f"publisher{number}"
        client = self._client(machine, share=False)
        return Publisher(number, self, machine, client, numbers=self.random.random() < 0.5)

    def _subscribers(self) -> list[Subscriber]:
        random = self.random
        subscribers = []
        share = random.random() < 0.6
        every = random.choice((1, 1, 5))
        machines = [
            (f"subscriber{number}", self._client(f"subscriber{number}", share=share, consume_every=every))
            for number in range(random.choice((1, 2)))
        ]
        for number in range(random.choice((1, 2, 3))):
            chosen = preferences(random, self._left_out)
            if every > (chosen.message_window_size or every):
                chosen = type(chosen)()
            reader = Reader(random.choice(self.topics), SubscriberId(b"s%d" % number), chosen)
            self.readers.append(reader)
            subscribers.append(Subscriber(self, reader, machines, auto_consume=random.random() < 0.5))
        return subscribers

    async def _settle(self, publishers: list[Publisher]) -> None:
        """Wait until all subscribers have what they are owed, and again after a few more messages.

        A message that is delivered only if another follows counts as lost.
        """
        await self._deliver()
        for topic in self.topics:
            for _ in range(self.random.choice((1, 3, 8))):
                while not await self.random.choice(publishers).publish(topic):  # noqa: ASYNC110 (time is virtual)
                    await asyncio.sleep(0.5)
        await self._deliver()

    async def _deliver(self) -> None:
        waiting_for = ""
        try:
            while waiting_for := self._owed():  # noqa: ASYNC110 (time is virtual)
                await asyncio.sleep(0.25)
        except asyncio.CancelledError:
            self.history.broken("nothing acknowledged is lost, and nobody hangs", waiting_for)
            raise

    def _owed(self) -> str:
        """Return a text about the first subscriber or hub that is not done; empty if there is none."""
        for reader in self.readers:
            if reader.since is None:
                return f"{reader} cannot subscribe"
            if missing := self.history.missing(reader):
                return f"{reader} ({reader.preferences}) has not got {missing[:10]}"
        for hub in self.serving():
            if hub.deletions.waiting:
                return f"{hub.host} has {hub.deletions.waiting} ledgers to delete"
        return ""

    async def _close(self) -> None:
        for machine, client in zip(self.machines, self.clients, strict=True):
            await client.close()
            if client.counters.dropped:
                self.history.broken("nothing is delivered unasked", f"{machine} dropped {client.counters.dropped}")
        for hub in self.serving():
            await hub.inside(hub.close())
        await asyncio.sleep(self.late_s)

    def _check_left(self) -> None:
        for hub in self.hubs.values():
            for left in left_in_hub(hub):
                self.history.broken("nothing is left behind", left)
        # With these faults, crashes and changes of unknown outcome leave ledgers, which `metadata repair` finds.
        is_whole = not (self.faults.hubs or self.faults.zombies or self.faults.metadata)
        ledgers = lost_ledgers(self.tables, self.ledgers, is_whole=is_whole)
        late_owners = {version for way in self.ways for version in way.late_owners}
        for left in (*left_in_tables(self.tables, late_owners), *ledgers, *left_tasks()):
            self.history.broken("nothing is left behind", left)


def _after_turns(turns: int, work: Callable[[], object]) -> None:
    """Do `work` after `turns` turns of the event loop."""
    if turns:
        asyncio.get_running_loop().call_soon(_after_turns, turns - 1, work)
    else:
        work()


@contextmanager
def _logged_defects(history: History) -> Iterator[None]:
    """Count each log record with a traceback as a broken rule, since it is a defect."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info:
                history.broken("no defect", f"{record.getMessage()}: {record.exc_info[1]!r}")

    handler = Handler(logging.WARNING)
    loggers = [logging.getLogger(name) for name in ("hedwig",)]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.ERROR)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate


def simulate(simulation: Simulation) -> None:
    """Run a simulation in virtual time. Raises SimulationFailed."""
    # The moment of a garbage collection must not depend on former runs of the process. So collect only here, sometimes.
    if next(_runs) % _RUNS_KEPT == 0:
        gc.collect()
    gc.freeze()
    gc.disable()
    try:
        NetworkedTime(simulation.network).run(simulation.run())
    except SpinningError as exc:
        simulation.history.violations.insert(0, f"no hang: {exc}")
        raise SimulationFailed(simulation.report()) from None
    finally:
        simulation.tables.close()
        gc.enable()
        gc.unfreeze()
