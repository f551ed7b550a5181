"""Reading a store that may not be written. SQLite's write-ahead log makes that harder than it sounds.

A reader of a file with such a log needs its index, FILE-shm, beside it. While other processes have the store open, or
after one was killed, log and index exist, and the reader only needs to read both. After the last process has closed the
store, neither exists, and a reader would have to make them. So the reader opens the file as one that nobody writes.
That is true as long as there is no log, since the first change goes there. The file itself changes when SQLite copies
the log into it, which may happen meanwhile. The reader then rejects what it read.

Making log and index, where the directory allows it, would be worse. They would belong to the reader, and a process that
may write the file could not write them.
"""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hedwig.clock import Deadline
from hedwig.errors import MetadataUnavailableError
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.sqlite.sqlite_thread import SqliteThread

__all__ = ["ReadOnlyThread", "connect_to_read", "log_of", "may_only_be_read"]

T = TypeVar("T")


def log_of(path: str) -> str:
    """Return the path of a file's write-ahead log."""
    return f"{path}-wal"


def may_only_be_read(path: str) -> bool:
    """Say whether there is a file that this process may read, but may not write, it or its log."""
    if not os.access(path, os.R_OK):
        return False
    log = log_of(path)
    is_log_writable = os.access(log, os.W_OK) if Path(log).exists() else _may_make(log)
    return not (is_log_writable and os.access(path, os.W_OK))


class ReadOnlyThread(SqliteThread):
    """A SqliteThread on a file that may only be read, which detects changes of the file while it reads."""

    def __init__(self, name: str, path: str, options: StoreOptions) -> None:
        """Open the file at `path`. Raises: sqlite3.Error - it cannot be read in this way."""
        self._file = Path(path)
        self._seen = self._look()
        connection, self._is_alone = connect_to_read(path)
        super().__init__(name, connection, options, writes=False)

    async def run(self, what: str, work: Callable[[sqlite3.Connection], T], deadline: Deadline | None = None) -> T:
        """As SqliteThread.run. Raises MetadataUnavailableError too if another process has written to the file."""

        def checked(connection: sqlite3.Connection) -> T:
            try:
                return work(connection)
            finally:
                # The read may have mixed pages from before and after the change, so do not trust its errors either.
                if self._is_alone and self._look() != self._seen:
                    raise MetadataUnavailableError(
                        f"{what}: another process began to write to {self._file} during the read; try again"
                    )

        return await super().run(what, checked, deadline)

    def _look(self) -> tuple[int, ...] | None:
        try:
            status = self._file.stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns


def connect_to_read(path: str) -> tuple[sqlite3.Connection, bool]:
    """Return a connection that only reads, and whether it assumes that nobody writes the file.

    Raises: sqlite3.Error - there is a log with changes, which cannot be read without its index.
    """
    uri = f"{Path(path).absolute().as_uri()}?mode=ro"
    log = Path(log_of(path))
    if log.exists():
        try:
            return _connect(uri), False
        except sqlite3.Error:
            if log.stat().st_size:
                raise
    return _connect(f"{uri}&immutable=1"), True


def _connect(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    try:
        # Connecting alone reads nothing.
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _may_make(path: str) -> bool:
    return os.access(Path(path).absolute().parent, os.W_OK | os.X_OK)
