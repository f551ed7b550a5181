"""Which stores tasks can share: each task opens the store for itself, on the machine where it runs."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from hedwig.errors import ConfigurationError
from hedwig.metadata import MetadataUrl
from hedwig.store_access import STORES_FILE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_shared", "master_of", "session_url", "stores_file", "url_for_tasks"]

_RELATIVE: Final = "/./"


def check_shared(url: str) -> None:
    """Raise ConfigurationError if `url` is no URL of a store, or names a store inside one process."""
    parsed = MetadataUrl.parse(url)
    if parsed.scheme == "sqlite" and parsed.path in ("", "/"):
        raise ConfigurationError(
            f"{url!r} is a store in memory, of which every task would have its own; write sqlite:///path/to/file"
        )


def stores_file() -> str:
    """Return the path of the stores file that the environment of this process names; empty: none.

    The driver and each task have an environment of their own, and may have the file in another place.
    """
    path = os.environ.get(STORES_FILE, "")
    return str(Path(path).absolute()) if path else ""


def url_for_tasks(url: str, *, master: str | None, directory: str | Path) -> str:
    """Return the URL by which the tasks of a session find the store at `url`: a relative path becomes absolute.

    Args: master - where the session runs, None if not known; directory - what relative paths start from.
    Raises: ConfigurationError - as `check_shared`, or the store is a file of this machine, and tasks run on others.
    """
    check_shared(url)
    parsed = MetadataUrl.parse(url)
    if parsed.scheme != "sqlite":
        return url
    if master is not None and not master.startswith("local"):
        raise ConfigurationError(
            f"{url} is a file of one machine, and the tasks of {master} run on others. Each task would find "
            "another file there, or none. Run this with --master 'local[*,4]', or keep the metadata in hbase:// or "
            "zookeeper://"
        )
    if not parsed.path.startswith(_RELATIVE):
        return url
    query = urlsplit(url).query
    path = Path(directory).absolute() / parsed.path.removeprefix(_RELATIVE)
    return f"sqlite://{quote(str(path))}{'?' if query else ''}{query}"


def session_url(spark: "SparkSession", url: str) -> str:
    """Return `url_for_tasks` of a session whose driver this process is. Raises ConfigurationError."""
    return url_for_tasks(url, master=master_of(spark), directory=Path.cwd())


def master_of(spark: "SparkSession") -> str:
    """Return where a session runs: local[2], spark://host:7077, yarn."""
    return str(spark.conf.get("spark.master"))
