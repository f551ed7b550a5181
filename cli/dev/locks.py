"""A lock file that one process, or one thread, holds at a time."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hedwig.cli.dev.errors import DevError

__all__ = ["locked"]

_POLL_S = 0.05


@contextmanager
def locked(path: Path, timeout_s: float) -> Iterator[None]:
    """Hold the lock file `path` for the body of the with statement. The lock ends with the process in any case.

    Raises: DevError - another holder kept it for longer than `timeout_s`.
    """
    handle = _acquire(path, time.monotonic() + timeout_s)
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def _acquire(path: Path, deadline: float) -> int:
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            holder = os.pread(handle, 20, 0).decode(errors="replace") or "unknown"
            os.close(handle)
            if time.monotonic() > deadline:
                raise DevError(
                    f"another `hedwig-admin dev` (pid {holder}) is at work in {path.parent}: wait for it, or stop it"
                ) from exc
            time.sleep(_POLL_S)
            continue
        # `down` removes the file. A lock on a removed file excludes no other process.
        if _is_file_at(handle, path):
            return handle
        os.close(handle)


def _is_file_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
