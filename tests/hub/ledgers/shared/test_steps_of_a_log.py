"""Prove that a hub may be killed, or stand still, at each request that its log and its sweep make.

Another hub takes over then. It reads whatever was acknowledged, and frees nothing that a range needs. In the end, no
ledger is left that no record of a log names, except what a killed hub had in its hands.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from itertools import count
from random import Random
from typing import Final

import pytest

from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT
from hedwig.clock import Clock, SystemClock
from hedwig.errors import HedwigError, LedgerFencedError, NoSuchLedgerError
from hedwig.hub.ledgers import LedgerStore
from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.bookkeeper.records.zookeeper_metadata import ZookeeperLedgerMetadata
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from hedwig.hub.log_sweep import LogSweep
from hedwig.metadata import NEW, MetadataStore, StoreOptions
from hedwig.metadata.logs.record import LogState
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.model import HubInfo, LedgerRange, LedgerRanges, Topic
from tests.hub.ledgers.bookkeeper.support.bookies import bookkeeper_store
from tests.hub.ledgers.bookkeeper.support.room import TWO_OF_THREE, Room
from tests.hub.ledgers.bookkeeper.support.sessions import session_with
from tests.hub.ledgers.shared.support.process import Fate, Process
from tests.hub.ledgers.support.contents import payload, read_all
from tests.simulation.metadata_model import ModelWay, open_model, open_tables
from tests.simulation.simulated_hub import VirtualClock
from tests.support.servers import RunningServers
from tests.support.virtual_time import VirtualTime

ONE: Final = HubInfo(host="one", port=4080, epoch=1)
OTHER: Final = HubInfo(host="other", port=4080, epoch=2)
DEAD: Final = HubInfo(host="dead", port=4080, epoch=3)
_OPTIONS: Final = SharedLogOptions(
    segment_bytes=1500, roll_pause_s=0.0, upkeep_interval_s=0.005, grace_s=0.0, cache_bytes_max=1
)
_KEPT: Final = 2
"""How many ledgers stay. All others are deleted."""
_ROUNDS: Final = 5
"""A hub gets the turn of a silent one at its second look, and frees what two readings have not found."""
_LATE_S: Final = 60.0
_ENOUGH_S: Final = 1.0
_REQUESTS_MIN: Final = 50
_ORPHANS_MAX: Final = 3
"""A killed hub may have made a next ledger, a merged segment, and a footer, which no record names yet."""


class _World:
    """The ledgers and the metadata of all hubs. Each hub has a client of its own for the ledgers."""

    def __init__(
        self,
        client: Callable[[], Awaitable[LedgerStore]],
        ledgers: Callable[[], Awaitable[Mapping[int, Mapping[str, bytes]]]],
        metadata: MetadataStore,
        clock: Clock,
    ) -> None:
        """`ledgers` returns what is said about each ledger of this test."""
        self.client = client
        self.ledgers = ledgers
        self.metadata = metadata
        self.clock = clock
        self.records = KeptLogRecords(metadata.named_records)
        self.dead: set[str] = set()
        self.process: Process | None = None
        """That of hub ONE."""
        self.acknowledged: dict[int, int] = {}
        """By ledger, how many entries were acknowledged."""
        self.kept: set[int] = set()
        self.stores: list[SharedLedgerStore] = []

    async def _is_alive(self, hub: HubInfo) -> bool:
        return hub.host not in self.dead

    async def start(self, hub: HubInfo, process: Process | None = None) -> tuple[SharedLedgerStore, LogSweep]:
        """Start a hub, and return its store and its sweep."""
        below, names = await self.client(), self.metadata.named_records
        if process is not None:
            self.process = process
            below, names = process.ledgers(below), process.names(names)
        records = KeptLogRecords(names)
        store = SharedLedgerStore.with_log(
            below, records, lambda: records.create(hub), self.clock, _OPTIONS, is_alive=self._is_alive
        )
        self.stores.append(store)
        return store, LogSweep(store, records, self.metadata, hub, self.clock, 3600.0, lambda: True)

    async def make(self, store: SharedLedgerStore) -> int:
        """Make a ledger, and name it in the ranges of a topic."""
        ledger = await store.create()
        await self._check_owned()
        self.acknowledged[ledger] = 0
        self.kept.add(ledger)
        open_range = LedgerRanges((LedgerRange(ledger_id=ledger, start=1),))
        await self.metadata.persistence.write(Topic(b"%d" % ledger), open_range, NEW)
        return ledger

    async def _check_owned(self) -> None:
        """Raise LedgerFencedError if another hub has taken the topics of hub ONE over."""
        if self.process is not None:
            await self.process.request(partial(asyncio.sleep, 0))
            if ONE.host in self.dead:
                raise LedgerFencedError("another hub has the topic")

    async def append(self, store: SharedLedgerStore, ledgers: list[int], entries: range) -> None:
        for entry in entries:
            appends = [store.start_append(ledger, entry, payload(ledger, entry)) for ledger in ledgers]
            for ledger, append in zip(ledgers, appends, strict=True):
                append.add_done_callback(partial(self._note, ledger))
            await asyncio.gather(*appends)

    def _note(self, ledger: int, done: "asyncio.Future[None]") -> None:
        if not done.cancelled() and done.exception() is None:
            self.acknowledged[ledger] += 1

    async def delete(self, ledger: int, store: SharedLedgerStore | None = None) -> None:
        """Delete the ranges that name a ledger, and let `store` delete the ledger."""
        await self._check_owned()
        self.kept.discard(ledger)
        stored = await self.metadata.persistence.read(Topic(b"%d" % ledger))
        assert stored is not None
        await self.metadata.persistence.delete(Topic(b"%d" % ledger), stored.version)
        if store is not None:
            await store.delete(ledger)

    async def found(self, store: SharedLedgerStore) -> dict[int, int]:
        """Check that whatever was acknowledged is read; return how many entries each ledger has."""
        found = {}
        for ledger in sorted(self.kept):
            found[ledger] = await store.open_and_fence(ledger) + 1
            assert found[ledger] >= self.acknowledged[ledger], "an acknowledged entry is lost"
            assert await read_all(store, ledger) == [payload(ledger, entry) for entry in range(found[ledger])]
        return found

    async def unnamed(self) -> Mapping[int, Mapping[str, bytes]]:
        """Return what is said about the ledgers that no record of a log names."""
        named: set[int] = set()
        for number in [each async for each in self.records.numbers()]:
            record = await self.records.read(number)
            assert record is not None
            named |= record.ledgers
        return {ledger: about for ledger, about in (await self.ledgers()).items() if ledger not in named}


async def _write(world: _World, process: Process) -> None:
    """Write a log: ledgers begin and end in several segments, some are deleted, and what is left is merged."""
    store, _ = await world.start(ONE, process)
    ledgers = [await world.make(store) for _ in range(6)]
    await world.append(store, ledgers, range(12))
    for ledger in ledgers[_KEPT:]:
        await world.delete(ledger, store)
    await store.close(ledgers[0])
    await store.settle(ledgers[:1])
    await world.clock.sleep(10 * _OPTIONS.upkeep_interval_s)
    await world.append(store, ledgers[1:_KEPT], range(12, 15))
    await store.aclose()


async def _leave(world: _World) -> None:
    """Leave the log of a dead hub behind. Its last segments are not sealed, and nobody needs most of its ledgers."""
    store, _ = await world.start(DEAD)
    ledgers = [await world.make(store) for _ in range(6)]
    await world.append(store, ledgers, range(12))
    assert store._writer is not None
    while store._writer._keeping is not None:
        await world.clock.sleep(0.01)  # Else it would have a new ledger in its hands.
    await store.abandon()
    world.dead.add(DEAD.host)
    for ledger in ledgers[_KEPT:]:
        await world.delete(ledger)


async def _sweep(world: _World, process: Process) -> None:
    """Shut the dead hub out, free what nobody needs in its log, and merge the rest."""
    _, sweep = await world.start(ONE, process)
    for _ in range(_ROUNDS):
        await sweep.sweep()


async def _leave_nothing(_: _World) -> None:
    """Prepare nothing."""


_SCENES: Final = {"write": (_leave_nothing, _write), "sweep": (_leave, _sweep)}


async def _meet(world: _World, scene: str, at: int, fate: Fate) -> bool:
    """Let the fate meet a hub at its request `at`, and another take over; return whether it made so many requests."""
    prepare, play = _SCENES[scene]
    await prepare(world)
    process = Process(at, fate)
    playing = asyncio.create_task(play(world, process))
    met = asyncio.create_task(process.is_met.wait())
    await asyncio.wait((playing, met), return_when=asyncio.FIRST_COMPLETED)
    met.cancel()
    if not process.is_met.is_set():
        await playing
        return False
    mine = world.stores[-1]
    if fate.is_kill:
        playing.cancel()
        await asyncio.wait([playing])
        await mine.abandon()
    world.dead.add(ONE.host)
    store, sweep = await world.start(OTHER)
    found = await world.found(store)
    for _ in range(_ROUNDS):
        await sweep.sweep()
    assert await world.found(store) == found
    if not fate.is_kill:
        process.go_on()
        with suppress(HedwigError):
            async with asyncio.timeout(_LATE_S):
                await playing
        await world.clock.sleep(_ENOUGH_S)  # What it has begun comes to its end.
        await mine.abandon()
        assert await world.found(store) == found, "the hub that stood still has changed nothing"
    for _ in range(_ROUNDS):
        await sweep.sweep()
    assert await world.found(store) == found
    unnamed = await world.unnamed()
    assert len(unnamed) <= (_ORPHANS_MAX if fate.is_kill else 0), unnamed
    assert all("log" in about for about in unnamed.values()), "an operator finds which log they belong to"
    for number in [each async for each in world.records.numbers()]:
        record = await world.records.read(number)
        assert record is not None
        assert record.state is LogState.CLOSED
    return True


_FATES: Final = pytest.mark.parametrize("fate", Fate, ids=lambda fate: fate.value)


@_FATES
@pytest.mark.parametrize("scene", _SCENES)
def test_hub_meets_its_fate_at_any_request(scene: str, fate: Fate) -> None:
    at, is_met = 0, True

    async def work() -> None:
        nonlocal is_met
        room = Room(3, TWO_OF_THREE)
        metadata = open_model(ModelWay(open_tables(), Random(7), 0.001), StoreOptions(clock=VirtualClock()))

        async def client() -> LedgerStore:
            return room.client()

        async def ledgers() -> Mapping[int, Mapping[str, bytes]]:
            return {each: room.record(each).custom for each in room.metadata.records}

        is_met = await _meet(_World(client, ledgers, metadata, VirtualClock()), scene, at, fate)

    while is_met:
        VirtualTime().run(work())
        at += 1
    assert at > _REQUESTS_MIN, "a run counts only if it made many requests"


@pytest.mark.servers
@_FATES
@pytest.mark.parametrize("scene", _SCENES)
@pytest.mark.parametrize("stride", [19, pytest.param(1, marks=pytest.mark.full)])
async def test_hub_on_real_bookies_meets_its_fate_at_any_request(
    servers: RunningServers, scene: str, fate: Fate, stride: int
) -> None:
    servers.address("bookkeeper")
    for at in count(0, stride):
        async with AsyncExitStack() as stack:
            if not await _meet(await _real_world(stack, servers.address("zookeeper")), scene, at, fate):
                break
    assert at > _REQUESTS_MIN / 2, "how many there are depends on when merging begins"


async def _real_world(stack: AsyncExitStack, zookeeper: str) -> _World:
    """Return a world with its ledgers on the bookies of this run, and its metadata in memory."""
    name = secrets.token_hex(8).encode()
    options = BookkeeperOptions.for_hubs(name)
    session = await stack.enter_async_context(session_with(zookeeper))
    records = await ZookeeperLedgerMetadata.open(session, LEDGERS_ROOT, SystemClock())
    first = await records.new_ledger_id()
    metadata = open_model(ModelWay(open_tables(), Random(7), 0.0), StoreOptions())

    async def client() -> LedgerStore:
        return await stack.enter_async_context(bookkeeper_store(zookeeper, options))

    async def ledgers() -> Mapping[int, Mapping[str, bytes]]:
        found = {}
        async for ledger in records.ledgers():
            with suppress(NoSuchLedgerError):
                if ledger > first and (about := (await records.read(ledger)).value.custom).get("deployment") == name:
                    found[ledger] = about
        return found

    return _World(client, ledgers, metadata, SystemClock())
