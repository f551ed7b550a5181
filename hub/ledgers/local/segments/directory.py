"""The directory of a store: the names of its files, and the lock that keeps a second process out."""

import fcntl
import os
import re
from pathlib import Path
from typing import Final

from hedwig.errors import ConfigurationError, LedgerStoreLockedError
from hedwig.private_files import PRIVATE, make_directory

__all__ = ["StoreDirectory", "StoreFiles"]

_SEGMENT_NAME: Final = re.compile(r"([0-9a-f]{16})\.segment")
_INDEX_NAME: Final = re.compile(r"([0-9a-f]{16})\.index")


class StoreFiles:
    """The files of a store by name, without a lock, so that inspectors can use it too."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def reserve(self) -> Path:
        return self.path / "reserve"

    def segment(self, number: int) -> Path:
        return self.path / f"{number:016x}.segment"

    def index(self, number: int) -> Path:
        return self.path / f"{number:016x}.index"

    def segments(self) -> list[int]:
        """Return the numbers of the segment files, ascending."""
        return self._numbers(_SEGMENT_NAME)

    def indexes(self) -> list[int]:
        """Return the numbers of the index files, ascending."""
        return self._numbers(_INDEX_NAME)

    def unfinished(self) -> list[Path]:
        """Return the index files that a crash left half written."""
        return list(self.path.glob("*.index.new"))

    def _numbers(self, pattern: re.Pattern[str]) -> list[int]:
        matches = (pattern.fullmatch(entry.name) for entry in self.path.iterdir())
        return sorted(int(match[1], 16) for match in matches if match)


class StoreDirectory(StoreFiles):
    """The directory, locked for this process from the constructor to `unlock`."""

    def __init__(self, path: Path) -> None:
        """Make the directory if it is missing, and lock it.

        Raises: LedgerStoreLockedError - another process, or another store in this one, has it;
            ConfigurationError - it cannot be made or used.
        """
        super().__init__(path)
        try:
            make_directory(path)
            self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        except OSError as exc:
            raise ConfigurationError(
                f"cannot use {path} for ledgers: {exc.strerror}; choose another directory"
            ) from exc
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            holder = os.pread(self._lock, 64, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._lock)
            raise LedgerStoreLockedError(
                f"the ledgers in {path} are in use by process {holder}; stop it, or choose another directory"
            ) from exc
        self._sign()

    def _sign(self) -> None:
        try:
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)
        except OSError:
            pass  # The disk is full. The lock holds all the same, but does not name its holder.

    def unlock(self) -> None:
        """Let the next process in."""
        os.close(self._lock)
