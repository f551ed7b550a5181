"""The promises of an append, and when it is refused or uncertain, one rule at a time, in virtual time."""

import asyncio

import pytest

from hedwig.errors import (
    EntryOrderError,
    InvalidArgumentError,
    LedgerFencedError,
    LedgerStoreUnavailableError,
    LedgerWriteError,
)
from hedwig.hub.ledgers.bookkeeper.cluster import BookieClusterOptions
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import LedgerState
from hedwig.hub.ledgers.bookkeeper.wire.codec import PAYLOAD_BYTES_MAX
from hedwig.hub.ledgers.bookkeeper.wire.outcomes import BookieOutcome
from tests.hub.ledgers.bookkeeper.support.room import BOTH, STRIPES, TWO_OF_THREE, Room, outcome, run


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
        # All entries were sent before the first was confirmed, and each is stored by exactly its write set.
        for entry in range(50):
            holders = {room.members(ledger_id)[position] for position in STRIPES.write_set(entry)}
            assert {
                name for name, bookie in room.model.bookies.items() if entry in bookie.entries[ledger_id]
            } == holders
        assert await room.store.close(ledger_id) == 49
        assert (room.record(ledger_id).state, room.record(ledger_id).length) == (LedgerState.CLOSED, sum(range(50)))

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


def test_an_append_without_a_quorum_is_uncertain_in_the_end_and_ends_the_writer() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE, cluster=BookieClusterOptions(append_timeout_s=10.0))
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
        # Both entries are on one bookie. Recovery may keep at least the first of them, and nothing else.
        assert await room.store.close(ledger_id) in (1, 3)
        assert room.record(ledger_id).state is LedgerState.CLOSED

    run(work)


def test_what_no_bookie_was_sent_is_refused_within_a_second_and_its_entry_id_given_again() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE)
        ledger_id = await room.filled(2)
        for name in room.model.bookies:
            room.model.crash(name)
        for _ in range(20):
            begun = asyncio.get_running_loop().time()
            futures = [room.store.start_append(ledger_id, entry, b"refused") for entry in (2, 3, 4)]
            first, *behind = [await outcome(future) for future in futures]
            assert first == "LedgerStoreUnavailableError"
            assert behind in ([first] * 2, ["EntryOrderError"] * 2)
            assert asyncio.get_running_loop().time() - begun < 1
            await asyncio.sleep(0.07)
        assert (await room.store.stats()).queued_bytes == 0
        room.model.heal()
        async with asyncio.timeout(1.1):
            while await outcome(room.store.append(ledger_id, 2, b"kept")) != "done":  # noqa: ASYNC110 (by trying)
                await asyncio.sleep(0.05)
        assert await room.store.close(ledger_id) == 2
        assert await room.store.read(ledger_id, 2, entries_max=9, bytes_max=999) == [b"kept"]
        assert room.record(ledger_id).length == len(b"entry 0" + b"entry 1" + b"kept")

    run(work)


def test_what_was_sent_waits_for_bookies_that_are_gone_and_only_what_was_not_is_refused() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE)
        ledger_id = await room.filled(2)
        for name in room.model.bookies:
            room.model[name].held_back = []
        sent = [room.store.start_append(ledger_id, entry, b"sent") for entry in (2, 3)]
        await asyncio.sleep(0.1)
        for name in room.model.bookies:
            room.model.crash(name)
            room.model[name].held_back = None
        await asyncio.sleep(6)
        assert await outcome(room.store.append(ledger_id, 4, b"refused")) == "LedgerStoreUnavailableError"
        assert not any(future.done() for future in sent)
        room.model.heal()
        async with asyncio.timeout(2):
            await asyncio.gather(*sent)
        await room.store.append(ledger_id, 4, b"kept")
        contents = await room.store.read(ledger_id, 2, entries_max=9, bytes_max=999)
        assert contents == [b"sent", b"sent", b"kept"]

    run(work)


@pytest.mark.parametrize("lost", [2, 3])
def test_closing_does_not_wait_for_bookies_that_are_gone(lost: int) -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE)
        ledger_id = await room.filled(2)
        for name in room.members(ledger_id):
            room.model[name].held_back = []
        sent = room.store.start_append(ledger_id, 2, b"sent")
        await asyncio.sleep(0.1)
        for name in room.members(ledger_id)[:lost]:
            room.model.crash(name)
        await asyncio.sleep(6)
        assert not sent.done()
        for name in room.members(ledger_id):
            room.model[name].held_back = None
        begun = asyncio.get_running_loop().time()
        assert await outcome(room.store.close(ledger_id)) == "LedgerStoreUnavailableError"
        assert await outcome(sent) == "LedgerWriteError"
        assert asyncio.get_running_loop().time() - begun < 2
        room.model.heal()
        assert await room.store.close(ledger_id) == 2

    run(work)


@pytest.mark.parametrize("refusal", [BookieOutcome.FENCED, BookieOutcome.UNAUTHORIZED])
def test_a_writer_that_is_shut_out_stops_and_leaves_its_last_entries_uncertain(refusal: BookieOutcome) -> None:
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


def test_what_waits_is_bounded_and_a_refusal_takes_no_entry_id() -> None:
    async def work() -> None:
        room = Room(2, BOTH, cluster=BookieClusterOptions(pending_bytes_max=300))
        ledger_id = await room.filled(0)
        first = room.store.start_append(ledger_id, 0, bytes(200))
        with pytest.raises(LedgerStoreUnavailableError):
            await room.store.append(ledger_id, 1, bytes(200))
        await first
        await room.store.append(ledger_id, 1, bytes(200))
        # A store without queued bytes accepts one entry of any size.
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
