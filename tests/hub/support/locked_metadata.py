"""Metadata without answers: another program keeps the SQLite file locked."""

import contextlib
import sqlite3
from collections.abc import Iterator

from hedwig.hub.hub import Hub

__all__ = ["locked"]


@contextlib.contextmanager
def locked(hub: Hub) -> Iterator[None]:
    """Lock the metadata of `hub` against writes of others during the block; reads continue."""
    connection = sqlite3.connect(hub.options.data_directory / "metadata.db", isolation_level=None, timeout=20)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
    finally:
        connection.close()
