"""Ledgers that hubs made for their shared logs, and that no record of a log names.

A hub makes such a ledger first, and puts it on record later: the next ledger of its log, a footer, or segments that it
has merged. If it ends in between, the ledger stays. Whether the hub may still put it on record depends on the log:

- While the log is open, its hub may. So the ledger stays. Other hubs close the log once that hub has ended.
- Ledgers join the record of a closed log only as merged segments, by the hub that sweeps. Before a ledger is deleted,
  the record is changed as an import does. What was merged before that is refused then, however long that hub slept.
- A log without a record has none again. Only an import may bring one back, with the ledgers that are still there.
"""

from hedwig.metadata import MetadataStore
from hedwig.metadata.bulk.repairs import RepairResult
from hedwig.metadata.logs.record import LogState
from hedwig.metadata.logs.records import KeptLogRecords

__all__ = ["LogOrphans"]


class LogOrphans:
    """Decides about such ledgers by the records of the logs in `store`."""

    def __init__(self, store: MetadataStore) -> None:
        self._logs = KeptLogRecords(store.named_records)

    async def why_kept(self, number: int) -> str | None:
        """Say why a ledger of a log that its record did not name stays; None if it may go. Raises: MetadataError."""
        record = await self._logs.read(number)
        if record is None:
            count = await self._logs.count()
            return None if number < count else f"none: the store has counted {count} logs; see that --metadata is right"
        if record.state is LogState.CLOSED:
            return None
        return (
            f"none while log {number} is open: its hub may be about to put it on record; once it has ended, try again"
        )

    async def shut_out(self, number: int, ledger_id: int) -> RepairResult:
        """See that no hub can put a ledger on the record of a log any more; REPAIRED if it can be deleted now.

        Raises: MetadataError.
        """
        while (record := await self._logs.read(number)) is not None:
            if ledger_id in record.ledgers:
                return RepairResult.CHANGED
            if record.state is not LogState.CLOSED:
                return RepairResult.LEFT
            if await self._logs.replace(record, record.changed(imports=record.imports + 1)):
                return RepairResult.REPAIRED
        return RepairResult.REPAIRED if number < await self._logs.count() else RepairResult.LEFT
