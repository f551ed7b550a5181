"""The log files of the servers: their last lines, and the lines that servers append from now on."""

import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["follow", "last_lines"]

_BLOCK_BYTES = 65_536
_POLL_S = 0.2


def last_lines(path: Path, count: int) -> tuple[bytes, int]:
    """Return the last `count` lines of a file, with line ends, and the position after them.

    Raises: FileNotFoundError - there is no such file.
    """
    with path.open("rb") as log:
        end = at = log.seek(0, 2)
        content = b""
        # Read one more than wanted: the part before the first line end may be half a line.
        while at > 0 and content.count(b"\n") <= count:
            at = max(0, at - _BLOCK_BYTES)
            log.seek(at)
            content = log.read(min(_BLOCK_BYTES, end - at - len(content))) + content
    return b"".join(content.splitlines(keepends=True)[-count:] if count > 0 else ()), end


def follow(path: Path, position: int) -> Iterator[bytes]:
    """Yield what a server appends to a file after `position`, without end."""
    with path.open("rb") as log:
        log.seek(position)
        while True:
            part = log.read(_BLOCK_BYTES)
            if part:
                yield part
            else:
                time.sleep(_POLL_S)
