"""Checking the stores and folders of a job before Spark starts, so that it reports errors at once, not from a task."""

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
from hedwig.operations.deployment.deployment import without_making
from hedwig.pipeline.errors import JobError
from hedwig.pipeline.frames.tables import TIMEOUT_S
from hedwig.pipeline.source.shared_stores import stores_file

__all__ = ["check_folder", "check_reachable", "check_readable", "check_source", "is_store"]

_PATTERN: Final = frozenset("{}[]*?\\")
"""Spark takes a path with one of these for a pattern when it reads, and for a name when it writes."""
_FILE_SYSTEMS: Final = frozenset(
    ("file", "hdfs", "webhdfs", "swebhdfs", "viewfs", "har", "ftp", "sftp", "http", "https", "s3", "s3a", "s3n", "gs")
) | {"abfs", "abfss", "wasb", "wasbs", "adl", "oss", "obs", "cosn", "oci", "ofs", "o3fs", "dbfs", "alluxio", "maprfs"}
"""The file systems that Hadoop brings, and those that people commonly add."""


def is_store(source: str) -> bool:
    """Say whether `source` is the URL of a metadata store, and not the folder of a snapshot."""
    return "://" in source and urlsplit(source).scheme in backend_schemes()


def check_folder(path: str) -> None:
    """Raise ConfigurationError if Spark would write a folder at `path`, and then not find it."""
    marks = sorted(_PATTERN & set(path))
    if marks:
        raise ConfigurationError(
            f"{path!r} has {' '.join(marks)} in it, which Spark takes for a pattern when it reads: choose another name"
        )


def check_source(source: str, settings: Mapping[str, str]) -> None:
    """Raise ConfigurationError if `source` is neither a store nor a possible folder.

    Args: settings - those for Spark; one of them may add a file system.
    """
    if is_store(source):
        return
    check_folder(source)
    scheme, mark, _ = source.partition("://")
    known = sorted(backend_schemes())
    # The cluster to which a job is submitted may have more file systems.
    may_be_known = "PYSPARK_GATEWAY_PORT" in os.environ and not get_close_matches(scheme, known)
    if mark and scheme not in _FILE_SYSTEMS and not may_be_known and f"spark.hadoop.fs.{scheme}.impl" not in settings:
        raise ConfigurationError(
            f"{source}: {scheme!r} is neither a metadata backend (there are {', '.join(known)}) nor a file system that "
            f"is known; add one of your own by --conf spark.hadoop.fs.{scheme}.impl=CLASS"
        )


def check_readable(url: str, timeout_s: float = TIMEOUT_S) -> None:
    """Open the store at `url`, which has to exist, and close it again.

    Raises: as `check_reachable`; JobError, NOT_FOUND - there is no store; LayoutMissingError - a table of the store is
        gone, or the store is of an older release: the text says what to do.
    """
    there = without_making(url)
    try:
        check_reachable(there, timeout_s)
    except NoMetadataError as exc:
        raise JobError(f"there is no metadata at {url}: see that the URL is right", ExitCode.NOT_FOUND) from exc
    except LayoutMissingError as exc:
        raise LayoutMissingError(str(exc).replace(there, url)) from exc


def check_reachable(url: str, timeout_s: float = TIMEOUT_S) -> None:
    """Open the store at `url` and close it again. If the first write would make the store, do not make it here.

    Raises: ConfigurationError, LayoutError, MetadataUnavailableError - as `open_metadata`.
    """
    options = StoreOptions(operation_timeout_s=timeout_s, stores_file=stores_file())

    async def look() -> None:
        if _is_made_later(url):
            await read_layout(url, options)
            return
        async with await open_metadata(url, options):
            return

    asyncio.run(look())


def _is_made_later(url: str) -> bool:
    """Say whether the store is a file of SQLite that does not exist, and can be made."""
    parsed = MetadataUrl.parse(url)
    if parsed.scheme != "sqlite" or parsed.parameters.get("create") == "false":
        return False
    return not parsed.file.exists() and os.access(parsed.file.parent, os.W_OK | os.X_OK)
