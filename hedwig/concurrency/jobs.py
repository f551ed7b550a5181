"""Work that asyncio callers hand to threads, so that a backend can use a blocking client library.

A job waits, then runs, then is answered. A caller can withdraw a waiting job, and then knows that it surely had no
effect. The queue is bounded, and each caller waits no longer than its deadline.
"""

import asyncio
import enum
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from hedwig.clock import Deadline

__all__ = ["Job", "JobQueue", "NotBegunError", "QueueClosedError", "UnfinishedError"]

C = TypeVar("C")
T = TypeVar("T")


class NotBegunError(Exception):
    """No thread began the job, and none will: it surely had no effect."""


class QueueClosedError(NotBegunError):
    """The queue was closed before a thread began the job."""


class UnfinishedError(Exception):
    """A thread is still running the job; its outcome is not known."""


class _State(enum.Enum):
    WAITING = enum.auto()
    RUNNING = enum.auto()
    WITHDRAWN = enum.auto()


class Job(Generic[C]):
    """One piece of work. A thread calls `work` with its client and sets `result` or `error`."""

    __slots__ = ("deadline", "error", "future", "loop", "result", "state", "work")

    def __init__(self, work: Callable[[C], Any], deadline: Deadline) -> None:
        self.work = work
        self.deadline = deadline
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.state = _State.WAITING
        self.result: Any = None
        self.error: BaseException | None = None

    def finish(self) -> None:
        """Wake the caller, if it still waits. Called in the caller's event loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class JobQueue(Generic[C]):
    """The queue between event loops and the threads that serve them."""

    def __init__(self, jobs_max: int) -> None:
        self._jobs: deque[Job[C]] = deque()
        self._wake = threading.Condition()
        self._closed = False
        self._slots = asyncio.Semaphore(jobs_max)

    async def run(self, work: Callable[[C], T], deadline: Deadline) -> T:
        """Run `work` in a thread, and return its result.

        Raises: NotBegunError - it did not begin by the deadline; QueueClosedError - the queue was closed before it
            began; UnfinishedError - it began and was not over by the deadline; any error of `work`.
        """
        if deadline.expired:
            # A free thread would begin the job before the timeout is noticed. Then its outcome would be unknown.
            raise NotBegunError("it waited for its turn until the deadline")
        job: Job[C] | None = None
        try:
            async with asyncio.timeout(deadline.remaining_s()), self._slots:
                job = self._submit(work, deadline)
                answer: T = await job.future
                return answer
        except TimeoutError as exc:
            if job is None or self._withdraw(job):
                raise NotBegunError("it waited for its turn until the deadline") from exc
            raise UnfinishedError("it began, but did not end by the deadline") from exc
        except asyncio.CancelledError:
            if job is not None:
                self._withdraw(job)
            raise
        finally:
            # The traceback of the job's error holds this frame, so the frame must not hold the job.
            job = None

    def _submit(self, work: Callable[[C], Any], deadline: Deadline) -> Job[C]:
        job = Job(work, deadline)
        with self._wake:
            if self._closed:
                raise QueueClosedError("the metadata store is closed")
            self._jobs.append(job)
            self._wake.notify()
        return job

    def _withdraw(self, job: Job[C]) -> bool:
        """Withdraw a waiting job; return False if it has begun."""
        with self._wake:
            if job.state is _State.RUNNING:
                return False
            job.state = _State.WITHDRAWN
            return True

    def wait(self) -> bool:
        """Block the calling thread until there are jobs; return False once the queue is closed."""
        with self._wake:
            self._wake.wait_for(lambda: self._closed or self._jobs)
            return not self._closed

    def take(self, most: int) -> list[Job[C]]:
        """Begin and return at most `most` jobs. The calling thread must answer them."""
        taken: list[Job[C]] = []
        with self._wake:
            while self._jobs and len(taken) < most:
                job = self._jobs.popleft()
                if job.state is _State.WAITING:
                    job.state = _State.RUNNING
                    taken.append(job)
        return taken

    def forget_withdrawn(self) -> None:
        """Drop withdrawn jobs, so that they do not pile up while the threads cannot work."""
        with self._wake:
            self._jobs = deque(job for job in self._jobs if job.state is _State.WAITING)

    def close(self) -> None:
        """Accept no more jobs, and fail the waiting ones. May be called twice."""
        with self._wake:
            self._closed = True
            rest = [job for job in self._jobs if job.state is _State.WAITING]
            self._jobs.clear()
            self._wake.notify_all()
        for job in rest:
            job.error = QueueClosedError("the metadata store was closed")
        self.answer(rest)

    def answer(self, jobs: Iterable[Job[C]]) -> None:
        """Wake the callers of `jobs`, with one call into each event loop for all of its callers."""
        by_loop: dict[asyncio.AbstractEventLoop, list[Job[C]]] = {}
        for job in jobs:
            by_loop.setdefault(job.loop, []).append(job)
        for loop, finished in by_loop.items():
            try:
                loop.call_soon_threadsafe(_finish, finished)
            except RuntimeError:
                continue  # That loop was closed, so no caller waits there any more.


def _finish(jobs: list[Job[Any]]) -> None:
    for job in jobs:
        job.finish()
