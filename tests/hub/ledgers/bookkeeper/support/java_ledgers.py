"""The Java client of BookKeeper 4.17 in a process of its own, and the shell of its bookies."""

import asyncio
import hashlib
import queue
import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from hedwig.cli.dev import DevServers
from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT

__all__ = ["JavaError", "JavaLedgers", "java_payload", "summary", "uri"]

_SOURCE: Final = Path(__file__).with_name("JavaLedgers.java")
_START_S: Final = 60.0  # This includes the time to compile the Java program.
_COMMAND_S: Final = 60.0


class JavaError(Exception):
    """An exception of the Java client, by the simple name of its class."""


class JavaLedgers:
    """The Java process. The words of commands are those of JavaLedgers.java."""

    def __init__(self, launcher: DevServers) -> None:
        command = launcher.java_command("bookkeeper", str(_SOURCE), [uri(launcher, "zk+null")])
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._reader.start()
        self._answer(_START_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    async def __call__(self, *words: object) -> str:
        """Send a command, and return its answer. Raises: JavaError."""
        return await asyncio.to_thread(self._ask, " ".join(map(str, words)))

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._answer(_COMMAND_S)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # Skip what Java logs to the same stream.
            if line.startswith(("ok ", "error ")):
                self._lines.put(line)
        self._lines.put("ended")

    def _answer(self, timeout_s: float) -> str:
        kind, _, rest = self._lines.get(timeout=timeout_s).strip().partition(" ")
        if kind == "error":
            raise JavaError(rest)
        assert kind == "ok", "the Java client ended"
        return rest


def java_payload(entry: int) -> bytes:
    """Return the payload that Java gives to an entry."""
    return bytes([entry % 256]) * (entry % 90)


def summary(payloads: Iterable[bytes]) -> str:
    """Return the Java program's summary of a ledger with these entries: the last id, and a hash."""
    digest, last = hashlib.sha1(), -1
    for payload in payloads:
        digest.update(len(payload).to_bytes(4, "big") + payload)
        last += 1
    return f"{last} {digest.hexdigest()}"


def uri(launcher: DevServers, scheme: str) -> str:
    """Return the URI by which Java finds the bookies of the launcher."""
    return f"{scheme}://{launcher.address('zookeeper').replace(',', ';')}{LEDGERS_ROOT}"
