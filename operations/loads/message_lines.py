"""Messages from standard input, one for each line. A line is yielded at once, even if the next one is slow."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode
from hedwig.operations.loads.interruptible_file import InterruptibleFile
from hedwig.wire import HUB_FRAME_BYTES_MAX

__all__ = ["MessageLines"]

_CHUNK_BYTES: Final = 1 << 16


class MessageLines:
    """The lines of a file, without their newlines. Memory holds one piece of the file, and one line."""

    def __init__(self, file: InterruptibleFile) -> None:
        self._file = file

    @property
    def size(self) -> int | None:
        """Return the bytes of the file, None for a pipe."""
        return self._file.size

    @property
    def read_bytes(self) -> int:
        """Return how many bytes were read."""
        return self._file.read_bytes

    async def read(self) -> AsyncIterator[bytes]:
        """Yield the lines. Raises OperationError for one that no hub takes; ReadInterruptedError after `interrupt`."""
        rest = b""
        number = 0
        while chunk := await asyncio.to_thread(self._file.read, _CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                number += 1
                yield line
            if len(rest) > HUB_FRAME_BYTES_MAX:
                raise OperationError(
                    f"line {number + 1} of standard input is longer than the {HUB_FRAME_BYTES_MAX:,} bytes that hubs "
                    "take; is it text?",
                    ExitCode.USAGE,
                )
        if rest:
            yield rest

    def interrupt(self) -> None:
        """End a waiting read. May be called twice."""
        self._file.interrupt()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
