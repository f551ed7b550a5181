"""Filling a store: the records that workloads need, made in batches, several of them at once."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Final

from benchmarks.errors import BenchmarkError
from benchmarks.metadata_ground import PREDECESSOR, Batch, FillTask, Managers
from benchmarks.recording import Second, Summary
from hedwig.errors import BadVersionError, HedwigError
from hedwig.model import LedgerRanges
from hedwig.versions import NEW
from metadata.bulk import load_batches
from metadata.operations import Outcome, RecordKey, Write

__all__ = ["fill"]

_SECOND_NS: Final = 1_000_000_000
_BATCHES_IN_FLIGHT: Final = 6
_PAUSE_S: Final = 0.5
_STANDSTILL_S: Final = 120
_STANDSTILL_SHARE: Final = 0.1
"""Of the rate of before: a server whose log is being forced, or that collects its garbage once, is back in time."""
_FRUITLESS_MAX: Final = 5
"""A batch that failed so often in a row, each time after the store's own deadline, will not succeed."""


async def fill(
    store: Managers, task: FillTask, *, now_ns: Callable[[], int] = time.monotonic_ns
) -> tuple[Summary, str | None]:
    """Make the records of a task.

    Returns: what was made until the end, with the times of batches as service times, and failed attempts as errors; and
        why not all was made, None if it was. A record that exists already, from an attempt before, is right.
    """
    began_ns = now_ns()
    summary = Summary(begin_ns=began_ns, end_ns=began_ns, offered=task.records)
    deadline_ns = began_ns + round(task.seconds_max * _SECOND_NS)

    def why_over() -> str | None:
        now = now_ns()
        if now > deadline_ns:
            return "the time for it was over"
        return _standstill(summary, (now - began_ns) // _SECOND_NS)

    async def make(batch: Batch) -> int:
        batch_began_ns = now_ns()
        await _make_until_done(store, batch, summary.errors, why_over)
        return now_ns() - batch_began_ns

    def note(batch: Batch, took_ns: int) -> None:
        summary.end_ns = now_ns()
        summary.count += batch.records
        summary.service.record(took_ns // 1000)
        second = summary.series.setdefault((summary.end_ns - began_ns) // _SECOND_NS, Second())
        second.finished += batch.records
        second.response.record(took_ns // 1000)

    why: str | None = None
    try:
        await load_batches(_each(task.batches()), make, note, in_flight_max=_BATCHES_IN_FLIGHT)
    except BenchmarkError as exc:
        why = str(exc)
    summary.response.add(summary.service)
    summary.missed = task.records - summary.count
    return summary, why


async def _each(batches: Iterable[Batch]) -> AsyncIterator[Batch]:
    for batch in batches:
        yield batch


def _standstill(summary: Summary, second: int) -> str | None:
    """Say that hardly anything is made any more, as it is with a server that only collects garbage; else None.

    That is told from what was made in the last seconds before `second`, and from what was made in all seconds before
    these, which have to be as many.
    """
    since = second - _STANDSTILL_S
    if since < _STANDSTILL_S:
        return None
    before = sum(each.finished for number, each in summary.series.items() if number < since)
    now_per_s, before_per_s = (summary.count - before) / _STANDSTILL_S, before / since
    if now_per_s >= _STANDSTILL_SHARE * before_per_s:
        return None
    return (
        f"it came to a standstill: {now_per_s:,.0f} records/s in the last {_STANDSTILL_S} s, and {before_per_s:,.0f}/s "
        "before that"
    )


async def _make_until_done(
    store: Managers, batch: Batch, errors: Counter[str], why_over: Callable[[], str | None]
) -> None:
    """Make a batch. Raises BenchmarkError - it is over, or it fails for good."""
    fruitless = 0
    while True:
        why = why_over()
        if why is not None:
            raise BenchmarkError(why)
        try:
            await _make(store, batch)
            return
        except HedwigError as exc:
            errors[type(exc).__name__] += 1
            fruitless += 1
            if fruitless >= _FRUITLESS_MAX:
                raise BenchmarkError(f"a batch failed {fruitless} times: {type(exc).__name__}: {exc}") from exc
        await asyncio.sleep(_PAUSE_S)


async def _make(store: Managers, batch: Batch) -> None:
    topics = [Write(RecordKey(topic), LedgerRanges(), NEW) for topic in batch.topics]
    owners = [Write(RecordKey(topic), PREDECESSOR, NEW) for topic in batch.owned]
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
