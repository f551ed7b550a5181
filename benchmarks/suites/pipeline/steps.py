"""The steps of `hedwig-bench pipeline`: jobs, each on the results of those before, and one row-by-row writer."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.load.interrupts import interrupt_later
from hedwig.benchmarks.load.workloads import Operation, Workload
from hedwig.benchmarks.machine.checkout import CHECKOUT
from hedwig.benchmarks.machine.process_tree import TreeMemory
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.stores.command_stores import OPTIONS
from hedwig.errors import HedwigError
from hedwig.metadata import format_metadata, open_metadata
from hedwig.model import LedgerRanges, Topic
from hedwig.versions import NEW

__all__ = ["ROW_BY_ROW", "STEPS", "PipelineSteps", "pipeline_cases"]

ROW_BY_ROW: Final = "row by row"
GENERATE: Final = "generate"
LOAD: Final = "load"
SNAPSHOT: Final = "snapshot"
AUDIT: Final = "audit"
RESTORE: Final = "restore"
STEPS: Final = (GENERATE, ROW_BY_ROW, LOAD, SNAPSHOT, AUDIT, RESTORE)

_AUDITED: Final = ("topics", "subscriptions", "owned topics")
_DRIVER: Final = "hedwig-pipeline"
_PROGRAM: Final = "import sys; sys.argv[0] = 'hedwig-pipeline'; from hedwig.pipeline.main import main; main()"
_LOOK_EVERY_S: Final = 0.05
_ENDS_S: Final = 30.0


def pipeline_cases(topics: int, subscriptions: int, backend: str, target: str, *, row_by_row: int) -> list[Case]:
    """Return a case for each step; `row_by_row` is the number of rows that one writer writes one after the other."""
    return [
        Case(
            Workload(
                name=step,
                mix={(Operation.CREATE if step == ROW_BY_ROW else Operation.COMMAND).value: 1.0},
                topics=row_by_row if step == ROW_BY_ROW else topics,
                subscribers=0 if step == ROW_BY_ROW else max(1, round(subscriptions / topics)),
                operations=row_by_row if step == ROW_BY_ROW else 1,
                in_flight=1,
            ),
            _DRIVER,
            {GENERATE: "no store", RESTORE: target}.get(step, backend),
        )
        for step in STEPS
    ]


class PipelineSteps:
    """Runs the steps of a round, in their order."""

    def __init__(
        self,
        url: Callable[[str, str], str],
        directory: Path,
        size: tuple[int, int],
        backend: str,
        settings: Mapping[str, str],
        deadline_s: float,
        *,
        with_history: bool = False,
    ) -> None:
        """Prepare the steps. The restore does not copy owners.

        Args: url - returns the URL of a store by its backend and its name; directory - has the files of the jobs;
            size - the numbers of topics and subscriptions; backend - the one to load; settings - those of Spark;
            deadline_s - the time limit of a job; with_history - topics have ledger ranges and owners, and subscriptions
            have consumed.
        """
        self._url = url
        self._directory = directory
        self._topics, self._subscriptions = size
        self._backend = backend
        self._settings = settings
        self._deadline_s = deadline_s
        self._with_history = with_history
        self._owners = 0
        """The number of owners in the last generated data."""

    def measure(self, case: Case, number: int) -> Measurement:
        """Run one step. A failure or a wrong report becomes the measurement's wall."""
        measurement = Measurement(workload=case.workload, driver=case.driver, round=number)
        try:
            if case.workload.name == ROW_BY_ROW:
                rows = case.workload.operations
                url = self._url(case.on, f"rows{number}")
                measurement.seconds = asyncio.run(_put_row_by_row(url, rows))
                measurement.count = rows
            else:
                self._run(case, number, measurement)
        except HedwigError as exc:
            measurement.wall = str(exc)
        except (LookupError, TypeError, ValueError) as exc:
            measurement.wall = f"its report is malformed: {exc}"
        return measurement

    def _run(self, case: Case, number: int, measurement: Measurement) -> None:
        step, made = case.workload.name, str(self._directory / f"made{number}")
        taken = str(self._directory / f"snapshot{number}")
        source = self._url(self._backend, f"loaded{number}")
        target = self._url(case.on, f"restored{number}") if step == RESTORE else source
        history, owners = (["--with-history"], ["--with-owners"]) if self._with_history else ([], [])
        arguments = {
            GENERATE: [made, "--topics", str(self._topics), "--subscriptions", str(self._subscriptions), *history],
            LOAD: [source, "--from", made, *owners],
            SNAPSHOT: [source, taken],
            AUDIT: [taken, str(self._directory / f"audit{number}")],
            RESTORE: [taken, target],
        }[step]
        if step in (LOAD, RESTORE):
            asyncio.run(format_metadata(target, OPTIONS))
        conf = [text for name, value in self._settings.items() for text in ("--conf", f"{name}={value}")]
        ran = _run_job([step, *arguments, *conf, "--json"], self._directory / f"{step}{number}.out", self._deadline_s)
        report = ran.report
        if step == GENERATE:
            self._owners = report["tables"].get("owners", 0)
        # Owner records name the hubs of one store, so a restore into another store leaves them out.
        rows = self._topics + self._subscriptions + (0 if step == RESTORE else self._owners)
        seen = sum(report["rows"].get(name, 0) for name in _AUDITED) if step == AUDIT else report["rows"]
        if seen != rows:
            raise BenchmarkError(f"it reported {seen:,} rows of {rows:,}")
        if step == RESTORE and not report["verified"]:
            raise BenchmarkError("the restored store was not verified")
        measurement.count, measurement.seconds = rows, ran.seconds
        measurement.values = {"bytes_max": float(ran.bytes_max)}


async def _put_row_by_row(url: str, rows: int) -> float:
    """Create topics in a new store, one after the other; return how many seconds that took."""
    await format_metadata(url, OPTIONS)
    async with await open_metadata(url, OPTIONS) as store:
        began = time.monotonic()
        for number in range(rows):
            topic = Topic(b"row-%08d" % number)
            await store.persistence.write(topic, LedgerRanges(), NEW)
        return time.monotonic() - began


@dataclass(frozen=True, slots=True, kw_only=True)
class _JobRun:
    """A finished job: its report, and the most memory that it held together with its child processes."""

    seconds: float
    bytes_max: int
    report: Mapping[str, Any]


def _run_job(arguments: Sequence[str], output: Path, deadline_s: float) -> _JobRun:
    """Run hedwig-pipeline to its end. Its result goes into the file `output`, its messages into a file beside it.

    Raises: BenchmarkError - the job failed, or did not end in time. In that case it is ended.
    """
    talk = output.with_suffix(".talk")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEDWIG_")}
    environment["PYTHONPATH"] = str(CHECKOUT)
    process: subprocess.Popen[bytes] | None = None
    began = time.monotonic()
    with output.open("wb") as out, talk.open("wb") as err:
        try:
            with interrupt_later():
                process = subprocess.Popen(
                    [sys.executable, "-c", _PROGRAM, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    cwd=output.parent,
                    env=environment,
                    start_new_session=True,
                )
            with TreeMemory(process.pid) as memory:
                while process.poll() is None:
                    if time.monotonic() - began > deadline_s:
                        raise BenchmarkError(f"{arguments[0]} did not end within {deadline_s:g} s")
                    time.sleep(_LOOK_EVERY_S)
                seconds = time.monotonic() - began
        finally:
            if process is not None:
                _end(process)
    if process.returncode != 0:
        last = talk.read_text(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise BenchmarkError(f"exit code {process.returncode}: {last[0]}")
    return _JobRun(seconds=seconds, bytes_max=memory.bytes_max, report=json.loads(output.read_text()))


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a job that still runs, with its virtual machine and its workers."""
    if process.poll() is not None:
        return
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_ENDS_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
