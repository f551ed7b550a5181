"""Prove that rows which a load reports as done are in the new store, whenever a migration freezes the old one."""

import asyncio
import re
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Final

import pytest

from hedwig.clock import SystemClock
from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataStore, open_metadata
from hedwig.metadata.freezing import Freeze, FreezeState, read_freeze, replace_freeze
from hedwig.metadata.migration.freeze_watch import FreezeWatch, StoreFrozenError
from hedwig.model import LedgerRanges, Topic
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.store import with_store_to_write
from hedwig.versions import NEW
from tests.cli.support.admin import DEADLINE_S, Admin, wait_until
from tests.cli.support.store_contents import contents, fill

_ROWS: Final = 20
_STOPPED: Final = re.compile(rb"stopped after line (\d+)")


def _with_store(url: str, work: Callable[[MetadataStore], Awaitable[object]]) -> None:
    async def run() -> None:
        async with await open_metadata(url) as store:
            await work(store)

    asyncio.run(run())


async def _become(store: MetadataStore, state: FreezeState) -> None:
    before = await read_freeze(store.named_records)
    wanted = Freeze(state=state, migration=b"m", target="sqlite:///new.db", lease_s=600.0, wall_ms=1)
    assert await replace_freeze(store.named_records, before, wanted, Random()) is not None


# ------------------------------------------------------------------------------------------------------------ the watch


@pytest.fixture
def url(admin: Admin) -> str:
    admin.done("metadata", "format")
    return admin.url


@pytest.mark.parametrize("state", [FreezeState.FROZEN, FreezeState.MOVED])
def test_write_during_which_the_store_was_frozen_is_not_taken_for_done(url: str, state: FreezeState) -> None:
    async def work(store: MetadataStore) -> None:
        watch = FreezeWatch(store.named_records, SystemClock())

        async def write() -> None:
            await store.persistence.write(Topic(b"news"), LedgerRanges(), NEW)
            await _become(store, state)

        with pytest.raises(StoreFrozenError, match=r"sqlite:///new\.db"):
            await watch.carry_out(write)
        # From then on the watch begins no write.
        with pytest.raises(StoreFrozenError):
            await watch.carry_out(_never)

    _with_store(url, work)


async def _never() -> None:
    raise AssertionError("it was begun on a frozen store")


def test_write_before_a_freeze_and_after_a_thaw_is_done(url: str) -> None:
    async def work(store: MetadataStore) -> None:
        watch = FreezeWatch(store.named_records, SystemClock())

        async def write() -> str:
            return "written"

        assert await watch.carry_out(write) == "written"
        await _become(store, FreezeState.FROZEN)
        with pytest.raises(StoreFrozenError):
            await watch.check()
        await _become(store, FreezeState.LIFTED)
        assert await watch.carry_out(write) == "written"

    _with_store(url, work)


# ------------------------------------------------------------------------------------------------------------ the loads


@contextmanager
def _endless_load(admin: Admin, result: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a load that reads topics, in order, from a standard input without end."""
    process = admin.start(
        *("topic", "create", "-f", "-", "--result", str(result), "--batch-rows", str(_ROWS)), stdout=subprocess.DEVNULL
    )
    assert process.stdin is not None
    pipe = process.stdin

    enough = threading.Event()

    def feed() -> None:
        number = 0
        try:
            # Slow enough for a migration to keep up with the load on a busy machine.
            while not enough.wait(0.05):
                pipe.write(b"".join(b"loaded-%d\n" % each for each in range(number, number + _ROWS)))
                pipe.flush()
                number += _ROWS
        except OSError:
            pass  # The load has ended.
        with suppress(OSError):
            pipe.close()

    feeding = threading.Thread(target=feed)
    feeding.start()
    with process:
        try:
            yield process
        finally:
            process.kill()
            enough.set()
            feeding.join()


def _reported_as_done(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """Return how many rows an ended load reports as done, and its error."""
    assert process.stderr is not None
    said = process.stderr.read()
    assert process.wait(DEADLINE_S) == ExitCode.OUTCOME_UNKNOWN, said
    match = _STOPPED.search(said)
    assert match is not None, said
    (line,) = [line for line in said.decode().splitlines() if line.startswith("error: ")]
    return int(match[1]), line


def test_rows_that_were_told_as_done_are_in_the_new_store(admin: Admin, tmp_path: Path) -> None:
    fill(admin.url, 100)
    target = Admin(tmp_path, f"sqlite://{tmp_path}/target.db")
    with _endless_load(admin, tmp_path / "result") as load:
        wait_until(lambda: admin.count("persistence") > 100, "the load is at work")
        ran = admin.run(
            "metadata", "migrate", "--from", admin.url, "--to", target.url, "--hubs-down", "--yes", "-o", "json"
        )
        assert ran.code == 0, ran
        assert ran.json["verified"]
        done, line = _reported_as_done(load)
    assert done > 0
    assert f"the metadata were moved to {target.url}" in line or f"for their migration to {target.url}" in line
    assert f"--metadata {target.url}" in line
    moved = contents(target.url)
    missing = [number for number in range(done) if ("persistence", b"loaded-%d" % number, None) not in moved]
    assert not missing
    # The new store gets the other rows.
    rows = tmp_path / "rows"
    rows.write_text("".join(f"loaded-{number}\n" for number in range(done + 100)))
    report = target.done("topic", "create", "-f", str(rows), "-o", "json").json
    assert report["existed"] >= done
    assert report["created"] + report["existed"] == done + 100


def test_load_that_was_ended_by_a_migration_that_failed_goes_on(admin: Admin, tmp_path: Path) -> None:
    admin.done("metadata", "format")
    rows = tmp_path / "rows"
    rows.write_text("".join(f"loaded-{number}\n" for number in range(100_000)))
    command = ("topic", "create", "-f", str(rows), "--result", str(tmp_path / "result"), "--batch-rows", "50")
    with admin.start(*command, stdout=subprocess.DEVNULL) as load:
        try:
            wait_until(lambda: admin.count("persistence") > 500, "the load is at work")
            _with_store(admin.url, lambda store: _become(store, FreezeState.FROZEN))
            done, line = _reported_as_done(load)
        finally:
            load.kill()
    assert "are frozen for their migration" in line
    assert 0 < done < 100_000
    assert admin.run(*command).code == ExitCode.FAILED
    admin.done("metadata", "thaw", "--yes")
    rows.write_text("".join(f"loaded-{number}\n" for number in range(done + 500)))
    report = admin.done(*command, "-o", "json").json
    assert (report["rows"], report["failed"]) == (done + 500, 0)
    assert report["resumed_after_line"] == done


def test_import_ends_at_a_freeze(admin: Admin, tmp_path: Path) -> None:
    fill(admin.url, 1500)
    file = tmp_path / "exported"
    admin.done("metadata", "export", str(file))
    other = Admin(tmp_path, f"sqlite://{tmp_path}/other.db")
    other.done("metadata", "format")
    with other.start("metadata", "import", str(file), stdout=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: other.count("persistence") > 0, "the import is at work")
            _with_store(other.url, lambda store: _become(store, FreezeState.FROZEN))
            _, said = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
    assert process.returncode == ExitCode.OUTCOME_UNKNOWN, said
    assert said.count(b"error: ") == 1
    assert b"are frozen for their migration" in said
    other.done("metadata", "thaw", "--yes")
    other.done("metadata", "import", str(file))
    assert contents(other.url) == contents(admin.url, owners=False)


def test_single_change_that_a_freeze_overtook_is_not_told_as_done(
    admin: Admin, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in admin.environment.items():
        monkeypatch.setenv(name, value)

    async def change(store: MetadataStore) -> None:
        await store.persistence.write(Topic(b"news"), LedgerRanges(), NEW)
        await _become(store, FreezeState.FROZEN)

    with pytest.raises(OperationError, match="may lack the writes under way") as refusal:
        with_store_to_write(Deployment(command="topic create", timeout_s=10.0, metadata=url), change)
    assert refusal.value.code == ExitCode.OUTCOME_UNKNOWN
    assert f"thaw --metadata {url}" in str(refusal.value)
