"""Prove that a process that is killed while it appends at full speed loses no acknowledged entry."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from hedwig.errors import LedgerStoreLockedError, NoSuchLedgerError
from hedwig.hub.ledgers import LocalLedgerStore
from tests.faults.support.waiting import until
from tests.hub.ledgers.conftest import OpenStore
from tests.hub.ledgers.support.contents import payload, read_all
from tests.support.checkout import CHECKOUT


def _start(task: str, path: Path, log: Path) -> "subprocess.Popen[bytes]":
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.hub.ledgers.support.appender", task, str(path)], cwd=CHECKOUT, stdout=output
        )


class _Reported:
    """The reports of processes before they died."""

    def __init__(self) -> None:
        self.made: set[int] = set()
        self.deleting: set[int] = set()
        self.entries: dict[int, int] = defaultdict(int)

    def add(self, log: Path) -> None:
        """Read a log. Entries of a ledger must have been acknowledged in order, and no id given twice."""
        for line in log.read_text().splitlines():
            word, ledger, *entry = line.split(" ")
            if word == "made":
                assert int(ledger) not in self.made
                self.made.add(int(ledger))
            elif word == "deleting":
                self.deleting.add(int(ledger))
            else:
                assert int(entry[0]) == self.entries[int(ledger)]
                self.entries[int(ledger)] += 1


async def _check(store: LocalLedgerStore, reported: _Reported) -> None:
    for ledger in reported.made:
        try:
            last = await store.open_and_fence(ledger)
        except NoSuchLedgerError:
            assert ledger in reported.deleting
            continue
        acknowledged = reported.entries[ledger]
        # A process has 20 entries of a ledger in flight. Unacknowledged ones may be stored, in order.
        assert acknowledged - 1 <= last < acknowledged + 20
        assert await read_all(store, ledger) == [payload(ledger, entry, 60 + entry % 90) for entry in range(last + 1)]


@pytest.mark.parametrize(
    "kills",
    [pytest.param(3, id="quick"), pytest.param(20, id="full", marks=[pytest.mark.full, pytest.mark.timeout(900)])],
)
async def test_everything_acknowledged_survives_kill_9(open_store: OpenStore, tmp_path: Path, kills: int) -> None:
    source = random.Random(kills)
    reported = _Reported()
    for turn in range(kills):
        log = tmp_path / f"log-{turn}"
        process = _start("append", tmp_path / "ledgers", log)
        try:
            most = source.randrange(20_000, 200_000)
            await until(lambda log=log, most=most: log.stat().st_size > most, "appends")  # type: ignore[misc]
            with pytest.raises(LedgerStoreLockedError, match=str(process.pid)):
                await open_store()
        finally:
            process.send_signal(signal.SIGKILL)
            assert await asyncio.to_thread(process.wait, 60) == -signal.SIGKILL
        before = len(reported.entries)
        reported.add(log)
        assert len(reported.entries) > before, "it did work"
        store = await open_store()
        await _check(store, reported)
        assert (await store.stats()).damage_count == 0
        await store.aclose()
    assert sum(reported.entries.values()) > 500 * kills


async def test_files_that_may_not_grow_refuse_appends_and_lose_nothing(open_store: OpenStore, tmp_path: Path) -> None:
    """The system's own limit on file size cuts writes in the middle, as a full disk does."""
    log = tmp_path / "log"
    process = _start("fill", tmp_path / "ledgers", log)
    assert await asyncio.to_thread(process.wait, 120) == 0
    lines = log.read_text().splitlines()
    full = [line for line in lines if line.startswith("full")]
    entries = [line for line in lines if line.startswith("entry")]
    assert len(full) == 3
    store = await open_store()
    contents = await read_all(store, 1)
    assert len(contents) == len(entries) > 1000
    assert contents == [payload(1, entry, 60 + entry % 90) for entry in range(len(contents))]


async def test_second_opener_is_told_who_has_the_directory(open_store: OpenStore) -> None:
    await open_store()
    with pytest.raises(LedgerStoreLockedError, match=f"in use by process {os.getpid()}"):
        await open_store()


async def test_directory_is_free_after_close(open_store: OpenStore) -> None:
    for _ in range(3):
        store = await open_store()
        await store.create()
        await store.aclose()
