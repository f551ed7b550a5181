"""Space set aside for deleting and rewriting, so that a full disk can be emptied again."""

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hub.ledgers.local.disk import Disk

__all__ = ["Reserve"]

_log = logging.getLogger(__name__)


class Reserve:
    """A file that is given up when the disk is full. While it is missing, nothing but what makes space is written.

    One thread gives it up, another one refills; each looks at `is_missing` only.
    """

    def __init__(self, path: Path, size: int, disk: Disk) -> None:
        self._path = path
        self._size = size
        self._disk = disk
        self._in_use = threading.Lock()
        self.is_missing = not path.exists() or path.stat().st_size < size
        self.refill()

    @contextmanager
    def given_up(self) -> Iterator[None]:
        """Give the space up; within the context it is not set aside again, so that what makes space can be written."""
        with self._in_use:
            self._release()
            yield

    def refill(self) -> None:
        """Set the space aside again, if there is so much and nobody writes into it."""
        if self.is_missing and self._in_use.acquire(blocking=False):
            try:
                self._set_aside()
            finally:
                self._in_use.release()

    def _release(self) -> None:
        if not self.is_missing:
            self.is_missing = True
            _log.warning("no space left in %s: giving up the reserve, and refusing appends", self._path.parent)
        try:
            self._disk.unlink(self._path)
            self._disk.sync_directory(self._path.parent)
        except OSError as exc:
            _log.warning("cannot give up %s: %s", self._path, exc)

    def _set_aside(self) -> None:
        try:
            self._disk.unlink(self._path)
            descriptor = self._disk.create(self._path)
            try:
                self._disk.allocate(descriptor, self._size)
                self._disk.sync(descriptor)
            except OSError:
                self._disk.unlink(self._path)
                raise
            finally:
                os.close(descriptor)
        except OSError as exc:
            _log.debug("no space for %s yet: %s", self._path, exc)
            return
        self.is_missing = False
        _log.info("set %d bytes aside in %s: appends are accepted", self._size, self._path)
