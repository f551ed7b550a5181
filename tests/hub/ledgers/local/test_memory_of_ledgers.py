"""Prove that idle ledgers cost little memory and no descriptor."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.hub.ledgers.conftest import OpenStore
from tests.hub.ledgers.support.contents import fill, payload, read_all
from tests.support.checkout import CHECKOUT


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_ledgers_cost_no_descriptor(open_store: OpenStore) -> None:
    store = await open_store(segment_bytes=16384)
    before = _descriptors()
    ledgers = [await store.create() for _ in range(300)]
    await fill(store, ledgers, range(3))
    for ledger in ledgers[::20]:
        assert await read_all(store, ledger) == [payload(ledger, entry) for entry in range(3)]
    segments = (await store.stats()).segments
    assert segments is not None
    assert segments > 5
    # The active segment is open, and at this moment perhaps a new index and its directory.
    assert _descriptors() <= before + 4


@pytest.mark.full
def test_a_hundred_thousand_open_ledgers_cost_a_few_hundred_bytes_each(tmp_path: Path) -> None:
    """The index of the active segment is in this figure; benchmarks/studies/local_ledgers.py measures a million."""
    command = [sys.executable, "-m", "tests.hub.ledgers.support.appender", "many", str(tmp_path / "ledgers")]
    run = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=280, check=True)
    before, after = ([int(word) for word in line.split(" ")[1:]] for line in run.stdout.splitlines())
    each = (after[0] - before[0]) / 100_000
    print(f"{each:.0f} bytes resident for each of 100,000 open ledgers, index of the active segment included")
    assert each < 600
    assert after[1] <= before[1] + 8
