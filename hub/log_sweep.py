"""The sweep of all shared logs: what no topic refers to any more is freed, whoever wrote it.

The hub of a log counts what it deletes itself. The sweep finds the rest: logs of hubs that ended, and topics that other
hubs have served since. One hub at a time sweeps. It reads all owners and ranges of topics, twice, an interval apart. A
slot goes if neither reading names it.

Why nothing goes that is needed:

- Only segments that were sealed before a reading began are judged by it. A range is stored before its first record, so
  each reading finds the ranges of all records in these segments. No topic refers to a slot anew.
- Who brings ranges back from elsewhere, as an import does, takes the turn to sweep, and then counts itself in the
  record of each log. A sweep looks whether it still has its turn once it has read these records. If not, it ends. If
  so, it has read them before that import counted itself, and is refused when it frees something.
- A range without messages names nothing. Its ledger was deleted before, and never gets any again.
- A record that cannot be read could name anything. Then nothing is judged.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from hedwig.clock import Clock
from hedwig.errors import HedwigError
from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from hedwig.metadata import MetadataStore
from hedwig.metadata.logs.record import LogRecord, LogState
from hedwig.metadata.logs.records import LogRecords
from hedwig.metadata.logs.references import References, read_references
from hedwig.metadata.logs.sweep_turn import SweepTurn
from hedwig.model import HubInfo

__all__ = ["LogSweep"]

_log = logging.getLogger(__name__)


class LogSweep:
    """Sweeps the logs of one deployment, while it is this hub's turn.

    `may_write` says whether this hub may change metadata now.
    """

    def __init__(
        self,
        store: SharedLedgerStore,
        records: LogRecords,
        metadata: MetadataStore,
        me: HubInfo,
        clock: Clock,
        interval_s: float,
        may_write: Callable[[], bool],
    ) -> None:
        self._store = store
        self._records = records
        self._metadata = metadata
        self._turn = SweepTurn(metadata.named_records, me, metadata.write_gate)
        self._clock = clock
        self._interval_s = interval_s
        self._may_write = may_write
        self._before: References | None = None
        """What the reading before the present one has found."""

    async def run(self) -> None:
        """Sweep every interval until this is cancelled."""
        while True:
            await self._clock.sleep(self._interval_s)
            try:
                if self._may_write():
                    await self.sweep()
                else:
                    self._before = None
            except (HedwigError, TimeoutError) as exc:
                _log.warning("the sweep of shared logs begins again in %g s: %s", self._interval_s, exc)

    async def sweep(self) -> None:
        """If it is this hub's turn, read all references once more, and free what neither reading has named.

        The other reading is that of the sweep before, if nothing has come between. Raises: MetadataError; LedgerError.
        """
        before, self._before = self._before, None
        if not await self._turn.take():
            return
        logs = await self._read_logs()
        if not logs or not await self._turn.is_kept():
            return  # Without logs, a reading of all topics would find nothing to judge.
        self._before = present = await read_references(self._metadata)
        if before is not None:
            for log in logs:
                await self._sweep_log(log, (before, present))

    async def _read_logs(self) -> list[LogRecord]:
        """Return the records of all logs. Those of hubs that are dead are closed before."""
        logs = []
        for number in [each async for each in self._records.numbers()]:
            record = await self._records.read(number)
            if record is not None and record.state is not LogState.CLOSED:
                record = await self._store.closed_if_dead(record)
            if record is not None:
                logs.append(record)
        return logs

    async def _sweep_log(self, log: LogRecord, readings: Sequence[References]) -> None:
        is_dead = log.state is LogState.CLOSED and not any(log.number in each.logs for each in readings)
        is_live = partial(_is_named, readings, log.number)
        try:
            if is_dead:
                log = await self._store.free(log)
            elif log.segments or log.dropped:
                log = await self._store.sweep(log, is_live)
        except HedwigError as exc:
            _log.warning("log %d is swept later: %s", log.number, exc)
            return
        if is_dead and not log.segments and not log.dropped:
            await self._records.delete(log)


def _is_named(readings: Sequence[References], log: int, slot: int) -> bool:
    return any(each.has(log, slot) for each in readings)
