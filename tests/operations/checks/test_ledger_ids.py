"""Prove that a set of very many ledger ids behaves as a set, and takes eight bytes for each."""

import random
import tracemalloc

from hedwig.operations.checks.ledger_ids import LedgerIdSet


def test_it_holds_what_was_added() -> None:
    chance = random.Random(1)
    added = [chance.randrange(1 << 63) for _ in range(200_000)]
    ids = LedgerIdSet()
    assert not ids
    for start in range(0, len(added), 1000):
        ids.update(added[start : start + 1000])
    assert ids
    assert all(each in ids for each in added[::97])
    assert not any(chance.randrange(1 << 63) in ids for _ in range(1000))
    assert sorted({each for page in ids.pages(1000) for each in page}) == sorted(set(added))


def test_a_million_ids_take_some_megabytes() -> None:
    ids = LedgerIdSet()
    tracemalloc.start()
    try:
        for start in range(0, 1_000_000, 1000):
            ids.update(range(start, start + 1000))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 16 << 20
