"""Space set aside for a full disk, so that the hub can still delete, rewrite and store consume pointers."""

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hedwig.hub.ledgers.local.segments.disk import Disk

__all__ = ["Reserve"]

_log = logging.getLogger(__name__)

_MARGIN: Final = 8
"""The reserve is given up when the disk has less free space than 1/N of the reserve's size."""


class Reserve:
    """A file that is given up when the disk is full. While it is missing, the store writes only what makes space.

    It is given up before the last byte is taken. The metadata of a standalone hub are on the same disk: the hub writes
    consume pointers without asking this store, and deletes nothing without them. The reserve is set aside again only
    once there is clearly more room. So it does not come and go on a disk that stays nearly full.

    The writer and the upkeep give it up; the upkeep sets it aside.
    """

    def __init__(self, path: Path, size: int, disk: Disk) -> None:
        self._path = path
        self._size = size
        self._disk = disk
        self._margin = size // _MARGIN
        self._in_use = threading.Lock()
        self.is_missing = not path.exists() or path.stat().st_size < size
        self.refill()
        if self.is_missing:
            _log.warning(
                "no space for the reserve of %s: appends are refused until %d bytes are free",
                path.parent,
                size + 2 * self._margin,
            )

    @contextmanager
    def given_up(self) -> Iterator[None]:
        """Give the space up. It is not set aside again within the context, so that records that make space fit."""
        with self._in_use:
            self._release()
            yield

    def watch(self) -> None:
        """Give the space up if the disk is nearly full, by any program. Set it aside again once there is room."""
        if self.is_missing:
            self.refill()
        elif self._free_bytes() < self._margin:
            with self.given_up():
                pass

    def refill(self) -> None:
        """Set the space aside again, if clearly more than that is free and `given_up` is not in use."""
        if self.is_missing and self._in_use.acquire(blocking=False):
            try:
                if self._free_bytes() >= self._size + 2 * self._margin:
                    self._set_aside()
            finally:
                self._in_use.release()

    def _free_bytes(self) -> int:
        """Return the free bytes of the disk. If they are unknown, return a huge number: a failed write will tell."""
        try:
            return self._disk.free_bytes(self._path.parent)
        except OSError as exc:
            _log.debug("cannot tell the free space of %s: %s", self._path.parent, exc)
            return sys.maxsize

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
