"""Taking a ledger over from its writer: fence it, find its end, make every entry up to there safe, and close it.

Whatever was acknowledged to the writer is kept. What was not may be kept too; which entries those are is decided once,
by the record that says CLOSED.
"""

import asyncio
from dataclasses import replace

from hedwig.errors import LedgerFencedError, LedgerStoreUnavailableError, LedgerWriteError
from hedwig.versions import Versioned
from hub.ledgers.bookkeeper.cluster import Cluster
from hub.ledgers.bookkeeper.digests import Digest
from hub.ledgers.bookkeeper.entries import Entry
from hub.ledgers.bookkeeper.last_confirmed import fence
from hub.ledgers.bookkeeper.ledger_metadata import LedgerMetadata, LedgerState
from hub.ledgers.bookkeeper.metadata_store import Change, update
from hub.ledgers.bookkeeper.reading import ReadAhead, ask_for_entry, read_entry
from hub.ledgers.bookkeeper.writer import LedgerWriter

__all__ = ["recover"]


async def recover(
    cluster: Cluster, ledger_id: int, held: Versioned[LedgerMetadata], digest: Digest, key: bytes
) -> Versioned[LedgerMetadata]:
    """Shut the writer out, and return the closed record. May be repeated, and by several at once: one result wins.

    Raises: NoSuchLedgerError; LedgerStoreUnavailableError - too few bookies could be asked, or the record not changed:
        the ledger stays in recovery, repeat it; CorruptEntryError - the end cannot be found for damage.
    """
    held = await update(cluster.metadata, ledger_id, held, _to_recovery)
    if held.value.state is LedgerState.CLOSED:
        return held
    metadata = held.value
    confirmed = await fence(cluster, ledger_id, metadata, digest, key)
    # An ensemble begins behind an acknowledged entry, so those before the last one are complete.
    start = max(confirmed, metadata.last_ensemble.first_entry_id - 1)
    writer, length = await _add_again(cluster, ledger_id, held, digest, key, start)
    if writer is None:
        return await update(cluster.metadata, ledger_id, held, _to_closed(metadata, metadata, start, length))
    final = writer.held.value
    change = _to_closed(metadata, final, writer.lac, writer.length)
    return await update(cluster.metadata, ledger_id, held, change)


async def _add_again(
    cluster: Cluster, ledger_id: int, held: Versioned[LedgerMetadata], digest: Digest, key: bytes, start: int
) -> tuple[LedgerWriter | None, int]:
    """Store what is behind `start` with full quorums. Return its writer, None if there is nothing, and the length."""
    metadata = held.value
    window = cluster.options.read_ahead
    entries = ReadAhead(
        lambda entry_id: _read_uncertain(cluster, ledger_id, metadata, digest, key, entry_id), start + 1, None, window
    )
    writer: LedgerWriter | None = None
    under_way: list[asyncio.Future[None]] = []
    try:
        while (entry := await entries.next()) is not None:
            if writer is None:
                length = entry.length - len(entry.payload)
                writer = LedgerWriter(cluster, ledger_id, held, digest, key, lac=start, length=length, is_recovery=True)
            under_way.append(writer.start_append(entry.payload))
            if len(under_way) >= window:
                # What failed is said by `drained`; this only keeps the number of entries at hand small.
                await asyncio.wait([under_way.pop(0)])
        if writer is not None:
            await writer.drained()
            return writer, writer.length
    except (LedgerFencedError, LedgerWriteError) as exc:
        raise LedgerStoreUnavailableError(f"the end of ledger {ledger_id} could not be made safe: {exc}") from exc
    finally:
        await entries.aclose()
        if writer is not None:
            await writer.abandon()
    if start < 0:
        return None, 0
    return None, (await read_entry(cluster, ledger_id, metadata, digest, start)).length


async def _read_uncertain(
    cluster: Cluster, ledger_id: int, metadata: LedgerMetadata, digest: Digest, key: bytes, entry_id: int
) -> Entry | None:
    """Return an entry that may exist, None if it surely was never acknowledged. The ledger is fenced on the way.

    Raises: LedgerStoreUnavailableError - too many bookies do not say.
    """
    quorums = metadata.quorums
    bookies = metadata.ensemble_of(entry_id).bookies
    tasks = {
        asyncio.create_task(ask_for_entry(cluster, bookies[place], ledger_id, entry_id, digest, key)): bookies[place]
        for place in quorums.write_set(entry_id)
    }
    waiting = set(tasks)
    absent = 0
    failures: list[str] = []
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                answer, entry = task.result()
                if entry is not None:
                    return entry
                if answer.outcome.is_absence:
                    absent += 1
                else:
                    failures.append(f"{tasks[task]}: {answer}")
            if quorums.proves_absence(absent):
                return None
    finally:
        for task in waiting:
            task.cancel()
    raise LedgerStoreUnavailableError(
        f"it cannot be told whether ledger {ledger_id} has entry {entry_id}: {'; '.join(failures)}"
    )


def _to_recovery(stored: LedgerMetadata) -> LedgerMetadata | None:
    return stored.in_recovery() if stored.state is LedgerState.OPEN else None


def _to_closed(begun: LedgerMetadata, final: LedgerMetadata, last_entry_id: int, length: int) -> Change:
    """Return the change that closes the ledger as it was recovered, unless somebody else has closed it meanwhile."""

    def change(stored: LedgerMetadata) -> LedgerMetadata | None:
        if stored.state is LedgerState.CLOSED:
            return None
        if stored.ensembles != begun.ensembles:
            raise LedgerStoreUnavailableError("the ensembles of a ledger changed while it was recovered: repeat it")
        return replace(stored, ensembles=final.ensembles).closed(last_entry_id, length)

    return change
