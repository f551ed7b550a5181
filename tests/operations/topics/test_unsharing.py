"""Prove that messages in shared logs are copied whole, or not at all, whoever comes in between."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hedwig.clock import SystemClock
from hedwig.errors import LedgerStoreUnavailableError, MetadataUnavailableError, UncertainStateError
from hedwig.hub.ledgers import LocalLedgerOptions, LocalLedgerStore
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from hedwig.metadata import MetadataStore, format_metadata, open_metadata
from hedwig.metadata.logs.record import LogState
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.metadata.logs.references import read_references
from hedwig.metadata.logs.virtual_ids import is_virtual
from hedwig.metadata.migration.freeze_watch import FreezeWatch
from hedwig.model import HubInfo, LedgerRange, LedgerRanges, MessageSeqId, RegionSeqId, Topic
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.topics.unsharing import Unshared, UnshareResult, Unsharing
from hedwig.versions import NEW, Version
from hedwig.wire import Message

HUB = HubInfo(host="one", port=4080, epoch=1)
T = Topic(b"T")
REMOTE = (RegionSeqId(region=b"elsewhere", seq_id=7),)


class Place:
    """A hub with a shared log, which has written ledgers of topics, and the command beside it."""

    def __init__(self, url: str, below: LocalLedgerStore, store: MetadataStore, hub: SharedLedgerStore) -> None:
        self.below = below
        self.store = store
        self.hub = hub
        self.records = KeptLogRecords(store.named_records)
        self.is_alive = True
        self.said: list[str] = []

        async def is_alive(_: HubInfo) -> bool:
            return self.is_alive

        clock = SystemClock()
        self.ledgers = SharedLedgerStore.without_log(below, self.records, clock, SharedLogOptions(), is_alive=is_alive)
        deployment = Deployment(command="ledger unshare", timeout_s=10.0, metadata=url)
        watch = FreezeWatch(store.named_records, clock)
        self.unsharing = Unsharing(deployment, store, watch, self.ledgers, self.said.append)

    async def ledger(self, first: int, count: int) -> int:
        """Return a ledger of the hub with messages from id `first` on, which takes more."""
        ledger_id = await self.hub.create({"topic": T})
        for entry in range(count):
            seq_id = MessageSeqId(first + entry, REMOTE if entry == count - 1 else ())
            await self.hub.append(ledger_id, entry, Message(b"m").accepted(seq_id, b"here").encode())
        return ledger_id

    async def closed(self, first: int, count: int) -> LedgerRange:
        """Return the range of a ledger that the hub has closed and settled."""
        ledger_id = await self.ledger(first, count)
        await self.hub.close(ledger_id)
        await self.hub.settle([ledger_id])
        return LedgerRange(ledger_id=ledger_id, start=first, end=MessageSeqId(first + count - 1, REMOTE))

    async def put(self, *ranges: LedgerRange) -> Version:
        """Store the ranges of the topic."""
        return await self.store.persistence.write(T, LedgerRanges(ranges), NEW)

    async def ranges(self) -> tuple[LedgerRange, ...]:
        stored = await self.store.persistence.read(T)
        assert stored is not None
        return stored.value.ranges

    async def unshare(self) -> Unshared:
        (done,) = await self.unsharing.unshare([T])
        return done

    async def own_ledgers(self) -> set[int]:
        """Return the ledgers that are no part of a log."""
        record = await self.records.read(0)
        of_log = set() if record is None else record.ledgers
        return {each async for each in self.below.ledgers()} - of_log

    async def ids(self) -> list[int]:
        """Return the ids of the messages that the next owner of the topic reads."""
        ids = []
        for each in await self.ranges():
            assert each.start is not None
            assert each.end is not None
            entry = 0
            while each.start + entry <= each.end.local:
                for stored in await self.ledgers.read(each.ledger_id, entry, entries_max=99, bytes_max=1 << 20):
                    seq_id = Message.decode(stored).seq_id
                    assert seq_id is not None
                    ids.append(seq_id.local)
                    entry += 1
        return ids


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    url = f"sqlite://{tmp_path / 'metadata.db'}"
    await format_metadata(url)
    below = await LocalLedgerStore.open(tmp_path / "ledgers", LocalLedgerOptions(reserve_bytes=1 << 16))

    async def nobody(_: HubInfo) -> bool:
        return False

    async with await open_metadata(url) as store:
        options = SharedLogOptions(segment_bytes=4 << 10, roll_pause_s=0.0)
        records = KeptLogRecords(store.named_records)
        hub = await SharedLedgerStore.open(below, records, HUB, SystemClock(), options, is_alive=nobody)
        yield Place(url, below, store, hub)
        await hub.abandon()
    await below.aclose()


async def test_closed_ranges_get_ledgers_of_their_own_while_the_hub_lives(place: Place) -> None:
    own = await place.below.create()
    before = await place.closed(1, 300), await place.closed(301, 1)
    rest = LedgerRange(ledger_id=own, start=302)
    await place.put(*before, rest)
    done = await place.unshare()
    assert (done.result, done.ledgers, done.messages) == (UnshareResult.UNSHARED, 2, 301)
    after = await place.ranges()
    assert [(each.start, each.end) for each in after] == [(each.start, each.end) for each in (*before, rest)]
    assert not any(is_virtual(each.ledger_id) for each in after)
    assert after[-1] == rest, "a ledger that takes messages stays"
    assert {each.ledger_id for each in after} == await place.own_ledgers()
    assert not (await read_references(place.store)).logs
    assert (await place.unshare()).result is UnshareResult.UNCHANGED
    record = await place.records.read(0)
    assert record is not None
    assert record.state is LogState.OPEN


async def test_a_range_that_is_open_in_the_log_of_a_living_hub_is_left(place: Place) -> None:
    ranges = await place.closed(1, 3), LedgerRange(ledger_id=await place.ledger(4, 3), start=4)
    await place.put(*ranges)
    done = await place.unshare()
    assert (done.result, done.ledgers) == (UnshareResult.LEFT, 0)
    assert "which is alive" in str(done.why)
    assert await place.ranges() == ranges
    assert await place.own_ledgers() == set()


async def test_the_log_of_a_dead_hub_is_closed_first(place: Place) -> None:
    """It has not sealed its last messages, neither those of a range whose end is on record."""
    unsealed = LedgerRange(ledger_id=await place.ledger(1, 3), start=1, end=MessageSeqId(3))
    await place.put(unsealed, LedgerRange(ledger_id=await place.ledger(4, 2), start=4))
    place.is_alive = False
    done = await place.unshare()
    assert (done.result, done.ledgers, done.messages) == (UnshareResult.UNSHARED, 2, 5)
    assert [(each.start, each.end) for each in await place.ranges()] == [
        (1, MessageSeqId(3)),
        (4, MessageSeqId(5, REMOTE)),
    ]
    assert await place.ids() == [1, 2, 3, 4, 5]
    record = await place.records.read(0)
    assert record is not None
    assert record.state is LogState.CLOSED


async def test_an_open_range_without_messages_goes_unless_it_alone_says_which_comes_next(place: Place) -> None:
    emptied = LedgerRange(ledger_id=await place.ledger(9, 0), start=9, end=MessageSeqId(8))
    # Once it has been shut out of its log, the hub makes no more.
    empty = [await place.hub.create({"topic": T}) for _ in range(3)]
    place.is_alive = False
    before: tuple[LedgerRange, ...]
    for before, start, wanted in (
        ((), 1, []),
        ((), 5, [(5, 4)]),
        ((emptied,), 9, [(9, 8)]),
    ):
        made = (*before, LedgerRange(ledger_id=empty.pop(), start=start))
        version = await place.put(*made)
        assert (await place.unshare()).result is UnshareResult.UNSHARED
        after = await place.ranges()
        assert [(each.start, each.end and each.end.local) for each in after] == wanted
        stored = await place.store.persistence.read(T)
        assert stored is not None
        assert stored.version != version
        await place.store.persistence.delete(T, stored.version)
    assert await place.own_ledgers() == set()


async def test_others_who_change_the_record_are_faster(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = await place.closed(1, 3), await place.closed(4, 3)
    await place.put(first, second)
    write, rounds = place.store.persistence.write, 0

    async def after_others(topic: Topic, ranges: LedgerRanges, version: Version) -> Version:
        nonlocal rounds
        rounds += 1
        stored = await place.store.persistence.read(topic)
        assert stored is not None
        if rounds == 1:  # A hub has deleted what was consumed.
            await write(topic, LedgerRanges((second,)), stored.version)
        return await write(topic, ranges, version)

    monkeypatch.setattr(place.store.persistence, "write", after_others)
    done = await place.unshare()
    assert (done.result, done.ledgers, rounds) == (UnshareResult.UNSHARED, 1, 2)
    (only,) = await place.ranges()
    assert await place.own_ledgers() == {only.ledger_id}, "the copies for nothing are deleted"


async def test_a_topic_whose_record_never_stands_still_is_left(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    each = await place.closed(1, 3)
    await place.put(each)
    write = place.store.persistence.write

    async def after_others(topic: Topic, ranges: LedgerRanges, version: Version) -> Version:
        stored = await place.store.persistence.read(topic)
        assert stored is not None
        await write(topic, stored.value, stored.version)
        return await write(topic, ranges, version)

    monkeypatch.setattr(place.store.persistence, "write", after_others)
    done = await place.unshare()
    assert (done.result, await place.ranges(), await place.own_ledgers()) == (UnshareResult.LEFT, (each,), set())


@pytest.mark.parametrize(
    ("error", "is_applied"),
    [(UncertainStateError, False), (UncertainStateError, True), (MetadataUnavailableError, False)],
    ids=["unknown and not done", "unknown and done", "surely not done"],
)
async def test_copies_stay_if_the_record_may_name_them(
    place: Place, monkeypatch: pytest.MonkeyPatch, error: type[Exception], is_applied: bool
) -> None:
    await place.put(await place.closed(1, 3))
    write = place.store.persistence.write

    async def lost(topic: Topic, ranges: LedgerRanges, version: Version) -> Version:
        if is_applied:
            await write(topic, ranges, version)
        raise error("the test lost the answer")

    with monkeypatch.context() as patch:
        patch.setattr(place.store.persistence, "write", lost)
        with pytest.raises(error):
            await place.unshare()
    assert len(await place.own_ledgers()) == (1 if error is UncertainStateError else 0)
    assert await place.ids() == [1, 2, 3]


@pytest.mark.parametrize("at", ["create", "start_append", "close", "write"])
async def test_an_interrupted_command_leaves_nothing_half_done(
    place: Place, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    await place.put(await place.closed(1, 300), await place.closed(301, 300))
    subject = place.store.persistence if at == "write" else place.below
    real, calls = getattr(subject, at), 0

    def interrupted(*given: object) -> object:
        nonlocal calls
        calls += 1
        if calls == (1 if at == "write" else 2):
            working.cancel()
        return real(*given)

    monkeypatch.setattr(subject, at, interrupted)
    working = asyncio.create_task(place.unshare())
    with pytest.raises(asyncio.CancelledError):
        await working
    monkeypatch.undo()
    named = {each.ledger_id for each in await place.ranges() if not is_virtual(each.ledger_id)}
    assert await place.own_ledgers() == named
    assert len(named) == (2 if at == "write" else 0), "a change of the record under way is waited for"
    assert await place.ids() == list(range(1, 601))
    assert (await place.unshare()).result in (UnshareResult.UNSHARED, UnshareResult.UNCHANGED)
    assert await place.ids() == list(range(1, 601))


async def test_a_copy_that_fails_leaves_the_topic_as_it_was(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = await place.closed(1, 3), await place.closed(4, 3)
    await place.put(*ranges)
    close, calls = place.below.close, 0

    async def away(ledger_id: int) -> int:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise LedgerStoreUnavailableError("the bookies are away")
        return await close(ledger_id)

    monkeypatch.setattr(place.below, "close", away)
    done = await place.unshare()
    assert (done.result, done.why) == (UnshareResult.LEFT, "the bookies are away")
    assert (await place.ranges(), await place.own_ledgers()) == (ranges, set())


async def test_messages_that_are_not_what_the_record_says_are_not_copied(place: Place) -> None:
    good = await place.closed(1, 3)
    for wrong, why in (
        (LedgerRange(ledger_id=good.ledger_id, start=2, end=MessageSeqId(4)), "not 2"),
        (LedgerRange(ledger_id=good.ledger_id, start=1, end=MessageSeqId(4)), "ends before message 4"),
    ):
        version = await place.put(wrong)
        place.is_alive = False
        done = await place.unshare()
        assert (done.result, why in str(done.why)) == (UnshareResult.LEFT, True), done
        assert await place.own_ledgers() == set()
        await place.store.persistence.delete(T, version)
