"""A lane: one thread with one SQLite connection, which serves asyncio callers in batches.

SQLite allows one writer at a time and charges one disk sync for each commit, so concurrent writes gain nothing from
more threads and everything from sharing a commit: all jobs that wait when the thread gets round to them form one
transaction. A job is a compare-and-set of its own, so one that is refused takes nothing back from its neighbours.
"""

import asyncio
import enum
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

from hedwig.errors import MetadataError, MetadataUnavailableError, UncertainStateError
from metadata.backend import StoreOptions

__all__ = ["Lane", "connect"]

T = TypeVar("T")

_BATCH_MAX: Final = 512
_BUSY_SLICE_MS: Final = 100
"""How long one wait for another process's transaction lasts before expired jobs are dropped and `close` is noticed."""


class _State(enum.Enum):
    WAITING = enum.auto()
    RUNNING = enum.auto()
    ABANDONED = enum.auto()


class _Job:
    __slots__ = ("error", "future", "loop", "result", "state", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], Any]) -> None:
        self.work = work
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.state = _State.WAITING
        self.result: Any = None
        self.error: Exception | None = None

    def finish(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class Lane:
    """Runs jobs on a connection that it owns from now on, in the order of submission, many to a transaction.

    With `writes`, a batch is one BEGIN IMMEDIATE transaction and its jobs are answered after the commit; else it is one
    read snapshot.
    """

    def __init__(self, name: str, connection: sqlite3.Connection, options: StoreOptions, *, writes: bool) -> None:
        self._connection = connection
        self._options = options
        self._writes = writes
        self._jobs: deque[_Job] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._slots = asyncio.Semaphore(options.in_flight_max)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def run(self, what: str, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what `work` returns, called in the lane's thread inside a transaction.

        Raises: what `work` raises; MetadataUnavailableError - not begun by the deadline, or rolled back;
            UncertainStateError - begun and not over by the deadline, or the commit itself failed.
        """
        timeout_s = self._options.operation_timeout_s
        job: _Job | None = None
        try:
            async with asyncio.timeout(timeout_s), self._slots:
                job = self._submit(what, work)
                return await asyncio.shield(job.future)
        except TimeoutError as exc:
            if job is None or self._abandon(job):
                raise MetadataUnavailableError(f"{what}: not begun within {timeout_s:g} s; SQLite is busy") from exc
            raise UncertainStateError(f"{what}: begun, but not committed within {timeout_s:g} s") from exc
        except asyncio.CancelledError:
            if job is not None:
                self._abandon(job)
            raise

    def _submit(self, what: str, work: Callable[[sqlite3.Connection], Any]) -> _Job:
        job = _Job(work)
        # Nobody may be left to fetch the result of a job whose caller was cancelled.
        job.future.add_done_callback(lambda future: future.cancelled() or future.exception())
        with self._wake:
            if self._closing:
                raise MetadataUnavailableError(f"{what}: the metadata store is closed")
            self._jobs.append(job)
            self._wake.notify()
        return job

    def _abandon(self, job: _Job) -> bool:
        """Withdraw a job that has not begun; return False if it is too late for that."""
        with self._wake:
            if job.state is _State.RUNNING:
                return False
            job.state = _State.ABANDONED
            return True

    async def close(self) -> None:
        """End the thread after the batch at hand; jobs that did not begin fail. May be called twice."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        while self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        try:
            while self._wait_for_work():
                if self._begin(self._connection):
                    self._serve(self._connection, self._take_batch())
        finally:
            self._connection.close()
            self._refuse_rest()

    def _wait_for_work(self) -> bool:
        with self._wake:
            self._wake.wait_for(lambda: self._closing or self._jobs)
            return not self._closing

    def _begin(self, connection: sqlite3.Connection) -> bool:
        """Open the transaction; return False if another process held the lock for the whole slice of time."""
        try:
            connection.execute("BEGIN IMMEDIATE" if self._writes else "BEGIN")
        except sqlite3.Error as exc:
            if _primary_code(exc) != sqlite3.SQLITE_BUSY:
                self._fail(self._take_batch(), exc)
            with self._wake:
                self._jobs = deque(job for job in self._jobs if job.state is _State.WAITING)
            return False
        return True

    def _take_batch(self) -> list[_Job]:
        batch: list[_Job] = []
        with self._wake:
            while self._jobs and len(batch) < _BATCH_MAX:
                job = self._jobs.popleft()
                if job.state is _State.WAITING:
                    job.state = _State.RUNNING
                    batch.append(job)
        return batch

    def _serve(self, connection: sqlite3.Connection, batch: list[_Job]) -> None:
        try:
            for job in batch:
                try:
                    job.result = job.work(connection)
                except MetadataError as exc:
                    job.error = exc
        except sqlite3.Error as exc:
            # A statement that SQLite itself could not carry out (disk full, damaged file) takes the batch back.
            _roll_back(connection)
            self._fail(batch, exc)
            return
        except Exception as exc:
            # A defect of ours: whoever shares the transaction sees it as it is, and the lane lives on.
            _roll_back(connection)
            for job in batch:
                job.error = exc
            _answer(batch)
            return
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as exc:
            _roll_back(connection)
            self._fail(batch, exc, committing=True)
        else:
            _answer(batch)

    def _fail(self, batch: list[_Job], cause: BaseException, *, committing: bool = False) -> None:
        code = _primary_code(cause)
        # A commit that finds the disk full has been taken back; after any other failure of it (a failed sync, say) the
        # pages may or may not be in the file.
        unknown = committing and self._writes and code not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY)
        for job in batch:
            if unknown:
                job.error = UncertainStateError(f"SQLite could not finish a commit: {cause}; read before deciding")
            else:
                job.error = MetadataUnavailableError(f"SQLite could not carry out the operation: {cause}")
            job.error.__cause__ = cause
        _answer(batch)

    def _refuse_rest(self) -> None:
        with self._wake:
            self._closing = True
            rest = [job for job in self._jobs if job.state is _State.WAITING]
            self._jobs.clear()
        for job in rest:
            job.error = MetadataUnavailableError("the metadata store was closed before the operation began")
        _answer(rest)


def connect(path: str, options: StoreOptions) -> sqlite3.Connection:
    """Return a connection to the file at `path`, in autocommit mode, which any one thread may use.

    Raises: sqlite3.Error - it cannot be opened, or another process did not let go of it in time.
    """
    connection = sqlite3.connect(path, options.operation_timeout_s, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_SLICE_MS}")
    except BaseException:
        connection.close()
        raise
    return connection


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _primary_code(error: BaseException) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _answer(batch: list[_Job]) -> None:
    """Hand the results over, with one wake-up for each event loop that waits."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in batch:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, jobs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_finish, jobs)
        except RuntimeError:
            continue  # That loop was closed; nobody waits there any more.


def _finish(jobs: list[_Job]) -> None:
    for job in jobs:
        job.finish()
