"""Metadata that answer nobody: another program keeps the SQLite file locked."""

import contextlib
import sqlite3
from collections.abc import Iterator

from hedwig.hub.hub import Hub

__all__ = ["locked"]


@contextlib.contextmanager
def locked(hub: Hub) -> Iterator[None]:
    """Let nobody else write the metadata of `hub` meanwhile; reads go on."""
    connection = sqlite3.connect(hub.options.data_directory / "metadata.db", isolation_level=None, timeout=20)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
    finally:
        connection.close()
