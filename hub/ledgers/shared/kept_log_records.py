"""The records of logs in the metadata store: one named record for each log, and one that counts them."""

import secrets
from collections.abc import AsyncIterator
from typing import Final

from hedwig.errors import CorruptRecordError
from hedwig.hub.ledgers.shared.log_record import LogRecord
from hedwig.hub.ledgers.shared.virtual_ids import LOG_MAX
from hedwig.metadata import NamedRecords
from hedwig.metadata.contract.named_records import replace_surely
from hedwig.model import HubInfo

__all__ = ["KeptLogRecords"]

_COUNTER: Final = "logs"
_PREFIX: Final = "log-"
_TOKEN_BYTES: Final = 8
_DIGITS: Final = 10
"""As many digits as the highest number has, so that names are listed in the order of numbers."""


class KeptLogRecords:
    """The LogRecords of one deployment."""

    def __init__(self, records: NamedRecords) -> None:
        self._records = records

    async def create(self, hub: HubInfo, *, is_alone: bool = True) -> LogRecord:
        record = LogRecord(number=await self._next_number(), hub=hub, is_alone=is_alone)
        # A number is given once. So nobody else writes this record before its hub knows of it.
        await replace_surely(self._records, _name(record.number), None, record.encode())
        return record

    async def count(self) -> int:
        stored = await self._records.read(_COUNTER)
        return 0 if stored is None else _count(stored)

    async def read(self, number: int) -> LogRecord | None:
        stored = await self._records.read(_name(number))
        return None if stored is None else LogRecord.decode(stored)

    async def replace(self, present: LogRecord, wanted: LogRecord) -> bool:
        return await replace_surely(self._records, _name(present.number), present.encode(), wanted.encode())

    async def delete(self, present: LogRecord) -> bool:
        return await self._records.delete(_name(present.number), present.encode())

    async def numbers(self) -> AsyncIterator[int]:
        for name in await self._records.names(_PREFIX):
            yield int(name.removeprefix(_PREFIX))

    async def _next_number(self) -> int:
        while True:
            stored = await self._records.read(_COUNTER)
            number = 0 if stored is None else _count(stored)
            if number > LOG_MAX:
                raise CorruptRecordError(f"the store has counted {number} logs, and knows no higher numbers")
            # Without the token, a hub whose answer was lost would take the same count of another hub for its own.
            counted = b"%d %s" % (number + 1, secrets.token_hex(_TOKEN_BYTES).encode())
            if await replace_surely(self._records, _COUNTER, stored, counted):
                return number


def _name(number: int) -> str:
    return f"{_PREFIX}{number:0{_DIGITS}}"


def _count(stored: bytes) -> int:
    count = stored.partition(b" ")[0]
    if not count.isdigit():
        raise CorruptRecordError(f"the number of logs cannot be read: {stored[:64]!r}")
    return int(count)
