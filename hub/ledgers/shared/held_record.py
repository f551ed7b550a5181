"""The record of a log in the hands of one hub, which changes it by compare-and-set, one change after the other."""

import asyncio
from collections.abc import Callable

from hedwig.errors import LedgerFencedError
from hedwig.metadata.logs.record import LogRecord
from hedwig.metadata.logs.records import LogRecords

__all__ = ["HeldRecord", "LogTakenOverError"]


class LogTakenOverError(LedgerFencedError):
    """Another hub has shut this one out of the log, or ranges were brought into the store since it was judged.

    `present` is the record then, None if it is gone.
    """

    def __init__(self, text: str, present: LogRecord | None) -> None:
        super().__init__(text)
        self.present = present


class HeldRecord:
    """The record of one log, as this hub knows it. Another hub may change it at any time, but rarely does.

    `present` is the record as it was read or written last. It can be changed as long as the log stays in its state. If
    `is_judged`, what is known of the log holds only until an import brings ranges into the store.
    """

    def __init__(self, records: LogRecords, present: LogRecord, *, is_judged: bool = False) -> None:
        self._records = records
        self.present = present
        self._state = present.state
        self._imports = present.imports if is_judged else None
        self._turn = asyncio.Lock()

    async def change(self, make: Callable[[LogRecord], LogRecord | None]) -> None:
        """Write what `make` returns for the present record. None says that nothing is to be changed.

        `make` may be called several times, also for a record that has its change already.

        Raises: LogTakenOverError - not written, since another hub has changed the state of the log, or an import what
            is known of it; MetadataUnavailableError - not written; UncertainStateError - repeat it.
        """
        async with self._turn:
            while (wanted := make(self.present)) is not None:
                if await self._records.replace(self.present, wanted):
                    self.present = wanted
                    return
                present = await self._records.read(wanted.number)
                if present == wanted:
                    # A write without an answer was carried out.
                    self.present = wanted
                    return
                self._go_on_with(present)

    async def read_again(self) -> None:
        """Read the record, which another hub may have changed. Raises: LogTakenOverError; MetadataUnavailableError."""
        async with self._turn:
            self._go_on_with(await self._records.read(self.present.number))

    def _go_on_with(self, present: LogRecord | None) -> None:
        if present is None or present.state is not self._state:
            raise LogTakenOverError(f"log {self.present.number} was taken over by another hub", present)
        if self._imports is not None and present.imports != self._imports:
            raise LogTakenOverError(f"ranges in log {self.present.number} may have been imported meanwhile", present)
        self.present = present
