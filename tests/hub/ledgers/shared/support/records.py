"""Records of logs in memory, for stores of one test."""

from collections.abc import AsyncIterator

from hedwig.metadata.logs.record import LogRecord
from hedwig.model import HubInfo

__all__ = ["RecordsInMemory"]


class RecordsInMemory:
    """LogRecords of one process. Each is kept as it would be stored."""

    def __init__(self) -> None:
        self._next = 0
        self._stored: dict[int, bytes] = {}

    async def create(self, hub: HubInfo, *, is_alone: bool = True) -> LogRecord:
        record = LogRecord(number=self._next, hub=hub, is_alone=is_alone)
        self._next += 1
        self._stored[record.number] = record.encode()
        return record

    async def count(self) -> int:
        return self._next

    async def read(self, number: int) -> LogRecord | None:
        stored = self._stored.get(number)
        return None if stored is None else LogRecord.decode(stored)

    async def replace(self, present: LogRecord, wanted: LogRecord) -> bool:
        if self._stored.get(present.number) != present.encode():
            return False
        self._stored[present.number] = wanted.encode()
        return True

    async def delete(self, present: LogRecord) -> bool:
        if self._stored.get(present.number) != present.encode():
            return False
        del self._stored[present.number]
        return True

    async def numbers(self) -> AsyncIterator[int]:
        for number in sorted(self._stored):
            yield number
