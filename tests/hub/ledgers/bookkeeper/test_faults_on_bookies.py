"""Kill, pause and restart real bookies and a real ZooKeeper: acknowledged entries stay, unchanged."""

import asyncio
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from random import Random

import pytest

from hedwig.cli.dev import DevServers
from hedwig.errors import HedwigError, LedgerError, LedgerStoreUnavailableError, LedgerWriteError
from hedwig.hub.ledgers.bookkeeper.cluster import BookieClusterOptions
from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import LedgerMetadata, LedgerState
from hedwig.hub.ledgers.bookkeeper.store import BookkeeperLedgerStore
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums
from tests.faults.support.sickbay import heal
from tests.hub.ledgers.bookkeeper.support.bookies import bookkeeper_store
from tests.hub.ledgers.bookkeeper.support.stream import Stream
from tests.hub.ledgers.support.contents import payload, read_all
from tests.support.checkout import CHECKOUT
from tests.support.servers import UNSYNCED

BOOKIES = 4
TWO_OF_THREE = Quorums(ensemble=3, write=3, ack=2)
BOTH = Quorums(ensemble=2, write=2, ack=2)
NO_SPARE = Quorums(ensemble=4, write=3, ack=2)
CLUSTER = BookieClusterOptions(add_timeout_s=1.0, read_timeout_s=2.0, append_timeout_s=20.0, suspicion_s=3.0)

Open = Callable[..., Awaitable[BookkeeperLedgerStore]]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServers]:
    launcher = DevServers(tmp_path_factory.mktemp("faults") / "servers", **UNSYNCED)
    try:
        launcher.up(["bookkeeper"], bookies=BOOKIES)
        yield launcher
    finally:
        launcher.down()


@pytest.fixture
def ward(stack: DevServers) -> Iterator[DevServers]:
    """The servers. All of them are restarted after the test."""
    yield stack
    heal(stack)


@pytest.fixture
async def open_store(ward: DevServers) -> AsyncIterator[Open]:
    """Open a store with a session of its own: `open_store(quorums, cluster)`."""
    async with AsyncExitStack() as opened:

        async def open_(quorums: Quorums, cluster: BookieClusterOptions = CLUSTER) -> BookkeeperLedgerStore:
            options = BookkeeperOptions.for_hubs(b"faults", quorums, cluster)
            return await opened.enter_async_context(bookkeeper_store(ward.address("zookeeper"), options))

        yield open_


async def record_of(store: BookkeeperLedgerStore, ledger_id: int) -> LedgerMetadata:
    return (await store._cluster.metadata.read(ledger_id)).value


async def member(stack: DevServers, store: BookkeeperLedgerStore, ledger_id: int, position: int = 0) -> str:
    """Return the name of the server at a position of the ledger's last ensemble."""
    bookie = (await record_of(store, ledger_id)).last_ensemble.bookies[position]
    return next(each.name for each in stack.status() if f"{each.host}:{each.port}" == bookie)


async def created(store: BookkeeperLedgerStore) -> int:
    """Make a ledger that needs all bookies. A paused one may still lose its session, and then registers anew."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await store.create()
            except LedgerStoreUnavailableError:
                await asyncio.sleep(0.1)


async def recovered(store: BookkeeperLedgerStore, ledger_id: int) -> int:
    """Take a ledger over; repeat that until it succeeds."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await store.open_and_fence(ledger_id)
            except LedgerStoreUnavailableError:
                await asyncio.sleep(0.2)


async def expect_contents(store: BookkeeperLedgerStore, ledger_id: int, last: int) -> None:
    """Find exactly the entries up to `last`, each once, in order and unchanged."""
    expected = [payload(ledger_id, entry, 60 + entry % 90) for entry in range(last + 1)]
    assert await read_all(store, ledger_id) == expected
    record = await record_of(store, ledger_id)
    assert (record.state, record.last_entry_id) == (LedgerState.CLOSED, last)
    assert record.length == sum(map(len, expected))


@pytest.mark.parametrize(
    ("fault", "quorums"),
    [
        pytest.param("kill", TWO_OF_THREE, id="kill-2 of 3"),
        pytest.param("pause", BOTH, id="pause-both"),
        pytest.param("kill", BOTH, id="kill-both", marks=pytest.mark.full),
        pytest.param("pause", TWO_OF_THREE, id="pause-2 of 3", marks=pytest.mark.full),
    ],
)
async def test_a_bookie_that_fails_in_the_middle_is_replaced(
    ward: DevServers, open_store: Open, quorums: Quorums, fault: str
) -> None:
    store = await open_store(quorums)
    ledger = await store.create()
    stream = Stream(store, ledger)
    await stream.reach(300)
    victim = await member(ward, store, ledger)
    await asyncio.to_thread(getattr(ward, fault), victim)
    await stream.reach(300)
    async with asyncio.timeout(30):
        while victim == await member(ward, store, ledger):  # noqa: ASYNC110 (others change the record)
            await asyncio.sleep(0.05)
    await stream.reach(300)
    count = await stream.stop()
    taker = await open_store(quorums)
    assert await recovered(taker, ledger) == count - 1
    await expect_contents(taker, ledger, count - 1)


@pytest.mark.parametrize("fault", ["kill", pytest.param("pause", marks=pytest.mark.full)])
async def test_without_a_spare_the_others_carry_on(ward: DevServers, open_store: Open, fault: str) -> None:
    store = await open_store(NO_SPARE)
    ledger, closed = await created(store), await created(store)
    stream, other = Stream(store, ledger), Stream(store, closed)
    await stream.reach(200)
    victim = await member(ward, store, ledger, 1)
    await asyncio.to_thread(getattr(ward, fault), victim)
    await stream.reach(600)
    await other.reach(600)
    # Close one ledger, and take the other one over, while the bookie is still away.
    count = await other.stop()
    assert await store.close(closed) == count - 1
    taker = await open_store(NO_SPARE)
    await expect_contents(taker, closed, count - 1)
    last = await recovered(taker, ledger)
    assert isinstance(await stream.fail(), LedgerError)
    assert len(stream.acknowledged) <= last + 1
    await expect_contents(taker, ledger, last)
    assert len((await record_of(taker, ledger)).ensembles) == 1


async def test_a_bookie_that_comes_back_is_written_to_again(ward: DevServers, open_store: Open) -> None:
    store = await open_store(NO_SPARE)
    ledger = await created(store)
    stream = Stream(store, ledger)
    await stream.reach(100)
    victim = await member(ward, store, ledger, 2)
    await asyncio.to_thread(ward.kill, victim)
    await stream.reach(500)
    await asyncio.to_thread(ward.start, victim)
    async with asyncio.timeout(30):
        while store._writers[ledger].degraded:  # noqa: ASYNC110 (it is taken back by trying it)
            await asyncio.sleep(0.05)
    await stream.reach(500)
    # Without writes to the returned bookie, the close could not know the end now.
    await asyncio.to_thread(ward.kill, await member(ward, store, ledger, 0))
    count = await stream.stop()
    assert await store.close(ledger) == count - 1
    await expect_contents(await open_store(NO_SPARE), ledger, count - 1)


@pytest.mark.parametrize("fault", ["kill", pytest.param("pause", marks=pytest.mark.full)])
async def test_without_any_bookie_nothing_is_acknowledged_and_nobody_waits_for_ever(
    ward: DevServers, open_store: Open, fault: str
) -> None:
    store = await open_store(
        TWO_OF_THREE, BookieClusterOptions(add_timeout_s=1.0, read_timeout_s=2.0, append_timeout_s=3.0)
    )
    ledger = await store.create()
    stream = Stream(store, ledger)
    await stream.reach(100)
    names = [each.name for each in ward.status() if each.kind == "bookie"]
    await asyncio.gather(*(asyncio.to_thread(getattr(ward, fault), name) for name in names))
    acknowledged = len(stream.acknowledged)
    began = time.monotonic()
    error = await stream.fail()
    # A killed bookie may have answered all that it was sent before. The writer then refuses the next entry at once.
    assert isinstance(error, LedgerWriteError if fault == "pause" else LedgerStoreUnavailableError)
    assert time.monotonic() - began < 10
    # Some answers were on their way.
    assert len(stream.acknowledged) <= acknowledged + 32
    acknowledged = len(stream.acknowledged)
    with pytest.raises(LedgerError):
        await store.append(ledger, acknowledged, b"more")
    taker = await open_store(TWO_OF_THREE)
    with pytest.raises(LedgerStoreUnavailableError):
        await taker.open_and_fence(ledger)
    await asyncio.to_thread(heal, ward)
    last = await recovered(taker, ledger)
    assert acknowledged - 1 <= last < acknowledged + 32
    await expect_contents(taker, ledger, last)


@dataclass(slots=True)
class Writer:
    """A process that appends, and its reports."""

    process: asyncio.subprocess.Process
    ledger_id: int
    acknowledged: list[int]
    failed: list[int]

    async def listen(self, count: int | None = None) -> None:
        """Read reports until `count` entries are acknowledged; without a number, until the process ends."""
        assert self.process.stdout is not None
        async with asyncio.timeout(60):
            while count is None or len(self.acknowledged) < count:
                line = await self.process.stdout.readline()
                if not line:
                    assert count is None, "the writer ended"
                    return
                match line.split():
                    case [b"entry", number]:
                        self.acknowledged.append(int(number))
                    case [b"failed", number, _]:
                        self.failed.append(int(number))


@asynccontextmanager
async def writing(zookeeper: str) -> AsyncIterator[Writer]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.hub.ledgers.bookkeeper.support.bookie_appender",
        zookeeper,
        cwd=CHECKOUT,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            made = re.fullmatch(rb"made (\d+)\n", await process.stdout.readline())
        assert made is not None
        yield Writer(process, int(made[1]), [], [])
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2))])
async def test_a_killed_writer_leaves_all_that_it_was_told(ward: DevServers, open_store: Open, seed: int) -> None:
    async with writing(ward.address("zookeeper")) as writer:
        await writer.listen(Random(seed).randrange(50, 1500))
        writer.process.kill()
        await writer.listen()
    assert writer.acknowledged == list(range(len(writer.acknowledged)))
    taker = await open_store(TWO_OF_THREE)
    last = await recovered(taker, writer.ledger_id)
    assert last >= len(writer.acknowledged) - 1
    await expect_contents(taker, writer.ledger_id, last)


async def test_a_paused_writer_that_was_fenced_appends_nothing_when_it_goes_on(
    ward: DevServers, open_store: Open
) -> None:
    async with writing(ward.address("zookeeper")) as writer:
        await writer.listen(500)
        os.kill(writer.process.pid, signal.SIGSTOP)
        taker = await open_store(TWO_OF_THREE)
        last = await recovered(taker, writer.ledger_id)
        await expect_contents(taker, writer.ledger_id, last)
        os.kill(writer.process.pid, signal.SIGCONT)
        await writer.listen()
        assert await writer.process.wait() == 0
    # The writer may report acknowledgements from before its pause only now. None is for an entry beyond the end.
    assert writer.acknowledged == list(range(len(writer.acknowledged)))
    assert len(writer.acknowledged) <= last + 1
    assert writer.failed
    assert await (await open_store(TWO_OF_THREE)).open_and_fence(writer.ledger_id) == last
    await expect_contents(taker, writer.ledger_id, last)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.full) for seed in (2, 3))])
async def test_those_who_recover_at_the_same_time_agree(ward: DevServers, open_store: Open, seed: int) -> None:
    random = Random(seed)
    store = await open_store(TWO_OF_THREE)
    ledger = await store.create()
    stream = Stream(store, ledger, in_flight=random.choice([1, 32, 256]))
    await stream.reach(random.randrange(1, 500))
    takers = [await open_store(TWO_OF_THREE) for _ in range(3)]
    lasts = await asyncio.gather(*(recovered(taker, ledger) for taker in takers))
    assert isinstance(await stream.fail(), LedgerError)
    assert len(set(lasts)) == 1
    assert len(stream.acknowledged) <= lasts[0] + 1
    for taker in takers:
        await expect_contents(taker, ledger, lasts[0])


async def test_appends_do_not_need_zookeeper(ward: DevServers, open_store: Open) -> None:
    store = await open_store(TWO_OF_THREE)
    ledger = await store.create()
    stream = Stream(store, ledger)
    await stream.reach(100)
    await asyncio.to_thread(ward.kill, "zookeeper-1")
    await stream.reach(500)
    # Two of three bookies are still a quorum. The third can be replaced only once ZooKeeper is back.
    victim = await member_known(ward, store, ledger)
    await asyncio.to_thread(ward.kill, victim)
    await stream.reach(500)
    await asyncio.to_thread(ward.start, "zookeeper-1")
    replaced = False
    async with asyncio.timeout(40):
        while not replaced:
            # A request without a connection fails with this error.
            with contextlib.suppress(LedgerStoreUnavailableError):
                replaced = (await record_of(store, ledger)).ensembles[-1].first_entry_id > 0
            await asyncio.sleep(0.05)
    await stream.reach(100)
    count = await stream.stop()
    assert await store.close(ledger) == count - 1
    await expect_contents(await open_store(TWO_OF_THREE), ledger, count - 1)


async def member_known(stack: DevServers, store: BookkeeperLedgerStore, ledger_id: int) -> str:
    """Return the name of the first server of the ledger's ensemble, without a request to ZooKeeper."""
    bookie = store._writers[ledger_id].held.value.last_ensemble.bookies[0]
    return next(each.name for each in stack.status() if f"{each.host}:{each.port}" == bookie)


class Turmoil:
    """Writers that take each other's ledgers over while servers are killed, paused and restarted."""

    def __init__(self, stack: DevServers, open_store: Open, seed: int) -> None:
        self.stack = stack
        self.open_store = open_store
        self.random = Random(seed)
        self.checked = 0

    async def run(self, seconds: float) -> None:
        faults = asyncio.create_task(self._disturb(time.monotonic() + seconds))
        logs = [asyncio.create_task(self._log(Random(self.random.random()), faults)) for _ in range(4)]
        try:
            await asyncio.gather(*logs)
        finally:
            for task in (faults, *logs):
                task.cancel()
            await asyncio.wait((faults, *logs))
        faults.result()

    async def _disturb(self, end: float) -> None:
        names = [each.name for each in self.stack.status()]
        while time.monotonic() < end:
            victim = self.random.choice(names)
            kind = self.random.choice(["kill", "kill", "pause"])
            await asyncio.to_thread(getattr(self.stack, kind), victim)
            await asyncio.sleep(self.random.uniform(0.2, 4.0))
            await asyncio.to_thread(heal, self.stack)

    async def _log(self, random: Random, faults: "asyncio.Task[None]") -> None:
        """Write one ledger after the other. Each is closed or taken over, and another client reads it."""
        quorums = random.choice([TWO_OF_THREE, BOTH, NO_SPARE])
        store, taker = await self.open_store(quorums), await self.open_store(quorums)
        while not faults.done():
            try:
                ledger = await store.create()
            except LedgerStoreUnavailableError:
                await asyncio.sleep(0.2)
                continue
            stream = Stream(store, ledger, in_flight=random.choice([1, 16, 128]))
            try:
                await stream.reach(random.randrange(1, 800))
            except AssertionError:
                assert stream.errors
                assert all(isinstance(error, LedgerError) for error in stream.errors), stream.errors
            last = await (self._closed(store, taker, stream) if random.random() < 0.4 else recovered(taker, ledger))
            acknowledged = await stream.stop()
            assert acknowledged <= last + 1, f"{acknowledged} entries were acknowledged, and {last} is the last"
            await self._expect(taker, ledger, last)
            self.checked += 1

    async def _closed(self, store: BookkeeperLedgerStore, taker: BookkeeperLedgerStore, stream: Stream) -> int:
        await stream.stop()
        try:
            return await store.close(stream.ledger_id)
        except HedwigError:
            return await recovered(taker, stream.ledger_id)

    async def _expect(self, store: BookkeeperLedgerStore, ledger_id: int, last: int) -> None:
        async with asyncio.timeout(60):
            while True:
                try:
                    await expect_contents(store, ledger_id, last)
                    return
                except LedgerStoreUnavailableError:
                    await asyncio.sleep(0.2)


@pytest.mark.parametrize(
    ("seed", "seconds"), [(1, 8), *(pytest.param(seed, 60, marks=pytest.mark.full) for seed in range(2, 6))]
)
async def test_whatever_fails_nothing_acknowledged_is_lost(
    ward: DevServers, open_store: Open, seed: int, seconds: float
) -> None:
    turmoil = Turmoil(ward, open_store, seed)
    await turmoil.run(seconds)
    assert turmoil.checked > 0
