"""The records of ledgers, and the deletion of ledgers and the end of the store, in virtual time."""

import pytest

from hedwig.errors import (
    ConfigurationError,
    LedgerStoreClosedError,
    NoSuchLedgerError,
)
from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.bookkeeper.wire.digests import DigestKind
from tests.hub.ledgers.bookkeeper.support.room import TWO_OF_THREE, Room, outcome, run


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
        # Such a record has no field for custom metadata.
        assert room.record(await room.store.create({"topic": b"weather"})).custom == {}

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


def test_a_deleted_ledger_is_gone_for_everybody() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE)
        ledger_id, kept = await room.filled(2), await room.filled(1)
        await room.store.delete(ledger_id)
        await room.store.delete(ledger_id)
        for reading in (room.store.last_entry_id(ledger_id), room.client().open_and_fence(ledger_id)):
            with pytest.raises(NoSuchLedgerError):
                await reading
        with pytest.raises(NoSuchLedgerError):
            await room.store.append(ledger_id, 2, b"")
        assert [each async for each in room.store.ledgers()] == [kept]
        stats = await room.store.stats()
        assert (stats.ledgers, stats.open_ledgers, stats.queued_bytes) == (None, 1, 0)

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
