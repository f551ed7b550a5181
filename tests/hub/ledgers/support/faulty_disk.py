"""A disk that fails on demand: the store's real file calls, with faults around them and a record of synced bytes."""

import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from hedwig.hub.ledgers.local.segments.disk import Disk

__all__ = ["FaultyDisk", "size_of"]


class FaultyDisk(Disk):
    """Real files. `on_write`, `on_sync` and `on_truncate` run before the real call, and may raise or wait.

    `capacity`: bytes that all files together may have, None for no bound. `before` runs with a word and a path before
    every call that changes names.
    """

    def __init__(self) -> None:
        self.on_write: Callable[[Path], None] = _nothing
        self.on_sync: Callable[[Path], None] = _nothing
        self.on_truncate: Callable[[Path], None] = _nothing
        self.before: Callable[[str, Path], None] = _nothing_named
        self.capacity: int | None = None
        self.synced: dict[Path, int] = {}
        self.syncs = 0
        self._paths: dict[int, Path] = {}
        self._lock = threading.Lock()

    def create(self, path: Path) -> int:
        self.before("create", path)
        with self._lock:
            descriptor = super().create(path)
        self._paths[descriptor] = path
        return descriptor

    def write(self, descriptor: int, data: bytes | bytearray, offset: int) -> None:
        path = self._paths[descriptor]
        self.on_write(path)
        with self._lock:
            room = self._room(path, offset)
            # As a real file system does, write as much as fits, and then raise.
            super().write(descriptor, data[:room], offset)
        if room < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sync(self, descriptor: int) -> None:
        path = self._paths.get(descriptor)
        if path is not None:
            self.on_sync(path)
        super().sync(descriptor)
        self.syncs += 1
        if path is not None:
            self.synced[path] = os.fstat(descriptor).st_size

    def truncate(self, descriptor: int, size: int) -> None:
        if descriptor in self._paths:
            self.on_truncate(self._paths[descriptor])
        super().truncate(descriptor, size)

    def allocate(self, descriptor: int, size: int) -> None:
        if self._room(self._paths[descriptor], 0) < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().allocate(descriptor, size)

    def free_bytes(self, directory: Path) -> int:
        return min(super().free_bytes(directory), self._room(directory / "no file", 0))

    def replace(self, source: Path, target: Path) -> None:
        self.before("replace", target)
        with self._lock:
            super().replace(source, target)

    def unlink(self, path: Path) -> None:
        self.before("unlink", path)
        with self._lock:
            super().unlink(path)
        self.synced.pop(path, None)

    def image(self, source: Path, target: Path, cut: Callable[[Path, int, int], int] | None = None) -> None:
        """Copy the directory as a crash could leave it. Writes and changes of names wait until the copy is complete.

        For a file with bytes after its last sync, `cut(path, synced, size)` returns its length in the copy. Without
        `cut`, all bytes stay.
        """
        with self._lock:
            shutil.copytree(source, target)
            all_synced = list(self.synced.items())
        for path, synced in all_synced:
            copy = target / path.name
            if cut is not None and copy.exists() and copy.stat().st_size > synced:
                os.truncate(copy, cut(path, synced, copy.stat().st_size))

    def _room(self, path: Path, offset: int) -> int:
        # Read the bound once: the test lifts it while the store's thread counts the files.
        capacity = self.capacity
        if capacity is None:
            return 1 << 62
        used = sum(size_of(other) for other in path.parent.iterdir() if other != path)
        return max(0, capacity - used - offset)


def size_of(path: Path) -> int:
    """Return the size of a file, 0 if it was removed at this moment."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _nothing(_: Path) -> None:
    pass


def _nothing_named(_: str, __: Path) -> None:
    pass
