"""Find the last add confirmed of a ledger, with or without fencing the ledger."""

import asyncio
from typing import Final

from hedwig.errors import LedgerStoreUnavailableError
from hedwig.hub.ledgers.bookkeeper.bookies.bookies import ask
from hedwig.hub.ledgers.bookkeeper.cluster import BookieCluster
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import LedgerMetadata
from hedwig.hub.ledgers.bookkeeper.wire.digests import Digest
from hedwig.hub.ledgers.bookkeeper.wire.entries import UnverifiedError, decode_entry, decode_lac
from hedwig.hub.ledgers.bookkeeper.wire.outcomes import BookieOutcome
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Coverage
from hedwig.hub.ledgers.bookkeeper.wire.requests import LAST_ENTRY, NO_ENTRY_ID, BookieAnswer, ReadEntry, ReadLac

__all__ = ["fence", "read_last_confirmed"]

_FORMAT_OF_TELLING_WRITERS: Final = 3


async def fence(cluster: BookieCluster, ledger_id: int, metadata: LedgerMetadata, digest: Digest, key: bytes) -> int:
    """Fence the ledger, and return the last add confirmed that any bookie of the last ensemble knows, -1 for none.

    Once this returns, no entry can be acknowledged to the writer without one of the bookies that were fenced.

    Raises: LedgerStoreUnavailableError - too few bookies answered; those that did are fenced.
    """
    request = ReadEntry(ledger_id=ledger_id, entry_id=LAST_ENTRY, fence_key=key)
    return await _ask_all(cluster, ledger_id, metadata, digest, request)


async def read_last_confirmed(cluster: BookieCluster, ledger_id: int, metadata: LedgerMetadata, digest: Digest) -> int:
    """Return a last add confirmed: the one in the last entry, or the one that a writer told bookies.

    The one in the last entry is late by at least one. If the record has an old format, this asks only for the last
    entry, since bookies of 4.3 know nothing else.

    Raises: LedgerStoreUnavailableError - too few bookies answered.
    """
    request: ReadEntry | ReadLac = ReadLac(ledger_id=ledger_id)
    if metadata.format_version < _FORMAT_OF_TELLING_WRITERS:
        request = ReadEntry(ledger_id=ledger_id, entry_id=LAST_ENTRY)
    return await _ask_all(cluster, ledger_id, metadata, digest, request)


async def _ask_all(
    cluster: BookieCluster, ledger_id: int, metadata: LedgerMetadata, digest: Digest, request: ReadEntry | ReadLac
) -> int:
    is_fence = isinstance(request, ReadEntry) and request.fence_key is not None
    coverage = Coverage(metadata.quorums)
    lac = -1
    failures: list[str] = []
    timeout_s = cluster.options.read_timeout_s
    tasks = {
        asyncio.create_task(ask(cluster.bookies, bookie, request, timeout_s)): position
        for position, bookie in enumerate(metadata.last_ensemble.bookies)
    }
    waiting = set(tasks)
    try:
        while waiting and not coverage.is_complete:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                answer, position = task.result(), tasks[task]
                try:
                    confirmed = _confirmed(digest, ledger_id, answer)
                except UnverifiedError as exc:
                    if is_fence and metadata.digest is not None:
                        # The bookie is fenced, and its entry is damaged. Recovery looks for the end behind what the
                        # others tell.
                        coverage.add(position)
                    failures.append(f"{metadata.last_ensemble.bookies[position]}: {exc}")
                    continue
                if answer.outcome is BookieOutcome.DONE or answer.outcome.is_absence:
                    coverage.add(position)
                    lac = max(lac, confirmed)
                else:
                    failures.append(f"{metadata.last_ensemble.bookies[position]}: {answer}")
    finally:
        for task in waiting:
            task.cancel()
    if not coverage.is_complete:
        text = "; ".join(failures)
        raise LedgerStoreUnavailableError(f"too few bookies say how far ledger {ledger_id} goes: {text}")
    return lac


def _confirmed(digest: Digest, ledger_id: int, answer: BookieAnswer) -> int:
    """Return the last add confirmed that an answer proves. A number without a digest proves nothing."""
    if answer.outcome is not BookieOutcome.DONE:
        return NO_ENTRY_ID
    confirmed = decode_lac(digest, ledger_id, answer.lac_body) if answer.lac_body else NO_ENTRY_ID
    if confirmed != NO_ENTRY_ID and not answer.body:
        return confirmed
    return max(confirmed, decode_entry(digest, ledger_id, None, answer.body).lac)
