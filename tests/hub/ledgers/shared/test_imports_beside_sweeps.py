"""Prove that no sweep frees what an import brings back, wherever one of both stops for the other."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, cast

import pytest

from hedwig.errors import NoSuchLedgerError
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from hedwig.hub.log_sweep import LogSweep
from hedwig.metadata import NEW, MetadataStore, NamedRecords, ScannedRecord, StoreOptions
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.metadata.logs.sweep_turn import SWEEP_INTERVAL_S, SweepHoldLostError, sweep_held
from hedwig.model import HubInfo, LedgerRange, LedgerRanges, MessageSeqId, Topic
from tests.hub.ledgers.bookkeeper.support.room import BOTH, Room, run
from tests.hub.ledgers.shared.support.steps import NamesInSteps, Steps
from tests.hub.ledgers.support.contents import fill, read_all
from tests.simulation.metadata_model import ModelWay, open_model, open_tables
from tests.simulation.simulated_hub import VirtualClock
from tests.support.endings import end_all

ONE = HubInfo(host="one", port=4080, epoch=1)
OTHER = HubInfo(host="other", port=4080, epoch=2)
OPTIONS = SharedLogOptions(roll_pause_s=0.0, upkeep_interval_s=1e9, grace_s=0.0)
ENTRIES = 5


class _Metadata:
    """A metadata store for a sweep, each request to which is a step."""

    write_gate = None

    def __init__(self, store: MetadataStore, next_step: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._next_step = next_step
        self.named_records = NamesInSteps(store.named_records, next_step)

    async def scan(self, **kinds: Any) -> AsyncGenerator[list[ScannedRecord], None]:
        await self._next_step()
        async for page in self._store.scan(**kinds):
            yield page
            await self._next_step()


class Deployment:
    """Two hubs with shared logs. The second sweeps the log of the first, and takes the steps of `sweep`."""

    def __init__(self) -> None:
        self._room = Room(2, BOTH)
        way = ModelWay(open_tables(), Random(7), 0.001)
        self.metadata = open_model(way, StoreOptions(clock=VirtualClock()))
        self.records = KeptLogRecords(self.metadata.named_records)
        self.sweep = Steps(-1)
        self.dead: set[str] = set()
        self._stepped = _Metadata(self.metadata, lambda: self.sweep.next())

    async def _is_alive(self, hub: HubInfo) -> bool:
        return hub.host not in self.dead

    async def start(self, hub: HubInfo, records: KeptLogRecords | None = None) -> SharedLedgerStore:
        def fail(error: Exception) -> None:
            raise AssertionError(f"the hub was shut out: {error}")

        return await SharedLedgerStore.open(
            self._room.client(),
            records or self.records,
            hub,
            VirtualClock(),
            OPTIONS,
            is_alive=self._is_alive,
            on_over=fail,
        )

    async def start_sweeper(self) -> LogSweep:
        records = KeptLogRecords(self._stepped.named_records)
        store, metadata = await self.start(OTHER, records), cast(MetadataStore, self._stepped)
        return LogSweep(store, records, metadata, OTHER, VirtualClock(), 3600.0, lambda: True)

    async def read(self, ledger: int) -> int:
        """Return how many entries of a ledger can be read by a hub that has read nothing yet."""
        reader = SharedLedgerStore.without_log(
            self._room.client(), self.records, VirtualClock(), OPTIONS, is_alive=self._is_alive
        )
        try:
            return len(await read_all(reader, ledger))
        except NoSuchLedgerError:
            return 0


async def _written(store: SharedLedgerStore) -> int:
    """Return a ledger whose entries are in a sealed segment."""
    ledger = await store.create()
    await fill(store, [ledger], range(ENTRIES))
    await store.close(ledger)
    await store.settle([ledger])
    return ledger


def _held(named: NamedRecords) -> AbstractAsyncContextManager[None]:
    return sweep_held(named, VirtualClock())


@dataclass(slots=True)
class _Import:
    """Brings a range back. `readable` is how many of its entries could be read before that."""

    ledger: int
    steps: Steps
    readable: int | None = None
    is_done: bool = False

    async def run(self, deployment: Deployment) -> None:
        ranges = LedgerRanges((LedgerRange(ledger_id=self.ledger, start=1, end=MessageSeqId(local=ENTRIES)),))
        async with _held(NamesInSteps(deployment.metadata.named_records, self.steps.next)):
            self.readable = await deployment.read(self.ledger)
            await self.steps.next()
            await deployment.metadata.persistence.write(Topic(b"news"), ranges, NEW)
            self.is_done = True


@pytest.mark.parametrize(("is_alive", "dies"), [(True, False), (False, False), (False, True)])
def test_a_sweep_and_an_import_may_stop_for_each_other_anywhere(is_alive: bool, dies: bool) -> None:
    """The first of two sweeps has not found the range. The second stops, and the import begins, which stops in turn."""
    outcomes: set[int] = set()

    async def meet(stop: int, import_stop: int) -> tuple[bool, bool]:
        """Return whether the sweep, and the import, came to their stops."""
        deployment = Deployment()
        one, sweeper = await deployment.start(ONE), await deployment.start_sweeper()
        work = _Import(await _written(one), Steps(import_stop))
        if not is_alive:
            await one.abandon()
            deployment.dead.add("one")
        await sweeper.sweep()
        deployment.sweep = Steps(stop)
        sweeping = asyncio.create_task(sweeper.sweep())
        await _comes_to_stop(deployment.sweep, sweeping)
        importing = asyncio.create_task(work.run(deployment))
        await _comes_to_stop(work.steps, importing)
        deployment.sweep.may_go_on.set()
        await sweeping
        if dies:
            importing.cancel()
            await asyncio.wait([importing])
        else:
            work.steps.may_go_on.set()
            await importing
        for _ in range(4):
            await sweeper.sweep()
        if work.is_done:
            assert work.readable is not None
            assert await deployment.read(work.ledger) == work.readable
            outcomes.add(work.readable)
        else:
            assert await deployment.read(work.ledger) == 0, "a dead import holds no sweep for long"
        if is_alive:
            await _written(one)
        return deployment.sweep.stands.is_set(), work.steps.stands.is_set()

    stop = 0
    while _each_stop(partial(meet, stop)):
        stop += 1
    assert stop > 5
    assert outcomes == {0, ENTRIES}, "some imports come too late, and some do not"


def _each_stop(meet: Callable[[int], Coroutine[Any, Any, tuple[bool, bool]]]) -> bool:
    """Have a sweep meet an import at each of its steps; return whether the sweep came to its own stop."""
    results: list[tuple[bool, bool]] = []

    async def next_one() -> None:
        results.append(await meet(len(results)))

    while not results or results[-1][1]:
        run(next_one)
    assert len(results) > 5
    return any(came for came, _ in results)


async def _comes_to_stop(steps: Steps, task: "asyncio.Task[Any]") -> None:
    """Wait until an actor stands before its stop, or is done."""
    waiting = asyncio.create_task(steps.stands.wait())
    await asyncio.wait([waiting, task], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def test_imports_at_once_share_the_hold() -> None:
    async def work() -> None:
        deployment = Deployment()
        one, sweeper = await deployment.start(ONE), await deployment.start_sweeper()
        ledger = await _written(one)
        named = deployment.metadata.named_records
        async with _held(named):
            async with _held(named):
                await sweeper.sweep()
            for _ in range(3):
                await asyncio.sleep(SWEEP_INTERVAL_S)
                await sweeper.sweep()
        assert await deployment.read(ledger) == ENTRIES
        for _ in range(3):
            await asyncio.sleep(SWEEP_INTERVAL_S)
            await sweeper.sweep()
        assert await deployment.read(ledger) == 0

    run(work)


def test_an_import_that_stood_still_is_told_that_hubs_have_swept() -> None:
    """Another import that holds the sweep since does not make up for it."""

    async def work() -> None:
        deployment = Deployment()
        sweeper, named = await deployment.start_sweeper(), deployment.metadata.named_records

        async def hold() -> None:
            async with _held(named):
                for _ in range(2):
                    await sweeper.sweep()
                async with _held(named):
                    pass

        with pytest.raises(SweepHoldLostError, match="stood still"):
            await hold()

    run(work)


def test_an_import_holds_the_sweep_while_it_changes_the_records_of_many_logs() -> None:
    async def work() -> None:
        deployment = Deployment()
        for number in range(8):
            await _written(await deployment.start(HubInfo(host=f"hub{number}", port=4080, epoch=number)))
        sweeper = await deployment.start_sweeper()

        async def slow() -> None:
            await asyncio.sleep(SWEEP_INTERVAL_S / 8)

        async def sweep_again_and_again() -> None:
            while True:
                await sweeper.sweep()
                await asyncio.sleep(SWEEP_INTERVAL_S)

        sweeping = asyncio.create_task(sweep_again_and_again())
        began = VirtualClock().monotonic()
        async with _held(NamesInSteps(deployment.metadata.named_records, slow)):
            assert VirtualClock().monotonic() - began > 2 * SWEEP_INTERVAL_S, "a hub would have taken its turn"
        await end_all([sweeping])

    run(work)


def test_a_hub_begins_its_log_while_an_import_changes_all_logs() -> None:
    stopped: list[bool] = []

    async def work() -> None:
        deployment, steps = Deployment(), Steps(len(stopped))
        named = deployment.metadata.named_records
        opening = asyncio.create_task(deployment.start(ONE, KeptLogRecords(NamesInSteps(named, steps.next))))
        await _comes_to_stop(steps, opening)
        async with _held(named):
            pass
        steps.may_go_on.set()
        store = await opening
        assert await deployment.read(await _written(store)) == ENTRIES
        stopped.append(steps.stands.is_set())

    while not stopped or stopped[-1]:
        run(work)
    assert len(stopped) > 4
