"""The calls by which the store changes files. Tests inject faults around these calls, not within them."""

import os
from pathlib import Path

from hedwig.private_files import PRIVATE

__all__ = ["Disk"]


class Disk:
    """The file system of this machine. Every method blocks, and raises OSError as the system does."""

    def create(self, path: Path) -> int:
        """Return a descriptor of a new file that only its owner reads, open for writing. Raises FileExistsError."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)

    def write(self, descriptor: int, data: bytes | bytearray, offset: int) -> None:
        """Write all of `data` at `offset`."""
        view = memoryview(data)
        while view:
            written = os.pwrite(descriptor, view, offset)
            view = view[written:]
            offset += written

    def sync(self, descriptor: int) -> None:
        """Return once the file's content and size are on stable storage."""
        os.fdatasync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def allocate(self, descriptor: int, size: int) -> None:
        os.posix_fallocate(descriptor, 0, size)

    def free_bytes(self, directory: Path) -> int:
        """Return how many bytes a process without special rights can still write to the directory's file system."""
        file_system = os.statvfs(directory)
        return file_system.f_bavail * file_system.f_frsize

    def replace(self, source: Path, target: Path) -> None:
        source.replace(target)

    def unlink(self, path: Path) -> None:
        """Remove the file; one that does not exist is fine."""
        path.unlink(missing_ok=True)

    def sync_directory(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
