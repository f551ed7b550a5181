"""The records of logs in the metadata store: one named record for each log, and one that counts them."""

import secrets
from collections.abc import AsyncIterator
from typing import Final, Protocol

from hedwig.errors import CorruptRecordError
from hedwig.metadata.contract.layout import LOGS_PREFIX
from hedwig.metadata.contract.named_records import NamedRecords, replace_surely
from hedwig.metadata.contract.write_gate import WriteGate, passing
from hedwig.metadata.logs.record import LogRecord
from hedwig.metadata.logs.virtual_ids import LOG_MAX
from hedwig.model import HubInfo

__all__ = ["KeptLogRecords", "LogRecords"]

_COUNTER: Final = "logs"
_TOKEN_BYTES: Final = 8
_DIGITS: Final = 10
"""As many digits as the highest number has, so that names are listed in the order of numbers."""


class LogRecords(Protocol):
    """Where the records of all logs of a deployment are kept, changed by compare-and-set alone."""

    async def create(self, hub: HubInfo, *, is_alone: bool = True) -> LogRecord:
        """Make the record of a new, open log without ledgers, and return it. No two logs ever have the same number.

        Raises: MetadataError.
        """
        ...

    async def count(self) -> int:
        """Return how many logs there have been; numbers begin at 0. Raises: MetadataError."""
        ...

    async def read(self, number: int) -> LogRecord | None:
        """Return the record of a log as it is now; None if there is none. Raises: MetadataError."""
        ...

    async def replace(self, present: LogRecord, wanted: LogRecord) -> bool:
        """Write `wanted`, made by `present.changed`, if the record is still `present`; return whether it was written.

        Raises: MetadataUnavailableError - surely not written; UncertainStateError - read the record, or repeat it.
        """
        ...

    async def delete(self, present: LogRecord) -> bool:
        """Delete the record if it is still `present`; return whether it is gone. Raises: as `replace`."""
        ...

    def numbers(self) -> AsyncIterator[int]:
        """Yield the numbers of all logs, ascending. Raises: MetadataError."""
        ...


class KeptLogRecords:
    """The LogRecords of one deployment."""

    def __init__(self, records: NamedRecords, gate: WriteGate | None = None) -> None:
        """`gate`: that of all writes of this process, if it has one."""
        self._records = records
        self._gate = gate

    async def create(self, hub: HubInfo, *, is_alone: bool = True) -> LogRecord:
        async with passing(self._gate):
            while True:
                record = LogRecord(number=await self._next_number(), hub=hub, is_alone=is_alone)
                # A number is given once. But an import may bring in another log of that number at this moment.
                if await replace_surely(self._records, _name(record.number), None, record.encode()):
                    return record

    async def bring(self, record: LogRecord) -> bool:
        """Make the record of a log of another store, unless there is one of its number; return whether it was made.

        No log that is created afterwards has its number. Raises: as `create`.
        """
        async with passing(self._gate):
            await self._count_up_to(record.number + 1)
            return await replace_surely(self._records, _name(record.number), None, record.encode())

    async def count_at_least(self, count: int) -> None:
        """Give no number below `count` from now on. Raises: as `create`."""
        async with passing(self._gate):
            await self._count_up_to(count)

    async def count(self) -> int:
        stored = await self._records.read(_COUNTER)
        return 0 if stored is None else _count(stored)

    async def read(self, number: int) -> LogRecord | None:
        stored = await self._records.read(_name(number))
        try:
            return None if stored is None else LogRecord.decode(stored)
        except CorruptRecordError as exc:
            raise CorruptRecordError(f"log {number}: {exc}") from exc

    async def replace(self, present: LogRecord, wanted: LogRecord) -> bool:
        async with passing(self._gate):
            return await replace_surely(self._records, _name(present.number), present.encode(), wanted.encode())

    async def delete(self, present: LogRecord) -> bool:
        async with passing(self._gate):
            return await self._records.delete(_name(present.number), present.encode())

    async def numbers(self) -> AsyncIterator[int]:
        for name in await self._records.names(LOGS_PREFIX):
            yield int(name.removeprefix(LOGS_PREFIX))

    async def _next_number(self) -> int:
        while True:
            stored = await self._records.read(_COUNTER)
            number = 0 if stored is None else _count(stored)
            if number > LOG_MAX:
                raise CorruptRecordError(f"the store has counted {number} logs, and knows no higher numbers")
            if await self._replace_count(stored, number + 1):
                return number

    async def _count_up_to(self, count: int) -> None:
        while True:
            stored = await self._records.read(_COUNTER)
            present = 0 if stored is None else _count(stored)
            if present >= count or await self._replace_count(stored, count):
                return

    async def _replace_count(self, stored: bytes | None, count: int) -> bool:
        # Without the token, a hub whose answer was lost would take the same count of another hub for its own.
        counted = b"%d %s" % (count, secrets.token_hex(_TOKEN_BYTES).encode())
        return await replace_surely(self._records, _COUNTER, stored, counted)


def _name(number: int) -> str:
    return f"{LOGS_PREFIX}{number:0{_DIGITS}}"


def _count(stored: bytes) -> int:
    count = stored.partition(b" ")[0]
    if not count.isdigit():
        raise CorruptRecordError(f"the number of logs cannot be read: {stored[:64]!r}")
    return int(count)
