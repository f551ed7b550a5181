"""Appends to a ledger store of either kind, as fast as N callers can make them."""

import asyncio
import time
from collections.abc import Sequence

from hedwig.hub.ledgers import LedgerStore

__all__ = ["append_for"]


async def append_for(
    store: LedgerStore, ledgers: Sequence[int], payload: bytes, in_flight: int, seconds: float
) -> list[float]:
    """Append with `in_flight` callers, each to one ledger at a time in turn; return the latencies in s, sorted."""
    entries = dict.fromkeys(ledgers, 0)
    latencies: list[float] = []
    end = time.perf_counter() + seconds

    async def caller(number: int) -> None:
        turn = number
        while (began := time.perf_counter()) < end:
            ledger = ledgers[turn % len(ledgers)]
            turn += 1
            entry = entries[ledger]
            entries[ledger] = entry + 1
            await store.start_append(ledger, entry, payload)
            latencies.append(time.perf_counter() - began)

    async with asyncio.TaskGroup() as group:
        for number in range(in_flight):
            group.create_task(caller(number))
    return sorted(latencies)
