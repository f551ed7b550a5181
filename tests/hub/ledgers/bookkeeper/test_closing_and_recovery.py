"""The end of a ledger: its writer closes it, or another client fences it and takes it over, in virtual time."""

import asyncio

import pytest

from hedwig.errors import CorruptEntryError, LedgerFencedError, LedgerStoreUnavailableError
from hedwig.hub.ledgers.bookkeeper.cluster import BookieClusterOptions
from hedwig.hub.ledgers.bookkeeper.last_confirmed import fence
from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import LedgerState
from hedwig.hub.ledgers.bookkeeper.wire.digests import Digest, DigestKind, master_key
from hedwig.hub.ledgers.bookkeeper.wire.outcomes import BookieOutcome
from tests.hub.ledgers.bookkeeper.support.room import BOTH, TWO_OF_THREE, Room, outcome, run


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
        room = Room(3, TWO_OF_THREE, cluster=BookieClusterOptions(append_timeout_s=5.0))
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


def test_what_others_recovered_is_read_past_a_writer_that_failed() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE, cluster=BookieClusterOptions(append_timeout_s=10.0))
        ledger_id = await room.filled(4)
        for name in room.members(ledger_id):
            room.model[name].held_back = []
        # The bookies store the entry, and the writer gets no answer.
        assert await outcome(room.store.append(ledger_id, 4, b"entry 4")) == "LedgerWriteError"
        for name in room.members(ledger_id):
            room.model[name].held_back = None
        other = room.client()
        assert await other.open_and_fence(ledger_id) == 4
        assert await room.store.last_entry_id(ledger_id) == 4
        contents = await room.store.read(ledger_id, 0, entries_max=9, bytes_max=999)
        assert contents == [b"entry %d" % entry for entry in range(5)]
        assert await outcome(room.store.append(ledger_id, 5, b"late")) == "LedgerFencedError"

    run(work)


def test_a_writer_that_failed_leaves_nothing_in_memory() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE, cluster=BookieClusterOptions(append_timeout_s=3.0))
        ledgers = [await room.filled(1) for _ in range(10)]
        for name in room.model.bookies:
            room.model[name].held_back = []
        futures = [room.store.start_append(ledger_id, 1, bytes(1000)) for ledger_id in ledgers]
        assert (await room.store.stats()).open_ledgers == len(ledgers)
        assert [await outcome(future) for future in futures] == ["LedgerWriteError"] * len(ledgers)
        after = await room.store.stats()
        assert (after.open_ledgers, after.queued_bytes) == (0, 0)
        # The tasks that replaced the bookies of ledgers have ended too.
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        for name in room.model.bookies:
            room.model[name].held_back = None
        assert [await room.store.close(ledger_id) for ledger_id in ledgers] == [1] * len(ledgers)

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


@pytest.mark.parametrize(
    "refusal", [BookieOutcome.UNKNOWN_STATE, BookieOutcome.FAILED, BookieOutcome.UNRECOGNISED, BookieOutcome.BUSY]
)
def test_recovery_does_not_guess(refusal: BookieOutcome) -> None:
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
        contents = await room.client().read(ledger_id, 0, entries_max=100, bytes_max=1000)
        assert contents == [b"%d" % entry for entry in range(20)]

    run(work)


@pytest.mark.parametrize("damaged", [(4,), (3, 4), (2,), (0, 1, 2, 3, 4), (1, 3)], ids=str)
@pytest.mark.parametrize("tells", [0.0, 0.01], ids=["the end is found", "the end is told"])
def test_what_is_damaged_at_all_bookies_keeps_its_place(damaged: tuple[int, ...], tells: float) -> None:
    async def work() -> None:
        # No later entry confirms an earlier one: all five were sent at once.
        room = Room(3, TWO_OF_THREE, cluster=BookieClusterOptions(tell_lac_after_s=tells))
        ledger_id = await room.store.create()
        await asyncio.gather(*[room.store.start_append(ledger_id, each, b"entry %d" % each) for each in range(5)])
        await asyncio.sleep(1)
        for bookie in room.model.bookies.values():
            for each in damaged:
                bookie.entries[ledger_id][each] = bookie.entries[ledger_id][each][:-1] + b"?"
        assert await room.client().open_and_fence(ledger_id) == 4
        assert room.record(ledger_id).state is LedgerState.CLOSED
        assert await room.client().open_and_fence(ledger_id) == 4
        for each in range(5):
            reading = room.client().read(ledger_id, each, entries_max=1, bytes_max=1)
            if each in damaged:
                with pytest.raises(CorruptEntryError):
                    await reading
            else:
                assert await reading == [b"entry %d" % each]

    run(work)


def test_a_sound_copy_of_what_is_damaged_elsewhere_is_made_safe() -> None:
    async def work() -> None:
        room = Room(4, TWO_OF_THREE)
        ledger_id = await room.filled(5)
        others = room.members(ledger_id)[1:]
        for name in others:
            entries = room.model[name].entries[ledger_id]
            entries[4] = entries[4][:-1] + b"?"
        assert await room.client().open_and_fence(ledger_id) == 4
        contents = await room.client().read(ledger_id, 0, entries_max=5, bytes_max=100)
        assert contents == [b"entry %d" % each for each in range(5)]

    run(work)


def test_damage_is_not_taken_for_the_end_while_a_bookie_does_not_answer() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE)
        ledger_id = await room.filled(5)
        silent, *others = room.members(ledger_id)
        for name in others:
            entries = room.model[name].entries[ledger_id]
            entries[4] = entries[4][:-1] + b"?"
        room.model.crash(silent)
        with pytest.raises(LedgerStoreUnavailableError):
            await room.client().open_and_fence(ledger_id)
        assert room.record(ledger_id).state is LedgerState.IN_RECOVERY
        room.model.start(silent)
        assert await room.client().open_and_fence(ledger_id) == 4
        assert await room.client().read(ledger_id, 4, entries_max=1, bytes_max=100) == [b"entry 4"]

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
