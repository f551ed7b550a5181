"""The two hubs that the Java client is tried on: ours, and the original as the yardstick."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from tests.servers import RunningServers

__all__ = ["Hub", "OriginalHub", "OurHub"]

_START_S: Final = 60.0
_END_S: Final = 45.0
_SERVING: Final = re.compile(r"serving 127\.0\.0\.1:(\d+)")


class Hub(Protocol):
    """A standalone hub that keeps its port and its data when it is ended and started again."""

    @property
    def address(self) -> str:
        """Return host:port."""
        ...

    def kill(self) -> None:
        """End it as a crash does."""
        ...

    def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        ...

    def start(self) -> None:
        """Start it again, and wait until it serves."""
        ...


class OriginalHub:
    """The original Java hub of this run's servers."""

    _NAME: Final = "java-hedwig"

    def __init__(self, servers: RunningServers) -> None:
        self.address = servers.address(self._NAME)
        self._launcher = servers.launcher

    def kill(self) -> None:
        """End it by SIGKILL."""
        self._launcher.kill(self._NAME)

    def stop(self) -> None:
        """End it by SIGTERM."""
        self._launcher.stop(self._NAME)

    def start(self) -> None:
        """Start it again."""
        self._launcher.start(self._NAME)


class OurHub:
    """A hub of ours on local ledgers and embedded metadata, which `with` starts and ends."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self._directory = directory
        self._arguments = arguments
        self._port = 0
        self._admin_port = 0

    @property
    def address(self) -> str:
        """Return host:port."""
        return f"127.0.0.1:{self._port}"

    @property
    def log(self) -> str:
        """Return what it has logged."""
        return (self._directory / "hub.log").read_text(errors="replace")

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, from the second time on at the port it had."""
        command = [sys.executable, "-m", "hub.main", "--data", str(self._directory / "data"), "--port", str(self._port)]
        with (self._directory / "hub.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--admin-port", str(self._admin_port), *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=Path(__file__).parents[2],
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        serving = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(self._process, serving), daemon=True)
        self._reader.start()
        if not serving.wait(_START_S) or self._process.poll() is not None:
            self.kill()
            raise RuntimeError(f"the hub did not start within {_START_S:.0f} s: {self.log[-2000:]}")

    def kill(self) -> None:
        """End it by SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it by SIGTERM, which it must obey in time and with success."""
        self._end(signal.SIGTERM)
        if self._process.returncode != 0:
            raise RuntimeError(f"the hub ended with {self._process.returncode} on SIGTERM: {self.log[-2000:]}")

    def _end(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        try:
            self._process.wait(_END_S)
        finally:
            self._process.kill()
            self._process.wait(_END_S)
            self._reader.join(_END_S)

    def _read(self, process: "subprocess.Popen[str]", serving: threading.Event) -> None:
        """Look for the port, and read on until the end, so that a talkative hub never blocks."""
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                found = _SERVING.search(line)
                if found is not None:
                    self._port = int(found.group(1))
                    serving.set()
        serving.set()
