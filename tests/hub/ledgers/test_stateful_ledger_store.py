"""Prove, by any sequence of operations, crashes and damage, that a store behaves like a dictionary of lists.

A crash copies the directory as it is. The copy cuts off or garbles the current write beyond the synced bytes. The
machine continues with a store over the copy. All acknowledged entries must be there, and possibly a prefix of those in
flight.
"""

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from hedwig.errors import CorruptEntryError, LedgerClosedError, LedgerFencedError, NoSuchLedgerError
from hedwig.hub.ledgers import LocalLedgerOptions, LocalLedgerStore
from tests.hub.ledgers.support.faulty_disk import FaultyDisk

T = TypeVar("T")

_OPTIONS = LocalLedgerOptions(
    segment_bytes=4096,
    segment_records_max=40,
    queue_bytes_max=4096,
    group_records_max=7,
    upkeep_interval_s=0.005,
    rewrite_bytes_per_s=1 << 30,
    reserve_bytes=1 << 16,
    read_threads=1,
)
_PAYLOADS = st.binary(max_size=60) | st.integers(0, 2000).map(lambda size: bytes([size % 251]) * size)
_PICKS = st.integers(0, 1 << 30)


class LedgerMachine(RuleBasedStateMachine):
    """Drives a store in an event loop of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.root = Path(tempfile.mkdtemp(prefix="hedwig-ledgers-"))
        self.turn = 0
        self.model: dict[int, list[bytes]] = {}
        self.open: set[int] = set()
        self.given = 0
        self.damaged: set[tuple[int, int]] = set()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(work, 60))

    @property
    def path(self) -> Path:
        return self.root / str(self.turn)

    @initialize()
    def begin(self) -> None:
        self.disk = FaultyDisk()
        self.store = self.run(LocalLedgerStore.open(self.path, _OPTIONS, self.disk))

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.run(self.store.aclose())
        self.loop.close()
        shutil.rmtree(self.root)

    def pick(self, number: int, among: set[int] | dict[int, list[bytes]]) -> int | None:
        return sorted(among)[number % len(among)] if among else None

    @rule(count=st.integers(1, 12))
    def create(self, count: int) -> None:
        async def many() -> list[int]:
            return await asyncio.gather(*(self.store.create() for _ in range(count)))

        for ledger in self.run(many()):
            assert ledger > self.given, "an id is never given twice"
            self.given = ledger
            self.model[ledger] = []
            self.open.add(ledger)

    @rule(number=_PICKS, payloads=st.lists(_PAYLOADS, min_size=1, max_size=20))
    def append(self, number: int, payloads: list[bytes]) -> None:
        ledger = self.pick(number, self.open)
        if ledger is None:
            return
        self.run(self.gather(self.appends(ledger, payloads)))
        self.model[ledger] += payloads

    @rule(number=_PICKS)
    def append_to_a_ledger_that_is_not_open(self, number: int) -> None:
        ledger = self.pick(number, self.model.keys() - self.open)
        if ledger is None:
            return
        with pytest.raises((LedgerClosedError, LedgerFencedError)):
            self.run(self.store.append(ledger, len(self.model[ledger]), b"no"))

    def appends(self, ledger: int, payloads: list[bytes]) -> list[Awaitable[None]]:
        start = len(self.model[ledger])
        return [self.store.append(ledger, start + index, payload) for index, payload in enumerate(payloads)]

    async def gather(self, work: list[Awaitable[None]]) -> None:
        await asyncio.gather(*work)

    @rule(number=_PICKS, fence=st.booleans())
    def seal(self, number: int, fence: bool) -> None:
        ledger = self.pick(number, self.model)
        if ledger is None:
            return
        seal = self.store.open_and_fence if fence else self.store.close
        assert self.run(seal(ledger)) == len(self.model[ledger]) - 1
        self.open.discard(ledger)

    @rule(number=_PICKS, count=st.integers(1, 6))
    def delete(self, number: int, count: int) -> None:
        for index in range(count):
            ledger = self.pick(number + index, self.model)
            if ledger is None:
                return
            self.run(self.store.delete(ledger))
            del self.model[ledger]
            self.open.discard(ledger)
            with pytest.raises(NoSuchLedgerError):
                self.run(self.store.last_entry_id(ledger))

    @rule(number=_PICKS, start=_PICKS, entries_max=st.integers(1, 30), bytes_max=st.integers(0, 5000))
    def read(self, number: int, start: int, entries_max: int, bytes_max: int) -> None:
        ledger = self.pick(number, self.model)
        if ledger is None:
            return
        entries = self.model[ledger]
        first = start % (len(entries) + 2)
        contents = self.run(self.store.read(ledger, first, entries_max=entries_max, bytes_max=bytes_max))
        assert contents == entries[first : first + len(contents)]
        assert len(contents) <= entries_max
        assert bool(contents) == (first < len(entries))
        assert len(contents) <= 1 or sum(map(len, contents)) <= bytes_max
        if len(contents) < entries_max and first + len(contents) < len(entries):
            assert sum(map(len, entries[first : first + len(contents) + 1])) > bytes_max

    @rule()
    def restart(self) -> None:
        self.run(self.store.aclose())
        self.store = self.run(LocalLedgerStore.open(self.path, _OPTIONS, self.disk))
        self.open.clear()

    @rule(
        number=_PICKS,
        payloads=st.lists(_PAYLOADS, max_size=10),
        share=st.floats(0, 1),
        flips=st.lists(st.floats(0, 0.999), max_size=2),
        lose_indexes=st.booleans(),
    )
    def crash(self, number: int, payloads: list[bytes], share: float, flips: list[float], lose_indexes: bool) -> None:
        ledger = self.pick(number, self.open)
        target = self.root / str(self.turn + 1)
        if ledger is None:
            # No append is in flight. The upkeep may run, and removes files until it has nothing to do.
            self.run(self.copy(target))
        else:
            self.run(self.crash_while_appending(ledger, payloads, target, share, flips))
        self.run(self.store.aclose())
        shutil.rmtree(self.path)
        self.turn += 1
        if lose_indexes:
            for index in target.glob("*.index"):
                index.unlink()
        self.disk = FaultyDisk()
        self.store = self.run(LocalLedgerStore.open(target, _OPTIONS, self.disk))
        self.open.clear()
        if ledger is not None:
            written = self.model[ledger] + payloads
            last = self.run(self.store.open_and_fence(ledger))
            assert len(self.model[ledger]) - 1 <= last < len(written)
            self.model[ledger] = written[: last + 1]
        assert self.run(self.store.stats()).damage_count == 0

    async def copy(self, target: Path, share: float = 1.0, flips: tuple[float, ...] = ()) -> None:
        for _ in range(1000):
            try:
                self.disk.image(self.path, target, lambda _, synced, size: synced + int((size - synced) * share))
                break
            except (shutil.Error, FileNotFoundError):
                shutil.rmtree(target)
        for path, synced in list(self.disk.synced.items()):
            copy = target / path.name
            if path.suffix == ".segment" and copy.exists():
                _flip(copy, synced, flips)

    async def crash_while_appending(
        self, ledger: int, payloads: list[bytes], target: Path, share: float, flips: list[float]
    ) -> None:
        release, held = threading.Event(), threading.Event()

        def hold(path: Path) -> None:
            if path.suffix == ".segment":
                held.set()
                assert release.wait(60)

        self.disk.on_sync = hold
        try:
            appends = [asyncio.ensure_future(append) for append in self.appends(ledger, payloads)]
            if appends:
                assert await asyncio.to_thread(held.wait, 60)
            await self.copy(target, share, tuple(flips))
            assert not any(append.done() for append in appends)
        finally:
            self.disk.on_sync = lambda _: None
            release.set()
        await asyncio.gather(*appends)

    @rule(number=_PICKS, share=st.floats(0, 0.999))
    def flip_a_bit_of_an_entry(self, number: int, share: float) -> None:
        """Damage an entry in a sealed segment, read around it, and repair it."""
        ledger = self.pick(number, self.model)
        if ledger is None:
            return
        target = next((data for data in self.model[ledger] if len(data) >= 8 and len(set(data)) > 4), None)
        if target is None:
            return
        self.restart()
        contents = {path: _content(path) for path in self.path.glob("*.segment")}
        originals = {path: data for path, data in contents.items() if target in data}
        for path, data in originals.items():
            garbled = bytearray(data)
            start = -1
            while (start := data.find(target, start + 1)) >= 0:
                garbled[start + int(share * len(target))] ^= 1
            _write_over(path, garbled)
        self.run(self.read_around_damage(ledger, target))
        for path, data in originals.items():
            _write_over(path, data)

    async def read_around_damage(self, ledger: int, target: bytes) -> None:
        for entry, data in enumerate(self.model[ledger]):
            read = self.store.read(ledger, entry, entries_max=1, bytes_max=0)
            if target in data:
                with pytest.raises(CorruptEntryError, match=str(self.path)):
                    await read
            else:
                assert await read == [data]

    @invariant()
    def ledgers_are_those_of_the_model(self) -> None:
        if not hasattr(self, "store"):
            return
        assert self.run(self.listed()) == sorted(self.model)

    @invariant()
    def ends_are_those_of_the_model(self) -> None:
        for ledger in sorted(self.model)[-3:]:
            assert self.run(self.store.last_entry_id(ledger)) == len(self.model[ledger]) - 1

    async def listed(self) -> list[int]:
        return [ledger async for ledger in self.store.ledgers()]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""  # The upkeep removed the file.


def _write_over(path: Path, data: bytes | bytearray) -> None:
    with suppress(FileNotFoundError), path.open("r+b") as file:
        file.write(data)


def _flip(path: Path, synced: int, flips: tuple[float, ...]) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        for flip in flips:
            if size > synced:
                offset = synced + int(flip * (size - synced))
                file.seek(offset)
                byte = file.read(1)[0]
                file.seek(offset)
                file.write(bytes([byte ^ 0x10]))


@pytest.mark.parametrize(
    ("examples", "steps"),
    [
        pytest.param(8, 30, id="quick"),
        pytest.param(300, 60, id="full", marks=[pytest.mark.full, pytest.mark.timeout(1800)]),
    ],
)
def test_store_behaves_like_a_dictionary_of_lists(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        LedgerMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
