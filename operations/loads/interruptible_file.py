"""A file whose reads another thread can interrupt, so that Ctrl-C ends a command that waits for a pipe."""

import gzip
import io
import os
import select
import shutil
import stat
import sys
import tempfile
from typing import BinaryIO, Final, cast

from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode

__all__ = ["InterruptibleFile", "ReadInterruptedError", "standard_input", "standard_input_is_closed"]

_BUFFER_BYTES: Final = 1 << 14
"""Small, since progress counts the bytes read from the file, and half a megabyte of gzip holds thousands of rows."""
_GZIP_MAGIC: Final = b"\x1f\x8b"


class ReadInterruptedError(Exception):
    """The command does not need the input any more."""


class InterruptibleFile(io.RawIOBase):
    """A file descriptor that counts the bytes read. Another thread can end a read that waits."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._wake_read, self._wake_write = os.pipe()
        self._head = b""
        self.read_bytes = 0
        status = os.fstat(descriptor)
        self.size = status.st_size if stat.S_ISREG(status.st_mode) else None

    def opened(self) -> BinaryIO:
        """Return the content of the file, unpacked if it begins with the gzip magic."""
        while len(self._head) < len(_GZIP_MAGIC) and (more := self._next(len(_GZIP_MAGIC) - len(self._head))):
            self._head += more
        packed = self._head == _GZIP_MAGIC
        buffered = io.BufferedReader(self, _BUFFER_BYTES)
        return cast(BinaryIO, gzip.GzipFile(fileobj=buffered) if packed else buffered)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview[int]") -> int:  # type: ignore[override]
        if self._head:
            chunk, self._head = self._head[: len(buffer)], self._head[len(buffer) :]
        else:
            chunk = self._next(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def interrupt(self) -> None:
        os.write(self._wake_write, b"!")

    def close(self) -> None:
        if not self.closed:
            os.close(self._wake_read)
            os.close(self._wake_write)
            os.close(self._descriptor)
        super().close()

    def _next(self, most: int) -> bytes:
        ready, _, _ = select.select([self._descriptor, self._wake_read], [], [])
        if self._wake_read in ready:
            raise ReadInterruptedError
        chunk = os.read(self._descriptor, most)
        self.read_bytes += len(chunk)
        return chunk


def standard_input_is_closed() -> OperationError:
    """Return the error of a command that needs standard input if there is none."""
    return OperationError("standard input is closed: nothing could be read, and nothing was done", ExitCode.USAGE)


def standard_input() -> int:
    """Return a descriptor of standard input, which the caller closes. If it is no file, the descriptor is of a copy.

    Raises: OperationError - the parent process has closed it.
    """
    if sys.stdin is None:
        raise standard_input_is_closed()
    try:
        return os.dup(sys.stdin.fileno())
    except io.UnsupportedOperation:
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.seek(0)
            return os.dup(copy.fileno())
