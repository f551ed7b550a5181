"""Contents of test ledgers: payloads that name their ledger and entry, and a function that reads all of them."""

import asyncio
from collections.abc import Iterable

from hedwig.hub.ledgers import LedgerStore

__all__ = ["fill", "payload", "read_all"]


def payload(ledger_id: int, entry_id: int, size: int = 100) -> bytes:
    """Return the payload of an entry, with `size` bytes."""
    return (b"ledger %d entry %d " % (ledger_id, entry_id)).ljust(size, b".")


async def fill(store: LedgerStore, ledger_ids: Iterable[int], entries: range, size: int = 100) -> None:
    """Append the entries to all the ledgers, one entry at a time to each ledger, and to all ledgers at once."""
    for entry in entries:
        await asyncio.gather(*(store.append(ledger, entry, payload(ledger, entry, size)) for ledger in ledger_ids))


async def read_all(store: LedgerStore, ledger_id: int, at_once: int = 100) -> list[bytes]:
    """Return all payloads of a ledger."""
    payloads: list[bytes] = []
    while more := await store.read(ledger_id, len(payloads), entries_max=at_once, bytes_max=1 << 20):
        payloads += more
    return payloads
