"""Prove that a read-only SQLite file can be read, and that a read fails if the file changes meanwhile."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hedwig.errors import LayoutMissingError, MetadataUnavailableError
from hedwig.metadata import StoreOptions, format_metadata, open_metadata
from hedwig.metadata.sqlite.reading import ReadOnlyThread


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a store that no process has open."""
    file = tmp_path / "store.db"
    asyncio.run(format_metadata(f"sqlite://{file}"))
    return file


def _count(connection: sqlite3.Connection) -> int:
    (number,) = connection.execute("SELECT count(*) FROM persistence").fetchone()
    assert isinstance(number, int)
    return number


def _write(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO persistence (topic, version) VALUES (x'61', zeroblob(25))")


def test_what_is_changed_while_it_is_read_is_not_believed(path: Path) -> None:
    async def read() -> None:
        thread = ReadOnlyThread("reading", str(path), StoreOptions())
        try:
            assert await thread.run("count", _count) == 0
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                _write(other)
                # The new row is in the write-ahead log only, so the read sees the file as it was.
                assert await thread.run("count", _count) == 0
            with pytest.raises(MetadataUnavailableError, match="began to write"):
                await thread.run("count", _count)
        finally:
            await thread.close()

    asyncio.run(read())


def test_changes_of_others_that_have_it_open_are_seen(path: Path) -> None:
    async def read(other: sqlite3.Connection) -> None:
        thread = ReadOnlyThread("reading", str(path), StoreOptions())
        try:
            assert await thread.run("count", _count) == 1
            other.execute("DELETE FROM persistence")
            assert await thread.run("count", _count) == 0
        finally:
            await thread.close()

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        _write(other)
        asyncio.run(read(other))


def test_reading_leaves_nothing_beside_the_file(path: Path) -> None:
    async def read() -> None:
        thread = ReadOnlyThread("reading", str(path), StoreOptions())
        assert await thread.run("count", _count) == 0
        await thread.close()

    asyncio.run(read())
    assert list(path.parent.iterdir()) == [path]


def test_store_that_is_not_there_is_not_made_where_that_is_not_wanted(tmp_path: Path) -> None:
    async def look() -> None:
        await open_metadata(f"sqlite://{tmp_path}/none.db", StoreOptions(makes=False))

    with pytest.raises(LayoutMissingError):
        asyncio.run(look())
    assert list(tmp_path.iterdir()) == []
