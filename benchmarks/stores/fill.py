"""Filling a store with the records that workloads need, in batches, several of them at once."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.recording import Summary
from hedwig.benchmarks.stores.dataset import Batch, Task, WorkloadManagers
from hedwig.benchmarks.stores.fill_rate import FillRate, Seconds
from hedwig.errors import BadVersionError, HedwigError
from hedwig.metadata.bulk.loading import load_batches
from hedwig.metadata.contract.operations import Outcome, RecordKey, Write
from hedwig.model import LedgerRanges
from hedwig.versions import NEW

__all__ = ["fill", "fill_aloud"]

_SECOND_NS: Final = 1_000_000_000
_BATCHES_IN_FLIGHT: Final = 6
_PAUSE_S: Final = 0.5
_FRUITLESS_MAX: Final = 5
"""A batch that failed N times in a row, each time after the store's own deadline, will not succeed."""
_TELL_EVERY_S: Final = 10.0
_LOOK_EVERY_S: Final = 60.0
"""A look into a heap has it collected, which takes seconds if much of it is alive."""


async def fill_aloud(
    store: WorkloadManagers,
    task: Task,
    tell: Callable[[dict[str, float]], None],
    *,
    has_full_heap: Callable[[], Awaitable[bool]] | None = None,
    now_ns: Callable[[], int] = time.monotonic_ns,
) -> tuple[Summary, str | None]:
    """Make the records of a task as `fill` does, and report its progress every ten seconds.

    The report has `records` of `of`, and `per_s`, how many were made per second lately. Once the fill has become slow,
    it calls `has_full_heap` at most once a minute. A server with a full heap would go on for hours, and that would show
    nothing new about it.
    """
    pace = FillRate()
    began_ns = now_ns()

    async def tell_on() -> None:
        looked_ns = began_ns
        while True:
            await asyncio.sleep(_TELL_EVERY_S)
            second = (now_ns() - began_ns) // _SECOND_NS
            tell({"records": pace.count, "of": task.records, "per_s": pace.per_s(second)})
            is_time = now_ns() - looked_ns >= _LOOK_EVERY_S * _SECOND_NS
            if has_full_heap is not None and is_time and pace.is_slow(second):
                pace.has_full_heap = await has_full_heap()
                looked_ns = now_ns()

    telling = asyncio.create_task(tell_on())
    try:
        return await fill(store, task, pace=pace, now_ns=now_ns)
    finally:
        telling.cancel()
        await asyncio.wait([telling])


async def fill(
    store: WorkloadManagers, task: Task, *, pace: FillRate | None = None, now_ns: Callable[[], int] = time.monotonic_ns
) -> tuple[Summary, str | None]:
    """Make the records of a task.

    Args: pace - a new one, for a caller that reads the progress meanwhile.
    Returns: a summary of the made records, with the times of batches as service times, and failed attempts as errors;
        and why not all were made, None if all were. A record that an earlier attempt has made counts as made.
    """
    began_ns = now_ns()
    summary = Summary(begin_ns=began_ns, end_ns=began_ns, offered=task.records)
    deadline_ns = began_ns + round(task.seconds_max * _SECOND_NS)
    made, seconds = pace or FillRate(), Seconds()

    def why_over() -> str | None:
        now = now_ns()
        if now > deadline_ns:
            return "the time for it was over"
        return made.standstill((now - began_ns) // _SECOND_NS)

    def note_failed(error: HedwigError) -> None:
        summary.errors[type(error).__name__] += 1
        seconds.note_failed((now_ns() - began_ns) // _SECOND_NS)

    async def make(batch: Batch) -> int:
        batch_began_ns = now_ns()
        await _make_until_done(store, batch, note_failed, why_over)
        return now_ns() - batch_began_ns

    def note(batch: Batch, took_ns: int) -> None:
        summary.end_ns = now_ns()
        summary.service.record(took_ns // 1000)
        second = (summary.end_ns - began_ns) // _SECOND_NS
        made.note(second, batch.records)
        seconds.note(second, batch.records, took_ns // 1000)

    why: str | None = None
    try:
        await load_batches(_each(task.batches()), make, note, in_flight_max=_BATCHES_IN_FLIGHT)
    except BenchmarkError as exc:
        why = str(exc)
    summary.count = made.count
    summary.series, summary.series_width_s = seconds.series, seconds.width
    summary.response.add(summary.service)
    summary.missed = task.records - summary.count
    return summary, why


async def _each(batches: Iterable[Batch]) -> AsyncIterator[Batch]:
    for batch in batches:
        yield batch


async def _make_until_done(
    store: WorkloadManagers,
    batch: Batch,
    note_failed: Callable[[HedwigError], None],
    why_over: Callable[[], str | None],
) -> None:
    """Make a batch, and note each failed attempt. Raises BenchmarkError - the fill is over, or it cannot be made."""
    fruitless = 0
    while True:
        why = why_over()
        if why is not None:
            raise BenchmarkError(why)
        try:
            await _make(store, batch)
            return
        except HedwigError as exc:
            note_failed(exc)
            fruitless += 1
            if fruitless >= _FRUITLESS_MAX:
                raise BenchmarkError(f"a batch failed {fruitless} times: {type(exc).__name__}: {exc}") from exc
        await asyncio.sleep(_PAUSE_S)


async def _make(store: WorkloadManagers, batch: Batch) -> None:
    topics = [Write(RecordKey(topic), LedgerRanges(), NEW) for topic in batch.topics]
    owners = [Write(RecordKey(topic), batch.owner, NEW) for topic in batch.owned]
    subscriptions = [Write(key, batch.data, NEW) for key in batch.subscriptions]
    made: list[Sequence[Outcome[Any]]] = []
    if topics:
        made.append(await store.persistence.apply(topics))
    if owners:
        made.append(await store.ownership.apply(owners))
    if subscriptions:
        made.append(await store.subscriptions.apply(subscriptions))
    for outcome in (outcome for outcomes in made for outcome in outcomes):
        if outcome.error is not None and not isinstance(outcome.error, BadVersionError):
            raise outcome.error
