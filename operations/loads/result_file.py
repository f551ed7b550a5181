"""The result file of a bulk load: which rows failed and why, and from where the same command resumes.

It has JSON lines, which are only ever appended, one write for each batch:

    {"load": {"format": 1, "command": "topic create", "metadata": "sqlite:///…", "input": "topics.tsv"}}
    {"failed": {"line": 17, "topic": "…", "reason": "…"}}
    {"checkpoint": {"line": 256, "bytes": 7310, "sha256": "…", "created": 255, "existed": 0, "failed": 1, …}}
    {"done": {…}}                                                                  as a checkpoint, at the end

A checkpoint is written after its batch is in the store. So the file can be behind the store but never ahead of it.
A resumed load drops the lines after the last whole checkpoint. These are a line that a crash cut short, and failures
of a batch that will be done again.
"""

import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from hedwig.errors import OperationError
from hedwig.metadata import RecordKey
from hedwig.metadata.bulk.loading import RowOutcome, RowResult
from hedwig.model import SubscriberId, Topic
from hedwig.names import name_fields, parse_name
from hedwig.operations.errors import remedy
from hedwig.operations.loads.bulk_input import InputLine, Position

__all__ = ["Checkpoint", "LoadIdentity", "ResultFile"]

_FORMAT: Final = 1
_LINE_BYTES_MAX: Final = 1 << 20
_HEADER_BYTES_MAX: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadIdentity:
    """Which load a result file belongs to. A resumed load must equal it in all but the name of the input."""

    command: str
    metadata: str
    options: Mapping[str, Any] = field(default_factory=dict)
    input: str = field(default="", compare=False)
    format: int = _FORMAT


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """How far a load has come since its very beginning, and the last row that it found or made."""

    position: Position = field(default_factory=Position)
    created: int = 0
    existed: int = 0
    failed: int = 0
    topics_created: int = 0
    last: RecordKey | None = None

    @property
    def rows(self) -> int:
        return self.created + self.existed + self.failed

    def after(
        self, rows: Sequence[InputLine], outcomes: Sequence[RowOutcome], end: Position, topics_created: int
    ) -> "Checkpoint":
        """Return the checkpoint after one more batch."""
        results = [outcome.result for outcome in outcomes]
        good = [row.key for row, result in zip(rows, results, strict=True) if result is not RowResult.FAILED]
        return replace(
            self,
            position=end,
            created=self.created + results.count(RowResult.CREATED),
            existed=self.existed + results.count(RowResult.EXISTED),
            failed=self.failed + results.count(RowResult.FAILED),
            topics_created=topics_created,
            last=good[-1] if good else self.last,
        )

    def fields(self) -> dict[str, Any]:
        counts = {name: getattr(self, name) for name in ("created", "existed", "failed", "topics_created")}
        return asdict(self.position) | counts | {"last": None if self.last is None else _names(self.last)}

    @classmethod
    def read(cls, fields: dict[str, Any]) -> Self:
        """Read the result of `fields`. Raises KeyError or TypeError for anything else."""
        position = Position(fields["line"], fields["bytes"], fields["sha256"])
        counts = {name: int(fields[name]) for name in ("created", "existed", "failed", "topics_created")}
        last = fields["last"]
        return cls(position=position, **counts, last=None if last is None else _key(last))


class ResultFile:
    """A result file, open and locked against other loads.

    `checkpoint` is where to resume. `resumed` says that an earlier load wrote it.
    """

    def __init__(self, path: Path, load: LoadIdentity, *, restart: bool) -> None:
        """Open or create the file. The file of a finished load, or any file with `restart`, begins anew.

        Raises: OperationError - another load uses it, it is not the result file of this load, or it cannot be written.
        """
        self.path = path
        self.checkpoint = Checkpoint()
        self.resumed = False
        self._descriptor = -1
        try:
            with self._writing():
                self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
                self._check_regular()
                self._lock()
                kept = 0 if restart else self._resume(load)
                os.ftruncate(self._descriptor, kept)
                os.lseek(self._descriptor, kept, os.SEEK_SET)
                if not kept:
                    self._append([{"load": asdict(load)}])
        except BaseException:
            self.close()
            raise

    def record(self, rows: Sequence[InputLine], outcomes: Sequence[RowOutcome], checkpoint: Checkpoint) -> None:
        """Append the failures of a batch, and the checkpoint after it."""
        pairs = zip(rows, outcomes, strict=True)
        failed = [_failure(row, outcome) for row, outcome in pairs if outcome.result is RowResult.FAILED]
        with self._writing():
            self._append([*({"failed": failure} for failure in failed), {"checkpoint": checkpoint.fields()}])
        self.checkpoint = checkpoint

    def finish(self) -> None:
        """Append that the load is done, and flush the file to the disk."""
        with self._writing():
            self._append([{"done": self.checkpoint.fields()}])
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file, which unlocks it. May be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise OperationError(
                f"cannot write the result file {self.path}: {exc.strerror}; {remedy(exc)}, or give another --result, "
                "and give the command again"
            ) from exc

    def _check_regular(self) -> None:
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            raise OperationError(
                f"{self.path} is no regular file, so no load could go on from it; give another --result"
            )

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise OperationError(f"another load is writing {self.path}; wait for it, or give another --result") from exc

    def _resume(self, load: LoadIdentity) -> int:
        """Read the state that an earlier load left; return how many bytes of the file stay."""
        kept = done = 0
        with os.fdopen(os.dup(self._descriptor), "rb") as lines:
            # A line that is longer than any of ours is not a whole line of ours.
            for number, line in enumerate(iter(partial(lines.readline, _LINE_BYTES_MAX), b"")):
                kind, fields = _parse(line)
                if number == 0:
                    self._check_belongs(kind, fields, load, line)
                elif kind == "checkpoint":
                    self.checkpoint = self._read_checkpoint(fields)
                elif kind not in ("failed", "done"):
                    break
                done = max(done, kind == "done")
                if kind in ("load", "checkpoint"):
                    kept = lines.tell()
        if done:
            self.checkpoint = Checkpoint()
            return 0
        self.resumed = self.checkpoint.rows > 0
        return kept

    def _read_checkpoint(self, fields: dict[str, Any]) -> Checkpoint:
        try:
            return Checkpoint.read(fields)
        except (KeyError, TypeError, ValueError) as exc:
            raise OperationError(
                f"{self.path} is damaged: it has a checkpoint without {exc}; begin anew with --restart"
            ) from exc

    def _check_belongs(self, kind: str, fields: dict[str, Any], load: LoadIdentity, line: bytes) -> None:
        mine = asdict(load)
        if kind == "load" and fields | {"input": load.input} == mine:
            return
        if kind != "load":
            if _is_cut_header(line):
                return
            raise OperationError(f"{self.path} exists and is no result file; give another --result")
        theirs = f"{fields.get('command')} of {fields.get('input')} into {fields.get('metadata')}"
        options = f" with {fields['options']}" if fields.get("options") else ""
        raise OperationError(
            f"{self.path} belongs to another load, {theirs}{options}; give another --result, or begin anew with "
            "--restart"
        )

    def _append(self, lines: Sequence[dict[str, Any]]) -> None:
        rest = memoryview(b"".join(map(_line, lines)))
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _parse(line: bytes) -> tuple[str, dict[str, Any]]:
    """Return kind and fields of a line. The kind is empty for a line that is not whole."""
    try:
        ((kind, fields),) = json.loads(line).items()
    except (ValueError, AttributeError):
        return "", {}
    return (kind, fields) if isinstance(fields, dict) and line.endswith(b"\n") else ("", {})


def _is_cut_header(line: bytes) -> bool:
    """Say whether a crash may have cut this first line, maybe with zeros at its end. Else it is no file of ours."""
    begin, content = b'{"load": ', line.rstrip(b"\0")
    short = len(line) <= _HEADER_BYTES_MAX and not line.endswith(b"\n")
    return short and (content.startswith(begin) or begin.startswith(content))


def _failure(row: InputLine, outcome: RowOutcome) -> dict[str, Any]:
    names = {} if row.key is None else _names(row.key)
    return {"line": row.line, **names, "reason": outcome.reason}


def _names(key: RecordKey) -> dict[str, str]:
    return name_fields(key.topic, key.subscriber)


def _key(fields: dict[str, str]) -> RecordKey:
    subscriber = fields.get("subscriber")
    return RecordKey(
        Topic(parse_name(fields["topic"])), None if subscriber is None else SubscriberId(parse_name(subscriber))
    )
