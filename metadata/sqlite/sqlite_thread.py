"""One thread with one SQLite connection, which serves asyncio callers in batches.

SQLite allows one writer at a time, and each commit costs one disk sync. So concurrent writes gain nothing from more
threads, and everything from sharing a commit. All jobs that wait when the thread begins a batch form one transaction.
Each job is a compare-and-set of its own, so a refused job takes nothing back from its neighbours.
"""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from hedwig.clock import Deadline
from hedwig.concurrency.jobs import Job, JobQueue, NotBegunError, UnfinishedError
from hedwig.errors import MetadataError, MetadataForbiddenError, MetadataUnavailableError, UncertainStateError
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.private_files import make_file

__all__ = ["MEMORY", "SqliteThread", "connect", "is_forbidden"]

T = TypeVar("T")

_SqlJob: TypeAlias = Job[sqlite3.Connection]

MEMORY: Final = ":memory:"
"""The path of a store that is in no file."""

_BATCH_MAX: Final = 512
_RETRY_S: Final = 0.01
_BUSY_SLICE_MS: Final = 100
"""How long one wait for another process lasts before withdrawn jobs are dropped and `close` is noticed."""


class SqliteThread:
    """Runs jobs on a connection that it owns from now on, in the order of submission, many to a transaction.

    With `writes`, a batch is one BEGIN IMMEDIATE transaction, and its jobs are answered after the commit. Else a batch
    is one read snapshot.
    """

    def __init__(self, name: str, connection: sqlite3.Connection, options: StoreOptions, *, writes: bool) -> None:
        self._connection = connection
        self._options = options
        self._writes = writes
        self._queue: JobQueue[sqlite3.Connection] = JobQueue(options.in_flight_max)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def run(self, what: str, work: Callable[[sqlite3.Connection], T], deadline: Deadline | None = None) -> T:
        """Return what `work` returns, called in this thread inside a transaction.

        Args: deadline - when to give up, if not after the operation timeout.

        Raises: what `work` raises; MetadataUnavailableError - not begun by the deadline, or rolled back, or a read that
            was not over by the deadline, since it can have changed nothing; UncertainStateError - a write that was
            begun and not over by the deadline, or its commit failed.
        """
        deadline = deadline or Deadline.after(self._options.clock, self._options.operation_timeout_s)
        try:
            return await self._queue.run(work, deadline)
        except NotBegunError as exc:
            raise MetadataUnavailableError(f"{what}: SQLite did not do it: {exc}") from exc
        except UnfinishedError as exc:
            kind = UncertainStateError if self._writes else MetadataUnavailableError
            raise kind(f"{what}: SQLite did not answer: {exc}") from exc

    def end(self) -> None:
        """Let the thread end after the batch at hand; jobs that did not begin fail. May be called twice."""
        self._queue.close()

    async def close(self) -> None:
        """As `end`, and wait until the thread has ended."""
        self.end()
        while self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        try:
            while self._queue.wait():
                if self._begin():
                    self._serve(self._queue.take(_BATCH_MAX))
        finally:
            self._connection.close()
            self._queue.close()

    def _begin(self) -> bool:
        """Open the transaction; return False if another process held the lock for the whole slice, or SQLite failed."""
        try:
            self._connection.execute("BEGIN IMMEDIATE" if self._writes else "BEGIN")
        except sqlite3.Error as exc:
            if _primary_code(exc) != sqlite3.SQLITE_BUSY:
                self._fail(self._queue.take(_BATCH_MAX), exc)
            self._queue.forget_withdrawn()
            return False
        return True

    def _serve(self, batch: list[_SqlJob]) -> None:
        try:
            for job in batch:
                try:
                    job.result = job.work(self._connection)
                except MetadataError as exc:
                    # Its traceback would keep this frame, and all jobs of the batch.
                    job.error = exc.with_traceback(None)
        except sqlite3.Error as exc:
            # SQLite itself could not run a statement (disk full, damaged file): roll the batch back.
            self._roll_back()
            self._fail(batch, exc)
        except Exception as exc:
            # A defect of ours: every caller of the batch receives it as it is, and the thread lives on.
            self._roll_back()
            for job in batch:
                job.error = exc
            self._queue.answer(batch)
        else:
            self._commit(batch)

    def _commit(self, batch: list[_SqlJob]) -> None:
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as exc:
            self._roll_back()
            self._fail(batch, exc, committing=True)
        else:
            self._queue.answer(batch)

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _fail(self, batch: list[_SqlJob], cause: sqlite3.Error, *, committing: bool = False) -> None:
        # A commit that finds the disk full, or the file locked, was rolled back. After any other failure of it (a
        # failed sync, say) the pages may or may not be in the file.
        taken_back = _primary_code(cause) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY)
        for job in batch:
            if committing and self._writes and not taken_back:
                job.error = UncertainStateError(f"SQLite could not finish a commit: {cause}; read before deciding")
            elif is_forbidden(cause):
                job.error = MetadataForbiddenError(f"SQLite could not carry out the operation: {cause}")
            else:
                job.error = MetadataUnavailableError(f"SQLite could not carry out the operation: {cause}")
            job.error.__cause__ = cause
        self._queue.answer(batch)


def connect(path: str, options: StoreOptions) -> sqlite3.Connection:
    """Return a connection to the file at `path`, in autocommit mode, which any one thread may use.

    Raises: sqlite3.Error - it cannot be opened, or another process held its lock for too long.
    """
    if path != MEMORY:
        with suppress(OSError):  # SQLite reports the same error.
            make_file(Path(path))  # Files that SQLite makes beside it get its mode.
    timeout_s = options.operation_timeout_s
    connection = sqlite3.connect(path, timeout=timeout_s, isolation_level=None, check_same_thread=False)
    try:
        _enter_wal(connection, options)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_SLICE_MS}")
    except BaseException:
        connection.close()
        raise
    return connection


def _enter_wal(connection: sqlite3.Connection, options: StoreOptions) -> None:
    """Switch the file to its write-ahead log, which SQLite refuses at once while another process does the same."""
    give_up_at = options.clock.monotonic() + options.operation_timeout_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as exc:
            if _primary_code(exc) != sqlite3.SQLITE_BUSY or options.clock.monotonic() > give_up_at:
                raise
            time.sleep(_RETRY_S)
        else:
            return


def is_forbidden(error: sqlite3.Error) -> bool:
    """Say whether the file system, or how the file was opened, does not let SQLite write or read."""
    return _primary_code(error) in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH)


def _primary_code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
