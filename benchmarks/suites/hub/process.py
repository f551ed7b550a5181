"""A hub to measure, in a process of its own, as users run it."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.interrupts import interrupt_later
from hedwig.benchmarks.machine.checkout import CHECKOUT

__all__ = ["AnyHub", "HubProcess"]

_START_S: Final = 120.0
_STOP_S: Final = 120.0
_POLL_S: Final = 0.02
_SERVING: Final = re.compile(r"^hedwig-hub: serving (\S+:\d+)(?:, admin (\S+:\d+))?", re.MULTILINE)


class AnyHub(Protocol):
    """A hub of any kind, in a process of its own. `with` starts it, and ends it if it still runs.

    Raises: BenchmarkError - the hub does not start or does not stop. The error has the end of its log.
    """

    @property
    def address(self) -> str:
        """Return the address where it listens, as host:port."""
        ...

    @property
    def pid(self) -> int:
        """Return its process id."""
        ...

    @property
    def is_running(self) -> bool:
        """Say whether its process runs."""
        ...

    def start(self) -> None:
        """Start the hub, and wait until it serves."""
        ...

    def stop(self) -> None:
        """Stop the hub in order."""
        ...

    def last_words(self) -> str:
        """Return the last line of its log."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class HubProcess:
    """A hub of ours over `directory`, standalone unless the settings say otherwise. See `AnyHub`."""

    def __init__(self, directory: Path, settings: Sequence[str] = (), *, has_admin: bool = False) -> None:
        """Prepare a hub.

        Args: settings - options of the hub, as key=value; has_admin - the hub has an admin endpoint, whose host:port is
            in `admin` once the hub serves.
        """
        self._directory = directory
        self._settings = settings
        self._admin_port = 0 if has_admin else -1
        self._log = directory / "hub.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._address = ""
        self.admin = ""

    @property
    def address(self) -> str:
        return self._address

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the hub, and wait until it serves."""
        self._directory.mkdir(parents=True, exist_ok=True)
        settings = self._settings
        if not any(setting.startswith("access.mode=") for setting in settings):
            settings = ("access.mode=open", *settings)
        given = [word for setting in settings for word in ("--set", setting)]
        data = str(self._directory / "data")
        ports = ("--port", "0", "--admin-port", str(self._admin_port))
        command = [sys.executable, "-m", "hedwig.hub.main", "--data", data, *ports, *given]
        with self._log.open("ab") as log, interrupt_later():
            began_at = log.tell()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=CHECKOUT,
                # Ctrl-C must reach only the measuring process, which then ends this one.
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_S
        while True:
            ended = not self.is_running
            text = self._log.read_bytes()[began_at:].decode(errors="replace")
            if (match := _SERVING.search(text)) is not None:
                self._address, self.admin = match[1], match[2] or ""
                return
            if ended:
                raise BenchmarkError(f"the hub ended while it started: {_last_line(text)}")
            if time.monotonic() > deadline:
                self.kill()
                raise BenchmarkError(f"the hub does not serve after {_START_S:g} s: {_last_line(text)}")
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Stop the hub in order."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BenchmarkError(f"the hub did not stop within {_STOP_S:g} s; it was killed") from None
        if code != 0:
            raise BenchmarkError(f"the hub ended with {code} when it was asked to stop: {self.last_words()}")

    def kill(self) -> None:
        """Kill the hub at once, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_STOP_S)

    def last_words(self) -> str:
        """Return the last line of its log."""
        return _last_line(self._log.read_text(errors="replace"))

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()  # Ctrl-C can arrive here too. `with` has no object yet, so nothing else would end the hub.
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"
