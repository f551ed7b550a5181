"""Prove that reports stay right when other processes die while they write the file, or when the disk is full.

Properties: an unknown outcome is never reported as known; no acknowledged write lost; a refused write changed nothing.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from hedwig.errors import MetadataUnavailableError, UncertainStateError
from hedwig.metadata import MetadataStore, StoreOptions, open_metadata
from hedwig.metadata.testing.doors import CALLS
from hedwig.versions import NEW
from tests.faults.support.numbers import number_of
from tests.faults.support.raw import assert_stored
from tests.metadata.support.probe_sqlite import SqliteProbe, run_in_file
from tests.support.checkout import CHECKOUT

DOOR: Final = CALLS[0]
TIMEOUT_S: Final = 120.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@contextmanager
def _lock_held(path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Let another process hold the write lock, in a transaction with many writes."""
    holder = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.support.sqlite_lock_holder", str(path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        yield holder
    finally:
        holder.kill()
        holder.wait()
        assert holder.stdout is not None
        holder.stdout.close()


async def _records(store: MetadataStore, count: int) -> list[Any]:
    return [await DOOR.write(store, DOOR.key(b"%d" % number), DOOR.value(number), NEW) for number in range(count)]


async def test_kill_9_of_the_process_that_holds_the_lock_lets_the_others_go_on(path: Path) -> None:
    """Writes wait for the lock. Its holder dies in the middle of a transaction, which leaves no trace."""
    async with await open_metadata(f"sqlite://{path}") as store:
        versions = await _records(store, 20)
        wal = path.with_name(path.name + "-wal")
        before = wal.stat().st_size
        with _lock_held(path) as holder:
            assert wal.stat().st_size > before, "the dead transaction had reached the log"
            waiting = [
                asyncio.create_task(DOOR.write(store, DOOR.key(b"%d" % number), DOOR.value(100 + number), version))
                for number, version in enumerate(versions)
            ]
            # Reads continue beside a writer, and do not see its uncommitted writes.
            for number, version in enumerate(versions):
                record = await DOOR.read(store, DOOR.key(b"%d" % number))
                assert record is not None
                assert (number_of(record.value), record.version) == (number, version)
            assert not any(task.done() for task in waiting)
            holder.kill()
            holder.wait()
            later = await asyncio.gather(*waiting)
    probe = SqliteProbe(run_in_file(str(path)))
    for number, version in enumerate(later):
        await assert_stored(probe, DOOR, DOOR.key(b"%d" % number), 100 + number, version)


async def test_lock_held_past_the_deadline_is_surely_not_applied(path: Path) -> None:
    """A write that never got the lock fails with a definite error, and is not applied when the lock becomes free."""
    options = StoreOptions(operation_timeout_s=1.0)
    async with await open_metadata(f"sqlite://{path}", options) as store:
        versions = await _records(store, 5)
        with _lock_held(path):
            for number, version in enumerate(versions):
                with pytest.raises(MetadataUnavailableError) as error:
                    await DOOR.write(store, DOOR.key(b"%d" % number), DOOR.value(100 + number), version)
                assert error.value.happened == "no"
        again = [
            await DOOR.write(store, DOOR.key(b"%d" % number), DOOR.value(200 + number), version)
            for number, version in enumerate(versions)
        ]
    probe = SqliteProbe(run_in_file(str(path)))
    for number, version in enumerate(again):
        await assert_stored(probe, DOOR, DOOR.key(b"%d" % number), 200 + number, version)


@pytest.mark.parametrize("limit", [200_000, 1_000_000])
async def test_file_that_may_not_grow_gives_a_clear_error_and_loses_nothing(limit: int, path: Path) -> None:
    """Let the system refuse further writes of a process: acknowledged records exist, surely refused ones do not."""
    async with await open_metadata(f"sqlite://{path}"):
        pass
    command = [sys.executable, "-m", "tests.faults.support.sqlite_full_disk", f"sqlite://{path}", str(limit)]
    process = await asyncio.to_thread(
        subprocess.run, command, cwd=CHECKOUT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert process.returncode == 0, process.stderr
    report = json.loads(process.stdout)
    outcomes: dict[str, dict[str, Any]] = report["told"]
    errors = [fact for fact in outcomes.values() if "error" in fact]
    assert len(errors) >= 20
    assert len(outcomes) - len(errors) >= 100, "it wrote something before"
    for fact in errors:
        assert fact["error"] in (MetadataUnavailableError.__name__, UncertainStateError.__name__)
        assert "disk" in fact["text"]
        assert "\n" not in fact["text"]
    afterwards = [fact for topic, fact in outcomes.items() if int(topic.partition("-")[2]) >= report["refused_at"]]
    assert all("version" in fact for fact in afterwards), "once there is room again the same client goes on"
    await _assert_as_reported(path, outcomes)


async def test_full_database_gives_a_clear_error_and_loses_nothing(path: Path) -> None:
    """Limit the pages of the file, as a full disk does: SQLite rolls the whole transaction back, and reports it."""
    outcomes: dict[str, dict[str, Any]] = {}
    async with await open_metadata(f"sqlite://{path}") as store:
        thread = store._backend.writer  # type: ignore[attr-defined]
        await thread.run("limit", lambda connection: connection.execute("PRAGMA max_page_count = 30").fetchall())

        async def write(number: int) -> None:
            topic = f"topic-{number}"
            try:
                version = await DOOR.write(store, DOOR.key(topic.encode()), DOOR.value(number), NEW)
            except MetadataUnavailableError as exc:
                outcomes[topic] = {"error": str(exc), "happened": exc.happened}
            else:
                outcomes[topic] = {"version": str(version)}

        for start in range(0, 2000, 8):
            await asyncio.gather(*map(write, range(start, start + 8)))
        errors = [fact for fact in outcomes.values() if "error" in fact]
        assert errors
        assert all(fact["happened"] == "no" and "full" in fact["error"] for fact in errors), "surely not applied"
        await thread.run("lift", lambda connection: connection.execute("PRAGMA max_page_count = 100000").fetchall())
        await write(10**6)
        assert "version" in outcomes["topic-1000000"]
    await _assert_as_reported(path, outcomes)


async def _assert_as_reported(path: Path, outcomes: dict[str, dict[str, Any]]) -> None:
    probe = SqliteProbe(run_in_file(str(path)))
    live = {topic for topic, _ in await probe.live(DOOR.kind)}
    async with await open_metadata(f"sqlite://{path}?create=false") as store:
        for topic, fact in outcomes.items():
            key = DOOR.key(topic.encode())
            if "version" in fact:
                record = await DOOR.read(store, key)
                assert record is not None
                assert str(record.version) == fact["version"]
                await assert_stored(probe, DOOR, key, int(topic.partition("-")[2]), record.version)
            elif fact["happened"] == "no":
                assert key.topic not in live, f"{topic} was refused, and is there"
