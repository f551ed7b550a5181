"""A hub in a process of its own, as users run it: started, stopped, killed, and restarted on the same port."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from hedwig.cli.dev.ports import choose_port
from tests.support.checkout import CHECKOUT

__all__ = ["HubNotServingError", "RunningHub"]

_START_S: Final = 60.0
_END_S: Final = 60.0
_PAUSE_S: Final = 0.01
_SERVING: Final = re.compile(r"^hedwig-hub: serving (\S+:\d+)(?:, admin (\S+:\d+))?.*\n", re.MULTILINE)


class HubNotServingError(RuntimeError):
    """A hub was started and does not serve. `returncode` is its exit code, None if it has not ended by itself."""

    def __init__(self, message: str, returncode: int | None = None) -> None:
        super().__init__(message)
        self.returncode = returncode


class RunningHub:
    """A standalone hub on loopback with its data in `directory`/data; `settings` are texts like `topic_idle_s=600`.

    Unless they say otherwise, everybody may do everything there (access.mode).

    `start`, `stop` and `kill` block. If others need the event loop meanwhile, call them with asyncio.to_thread. As a
    context manager, it starts the hub, and kills it at the end if it still runs.
    """

    def __init__(
        self,
        directory: Path,
        *settings: str,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        module: str = "hedwig.hub.main",
        launcher: Sequence[str] = (),
    ) -> None:
        """Prepare a hub.

        `arguments` are added to the command line; `module` is the module that runs with all of them. `launcher` is a
        command that receives the command of the hub, and executes it at its end.
        """
        self.directory = directory
        self.data = directory / "data"
        self.settings = settings
        self.arguments = arguments
        self.address = "127.0.0.1:0"
        """host:port; the port stays the same after the first start."""
        self.admin = "127.0.0.1:0"
        """host:port of the admin endpoint; as given if the hub has none."""
        self.process: subprocess.Popen[bytes] | None = None
        self._environment = dict(environment or {})
        self._module = module
        self._launcher = launcher
        self._log_start = 0

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def log(self) -> str:
        """Return all output of all starts so far, to standard output and standard error."""
        try:
            return self._log_file.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    @property
    def pid(self) -> int:
        assert self.process is not None, "the hub was never started"
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def begin(self) -> "subprocess.Popen[bytes]":
        """Start the process without waiting for it."""
        assert not self.is_running, "the hub runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", self._module, "--data", str(self.data)]
        if self.port == 0:
            # While the hub is down, an outgoing connection could take a port that the system chose.
            port = choose_port((), random.Random())
            ports = (f"port={port}", f"admin_port={choose_port((port,), random.Random())}")
        else:
            ports = (f"port={self.port}", f"admin_port={self.admin.rpartition(':')[2]}")
        # A hub of an earlier release, which has a path without this checkout, knows no such option, and asks nobody.
        is_ours = str(CHECKOUT) in self._environment.get("PYTHONPATH", str(CHECKOUT)).split(os.pathsep)
        defaults = (*ports, "access.mode=open") if is_ours else ports
        given = {setting.partition("=")[0] for setting in self.settings}
        for setting in (*(each for each in defaults if each.partition("=")[0] not in given), *self.settings):
            command += ["--set", setting]
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("HEDWIG_")}
        with self._log_file.open("ab") as log:
            self._log_start = log.tell()
            self.process = subprocess.Popen(
                [*self._launcher, *command, *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env={**inherited, "PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1", **self._environment},
            )
        return self.process

    def start(self) -> Self:
        """Start the hub, and wait until it serves. Raises HubNotServingError, with its log, if it does not."""
        process = self.begin()
        deadline = time.monotonic() + _START_S
        while (match := _SERVING.search(self._log_of_this_start())) is None:
            if process.poll() is not None:
                raise HubNotServingError(
                    f"the hub ended with {process.returncode} as it started: {self.log[-4000:]}", process.returncode
                )
            if time.monotonic() > deadline:
                self.kill()
                raise HubNotServingError(f"the hub does not serve after {_START_S:g} s: {self.log[-4000:]}")
            time.sleep(_PAUSE_S)
        self.address = match[1]
        self.admin = match[2] or self.admin
        return self

    def stop(self) -> None:
        """End the hub in order, with SIGTERM. Raises RuntimeError, with its log, if it does not end in order."""
        code = self.end(signal.SIGTERM)
        if code != 0:
            raise RuntimeError(f"the hub ended with {code} on SIGTERM: {self.log[-4000:]}")

    def restart(self, *settings: str) -> None:
        """End the hub in order, and start it with other settings."""
        self.stop()
        names = {setting.partition("=")[0] for setting in settings}
        self.settings = (*(each for each in self.settings if each.partition("=")[0] not in names), *settings)
        self.start()

    def kill(self) -> None:
        """End the hub with SIGKILL, as a crash does; do nothing if it does not run."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(_END_S)

    def end(self, number: signal.Signals) -> int:
        """Send a signal, and return the exit code. Raises RuntimeError, with the hub's log, if it does not end."""
        assert self.process is not None, "the hub was never started"
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Return the exit code once the hub has ended. Raises RuntimeError, with its log, if it does not."""
        assert self.process is not None, "the hub was never started"
        try:
            return self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"the hub did not end within {_END_S:g} s: {self.log[-4000:]}") from None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def _log_file(self) -> Path:
        return self.directory / "hedwig.hub.logs.log"

    def _log_of_this_start(self) -> str:
        with self._log_file.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")
