"""No acknowledged entry is lost, reordered or changed in any order of faults, and all clients agree on the end.

Time is virtual and all chance comes from the seed, so a failing seed fails again.
"""

import asyncio
from functools import partial
from random import Random

import pytest

from hedwig.errors import HedwigError, LedgerError, LedgerStoreUnavailableError
from hedwig.hub.ledgers.bookkeeper.cluster import BookieCluster, BookieClusterOptions
from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import LedgerState
from hedwig.hub.ledgers.bookkeeper.store import BookkeeperLedgerStore
from hedwig.hub.ledgers.bookkeeper.wire.digests import DigestKind
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums
from tests.hub.ledgers.bookkeeper.support.model import ModelBookies, ModelMetadata, View
from tests.support.virtual_time import VirtualTime

QUORUMS = [(1, 1, 1), (2, 2, 1), (3, 2, 2), (3, 3, 2), (4, 3, 2), (3, 3, 3), (5, 3, 2)]


class Scenario:
    """One writer, faults, and other clients that take the ledger over while it still writes."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        ensemble, write, ack = self.random.choice(QUORUMS)
        spare = self.random.randrange(3)
        names = [f"bookie-{number}" for number in range(ensemble + spare)]
        self.model = ModelBookies(names, self.random, slow=self.random.choice([0.0, 0.0, 0.02]))
        self.metadata = ModelMetadata(self.random, lost=self.random.choice([0.0, 0.2, 0.5]))
        self.options = BookkeeperOptions(
            quorums=Quorums(ensemble=ensemble, write=write, ack=ack),
            digest=self.random.choice([DigestKind.CRC32, DigestKind.CRC32C]),
            password=b"pw",
            cluster=BookieClusterOptions(
                suspicion_s=self.random.choice([0.5, 30.0]), append_timeout_s=20.0, read_ahead=4
            ),
        )
        self.clusters: list[BookieCluster] = []
        self.views: list[View] = []
        self.acknowledged: list[int] = []
        self.contents: list[bytes] = []
        """The acknowledged entries, in that order."""
        self.refused: dict[bytes, int] = {}
        """The definitely refused entries, each with its entry id. The id is free again for another entry."""
        self.is_over = False

    def client(self) -> BookkeeperLedgerStore:
        view = View(self.model)
        cluster = BookieCluster(view, view, self.metadata, self.options.cluster, self.random)
        self.views.append(view)
        self.clusters.append(cluster)
        return BookkeeperLedgerStore(cluster, self.options)

    async def write(self, store: BookkeeperLedgerStore, ledger_id: int) -> None:
        """Append until an append is refused or the time is over."""
        futures: list[asyncio.Future[None]] = []
        for attempt in range(self.random.randrange(1, 80)):
            while futures and is_refused(futures[-1]):
                futures.pop()
            entry_id = len(futures)
            content = payload(entry_id, attempt)
            future = store.start_append(ledger_id, entry_id, content)
            future.add_done_callback(partial(self.note, entry_id, content))
            futures.append(future)
            if future.done() and future.exception() is not None and not is_refused(future):
                break
            if is_refused(future):
                await asyncio.sleep(self.random.choice([0.2, 1.0, 3.0]))
            elif self.random.random() < 0.4:
                await asyncio.sleep(self.random.choice([0.0, 0.005, 0.1, 0.5]))
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
        assert all(outcome is None or isinstance(outcome, LedgerError) for outcome in outcomes), outcomes

    def note(self, entry_id: int, content: bytes, done: "asyncio.Future[None]") -> None:
        if done.exception() is None:
            self.acknowledged.append(entry_id)
            self.contents.append(content)
        elif is_refused(done):
            self.refused[content] = entry_id

    async def disturb(self) -> None:
        """Crash, start and cut off bookies."""
        names = list(self.model.bookies)
        while not self.is_over:
            await asyncio.sleep(self.random.choice([0.01, 0.1, 0.3, 1.5]))
            if self.is_over:
                return
            if self.random.random() < 0.05:
                self.metadata.is_down ^= True
            name = self.random.choice(names)
            match self.random.randrange(7):
                case 0 | 1:
                    self.model.crash(name)
                case 2 | 3:
                    self.model.start(name)
                case 4:
                    self.random.choice(self.views).cut_off ^= {name}
                case 5:
                    self.model[name].is_registered ^= True
                case 6:
                    for each in names:
                        self.model.crash(each)
                    await asyncio.sleep(self.random.choice([0.3, 1.5]))
                    for each in names:
                        self.model.start(each)

    def heal(self) -> None:
        self.is_over = True
        self.model.heal()
        self.metadata.is_down = False
        self.metadata.lost = 0.0
        for name in self.model.bookies:
            self.model[name].is_registered = True
        for view in self.views:
            view.cut_off.clear()

    async def take_over(self, ledger_id: int) -> int:
        store = self.client()
        for _ in range(200):
            try:
                return await store.open_and_fence(ledger_id)
            except LedgerStoreUnavailableError:
                await asyncio.sleep(1.0)
        raise AssertionError("recovery does not come to an end")

    async def run(self) -> None:
        writer = self.client()
        ledger_id = await writer.create()
        disturbing = asyncio.create_task(self.disturb())
        writing = asyncio.create_task(self.write(writer, ledger_id))
        await asyncio.sleep(self.random.choice([0.0, 0.02, 0.3, 2.0, 10.0]))
        takers = [asyncio.create_task(self.take_over(ledger_id)) for _ in range(self.random.choice([1, 1, 2]))]
        await asyncio.sleep(self.random.choice([0.0, 0.5, 5.0]))
        self.heal()
        lasts = await asyncio.gather(*takers)
        at_the_end = list(self.acknowledged)
        await writing
        await disturbing
        await self.check(ledger_id, writer, lasts, at_the_end)

    async def check(
        self, ledger_id: int, writer: BookkeeperLedgerStore, lasts: list[int], at_the_end: list[int]
    ) -> None:
        last = lasts[0]
        assert set(lasts) == {last}, "those who took it over do not agree"
        assert self.acknowledged == list(range(len(self.acknowledged))), "acknowledged out of order"
        assert len(self.acknowledged) - 1 <= last, "an acknowledged entry is lost"
        # Entries acknowledged after the close must be in the ledger too: nothing can be added to a closed ledger.
        assert self.acknowledged[: len(at_the_end)] == at_the_end
        record = self.metadata.current(ledger_id)
        assert (record.state, record.last_entry_id) == (LedgerState.CLOSED, last)
        reader = self.client()
        entries: list[bytes] = []
        while len(entries) <= last:
            entries += await reader.read(ledger_id, len(entries), entries_max=7, bytes_max=100)
        assert record.length == sum(map(len, entries))
        assert entries[: len(self.contents)] == self.contents
        assert not self.refused.keys() & set(entries), "what was refused is in the ledger"
        assert [content.partition(b".")[0] for content in entries] == [b"%d" % entry_id for entry_id in range(last + 1)]
        assert await reader.read(ledger_id, last + 1, entries_max=1, bytes_max=1) == []
        with pytest.raises(LedgerError):
            await writer.append(ledger_id, last + 1, b"late")
        try:
            assert await writer.close(ledger_id) == last
        except HedwigError as exc:
            raise AssertionError("closing a closed ledger fails") from exc
        for cluster in self.clusters:
            assert cluster.pending_bytes == 0


def payload(entry_id: int, attempt: int) -> bytes:
    return b"%d.%d." % (entry_id, attempt) * (1 + entry_id % 5)


def is_refused(future: "asyncio.Future[None]") -> bool:
    """Return whether an append definitely failed, and may be tried again."""
    error = future.exception() if future.done() else None
    return isinstance(error, LedgerStoreUnavailableError) and error.happened == "no"


@pytest.mark.parametrize("block", range(8))
def test_nothing_acknowledged_is_lost(block: int) -> None:
    given_twice = 0
    for seed in range(block * 40, block * 40 + 40):
        scenario = Scenario(seed)
        try:
            VirtualTime().run(scenario.run())
        except BaseException as exc:
            exc.add_note(f"seed {seed}")
            raise
        given_twice += len(set(scenario.refused.values()) & set(scenario.acknowledged))
    assert given_twice, "no entry id was taken back, and given to what was stored"
