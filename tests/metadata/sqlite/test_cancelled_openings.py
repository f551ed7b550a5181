"""Prove that a caller who is cancelled while a SQLite store opens leaves neither a thread nor a connection."""

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from hedwig.metadata import StoreOptions, open_metadata
from hedwig.metadata.sqlite import factory
from hedwig.metadata.sqlite.sqlite_thread import connect
from tests.faults.support.waiting import until


async def test_opening_that_was_cancelled_ends_what_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_go_on = threading.Event(), threading.Event()
    connections: list[sqlite3.Connection] = []

    def slow(path: str, options: StoreOptions) -> sqlite3.Connection:
        begun.set()
        may_go_on.wait(30)
        connections.append(connect(path, options))
        return connections[-1]

    monkeypatch.setattr(factory, "connect", slow)
    of_others = set(threading.enumerate())
    opening = asyncio.create_task(open_metadata(f"sqlite://{tmp_path}/store.db"))
    await asyncio.to_thread(begun.wait, 30)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    may_go_on.set()

    def is_closed() -> bool:
        if not connections:
            return False
        try:
            connections[0].execute("SELECT 1")
        except sqlite3.ProgrammingError:
            return True
        return False

    await until(is_closed, "the connection is closed")
    ours = [each for each in threading.enumerate() if each.name.startswith("hedwig-sqlite") and each not in of_others]
    await until(lambda: not any(each.is_alive() for each in ours), "the thread has ended")
