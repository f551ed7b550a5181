"""The input of a bulk load: lines of tab-separated names, plain or gzip, from a file or standard input, in batches.

Memory holds one batch, whatever the input is. A line that is too long for a row is skipped piece by piece. Another
thread can interrupt a read, so that Ctrl-C ends a load that waits for a pipe.
"""

import gzip
import hashlib
import os
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from hedwig.errors import InvalidArgumentError, OperationError
from hedwig.metadata import RecordKey
from hedwig.names import NAME_BYTES_MAX, as_subscriber, as_topic, parse_column
from hedwig.operations.loads.interruptible_file import InterruptibleFile, standard_input

__all__ = ["BulkInput", "InputLine", "Position", "RowBatch"]

_LINE_BYTES_MAX: Final = 16 * NAME_BYTES_MAX
"""Two names of the largest size with every byte escaped, and as much again for further columns, which are ignored."""

_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Position:
    """How far an input was read: its lines and uncompressed bytes, and the SHA-256 of these bytes."""

    line: int = 0
    bytes: int = 0
    sha256: str = hashlib.sha256().hexdigest()


@dataclass(frozen=True, slots=True)
class InputLine:
    """One line: the key that it names, or the reason why it names none."""

    line: int
    key: RecordKey | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Neighbouring lines. `end` is the position after them; `read_bytes` of the file were read until there."""

    rows: list[InputLine] = field(default_factory=list)
    end: Position = field(default_factory=Position)
    read_bytes: int = 0


class BulkInput:
    """An open input. Its methods block. Only `interrupt` may be called while another one runs."""

    def __init__(self, name: str, *, with_subscriber: bool) -> None:
        """Open the file `name`, or standard input for `-`. Raises OSError if that fails."""
        self.label = "standard input" if name == "-" else Path(name).name
        self.with_subscriber = with_subscriber
        self._file = InterruptibleFile(standard_input() if name == "-" else os.open(name, os.O_RDONLY))
        self._opened: BinaryIO | None = None
        self._hash = hashlib.sha256()
        self._line = 0
        self._bytes = 0

    @property
    def size(self) -> int | None:
        """Return the bytes of the file, None for a pipe."""
        return self._file.size

    @property
    def read_bytes(self) -> int:
        """Return how many bytes of the file were read."""
        return self._file.read_bytes

    def skip_to(self, position: Position) -> bool:
        """Skip what an earlier load has done; return False if the input differs from what that load read."""
        while self._bytes < position.bytes:
            chunk = self._read(min(_CHUNK_BYTES, position.bytes - self._bytes))
            if not chunk:
                return False
        self._line = position.line
        return self._hash.hexdigest() == position.sha256

    def read_batch(self, rows_max: int) -> RowBatch | None:
        """Return at most `rows_max` rows, None at the end. Raises OperationError if the input cannot be read on."""
        rows: list[InputLine] = []
        while len(rows) < rows_max and (row := self._read_row()) is not None:
            rows.append(row)
        if not rows:
            return None
        return RowBatch(rows, Position(self._line, self._bytes, self._hash.hexdigest()), self._file.read_bytes)

    def interrupt(self) -> None:
        """End a waiting read, and all later ones, with a ReadInterruptedError."""
        self._file.interrupt()

    def close(self) -> None:
        """Close the input."""
        if self._opened is not None:
            self._opened.close()
        self._file.close()

    @property
    def _stream(self) -> BinaryIO:
        # Reading the first bytes of a pipe may take as long as its writer takes to write them.
        if self._opened is None:
            self._opened = self._file.opened()
        return self._opened

    def _read_row(self) -> InputLine | None:
        line = self._read(_LINE_BYTES_MAX, line=True)
        if not line:
            return None
        self._line += 1
        whole = line.endswith(b"\n")
        while not whole and (rest := self._read(_LINE_BYTES_MAX, line=True)):
            whole = rest.endswith(b"\n")
        try:
            return InputLine(self._line, self._key(line))
        except InvalidArgumentError as exc:
            return InputLine(self._line, None, str(exc))

    def _key(self, line: bytes) -> RecordKey:
        columns = line.rstrip(b"\n").removesuffix(b"\r").split(b"\t", 2)
        if not columns[0]:
            raise InvalidArgumentError("the line is empty" if len(columns) == 1 else "the first column is empty")
        if not self.with_subscriber:
            return RecordKey(as_topic(parse_column(columns[0])))
        if len(columns) == 1:
            raise InvalidArgumentError("there is no second column: a subscription is a topic, a tab, a subscriber")
        return RecordKey(as_topic(parse_column(columns[0])), as_subscriber(parse_column(columns[1])))

    def _read(self, most: int, *, line: bool = False) -> bytes:
        try:
            read = self._stream.readline(most) if line else self._stream.read(most)
        except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
            raise OperationError(
                f"{self.label} cannot be read after line {self._line}: its gzip data is damaged or cut short ({exc}). "
                "Put a whole file there, and run the same command again"
            ) from exc
        self._hash.update(read)
        self._bytes += len(read)
        return read
