"""The client of `hedwig-bench metadata`: a process that holds one store open, as a hub does, and obeys commands.

It exchanges lines of JSON as `benchmarks.drivers.generator` does. It reads the URL of the store, writes `ready`, and
then reads commands. They `fill` the store, run a `workload`, or `probe` whether topics can be used. The heaps of
`machines` show when the store is full. A line with none of these ends it.
"""

import asyncio
import gc
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from hedwig.benchmarks.load.json_lines import converse, end_with_listener, hear_later, say
from hedwig.benchmarks.load.load import Load, Observer
from hedwig.benchmarks.load.workloads import Operation, Workload
from hedwig.benchmarks.machine.cpu_time import CpuTimes
from hedwig.benchmarks.machine.jvm_heap import has_full_heap
from hedwig.benchmarks.stores.dataset import DATA, Dataset, FillTask, WorkloadManagers, owned
from hedwig.benchmarks.stores.fill import fill_aloud
from hedwig.benchmarks.stores.target import MetadataTarget
from hedwig.errors import HedwigError
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.contract.operations import RecordKey
from hedwig.metadata.store import MetadataStore, open_metadata
from hedwig.model import SubscriberId

__all__ = ["main", "probe", "serve"]

_SECOND_NS: Final = 1_000_000_000
_PROBE_PAUSE_S: Final = 0.02
_PROBE_ATTEMPT_S: Final = 2.0


def main() -> None:
    """Read a plan from standard input, and run the commands that follow."""
    # Failures go to the measuring process. Log lines of libraries about them would appear amid the progress.
    logging.getLogger().addHandler(logging.NullHandler())
    end_with_listener()
    converse(serve)


async def serve(plan: Mapping[str, Any]) -> None:
    """Open the store of a plan, and run the commands that are read, until a line has none."""
    async with await open_metadata(plan["url"], StoreOptions(gather=True)) as store:
        say({"ready": True})
        while True:
            match await hear_later():
                case {"fill": task, "machines": pids}:
                    summary, why = await fill_aloud(
                        store,
                        FillTask.from_json(task),
                        _tell_progress,
                        has_full_heap=lambda pids=pids: asyncio.to_thread(has_full_heap, pids),  # type: ignore[misc]
                    )
                    say({"filled": {"summary": summary.to_json(), "why": why}})
                case {"workload": workload, "ground": dataset, "round": number, "drain_s": drain_s}:
                    await _carry_out(store, Workload.from_json(workload), Dataset.from_json(dataset), number, drain_s)
                case {"probe": topics, "ground": dataset, "seconds_max": seconds_max}:
                    say({"probed": await probe(store, Dataset.from_json(dataset), topics, seconds_max)})
                case _:
                    break
    say({"ended": True})


async def _carry_out(store: MetadataStore, workload: Workload, dataset: Dataset, number: int, drain_s: float) -> None:
    target = MetadataTarget(workload, store, dataset, round_number=number)
    metered = _Metered(target, int(workload.warmup_share * workload.operations))
    load = Load(workload, metered if workload.is_bounded else target, round_number=number, drain_s=drain_s)
    await target.open(load)
    gc.collect()  # So that this load does not pay for the garbage of the one before.
    say({"ready": True})
    command = await hear_later()
    metered.times = CpuTimes(command["processes"])
    metered.times.look()
    recording = await load.run(command["start_ns"])
    metered.times.look()
    await target.close()
    summary = recording.summarize()
    if workload.is_bounded:
        say({"used": metered.times.between(summary.begin_ns, summary.end_ns)})
    say({"summary": summary.to_json()})
    left = await target.tidy()
    say({"tidied": {"left": dict(left)}})


def _tell_progress(progress: Mapping[str, float]) -> None:
    say({"progress": progress})


class _Metered:
    """A target of a number of operations, whose duration is not known beforehand; it also meters processes.

    The window begins with operation `first`, so it reads the processor times there. It also reads them every few
    milliseconds before and after, in case the time ends before the operations do.
    """

    def __init__(self, target: MetadataTarget, first: int) -> None:
        self._target = target
        self._first = first
        self.times = CpuTimes(())

    async def open(self, observer: Observer) -> None:
        await self._target.open(observer)

    def begin(self, number: int, operation: Operation, topic: int) -> None:
        if number == self._first:
            self.times.look()
        else:
            self.times.look_again()
        self._target.begin(number, operation, topic)

    async def close(self) -> None:
        await self._target.close()


async def probe(
    store: WorkloadManagers,
    dataset: Dataset,
    topics: Sequence[int],
    seconds_max: float,
    *,
    now_ns: Callable[[], int] = time.monotonic_ns,
) -> Mapping[str, int | None]:
    """Read owner, ledger ranges and a subscription of topics until each was read once; then write.

    `topics` are positions among the topics with an owner. The write makes and deletes a subscription of the
    first topic.
    Returns: the monotonic times of the first read (`first_ns`), the last owner (`owners_ns`), the last ledger ranges
        (`ranges_ns`), the last subscription (`subscriptions_ns`), the last of all reads (`all_ns`), and the write
        (`written_ns`). None: not within `seconds_max`.
    """
    numbers = [owned(position) for position in topics]
    first_of = [dataset.subscription(number, 0) for number in numbers]
    asked: Mapping[str, Sequence[Callable[[], Awaitable[object]]]] = {
        "owners_ns": [partial(store.ownership.read, dataset.topic(number)) for number in numbers],
        "ranges_ns": [partial(store.persistence.read, dataset.topic(n)) for n in numbers],
        "subscriptions_ns": [partial(store.subscriptions.read, key.topic, _subscriber(key)) for key in first_of],
    }
    times_ns: dict[str, list[int]] = {name: [] for name in asked}
    deadline_ns = now_ns() + round(seconds_max * _SECOND_NS)

    async def ask(name: str, attempt: Callable[[], Awaitable[object]]) -> None:
        await _until_done(attempt)
        times_ns[name].append(now_ns())

    asking = [asyncio.create_task(ask(name, attempt)) for name, attempts in asked.items() for attempt in attempts]
    late = await _ended(asking, deadline_ns, now_ns)
    read_ns = [at_ns for times in times_ns.values() for at_ns in times]
    written_ns: int | None = None
    if not late:
        writing = [asyncio.create_task(_until_done(partial(_write, store, dataset, numbers[0])))]
        written_ns = None if await _ended(writing, deadline_ns, now_ns) else now_ns()
    return {
        "first_ns": min(read_ns, default=None),
        **{name: max(times) if len(times) == len(asked[name]) else None for name, times in times_ns.items()},
        "all_ns": None if late else max(read_ns),
        "written_ns": written_ns,
    }


async def _ended(tasks: Sequence["asyncio.Task[None]"], deadline_ns: int, now_ns: Callable[[], int]) -> int:
    """Wait for tasks until a deadline, and cancel the others; return how many had not ended."""
    _, late = await asyncio.wait(tasks, timeout=max(0.0, (deadline_ns - now_ns()) / _SECOND_NS))
    for task in late:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return len(late)


async def _until_done(attempt: Callable[[], Awaitable[object]]) -> None:
    while True:
        try:
            async with asyncio.timeout(_PROBE_ATTEMPT_S):
                if await attempt() is not None:
                    return
        except (HedwigError, TimeoutError):
            pass
        await asyncio.sleep(_PROBE_PAUSE_S)


async def _write(store: WorkloadManagers, dataset: Dataset, number: int) -> bool:
    """Make a subscription and delete it; if an earlier attempt has left it, only delete it."""
    key = dataset.new_subscription(number, 0)
    subscriptions, subscriber = store.subscriptions, _subscriber(key)
    left = await subscriptions.read(key.topic, subscriber)
    version = await subscriptions.create(key.topic, subscriber, DATA) if left is None else left.version
    await subscriptions.delete(key.topic, subscriber, version)
    return True


def _subscriber(key: RecordKey) -> SubscriberId:
    assert key.subscriber is not None, "it is the key of a subscription"
    return key.subscriber


if __name__ == "__main__":
    main()
