"""The records of shared logs, for a look at ledgers. The store that has them is opened only if a log turns up."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hedwig.errors import ConfigurationError

if TYPE_CHECKING:
    from hedwig.metadata import MetadataStore
    from hedwig.metadata.contract.named_records import NamedRecords
    from hedwig.metadata.logs.records import LogRecords

__all__ = ["open_log_records"]


@asynccontextmanager
async def open_log_records(url: str | None, timeout_s: float, stores_file: str) -> "AsyncGenerator[LogRecords]":
    """Yield the records of the logs whose hubs use the store at `url`; None if the user did not name it.

    All calls also raise what `open_metadata` raises; ConfigurationError - the store was not named.
    """
    from hedwig.metadata.logs.records import KeptLogRecords

    named = _RecordsWhenNeeded(url, timeout_s, stores_file)
    try:
        yield KeptLogRecords(named)
    finally:
        await named.aclose()


class _RecordsWhenNeeded:
    """The NamedRecords of a store that the first call opens, to read it."""

    def __init__(self, url: str | None, timeout_s: float, stores_file: str) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._stores_file = stores_file
        self._store: MetadataStore | None = None
        self._turn = asyncio.Lock()

    async def read(self, name: str) -> bytes | None:
        return await (await self._records()).read(name)

    async def replace(self, name: str, expected: bytes | None, value: bytes) -> bool:
        return await (await self._records()).replace(name, expected, value)

    async def delete(self, name: str, expected: bytes) -> bool:
        return await (await self._records()).delete(name, expected)

    async def names(self, prefix: str) -> Sequence[str]:
        return await (await self._records()).names(prefix)

    async def aclose(self) -> None:
        """Close the store, if it was opened."""
        if self._store is not None:
            await self._store.close()

    async def _records(self) -> "NamedRecords":
        if self._url is None:
            raise ConfigurationError(
                "it is not known which ledgers are in shared logs; name the metadata store of the hubs with "
                "--metadata URL"
            )
        from hedwig.metadata import StoreOptions, open_metadata

        async with self._turn:
            if self._store is None:
                options = StoreOptions(
                    operation_timeout_s=self._timeout_s, stores_file=self._stores_file, makes=False, reads_only=True
                )
                self._store = await open_metadata(self._url, options)
            return self._store.named_records
