"""What a job reports when it cannot go on: one line and an exit code, also for an error inside a task."""

import importlib
import re
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException

from hedwig.errors import (
    CorruptRecordError,
    HedwigError,
    MetadataForbiddenError,
    MetadataUnavailableError,
    OperationError,
    UncertainStateError,
    exit_code_of,
)
from hedwig.exit_codes import ExitCode

__all__ = ["CONNECTION_ERRORS", "SPARK_ERRORS", "JobError", "explain", "from_spark", "in_one_line"]

_NOTE: Final = "exit code of the job: "
_RAISED: Final = re.compile(rf"\b(hedwig(?:\.\w+)+)\.(\w+): (.*)$(?:\n{_NOTE}(\d+)$)?", re.MULTILINE)
"""The last line of a traceback from a task, or from the planning of a query, and the note that follows it."""
_UNREAD: Final = re.compile(r"\[FAILED_READ_FILE\b.* while reading file (\S+?)\.?(?:\s|$)")
"""Spark says this for every cause: a missing file, a disk that does not answer, a missing right, damage."""
_DAMAGED: Final = (
    "is not a Parquet file",
    "ChecksumException",
    "ParquetDecodingException",
    "could not read page",
    "can not read class org.apache.parquet",
    "FAILED_TO_UNCOMPRESS",
)
"""What the readers of Parquet, and of its checksum files, say about damaged content."""
_CAUSE: Final = re.compile(r"^(?:Caused by: )?[\w.$]+(?:Exception|Error)\b:? *(.*)$", re.MULTILINE)


SPARK_ERRORS: Final = (PySparkException, Py4JJavaError)
"""What a query raises when it fails. Some of Spark's own errors arrive as Java errors."""
CONNECTION_ERRORS: Final = (Py4JError, ConnectionError, EOFError)
"""What a call to Spark's JVM raises when its connection fails. py4j wraps only some of these errors."""


class JobError(OperationError):
    """A job cannot go on. The text says in one line what failed, on what, why, and what to do."""

    def __init__(self, text: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(text, code)
        if code is not ExitCode.FAILED:
            # A task reports only the text of its traceback. That text includes notes.
            self.add_note(f"{_NOTE}{code.value}")


def explain(error: HedwigError, again: str) -> tuple[str, ExitCode]:
    """Return one line about `error`, with what to do about it, and the exit code.

    Args: error - what ended the job; again - how to go on.
    """
    text = in_one_line(str(error))
    match error:
        case OperationError():
            return text, error.code
        case UncertainStateError():
            text += f"; it may or may not have been done: {again}; rows that were written stay"
        case CorruptRecordError():
            text += "; hedwig-admin metadata check names all such records, and --on-corrupt skip passes over them"
        case MetadataForbiddenError():
            text += "; ask the owner of the store for permission"
        case MetadataUnavailableError():
            text += f"; see that the store is up, then {again}"
    return text, exit_code_of(error)


def from_spark(error: Exception) -> HedwigError | None:
    """Return the cause of a failed query if it is an error of ours or a file that cannot be read; else None."""
    said = str(error)
    # The last match is the error that ended the query. Those before it are its causes.
    for module, name, text, code in reversed(_RAISED.findall(said)):
        if (kind := _class_of(module, name)) is not None:
            return _made(kind, text, code)
    if isinstance(error, AnalysisException) and error.getCondition() == "PATH_NOT_FOUND":
        return JobError(in_one_line(said.split("\n")[0]), ExitCode.NOT_FOUND)
    if isinstance(error, AnalysisException) and error.getCondition() == "UNABLE_TO_INFER_SCHEMA":
        return JobError("a folder that is to be read has no Parquet in it: see that it is the right one")
    if any(sign in said for sign in _DAMAGED):
        return JobError(f"a file cannot be read as Parquet: {_shortened(said)}; it is damaged, use another copy")
    if (unread := _UNREAD.search(said)) is not None:
        return JobError(f"the file {unread[1]} cannot be read: {_shortened(said)}")
    return None


def in_one_line(text: str) -> str:
    """Return `text` without line breaks."""
    return " ".join(text.split())


def _class_of(module: str, name: str) -> type[HedwigError] | None:
    try:
        kind = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    return kind if isinstance(kind, type) and issubclass(kind, HedwigError) else None


def _made(kind: type[HedwigError], text: str, code: str) -> HedwigError:
    if code and issubclass(kind, JobError):
        return kind(text, ExitCode(int(code)))
    try:
        return kind(text)
    except TypeError:
        return JobError(text)  # The class takes more arguments than the text, and the task reported the text only.


def _shortened(said: str) -> str:
    lines = [line for line in _CAUSE.findall(said) if line]
    return in_one_line(lines[-1] if lines else said)[:300]
