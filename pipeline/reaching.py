"""Reaching a store before Spark is started: what cannot work is told at once, and not after minutes by a task."""

import asyncio
from urllib.parse import urlsplit

from metadata import open_metadata
from metadata.backend import StoreOptions
from metadata.store import backend_schemes

__all__ = ["check_reachable", "is_store"]

_TIMEOUT_S = 30.0


def is_store(place: str) -> bool:
    """Say whether `place` is the URL of a metadata store, and not the folder of a snapshot."""
    return "://" in place and urlsplit(place).scheme in backend_schemes()


def check_reachable(url: str) -> None:
    """Open the store at `url` and close it again.

    Raises: ConfigurationError, LayoutError, MetadataUnavailableError - as `open_metadata`.
    """

    async def look() -> None:
        async with await open_metadata(url, StoreOptions(operation_timeout_s=_TIMEOUT_S)):
            return

    asyncio.run(look())
