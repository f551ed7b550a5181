"""The rules of writing, reading and taking over a ledger, one by one, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any

import pytest

from hedwig.errors import (
    ConfigurationError,
    CorruptEntryError,
    EntryOrderError,
    InvalidArgumentError,
    LedgerFencedError,
    LedgerStoreClosedError,
    LedgerStoreUnavailableError,
    LedgerWriteError,
    NoSuchLedgerError,
)
from hub.ledgers.bookkeeper.cluster import Cluster, ClusterOptions
from hub.ledgers.bookkeeper.codec import PAYLOAD_BYTES_MAX
from hub.ledgers.bookkeeper.digests import Digest, DigestKind, master_key
from hub.ledgers.bookkeeper.last_confirmed import fence
from hub.ledgers.bookkeeper.ledger_metadata import LedgerMetadata, LedgerState
from hub.ledgers.bookkeeper.options import BookkeeperOptions
from hub.ledgers.bookkeeper.outcomes import Outcome
from hub.ledgers.bookkeeper.quorums import Quorums
from hub.ledgers.bookkeeper.store import BookkeeperLedgerStore
from tests.benchmarks.virtual_time import VirtualTime
from tests.hub.ledgers.bookkeeper.model import ModelBookies, ModelMetadata, View


class Room:
    """Bookies, metadata and clients of one test."""

    def __init__(self, bookies: int, quorums: Quorums, **options: Any) -> None:
        self.random = Random(7)
        self.model = ModelBookies([f"b{number}" for number in range(bookies)], self.random)
        self.metadata = ModelMetadata(self.random)
        self.options = BookkeeperOptions(quorums=quorums, digest=DigestKind.CRC32, password=b"pw", **options)
        self.store = self.client()

    def client(self) -> BookkeeperLedgerStore:
        return BookkeeperLedgerStore(self.cluster(), self.options)

    def cluster(self) -> Cluster:
        view = View(self.model)
        return Cluster(view, view, self.metadata, self.options.cluster, self.random)

    def record(self, ledger_id: int) -> LedgerMetadata:
        return self.metadata.current(ledger_id)

    def members(self, ledger_id: int) -> tuple[str, ...]:
        return self.record(ledger_id).last_ensemble.bookies

    def spare(self, ledger_id: int) -> str:
        return next(name for name in self.model.bookies if name not in self.members(ledger_id))

    async def filled(self, entries: int) -> int:
        ledger_id = await self.store.create()
        for entry_id in range(entries):
            await self.store.append(ledger_id, entry_id, b"entry %d" % entry_id)
        return ledger_id


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    VirtualTime().run(work())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 (time is virtual, and the model has no events)
            await asyncio.sleep(0.01)


async def outcome(future: Awaitable[object]) -> str:
    try:
        await future
    except Exception as exc:
        return type(exc).__name__
    return "done"


TWO_OF_THREE = Quorums(ensemble=3, write=3, ack=2)
BOTH = Quorums(ensemble=2, write=2, ack=2)
STRIPES = Quorums(ensemble=3, write=2, ack=2)


# ------------------------------------------------------------------------------------------------------------- writing


def test_entries_are_acknowledged_in_order_and_carry_what_was_confirmed() -> None:
    async def work() -> None:
        room = Room(3, STRIPES)
        ledger_id = await room.store.create()
        order: list[int] = []
        futures = [room.store.start_append(ledger_id, entry, b"x" * entry) for entry in range(50)]
        for entry, future in enumerate(futures):
            future.add_done_callback(lambda _, entry=entry: order.append(entry))  # type: ignore[misc]
        await asyncio.gather(*futures)
        await asyncio.sleep(0)
        assert order == list(range(50))
        # Sent before anything was confirmed, and stored by exactly the write set.
        for entry in range(50):
            holders = {room.members(ledger_id)[place] for place in STRIPES.write_set(entry)}
            assert {
                name for name, bookie in room.model.bookies.items() if entry in bookie.entries[ledger_id]
            } == holders
        assert await room.store.close(ledger_id) == 49
        assert (room.record(ledger_id).state, room.record(ledger_id).length) == (LedgerState.CLOSED, sum(range(50)))

    run(work)


def test_a_dead_bookie_is_replaced_and_its_successor_gets_what_is_not_acknowledged() -> None:
    async def work() -> None:
        room = Room(3, BOTH)
        ledger_id = await room.filled(5)
        first = room.members(ledger_id)
        spare = room.spare(ledger_id)
        room.model.crash(first[1])
        for entry in range(5, 10):
            await room.store.append(ledger_id, entry, b"entry %d" % entry)
        assert [(each.first_entry_id, each.bookies) for each in room.record(ledger_id).ensembles] == [
            (0, first),
            (5, (first[0], spare)),
        ]
        assert sorted(room.model[spare].entries[ledger_id]) == [5, 6, 7, 8, 9]

    run(work)


def test_nothing_is_acknowledged_while_the_ensemble_changes() -> None:
    async def work() -> None:
        room = Room(4, TWO_OF_THREE)
        ledger_id = await room.filled(3)
        room.metadata.gate.clear()
        room.model.crash(room.members(ledger_id)[0])
        futures = [room.store.start_append(ledger_id, entry, b"") for entry in range(3, 9)]
        await asyncio.sleep(2)
        # Two of three have the first of them for long, but the third's place is being given away from there on.
        late = [room.store.start_append(ledger_id, entry, b"") for entry in range(9, 12)]
        await asyncio.sleep(2)
        before = await room.store.last_entry_id(ledger_id)
        assert not any(future.done() for future in late)
        room.metadata.gate.set()
        await asyncio.gather(*futures, *late)
        assert room.record(ledger_id).last_ensemble.first_entry_id == before + 1

    run(work)


def test_what_a_replaced_bookie_stored_does_not_count_any_more() -> None:
    async def work() -> None:
        room = Room(3, BOTH)
        ledger_id = await room.filled(1)
        left, right = room.members(ledger_id)
        spare = room.spare(ledger_id)
        # The left one has entry 1, the right one refuses it; while that is mended the left one fails too.
        room.model[right].refusal = Outcome.FAILED
        room.model[spare].refusal = Outcome.BUSY
        future = room.store.start_append(ledger_id, 1, b"one")
        await until(lambda: room.members(ledger_id) == (left, spare))
        await asyncio.sleep(1)
        assert 1 in room.model[left].entries[ledger_id]
        room.model.crash(left)
        other = room.store.start_append(ledger_id, 2, b"two")
        await asyncio.sleep(3)
        room.model[spare].refusal = None
        await asyncio.sleep(3)
        # Entry 1 is on the left one and on the spare by now: that is its quorum. Entry 2 is on one bookie only.
        assert future.done()
        assert not other.done()
        room.model.start(left)
        room.model[right].refusal = None
        await other
        last = room.record(ledger_id)
        for entry in (1, 2):
            for place in BOTH.write_set(entry):
                holder = last.ensemble_of(entry).bookies[place]
                assert entry in room.model[holder].entries[ledger_id]

    run(work)


def test_an_answer_of_a_bookie_that_was_replaced_comes_too_late() -> None:
    async def work() -> None:
        room = Room(3, BOTH)
        ledger_id = await room.filled(1)
        left, right = room.members(ledger_id)
        spare = room.spare(ledger_id)
        room.model[spare].refusal = Outcome.BUSY
        # The answer for entry 1 is on its way for long; meanwhile entry 2 makes the bookie lose its place.
        late: list[Callable[[], None]] = []
        room.model[right].held_back = late
        first = room.store.start_append(ledger_id, 1, b"one")
        await asyncio.sleep(1)
        room.model[right].held_back = None
        room.model[right].refusal = Outcome.FAILED
        second = room.store.start_append(ledger_id, 2, b"two")
        await until(lambda: room.members(ledger_id) == (left, spare))
        await asyncio.sleep(1)
        assert late, "entry 1 was to be answered"
        for give in late:
            give()
        await asyncio.sleep(1)
        assert not first.done()
        room.model[spare].refusal = None
        await asyncio.gather(first, second)
        assert sorted(room.model[spare].entries[ledger_id]) == [1, 2]

    run(work)


def test_without_a_spare_the_others_carry_on_and_the_lost_one_comes_back() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE)
        ledger_id = await room.filled(3)
        lost = room.members(ledger_id)[0]
        room.model.crash(lost)
        for entry in range(3, 30):
            await room.store.append(ledger_id, entry, b"")
            await asyncio.sleep(0.1)
        assert len(room.record(ledger_id).ensembles) == 1
        assert max(room.model[lost].entries[ledger_id]) == 2
        room.model.start(lost)
        await asyncio.sleep(6)
        await room.store.append(ledger_id, 30, b"")
        await until(lambda: 30 in room.model[lost].entries[ledger_id])
        assert await room.client().open_and_fence(ledger_id) == 30

    run(work)


def test_appends_go_on_as_soon_as_a_quorum_is_back() -> None:
    async def work() -> None:
        room = Room(4, TWO_OF_THREE)
        ledger_id = await room.filled(3)
        lost = room.members(ledger_id)[1:]
        for name in (*lost, room.spare(ledger_id)):
            room.model.crash(name)
        future = room.store.start_append(ledger_id, 3, b"")
        await asyncio.sleep(10)
        assert not future.done()
        room.model.start(lost[0])
        async with asyncio.timeout(2):
            await future

    run(work)


def test_a_suspect_is_taken_where_nothing_else_helps() -> None:
    async def work() -> None:
        room = Room(3, BOTH)
        ledger_id = await room.filled(1)
        other = await room.filled(1)
        spare = room.spare(ledger_id)
        while spare not in room.members(other):
            other = await room.filled(1)
        # The spare fails for another ledger, comes back, and is the only one left.
        room.model.crash(spare)
        await room.store.append(other, 1, b"")
        room.model.start(spare)
        room.model.crash(room.members(ledger_id)[0])
        async with asyncio.timeout(5):
            await room.store.append(ledger_id, 1, b"")
        assert spare in room.members(ledger_id)

    run(work)


def test_a_spare_that_appears_is_taken_at_once() -> None:
    async def work() -> None:
        room = Room(4, TWO_OF_THREE)
        room.model["b3"].is_registered = False
        ledger_id = await room.filled(3)
        lost = room.members(ledger_id)[0]
        room.model.crash(lost)
        await room.store.append(ledger_id, 3, b"")
        room.model["b3"].is_registered = True
        await until(lambda: "b3" in room.members(ledger_id))
        assert lost not in room.members(ledger_id)

    run(work)


def test_an_append_without_a_quorum_is_uncertain_in_the_end_and_ends_the_writer() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE, cluster=ClusterOptions(append_timeout_s=10.0))
        ledger_id = await room.filled(2)
        for name in room.members(ledger_id)[1:]:
            room.model.crash(name)
        begun = asyncio.get_running_loop().time()
        first, second = (room.store.start_append(ledger_id, entry, b"") for entry in (2, 3))
        for future in (first, second):
            with pytest.raises(LedgerWriteError):
                await future
        assert 9.9 < asyncio.get_running_loop().time() - begun < 11
        with pytest.raises(LedgerFencedError):
            await room.store.append(ledger_id, 4, b"")
        room.model.heal()
        # Both are on one bookie; the first of them at least may be kept, and nothing else.
        assert await room.store.close(ledger_id) in (1, 3)
        assert room.record(ledger_id).state is LedgerState.CLOSED

    run(work)


def test_a_busy_bookie_is_asked_again_and_not_replaced() -> None:
    async def work() -> None:
        room = Room(3, BOTH)
        ledger_id = await room.filled(1)
        busy = room.members(ledger_id)[0]
        room.model[busy].refusal = Outcome.BUSY
        future = room.store.start_append(ledger_id, 1, b"")
        await asyncio.sleep(2)
        assert not future.done()
        room.model[busy].refusal = None
        await future
        assert len(room.record(ledger_id).ensembles) == 1

    run(work)


@pytest.mark.parametrize(
    "refusal", [Outcome.READ_ONLY, Outcome.FAILED, Outcome.UNKNOWN_STATE, Outcome.BAD_REQUEST, Outcome.UNRECOGNISED]
)
def test_a_bookie_that_cannot_is_replaced(refusal: Outcome) -> None:
    async def work() -> None:
        room = Room(3, BOTH)
        ledger_id = await room.filled(1)
        bad = room.members(ledger_id)[0]
        room.model[bad].refusal = refusal
        await room.store.append(ledger_id, 1, b"")
        assert bad not in room.members(ledger_id)

    run(work)


@pytest.mark.parametrize("refusal", [Outcome.FENCED, Outcome.UNAUTHORIZED])
def test_a_writer_that_is_shut_out_stops_and_leaves_its_last_entries_uncertain(refusal: Outcome) -> None:
    async def work() -> None:
        room = Room(3, BOTH)
        ledger_id = await room.filled(1)
        room.model[room.members(ledger_id)[0]].refusal = refusal
        futures = [room.store.start_append(ledger_id, entry, b"") for entry in (1, 2)]
        assert [await outcome(future) for future in futures] == ["LedgerWriteError"] * 2
        with pytest.raises(LedgerFencedError):
            await room.store.append(ledger_id, 3, b"")
        assert len(room.record(ledger_id).ensembles) == 1

    run(work)


def test_the_ensemble_of_a_ledger_in_recovery_is_not_changed_by_its_writer() -> None:
    async def work() -> None:
        room = Room(3, BOTH)
        ledger_id = await room.filled(1)
        held = await room.metadata.read(ledger_id)
        await room.metadata.write(ledger_id, held.value.in_recovery(), held.version)
        room.model.crash(room.members(ledger_id)[0])
        assert await outcome(room.store.append(ledger_id, 1, b"")) == "LedgerWriteError"
        assert len(room.record(ledger_id).ensembles) == 1

    run(work)


def test_a_change_whose_answer_is_lost_is_settled_before_anything_is_acknowledged() -> None:
    async def work() -> None:
        room = Room(4, BOTH)
        ledger_id = await room.filled(1)
        room.metadata.lost = 0.9
        room.model.crash(room.members(ledger_id)[0])
        for entry in range(1, 4):
            await room.store.append(ledger_id, entry, b"%d" % entry)
        room.metadata.lost = 0.0
        record = room.record(ledger_id)
        for entry in range(4):
            for place in BOTH.write_set(entry):
                assert entry in room.model[record.ensemble_of(entry).bookies[place]].entries[ledger_id]

    run(work)


def test_while_the_metadata_are_away_the_others_carry_on() -> None:
    async def work() -> None:
        room = Room(4, TWO_OF_THREE)
        ledger_id = await room.filled(1)
        room.metadata.is_down = True
        lost = room.members(ledger_id)[0]
        room.model.crash(lost)
        for entry in range(1, 6):
            await room.store.append(ledger_id, entry, b"")
        room.metadata.is_down = False
        await until(lambda: lost not in room.members(ledger_id))
        assert room.record(ledger_id).last_ensemble.first_entry_id == 6

    run(work)


def test_what_waits_is_bounded_and_a_refusal_takes_no_entry_id() -> None:
    async def work() -> None:
        room = Room(2, BOTH, cluster=ClusterOptions(pending_bytes_max=300))
        ledger_id = await room.filled(0)
        first = room.store.start_append(ledger_id, 0, bytes(200))
        with pytest.raises(LedgerStoreUnavailableError):
            await room.store.append(ledger_id, 1, bytes(200))
        await first
        await room.store.append(ledger_id, 1, bytes(200))
        # One is always taken.
        await room.store.append(ledger_id, 2, bytes(1000))
        assert await room.store.close(ledger_id) == 2

    run(work)


def test_appends_out_of_turn_too_large_or_elsewhere_are_refused() -> None:
    async def work() -> None:
        room = Room(2, BOTH)
        ledger_id = await room.filled(1)
        with pytest.raises(EntryOrderError):
            await room.store.append(ledger_id, 2, b"")
        with pytest.raises(InvalidArgumentError):
            await room.store.append(ledger_id, 1, bytes(PAYLOAD_BYTES_MAX + 1))
        with pytest.raises(LedgerFencedError):
            await room.client().append(ledger_id, 1, b"")
        await room.store.append(ledger_id, 1, b"")

    run(work)


def test_too_few_bookies_for_a_ledger() -> None:
    async def work() -> None:
        room = Room(2, TWO_OF_THREE)
        with pytest.raises(LedgerStoreUnavailableError, match="2 are registered"):
            await room.store.create()

    run(work)


# ------------------------------------------------------------------------------------------------- closing, taking over


def test_closing_waits_for_what_is_at_hand_and_may_be_repeated() -> None:
    async def work() -> None:
        room = Room(3, BOTH)
        ledger_id = await room.filled(1)
        futures = [room.store.start_append(ledger_id, entry, b"abc") for entry in range(1, 20)]
        assert await room.store.close(ledger_id) == 19
        assert all(future.done() for future in futures)
        assert await room.store.close(ledger_id) == 19
        assert await room.client().close(ledger_id) == 19
        assert await room.client().open_and_fence(ledger_id) == 19

    run(work)


def test_an_empty_ledger_closes_and_opens_empty() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE)
        ledger_id, other = await room.store.create(), await room.store.create()
        assert await room.store.close(ledger_id) == -1
        assert await room.client().open_and_fence(other) == -1
        for each in (ledger_id, other):
            assert (room.record(each).last_entry_id, room.record(each).length) == (-1, 0)
            assert await room.client().read(each, 0, entries_max=5, bytes_max=5) == []
        with pytest.raises(LedgerFencedError):
            await room.client().append(other, 0, b"")

    run(work)


def test_the_deposed_writer_gets_nothing_acknowledged() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE)
        ledger_id = await room.filled(4)
        assert await room.client().open_and_fence(ledger_id) == 3
        assert await outcome(room.store.append(ledger_id, 4, b"late")) == "LedgerWriteError"
        assert await outcome(room.store.append(ledger_id, 5, b"later")) == "LedgerFencedError"
        assert await room.store.close(ledger_id) == 3

    run(work)


def test_an_entry_on_one_bookie_of_three_may_be_kept_and_is_then_on_enough() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE, cluster=ClusterOptions(append_timeout_s=5.0))
        ledger_id = await room.filled(4)
        for name in room.members(ledger_id)[1:]:
            room.model.crash(name)
        assert await outcome(room.store.append(ledger_id, 4, b"uncertain")) == "LedgerWriteError"
        room.model.heal()
        last = await room.client().open_and_fence(ledger_id)
        assert last in (3, 4)
        holders = [name for name in room.members(ledger_id) if 4 in room.model[name].entries[ledger_id]]
        assert last == 3 or len(holders) >= 2

    run(work)


def test_fencing_needs_so_many_that_no_quorum_is_left() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE)
        ledger_id = await room.filled(4)
        metadata, digest = room.record(ledger_id), Digest(DigestKind.CRC32, b"pw")
        for name in room.members(ledger_id)[1:]:
            room.model.crash(name)
        with pytest.raises(LedgerStoreUnavailableError, match="too few"):
            await fence(room.cluster(), ledger_id, metadata, digest, master_key(b"pw"))
        room.model.start(room.members(ledger_id)[1])
        assert await fence(room.cluster(), ledger_id, metadata, digest, master_key(b"pw")) >= 2

    run(work)


@pytest.mark.parametrize("refusal", [Outcome.UNKNOWN_STATE, Outcome.FAILED, Outcome.UNRECOGNISED, Outcome.BUSY])
def test_recovery_does_not_guess(refusal: Outcome) -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE)
        ledger_id = await room.filled(4)
        for name in room.members(ledger_id)[:2]:
            room.model[name].refusal = refusal
        with pytest.raises(LedgerStoreUnavailableError):
            await room.client().open_and_fence(ledger_id)
        assert room.record(ledger_id).state is LedgerState.IN_RECOVERY
        for name in room.members(ledger_id):
            room.model[name].refusal = None
        assert await room.client().open_and_fence(ledger_id) == 3

    run(work)


def test_recovery_goes_past_a_dead_bookie_and_replaces_it() -> None:
    async def work() -> None:
        room = Room(4, TWO_OF_THREE)
        ledger_id = await room.store.create()
        await asyncio.gather(*[room.store.start_append(ledger_id, entry, b"%d" % entry) for entry in range(20)])
        dead = room.members(ledger_id)[1]
        room.model.crash(dead)
        assert await room.client().open_and_fence(ledger_id) == 19
        assert dead not in room.members(ledger_id)
        found = await room.client().read(ledger_id, 0, entries_max=100, bytes_max=1000)
        assert found == [b"%d" % entry for entry in range(20)]

    run(work)


def test_another_password_opens_nothing() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE)
        ledger_id = await room.filled(2)
        room.options = BookkeeperOptions(quorums=TWO_OF_THREE, digest=DigestKind.CRC32, password=b"other")
        stranger = room.client()
        with pytest.raises(LedgerStoreUnavailableError, match="password"):
            await stranger.open_and_fence(ledger_id)
        assert room.record(ledger_id).state is LedgerState.OPEN

    run(work)


# ------------------------------------------------------------------------------------------------------------- reading


def test_reading_goes_on_to_the_next_copy() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE)
        ledger_id = await room.filled(6)
        await room.store.close(ledger_id)
        await asyncio.sleep(1)
        left, middle, right = room.members(ledger_id)
        entries = room.model[left].entries[ledger_id]
        entries[1] = entries[1][:-1] + b"?"
        entries[2] = entries[3]
        del entries[4]
        room.model.crash(middle)
        found = await room.client().read(ledger_id, 0, entries_max=10, bytes_max=1000)
        assert found == [b"entry %d" % entry for entry in range(6)]
        del room.model[right].entries[ledger_id][1]
        with pytest.raises(LedgerStoreUnavailableError):
            await room.client().read(ledger_id, 1, entries_max=10, bytes_max=1000)
        room.model.start(middle)
        del room.model[middle].entries[ledger_id][1]
        with pytest.raises(CorruptEntryError, match="entry 1 of ledger"):
            await room.client().read(ledger_id, 1, entries_max=10, bytes_max=1000)
        # What is before it is given, and it begins the next answer.
        assert await room.client().read(ledger_id, 0, entries_max=10, bytes_max=1000) == [b"entry 0"]

    run(work)


def test_a_slow_bookie_is_not_waited_for() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE, cluster=ClusterOptions(speculative_read_s=0.5, read_timeout_s=30.0))
        ledger_id = await room.filled(1)
        await room.store.close(ledger_id)
        loop = asyncio.get_running_loop()
        room.model.slow = 0.7
        begun = loop.time()
        assert await room.client().read(ledger_id, 0, entries_max=1, bytes_max=1) == [b"entry 0"]
        assert loop.time() - begun < 25

    run(work)


def test_reading_is_bounded_by_entries_and_bytes_but_gives_one_at_least() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE)
        ledger_id = await room.filled(10)
        read = room.store.read
        assert len(await read(ledger_id, 2, entries_max=3, bytes_max=1000)) == 3
        assert len(await read(ledger_id, 2, entries_max=100, bytes_max=1000)) == 8
        assert len(await read(ledger_id, 2, entries_max=100, bytes_max=15)) == 2
        assert len(await read(ledger_id, 2, entries_max=100, bytes_max=0)) == 1
        assert await read(ledger_id, 10, entries_max=1, bytes_max=1) == []
        # Another client knows of those that a later entry, or a reading of the last one, vouches for.
        assert await room.client().last_entry_id(ledger_id) == 8

    run(work)


def test_a_deleted_ledger_is_gone_for_everybody() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE)
        ledger_id, kept = await room.filled(2), await room.filled(1)
        await room.store.delete(ledger_id)
        await room.store.delete(ledger_id)
        for reading in (room.store.last_entry_id(ledger_id), room.client().open_and_fence(ledger_id)):
            with pytest.raises(NoSuchLedgerError):
                await reading
        with pytest.raises(LedgerFencedError):
            await room.store.append(ledger_id, 2, b"")
        assert [each async for each in room.store.ledgers()] == [kept]
        stats = await room.store.stats()
        assert (stats.ledgers, stats.open_ledgers, stats.queued_bytes) == (1, 1, 0)

    run(work)


# -------------------------------------------------------------------------------------------------------------- records


def test_ledgers_carry_what_tells_them_from_those_of_others() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE, custom={"application": b"hedwig", "deployment": b"test"})
        ledger_id = await room.store.create({"topic": b"weather"})
        expected = {"application": b"hedwig", "deployment": b"test", "topic": b"weather"}
        assert room.record(ledger_id).custom == expected
        await room.store.append(ledger_id, 0, b"")
        await room.store.close(ledger_id)
        assert room.record(ledger_id).custom == expected

    run(work)


def test_records_for_the_original_hub_have_neither_custom_metadata_nor_new_digests() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE, metadata_format=2)
        ledger_id = await room.filled(1)
        await room.store.close(ledger_id)
        assert room.metadata.records[ledger_id][0].startswith(b"BookieMetadataFormatVersion\t2\nquorumSize: 3\n")
        with pytest.raises(InvalidArgumentError):
            await room.store.create({"topic": b"weather"})

    run(work)
    with pytest.raises(ConfigurationError):
        BookkeeperOptions(metadata_format=2)
    with pytest.raises(ConfigurationError):
        BookkeeperOptions(metadata_format=2, digest=DigestKind.CRC32, custom={"application": b"hedwig"})
    with pytest.raises(ConfigurationError):
        BookkeeperOptions(metadata_format=1)


def test_the_options_of_the_original_hub_are_those_by_which_it_writes() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE)
        room.options = BookkeeperOptions.for_original_hub(TWO_OF_THREE)
        ledger_id = await room.client().create()
        content = room.metadata.records[ledger_id][0].decode()
        assert content.endswith('digestType: CRC32\npassword: "sillysecret"\nackQuorumSize: 2\n')

    run(work)


def test_a_closed_store_finishes_what_was_begun_and_refuses_the_rest() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE)
        ledger_id = await room.filled(1)
        future = room.store.start_append(ledger_id, 1, b"")
        await room.store.aclose()
        await room.store.aclose()
        assert await outcome(future) == "done"
        with pytest.raises(LedgerStoreClosedError):
            await room.store.append(ledger_id, 2, b"")
        with pytest.raises(LedgerStoreClosedError):
            await room.store.create()
        assert await room.client().open_and_fence(ledger_id) == 1

    run(work)
