"""Changes of the bookies of an open ledger, and their effect on entries under way, in virtual time."""

import asyncio
from collections.abc import Callable

import pytest

from hedwig.hub.ledgers.bookkeeper.wire.outcomes import BookieOutcome
from tests.hub.ledgers.bookkeeper.support.room import BOTH, TWO_OF_THREE, Room, outcome, run, until


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
        # Two of three bookies soon have the first of these entries. But the third is being replaced from that entry on.
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
        # The left one has entry 1, and the right one refuses it. While the right one is being replaced, the left one
        # fails too.
        room.model[right].refusal = BookieOutcome.FAILED
        room.model[spare].refusal = BookieOutcome.BUSY
        future = room.store.start_append(ledger_id, 1, b"one")
        await until(lambda: room.members(ledger_id) == (left, spare))
        await asyncio.sleep(1)
        assert 1 in room.model[left].entries[ledger_id]
        room.model.crash(left)
        other = room.store.start_append(ledger_id, 2, b"two")
        await asyncio.sleep(3)
        room.model[spare].refusal = None
        await asyncio.sleep(3)
        # Entry 1 is on the left one and on the spare: that is its quorum. Entry 2 is on one bookie only.
        assert future.done()
        assert not other.done()
        room.model.start(left)
        room.model[right].refusal = None
        await other
        last = room.record(ledger_id)
        for entry in (1, 2):
            for position in BOTH.write_set(entry):
                holder = last.ensemble_of(entry).bookies[position]
                assert entry in room.model[holder].entries[ledger_id]

    run(work)


def test_an_answer_of_a_bookie_that_was_replaced_comes_too_late() -> None:
    async def work() -> None:
        room = Room(3, BOTH)
        ledger_id = await room.filled(1)
        left, right = room.members(ledger_id)
        spare = room.spare(ledger_id)
        room.model[spare].refusal = BookieOutcome.BUSY
        # The answer for entry 1 is on its way for a long time. Meanwhile, entry 2 causes the bookie to be replaced.
        late: list[Callable[[], None]] = []
        room.model[right].held_back = late
        first = room.store.start_append(ledger_id, 1, b"one")
        await asyncio.sleep(1)
        room.model[right].held_back = None
        room.model[right].refusal = BookieOutcome.FAILED
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


def test_a_suspect_is_taken_where_nothing_else_helps() -> None:
    async def work() -> None:
        room = Room(3, BOTH)
        ledger_id = await room.filled(1)
        other = await room.filled(1)
        spare = room.spare(ledger_id)
        while spare not in room.members(other):
            other = await room.filled(1)
        # The spare fails for another ledger, and returns. It is then the only bookie left.
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


def test_a_busy_bookie_is_asked_again_and_not_replaced() -> None:
    async def work() -> None:
        room = Room(3, BOTH)
        ledger_id = await room.filled(1)
        busy = room.members(ledger_id)[0]
        room.model[busy].refusal = BookieOutcome.BUSY
        future = room.store.start_append(ledger_id, 1, b"")
        await asyncio.sleep(2)
        assert not future.done()
        room.model[busy].refusal = None
        await future
        assert len(room.record(ledger_id).ensembles) == 1

    run(work)


@pytest.mark.parametrize(
    "refusal",
    [
        BookieOutcome.READ_ONLY,
        BookieOutcome.FAILED,
        BookieOutcome.UNKNOWN_STATE,
        BookieOutcome.BAD_REQUEST,
        BookieOutcome.UNRECOGNISED,
    ],
)
def test_a_bookie_that_cannot_is_replaced(refusal: BookieOutcome) -> None:
    async def work() -> None:
        room = Room(3, BOTH)
        ledger_id = await room.filled(1)
        bad = room.members(ledger_id)[0]
        room.model[bad].refusal = refusal
        await room.store.append(ledger_id, 1, b"")
        assert bad not in room.members(ledger_id)

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
            for position in BOTH.write_set(entry):
                assert entry in room.model[record.ensemble_of(entry).bookies[position]].entries[ledger_id]

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
