"""Jobs reach their thread, can be withdrawn until it begins them, and never wait past their deadline."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from hedwig.clock import Deadline, SystemClock
from hedwig.concurrency.jobs import JobQueue, NotBegunError, UnfinishedError

SOON_S = 0.05
LONG_S = 60.0


def deadline(seconds: float = LONG_S) -> Deadline:
    return Deadline.after(SystemClock(), seconds)


class Worker:
    """A thread that serves a queue, one job at a time, while its gate is open."""

    def __init__(self, queue: JobQueue[str]) -> None:
        self.queue = queue
        self.gate = threading.Event()
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        while self.queue.wait():
            self.gate.wait()
            for job in self.queue.take(1):
                try:
                    job.result = job.work("tool")
                except Exception as exc:
                    job.error = exc
                self.queue.answer((job,))

    def end(self) -> None:
        self.gate.set()
        self.queue.close()
        self.thread.join()


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker(JobQueue(2))
    yield made
    made.end()


async def test_results_and_errors_come_back(worker: Worker) -> None:
    worker.gate.set()
    assert await worker.queue.run(lambda tool: tool.upper(), deadline()) == "TOOL"
    with pytest.raises(ZeroDivisionError):
        await worker.queue.run(lambda _: 1 // 0, deadline())


async def test_a_job_that_no_thread_began_surely_had_no_effect(worker: Worker) -> None:
    done: list[str] = []
    with pytest.raises(NotBegunError):
        await worker.queue.run(done.append, deadline(SOON_S))
    worker.gate.set()
    assert await worker.queue.run(lambda _: "next", deadline()) == "next"
    assert done == []


async def test_a_job_that_began_and_goes_on_is_unfinished(worker: Worker) -> None:
    worker.gate.set()
    finish = threading.Event()
    with pytest.raises(UnfinishedError):
        await worker.queue.run(lambda _: finish.wait(), deadline(SOON_S))
    finish.set()
    assert await worker.queue.run(lambda _: "next", deadline()) == "next"


async def test_no_more_jobs_wait_than_the_bound(worker: Worker) -> None:
    waiting = [asyncio.create_task(worker.queue.run(lambda _: "done", deadline())) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(NotBegunError):
        await worker.queue.run(lambda _: "one too many", deadline(SOON_S))
    worker.gate.set()
    assert await asyncio.gather(*waiting) == ["done", "done"]


async def test_a_cancelled_job_is_withdrawn_and_the_queue_goes_on(worker: Worker) -> None:
    done: list[str] = []
    task = asyncio.create_task(worker.queue.run(done.append, deadline()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    worker.gate.set()
    assert await worker.queue.run(lambda _: "next", deadline()) == "next"
    assert done == []


async def test_closing_fails_what_waits_and_what_comes(worker: Worker) -> None:
    task = asyncio.create_task(worker.queue.run(lambda _: "late", deadline()))
    await asyncio.sleep(0)
    worker.queue.close()
    with pytest.raises(NotBegunError, match="closed"):
        await task
    with pytest.raises(NotBegunError, match="closed"):
        await worker.queue.run(lambda _: "later", deadline())
