"""A generator process, as the measuring process handles it."""

import contextlib
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.interrupts import interrupt_later
from hedwig.benchmarks.machine.checkout import CHECKOUT

__all__ = ["GeneratorProcess"]

_END_S: Final = 15.0


class GeneratorProcess:
    """A generator that `with` starts with its plan, and ends.

    `command` starts another program that exchanges the same lines.

    Raises: BenchmarkError - the generator failed, or did not answer in time.
    """

    def __init__(self, plan: Mapping[str, Any], command: Sequence[str] = ()) -> None:
        self._plan = plan
        self._command = command or (sys.executable, "-m", "hedwig.benchmarks.drivers.generator")
        self._lines: queue.Queue[str] = queue.Queue()
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread(target=self._read, name="generator", daemon=True)

    def __enter__(self) -> Self:
        try:
            self._start()
            self.tell(self._plan)
        except BaseException:
            if self._process is not None:
                self._process.kill()  # Ctrl-C comes at any time, and the caller gets no object to end it with.
            raise
        return self

    def _start(self) -> None:
        with interrupt_later():
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=CHECKOUT,
                # Ctrl-C must reach only the measuring process, which ends this one.
                start_new_session=True,
            )
        self._reader.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.kill()
        self._process.wait(_END_S)
        self._reader.join(_END_S)
        # A line that the generator did not read may still be in the buffer, as after Ctrl-C within `tell`. A broken
        # pipe raised here would hide the real error. Click would take it for that of standard output, and exit with 1
        # without a message.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def tell(self, values: Mapping[str, Any]) -> None:
        """Send the generator a line."""
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(values) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return  # The generator has ended; its last line tells why.

    def hear(self, what: str, deadline: float, *, on_progress: Callable[[Any], None] = lambda _: None) -> Any:
        """Wait for the line with the member `what`, until the monotonic time `deadline`; return the member's value.

        on_progress: gets each progress report that comes before.
        """
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise BenchmarkError(f"the load generator did not say {what!r} in time") from None
            if not line:
                raise BenchmarkError("the load generator ended without an error message")
            said = json.loads(line)
            if "error" in said:
                raise BenchmarkError(f"the load generator failed: {said['error']}")
            if "progress" not in said:
                return said[what]
            on_progress(said["progress"])

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        with self._process.stdout:
            for line in self._process.stdout:
                self._lines.put(line)
        self._lines.put("")
