"""Take a ledger over from its writer: fence it, find its end, make every entry up to there safe, and close it.

Recovery keeps every entry that was acknowledged to the writer. It may keep others too: the record that says CLOSED
decides once which. An entry without a sound copy keeps its id, since it may have been acknowledged.
"""

import asyncio
import enum
import logging
from dataclasses import replace
from typing import Final

from hedwig.errors import CorruptEntryError, LedgerFencedError, LedgerStoreUnavailableError, LedgerWriteError
from hedwig.hub.ledgers.bookkeeper.cluster import BookieCluster
from hedwig.hub.ledgers.bookkeeper.last_confirmed import fence
from hedwig.hub.ledgers.bookkeeper.reading import ReadAhead, ask_for_entry, read_entry
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import LedgerMetadata, LedgerState
from hedwig.hub.ledgers.bookkeeper.records.metadata_store import Change, update
from hedwig.hub.ledgers.bookkeeper.wire.digests import Digest
from hedwig.hub.ledgers.bookkeeper.wire.entries import Entry
from hedwig.hub.ledgers.bookkeeper.wire.outcomes import BookieOutcome
from hedwig.hub.ledgers.bookkeeper.writer import LedgerWriter
from hedwig.versions import Versioned

__all__ = ["recover"]

_log = logging.getLogger(__name__)

_DAMAGED_MAX: Final = 16
"""At most this many entries are read in search of a sound one."""


class _Missing(enum.Enum):
    """Why recovery cannot store an entry again."""

    ABSENT = enum.auto()
    """It surely was never acknowledged."""
    DAMAGED = enum.auto()
    """Every bookie answered, and no copy agrees with its digest."""


async def recover(
    cluster: BookieCluster, ledger_id: int, held: Versioned[LedgerMetadata], digest: Digest, key: bytes
) -> Versioned[LedgerMetadata]:
    """Shut the writer out, and return the closed record.

    May be repeated. Several clients may run it at once, and one result wins.

    Raises: NoSuchLedgerError - it does not exist; LedgerStoreUnavailableError - too few bookies answered, or the record
        could not be changed, so the ledger stays in recovery and the caller repeats it.
    """
    held = await update(cluster.metadata, ledger_id, held, _to_recovery)
    if held.value.state is LedgerState.CLOSED:
        return held
    metadata = held.value
    confirmed = await fence(cluster, ledger_id, metadata, digest, key)
    # An ensemble begins behind an acknowledged entry, so those before the last one are complete.
    start = max(confirmed, metadata.last_ensemble.first_entry_id - 1)
    final, last, length = await _add_again(cluster, ledger_id, held, digest, key, start)
    return await update(cluster.metadata, ledger_id, held, _to_closed(metadata, final, last, length))


async def _add_again(
    cluster: BookieCluster, ledger_id: int, held: Versioned[LedgerMetadata], digest: Digest, key: bytes, start: int
) -> tuple[LedgerMetadata, int, int]:
    """Store the entries behind `start` with full quorums. Return the record with its bookies, last entry and length."""
    metadata = held.value
    window = cluster.options.read_ahead
    entries = ReadAhead(
        lambda entry_id: _read_uncertain(cluster, ledger_id, metadata, digest, key, entry_id), start + 1, None, window
    )
    last, length = start, None
    writer: LedgerWriter | None = None
    under_way: list[asyncio.Future[None]] = []
    try:
        while (entry := await entries.next()) is not _Missing.ABSENT:
            last += 1
            if entry is _Missing.DAMAGED:
                _log.error("entry %d of ledger %d is damaged, and lost", last, ledger_id)
                if writer is not None:
                    await writer.drained()
                    held, length = writer.held, writer.length
                    await writer.abandon()
                    writer = None
                continue
            if writer is None:
                before = entry.length - len(entry.payload)
                writer = LedgerWriter(
                    cluster, ledger_id, held, digest, key, lac=last - 1, length=before, is_recovery=True
                )
            under_way.append(writer.start_append(entry.payload))
            if len(under_way) >= window:
                # `drained` reports failures. This wait only bounds the number of entries in progress.
                await asyncio.wait([under_way.pop(0)])
        if writer is not None:
            await writer.drained()
            return writer.held.value, last, writer.length
    except (LedgerFencedError, LedgerWriteError) as exc:
        raise LedgerStoreUnavailableError(f"the end of ledger {ledger_id} could not be made safe: {exc}") from exc
    finally:
        await entries.aclose()
        if writer is not None:
            await writer.abandon()
    if length is None:
        length = await _length_of(cluster, ledger_id, metadata, digest, start)
    return held.value, last, length


async def _length_of(
    cluster: BookieCluster, ledger_id: int, metadata: LedgerMetadata, digest: Digest, entry_id: int
) -> int:
    """Return the payload bytes up to an entry; fewer if it is damaged. Nothing relies on that number."""
    for each in range(entry_id, max(-1, entry_id - _DAMAGED_MAX), -1):
        try:
            return (await read_entry(cluster, ledger_id, metadata, digest, each)).length
        except CorruptEntryError as exc:
            _log.error("%s", exc)
    return 0


async def _read_uncertain(
    cluster: BookieCluster, ledger_id: int, metadata: LedgerMetadata, digest: Digest, key: bytes, entry_id: int
) -> Entry | _Missing:
    """Return an entry that may exist. The reads fence the ledger.

    Raises: LedgerStoreUnavailableError - too few bookies say whether they have it.
    """
    quorums = metadata.quorums
    bookies = metadata.ensemble_of(entry_id).bookies
    tasks = {
        asyncio.create_task(ask_for_entry(cluster, bookies[index], ledger_id, entry_id, digest, key)): bookies[index]
        for index in quorums.write_set(entry_id)
    }
    waiting = set(tasks)
    absent = damaged = 0
    failures: list[str] = []
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                answer, entry = task.result()
                if entry is not None:
                    return entry
                absent += answer.outcome.is_absence
                damaged += answer.outcome is BookieOutcome.UNVERIFIED
                if not answer.outcome.is_absence:
                    failures.append(f"{tasks[task]}: {answer}")
            if quorums.proves_absence(absent):
                return _Missing.ABSENT
    finally:
        for task in waiting:
            task.cancel()
    # If the record names no digest, the one of this store may be the wrong one.
    if absent + damaged == len(tasks) and metadata.digest is not None:
        return _Missing.DAMAGED
    raise LedgerStoreUnavailableError(
        f"cannot tell whether ledger {ledger_id} has entry {entry_id}: {'; '.join(failures)}"
    )


def _to_recovery(stored: LedgerMetadata) -> LedgerMetadata | None:
    return stored.in_recovery() if stored.state is LedgerState.OPEN else None


def _to_closed(begun: LedgerMetadata, final: LedgerMetadata, last_entry_id: int, length: int) -> Change:
    """Return the change that closes the ledger as it was recovered, unless another client has closed it meanwhile."""

    def change(stored: LedgerMetadata) -> LedgerMetadata | None:
        if stored.state is LedgerState.CLOSED:
            return None
        if stored.ensembles != begun.ensembles:
            raise LedgerStoreUnavailableError("the ensembles of a ledger changed while it was recovered: repeat it")
        return replace(stored, ensembles=final.ensembles).closed(last_entry_id, length)

    return change
