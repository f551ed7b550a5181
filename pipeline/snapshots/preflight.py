"""Reaching what a job is given before Spark is started: what cannot work is told at once, and not by a task."""

import asyncio
import os
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final
from urllib.parse import urlsplit

from hedwig.errors import ConfigurationError, LayoutMissingError, NoMetadataError
from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataUrl, open_metadata, read_layout
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.store import backend_schemes
from hedwig.pipeline.errors import JobError

__all__ = ["check_folder", "check_reachable", "check_readable", "check_source", "existing", "is_store"]

_TIMEOUT_S: Final = 30.0
_PATTERN: Final = frozenset("{}[]*?\\")
"""What makes a pattern of a path where Spark reads it, and a name where it writes it."""
_FILE_SYSTEMS: Final = frozenset(
    ("file", "hdfs", "webhdfs", "swebhdfs", "viewfs", "har", "ftp", "sftp", "http", "https", "s3", "s3a", "s3n", "gs")
) | {"abfs", "abfss", "wasb", "wasbs", "adl", "oss", "obs", "cosn", "oci", "ofs", "o3fs", "dbfs", "alluxio", "maprfs"}
"""Those that Hadoop brings, and those that people commonly add."""


def is_store(place: str) -> bool:
    """Say whether `place` is the URL of a metadata store, and not the folder of a snapshot."""
    return "://" in place and urlsplit(place).scheme in backend_schemes()


def check_folder(path: str) -> None:
    """Raise ConfigurationError if the path of a folder is one that Spark would write, and then not find."""
    found = sorted(_PATTERN & set(path))
    if found:
        raise ConfigurationError(
            f"{path!r} has {' '.join(found)} in it, which Spark takes for a pattern when it reads: choose another name"
        )


def check_source(place: str, settings: Mapping[str, str]) -> None:
    """Raise ConfigurationError if `place` is neither a store nor a folder where there can be one.

    Args: settings - those for Spark, among which one may name a file system.
    """
    if is_store(place):
        return
    check_folder(place)
    scheme, mark, _ = place.partition("://")
    known = sorted(backend_schemes())
    # The cluster that a job is submitted to may have more.
    may_be_known = "PYSPARK_GATEWAY_PORT" in os.environ and not get_close_matches(scheme, known)
    if mark and scheme not in _FILE_SYSTEMS and not may_be_known and f"spark.hadoop.fs.{scheme}.impl" not in settings:
        raise ConfigurationError(
            f"{place}: {scheme!r} is neither a metadata backend (there are {', '.join(known)}) nor a file system that "
            f"is known; add one of your own by --conf spark.hadoop.fs.{scheme}.impl=CLASS"
        )


def existing(url: str) -> str:
    """Return the URL of the same store, which is not made if it is not there: a name that was mistyped is no store."""
    if not url.startswith("sqlite:") or "create=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}create=false"


def check_readable(url: str, timeout_s: float = _TIMEOUT_S) -> None:
    """Open the store at `url`, which has to be there, and close it again.

    Raises: as `check_reachable`; JobError, NOT_FOUND - nothing was laid out there; LayoutMissingError - something was,
        but a table of it is gone, or it is of an older release: the text says what to do.
    """
    there = existing(url)
    try:
        check_reachable(there, timeout_s)
    except NoMetadataError as exc:
        raise JobError(f"there is no metadata at {url}: see that the URL is right", ExitCode.NOT_FOUND) from exc
    except LayoutMissingError as exc:
        raise LayoutMissingError(str(exc).replace(there, url)) from exc


def check_reachable(url: str, timeout_s: float = _TIMEOUT_S) -> None:
    """Open the store at `url` and close it again. What the first write would make is left to that.

    Raises: ConfigurationError, LayoutError, MetadataUnavailableError - as `open_metadata`.
    """
    options = StoreOptions(operation_timeout_s=timeout_s)

    async def look() -> None:
        if _is_made_later(url):
            await read_layout(url, options)
            return
        async with await open_metadata(url, options):
            return

    asyncio.run(look())


def _is_made_later(url: str) -> bool:
    """Say whether it is a file of SQLite that is not there, and can be made."""
    parsed = MetadataUrl.parse(url)
    if parsed.scheme != "sqlite" or parsed.parameters.get("create") == "false":
        return False
    return not parsed.file.exists() and os.access(parsed.file.parent, os.W_OK | os.X_OK)
