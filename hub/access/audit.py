"""The audit log: who was refused what, as lines of JSON in a file of their own.

A refusal is written at once, and then no more of its kind for a minute: they are counted, and the count is written. A
thread writes, so that no request waits for the disk. What it cannot take in time is counted too. Names are written as
people read them, and never a message or a secret.
"""

import asyncio
import json
import logging
import logging.handlers
import os
import queue
import time
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final

from hedwig.clock import Clock
from hedwig.errors import ConfigurationError
from hedwig.names import show_name
from hedwig.private_files import PRIVATE

__all__ = ["COUNTED_S", "Audit"]

COUNTED_S: Final = 60.0
"""For how long refusals of one kind are counted after the first."""
_KINDS_MAX: Final = 10_000
"""How many kinds of refusals are counted at a time. The others are counted together."""
_LINES_MAX: Final = 10_000
"""How many lines wait for the disk at most."""
_FILES: Final = 8
_NAME_CHARACTERS_MAX: Final = 256
_CLOSE_S: Final = 5.0
_PAUSE_S: Final = 0.01

_Kind = tuple[str, str, str]
"""Who, what, and the beginning of the topic up to its last slash."""


class _PrivateFiles(logging.handlers.RotatingFileHandler):
    """Files that only their owner can read, for any umask."""

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, PRIVATE)
        return os.fdopen(descriptor, "a", encoding="utf-8")

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002 (logging gives it)
        """Say in the hub's log that a line could not be written."""
        logging.getLogger(__name__).error("a line of the audit log %s is not written", self.baseFilename)


class _Lines(logging.handlers.QueueHandler):
    """Hands lines over to the thread, and counts those for which there is no room."""

    lost = 0

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.lost += 1


class Audit:
    """The audit log of a hub. Close it."""

    def __init__(self, path: Path, bytes_max: int, clock: Clock) -> None:
        """`bytes_max`: the size of all its files. Raises: ConfigurationError - the file cannot be written."""
        self._clock = clock
        self._counts: dict[_Kind, int] = {}
        self._uncounted = 0
        try:
            self._file = _PrivateFiles(path, maxBytes=max(1, bytes_max // _FILES), backupCount=_FILES - 1)
        except OSError as exc:
            raise ConfigurationError(f"cannot write the audit log {path}: {exc.strerror or exc}") from exc
        self._file.setFormatter(logging.Formatter("%(message)s"))
        waiting: queue.Queue[Any] = queue.Queue(_LINES_MAX)
        self._lines = _Lines(waiting)
        self._thread = logging.handlers.QueueListener(waiting, self._file)
        self._thread.start()

    def write(self, event: str, **fields: object) -> None:
        """Write a line."""
        line = json.dumps({"at": round(self._clock.wall(), 3), "event": event, **fields}, ensure_ascii=False)
        self._lines.handle(logging.LogRecord("hedwig.audit", logging.INFO, "", 0, line, None, None))

    def refused(self, peer: str, who: str, what: str, topic: bytes | None, subscriber: bytes | None = None) -> None:
        """Write that a request was refused, or count it. A login has no topic."""
        kind = who, what, _shown((topic or b"").rpartition(b"/")[0])
        if kind in self._counts:
            self._counts[kind] += 1
        elif len(self._counts) >= _KINDS_MAX:
            self._uncounted += 1
        else:
            self._counts[kind] = 0
            named = {"topic": topic, "subscriber": subscriber}
            asked = {name: _shown(value) for name, value in named.items() if value is not None}
            self.write("refused", peer=peer, who=who, action=what, **asked)

    async def sweep(self) -> None:
        """Write how many more were refused since the last call, and begin to count anew."""
        self._write_counts()

    def _write_counts(self) -> None:
        counts, self._counts = self._counts, {}
        for (who, what, begin), count in counts.items():
            if count:
                self.write("refused again", who=who, action=what, topics=f"{begin}/…" if begin else "…", count=count)
        if self._uncounted:
            self.write("refused again", count=self._uncounted)
            self._uncounted = 0
        if lost := self._lines.lost:
            self._lines.lost = 0
            self.write("lost", lines=lost)

    async def close(self) -> None:
        """Write what waits, and close the file. A disk that stands still is not waited for."""
        self._write_counts()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        deadline = time.monotonic() + _CLOSE_S
        while time.monotonic() < deadline:
            try:
                self._thread.stop()
            except queue.Full:
                time.sleep(_PAUSE_S)
            else:
                self._file.close()
                return


def _shown(name: bytes) -> str:
    text = show_name(name[: 4 * _NAME_CHARACTERS_MAX])
    return text if len(text) <= _NAME_CHARACTERS_MAX else f"{text[:_NAME_CHARACTERS_MAX]}…"
