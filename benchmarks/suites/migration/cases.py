"""The cases of `hedwig-bench migrate`: the command from one store to another, while a client changes the source."""

import asyncio
import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.load.workloads import Operation, Workload
from hedwig.benchmarks.runs.command_process import CommandRun, run_command
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.stores.command_stores import OPTIONS
from hedwig.benchmarks.stores.dataset import Dataset, FillTask
from hedwig.benchmarks.stores.fill import fill
from hedwig.clock import SystemClock
from hedwig.errors import HedwigError
from hedwig.metadata import MetadataStore, Write, format_metadata, open_metadata
from hedwig.metadata.migration.freeze_watch import FreezeWatch, StoreFrozenError
from hedwig.model import MessageSeqId, SubscriptionData, SubscriptionState
from hedwig.versions import ANY

__all__ = ["Migrations", "migration_cases"]

_DRIVER: Final = "hedwig-admin"
_NAME: Final = "migrate"
_END_S: Final = 60.0


def migration_cases(pairs: Sequence[tuple[str, str]], topics: int, subscribers: int, rate_per_s: float) -> list[Case]:
    """Return a case for each pair of backends; a client makes `rate_per_s` changes a second meanwhile."""
    mix = {Operation.COMMAND.value: 1.0}
    name = f"{_NAME} with {rate_per_s:g} changes/s"
    workload = Workload(name=name, mix=mix, topics=topics, subscribers=subscribers, operations=1, in_flight=1)
    return [Case(workload, _DRIVER, f"{source} to {target}") for source, target in pairs]


class Migrations:
    """Measures cases, one after the other. A source is filled when it is first needed; each target is a new store."""

    def __init__(
        self,
        url: Callable[[str, str], str],
        directory: Path,
        rate_per_s: float,
        deadline_s: float,
        progress: Callable[[str], None],
    ) -> None:
        self._url = url
        self._directory = directory
        self._rate_per_s = rate_per_s
        self._deadline_s = deadline_s
        self._progress = progress
        self._targets = 0

    def measure(self, case: Case, number: int) -> Measurement:
        """Run the command once. A failure or a wrong report becomes the measurement's wall."""
        workload = case.workload
        measurement = Measurement(workload=workload, driver=case.driver, round=number)
        from_backend, _, to_backend = case.on.partition(" to ")
        self._targets += 1
        source = self._url(from_backend, f"source{workload.topics}")
        target = self._url(to_backend, f"target{self._targets}")
        output = self._directory / "output"
        records = workload.topics * (1 + workload.subscribers)
        try:
            asyncio.run(_fill(source, workload, self._progress))
            asyncio.run(format_metadata(target, OPTIONS))
            command = ["--timeout", f"{OPTIONS.operation_timeout_s:g}", "metadata", "migrate", "--hubs-down", "--yes"]
            with _changes(source, workload, self._rate_per_s) as changes:
                ran = run_command([*command, "--from", source, "--to", target, "-o", "json"], output, self._deadline_s)
            if changes.failure is not None:
                raise BenchmarkError(f"the source could not be changed during the migration: {changes.failure}")
            # Thaw the source, so that the next case can migrate from it again.
            run_command(["metadata", "thaw", "--yes", "--metadata", source], self._directory / "thawed", _END_S)
        except HedwigError as exc:
            measurement.wall = str(exc)
            return measurement
        measurement.seconds = ran.seconds
        measurement.values = {"cpu_s": ran.cpu_s, "rss_bytes_max": float(ran.rss_bytes_max)}
        measurement.wall = _wall(ran, output, records)
        if measurement.wall is None:
            report = json.loads(output.read_text())
            measurement.count = records
            measurement.values |= {
                "pause_s": report["pause_seconds"],
                "compared_in_pause": report["compared_in_pause"],
                "changed_in_pause": report["changed_in_pause"],
                "caught_up": report["caught_up"],
                "changes_per_s": changes.made / ran.seconds,
            }
        return measurement


def _wall(ran: CommandRun, output: Path, records: int) -> str | None:
    if ran.code != 0:
        last = ran.said.strip().splitlines()[-1:] or ["it said nothing"]
        return f"exit code {ran.code}: {last[0]}"
    report = json.loads(output.read_text())
    moved = sum(report["records"].values())
    if not report["verified"]:
        return "it was not verified"
    return None if moved == records else f"it moved {moved:,} records of {records:,}"


async def _fill(url: str, workload: Workload, progress: Callable[[str], None]) -> None:
    await format_metadata(url, OPTIONS)
    task = FillTask(first=0, last=workload.topics, subscribers=workload.subscribers, is_released=True)
    last = Dataset(topics=workload.topics, subscribers=workload.subscribers, drawn=1).topic(workload.topics - 1)
    async with await open_metadata(url, OPTIONS) as store:
        if await store.persistence.read(last) is None:
            progress(f"filling {url} with {task.records:,} records")
            _, why = await fill(store, task)
            if why is not None:
                raise BenchmarkError(f"{url} could not be filled: {why}")


@dataclass(slots=True)
class _Changes:
    """The changes beside a migration: how many so far, and the error that ended them, if any."""

    made: int = 0
    failure: str | None = None
    over: threading.Event = field(default_factory=threading.Event)


@contextmanager
def _changes(url: str, workload: Workload, rate_per_s: float) -> Iterator[_Changes]:
    """Move consume pointers of random subscriptions, evenly in time, until the store is frozen or `with` ends."""
    changes = _Changes()
    thread = threading.Thread(target=_run, args=(url, workload, rate_per_s, changes), name="changes", daemon=True)
    if rate_per_s:
        thread.start()
    try:
        yield changes
    finally:
        changes.over.set()
        if rate_per_s:
            thread.join(_END_S)


def _run(url: str, workload: Workload, rate_per_s: float, changes: _Changes) -> None:
    try:
        asyncio.run(_change(url, workload, rate_per_s, changes))
    except HedwigError as exc:
        changes.failure = str(exc)


async def _change(url: str, workload: Workload, rate_per_s: float, changes: _Changes) -> None:
    dataset = Dataset(topics=workload.topics, subscribers=workload.subscribers, drawn=1)
    drawn = random.Random(workload.seed)
    async with await open_metadata(url, OPTIONS) as store:
        watch = FreezeWatch(store.named_records, SystemClock())
        began = time.monotonic()
        due = 0
        with suppress(StoreFrozenError):
            while not changes.over.is_set():
                key = dataset.subscription(drawn.randrange(workload.topics), drawn.randrange(workload.subscribers))
                due += 1
                state = SubscriptionData(state=SubscriptionState(MessageSeqId(due)))
                await watch.carry_out(partial(_one, store, Write(key, state, ANY, merge=True)))
                changes.made += 1
                await asyncio.sleep(max(0.0, began + due / rate_per_s - time.monotonic()))


async def _one(store: MetadataStore, write: Write[SubscriptionData]) -> None:
    (outcome,) = await store.subscriptions.apply([write])
    outcome.check()
