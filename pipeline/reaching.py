"""Reaching a store before Spark is started: what cannot work is told at once, and not after minutes by a task."""

import asyncio
from urllib.parse import urlsplit

from hedwig.errors import LayoutMissingError
from hedwig.exit_codes import ExitCode
from metadata import open_metadata
from metadata.backend import StoreOptions
from metadata.store import backend_schemes
from pipeline.errors import JobError

__all__ = ["check_reachable", "check_readable", "existing", "is_store"]

_TIMEOUT_S = 30.0


def is_store(place: str) -> bool:
    """Say whether `place` is the URL of a metadata store, and not the folder of a snapshot."""
    return "://" in place and urlsplit(place).scheme in backend_schemes()


def existing(url: str) -> str:
    """Return the URL of the same store, which is not made if it is not there: a name that was mistyped is no store."""
    if not url.startswith("sqlite:") or "create=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}create=false"


def check_readable(url: str) -> None:
    """Open the store at `url`, which has to be there, and close it again.

    Raises: as `check_reachable`; JobError, NOT_FOUND - nothing was laid out there.
    """
    try:
        check_reachable(existing(url))
    except LayoutMissingError as exc:
        raise JobError(f"there is no metadata at {url}: see that the URL is right", ExitCode.NOT_FOUND) from exc


def check_reachable(url: str) -> None:
    """Open the store at `url` and close it again.

    Raises: ConfigurationError, LayoutError, MetadataUnavailableError - as `open_metadata`.
    """

    async def look() -> None:
        async with await open_metadata(url, StoreOptions(operation_timeout_s=_TIMEOUT_S)):
            return

    asyncio.run(look())
