"""Worker processes, as a test uses them: it starts them, sets them off together, kills them, and reads their logs."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.checkout import CHECKOUT

__all__ = ["Worker", "set_off", "workers"]


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that runs `tests.faults.support.worker`, and its files."""

    process: "subprocess.Popen[str]"
    log: Path
    errors: Path

    def facts(self) -> list[dict[str, Any]]:
        """Return the facts that it has logged so far, without an incomplete line."""
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def count(self, task: str) -> int:
        """Return the number of facts of a task that it has logged so far."""
        return sum(fact["task"] == task for fact in self.facts())

    def wait_ready(self) -> None:
        """Wait until it waits for the others. Raises AssertionError, with its error output, if it ended instead."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == "ready\n", self._last_words()

    def go(self) -> None:
        """Let the worker begin."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def finish(self, timeout_s: float) -> None:
        """Wait until it has done its task. Raises AssertionError, with its error output, if it failed."""
        assert self.process.wait(timeout_s) == 0, self._last_words()

    def kill(self) -> None:
        """Kill the worker with SIGKILL."""
        self.process.kill()
        self.process.wait()

    def _last_words(self) -> str:
        return self.errors.read_text()[-4000:]


def set_off(crew: Sequence[Worker]) -> None:
    """Wait until all are ready, and let all begin at the same moment."""
    for worker in crew:
        worker.wait_ready()
    for worker in crew:
        worker.go()


@contextmanager
def workers(task: str, settings: Sequence[Mapping[str, Any]], directory: Path) -> Iterator[list[Worker]]:
    """Start one worker for each of `settings`, and end them all afterwards."""
    crew = [_start(task, one, directory, number) for number, one in enumerate(settings)]
    try:
        yield crew
    finally:
        for worker in crew:
            worker.kill()
            for pipe in (worker.process.stdin, worker.process.stdout):
                if pipe is not None:
                    pipe.close()


def _start(task: str, settings: Mapping[str, Any], directory: Path, number: int) -> Worker:
    log, errors = directory / f"{task}-{number}.jsonl", directory / f"{task}-{number}.err"
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.support.worker", task, str(log), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=CHECKOUT,
        )
    return Worker(process, log, errors)
