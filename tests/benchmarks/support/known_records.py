"""A client of records with known delays and true compare-and-set: tests know beforehand what a load measures on it."""

import asyncio

__all__ = ["KnownRecords"]


class KnownRecords:
    """Answers reads after `read_s` and writes after `write_s`; a write takes effect at its end.

    broken: keys whose operations fail, for good.
    """

    def __init__(self, read_s: float, write_s: float, *, broken: frozenset[bytes] = frozenset()) -> None:
        self._read_s = read_s
        self._write_s = write_s
        self._broken = broken
        self.versions: dict[bytes, int] = {}
        self.parts: set[bool] = set()
        self.writes = 0

    def key(self, topic: bytes) -> bytes:
        return topic

    async def read(self, key: bytes) -> int | None:
        await asyncio.sleep(self._read_s)
        self._check(key)
        return self.versions.get(key)

    async def create(self, key: bytes) -> int | None:
        await asyncio.sleep(self._write_s)
        if key in self.versions:
            return None
        self.versions[key] = 1
        return 1

    async def update(self, key: bytes, version: int, *, part: bool) -> tuple[bool, int | None]:
        await asyncio.sleep(self._write_s)
        self._check(key)
        self.parts.add(part)
        if self.versions.get(key) != version:
            await asyncio.sleep(self._read_s)
            return False, self.versions.get(key)
        self.writes += 1
        self.versions[key] = version + 1
        return True, version + 1

    async def close(self) -> None:
        pass

    def _check(self, key: bytes) -> None:
        if key in self._broken:
            raise ConnectionRefusedError(key)
