"""Prove that named records are changed by compare-and-set only, and are listed by their beginnings."""

import asyncio
import secrets

import pytest

from hedwig.metadata import MetadataStore, NamedRecords

WRITERS = 8
MANY = 70


@pytest.fixture
def name() -> str:
    """A name that the module's store does not have."""
    return f"test-{secrets.token_hex(8)}"


async def _write(records: NamedRecords, name: str, value: bytes) -> None:
    assert await records.replace(name, None, value)


async def test_record_is_written_only_in_place_of_what_was_read(
    store: MetadataStore, other: MetadataStore, name: str
) -> None:
    mine, theirs = store.named_records, other.named_records
    assert await mine.read(name) is None
    assert not await mine.replace(name, b"unread", b"1")
    assert await mine.replace(name, None, b"1")
    assert not await theirs.replace(name, None, b"2")
    assert not await theirs.replace(name, b"other", b"2")
    assert await theirs.replace(name, b"1", b"2")
    assert not await mine.replace(name, b"1", b"3")
    assert [await each.read(name) for each in (mine, theirs)] == [b"2", b"2"]


async def test_one_of_many_writers_at_once_succeeds(store: MetadataStore, other: MetadataStore, name: str) -> None:
    for expected, turn in ((None, 0), (b"first", 1)):
        if expected is not None:
            current = await store.named_records.read(name)
            assert current is not None
            assert await store.named_records.replace(name, current, expected)
        values = [b"%d-%d" % (turn, number) for number in range(WRITERS)]
        done = await asyncio.gather(
            *(
                (store, other)[number % 2].named_records.replace(name, expected, value)
                for number, value in enumerate(values)
            )
        )
        assert done.count(True) == 1
        assert await other.named_records.read(name) == values[done.index(True)]


async def test_record_is_deleted_only_as_it_was_read(store: MetadataStore, other: MetadataStore, name: str) -> None:
    mine, theirs = store.named_records, other.named_records
    assert not await mine.delete(name, b"1")
    await _write(mine, name, b"1")
    assert await theirs.replace(name, b"1", b"2")
    assert not await mine.delete(name, b"1")
    assert await theirs.read(name) == b"2"
    assert await mine.delete(name, b"2")
    assert [await each.read(name) for each in (mine, theirs)] == [None, None]
    assert not await theirs.delete(name, b"2")
    assert not await theirs.replace(name, b"2", b"3")
    assert await theirs.read(name) is None


async def test_a_writer_or_a_deleter_succeeds(store: MetadataStore, other: MetadataStore, name: str) -> None:
    for number in range(WRITERS):
        each = f"{name}-{number}"
        await _write(store.named_records, each, b"1")
        written, deleted = await asyncio.gather(
            store.named_records.replace(each, b"1", b"2"), other.named_records.delete(each, b"1")
        )
        assert written is not deleted
        assert await other.named_records.read(each) == (b"2" if written else None)


async def test_names_are_listed_by_their_beginning(store: MetadataStore, other: MetadataStore, name: str) -> None:
    wanted = [f"{name}-{number:03}" for number in range(MANY)]
    assert await store.named_records.names(name) == []
    for each in (*reversed(wanted), name[:-1], f"{name[:-1]}-x"):
        await _write(store.named_records, each, b"1")
    assert await other.named_records.names(f"{name}-") == wanted
    await _write(store.named_records, name, b"1")
    assert await other.named_records.names(name) == [name, *wanted]
    for each in wanted[::2]:
        assert await other.named_records.delete(each, b"1")
    assert await store.named_records.names(f"{name}-") == wanted[1::2]
    assert await store.named_records.names(wanted[1]) == [wanted[1]]
