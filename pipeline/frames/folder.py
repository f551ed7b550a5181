"""Folders of any file system that Spark knows: a disk, HDFS, an object store.

A job that makes a folder claims it first, by a file in it whose name is unique. If two jobs claim a folder at once,
each sees the file of the other, and neither goes on. This needs only a file system that lists the files that were made.
It does not need one that makes a file for only one of two jobs. Disks and some object stores do not promise that
through Hadoop.
"""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

import click
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from hedwig.exit_codes import ExitCode
from hedwig.pipeline.errors import JobError, in_one_line
from hedwig.pipeline.interruption import heed_signals
from hedwig.pipeline.running_tasks import patience_of, wait_for_tasks

__all__ = ["Folder"]

_CLAIM: Final = "_UNFINISHED-"
"""The prefix of the names of claims. Spark ignores files with such names."""
_CLEAR_S: Final = 5.0
_CLEAR_EVERY_S: Final = 0.2


class Folder:
    """A folder in a file system of Spark. It need not exist.

    Every method raises JobError if the file system does not answer, or refuses.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self.path = path.rstrip("/") or path

    def __truediv__(self, name: str) -> Self:
        return type(self)(self._spark, f"{self.path}/{name}")

    def exists(self) -> bool:
        """Say whether the path exists, as a folder or as a file."""
        system, path = self._reach()
        return bool(self._do(lambda: system.exists(path)))

    def names(self) -> list[str]:
        """Return the names of the entries: none if the path does not exist, its own name if it is a file."""
        if not self.exists():
            return []
        system, path = self._reach()
        return [str(each.getPath().getName()) for each in self._do(lambda: system.listStatus(path))]

    @property
    def is_unfinished(self) -> bool:
        """Say whether a job is making the folder now, or was killed while making it."""
        return self._is_taken(self.names())

    def check_empty(self) -> None:
        """Raise JobError if there is something in the folder."""
        if self.is_unfinished:
            raise self._taken()
        if self.names():
            raise self._full()

    @contextmanager
    def deleted_on_failure(self) -> Iterator[None]:
        """Claim the folder, which has to be empty. Delete it if the block raises.

        Before that, wait some time for running tasks to end. A task that goes on writes files and thereby makes the
        folder again, without the claim that marks it as unfinished. The claim is deleted last. So the folder counts as
        unfinished also if the job is killed while it deletes.

        Raises: JobError - something is in the folder, or another job is making it; then it stays as it is.
        """
        self.check_empty()
        claim = f"{_CLAIM}{uuid.uuid4().hex}"
        try:
            self._make(claim)
            others = [name for name in self.names() if name != claim]
            if others:
                raise self._taken() if self._is_taken(others) else self._full()
        except BaseException:
            mine = self / claim
            mine._clear(mine.delete)
            raise
        try:
            yield
            (self / claim).delete()
        except BaseException as exc:
            try:
                self._wait_for_tasks(patience_of(exc))
            finally:
                self._clear(self._delete_claim_last)
            raise

    @staticmethod
    def _is_taken(names: list[str]) -> bool:
        return any(map(_is_claim, names))

    def _full(self) -> JobError:
        return JobError(
            f"{self.path} has something in it, and nothing is overwritten: name another folder, or remove this one",
            ExitCode.USAGE,
        )

    def _taken(self) -> JobError:
        return JobError(
            f"{self.path} is being made by another job, or one that made it was killed. Name another folder, or "
            "remove this one if no job is at work there",
            ExitCode.USAGE,
        )

    def _make(self, name: str) -> None:
        """Make an empty file in the folder, and the folder if it does not exist."""
        system, path = (self / name)._reach()
        self._do(lambda: system.create(path, False).close())

    def _wait_for_tasks(self, until: float) -> None:
        """Wait for tasks, and ignore errors: the job reports the error that came before."""
        with suppress(Exception):
            wait_for_tasks(self._spark, until)

    def _clear(self, delete: Callable[[], None]) -> None:
        """Delete it if possible, and do not raise if not: the job reports the error that came before.

        From here on a second signal ends the process, since a file system may hang. A job that failed may also receive
        its first signal here. Then finish deleting, and raise KeyboardInterrupt only after that.
        """
        heed_signals()
        try:
            self._keep_trying(delete)
        except KeyboardInterrupt:
            heed_signals()
            self._keep_trying(delete)
            raise

    def _keep_trying(self, delete: Callable[[], None]) -> None:
        """Delete it, with retries for `_CLEAR_S`; print a warning if that fails.

        One try is not enough for two reasons. Spark deletes its own unfinished files in the folder at the same time.
        And a call to the JVM that a signal has broken off can break the next connection too.
        """
        deadline = time.monotonic() + _CLEAR_S
        while True:
            try:
                delete()
            except Exception as exc:
                if time.monotonic() > deadline:
                    warning = f"{self.path} is not whole and could not be deleted, remove it: {exc}"
                    click.echo(f"warning: {warning}", err=True)
                    return
                time.sleep(_CLEAR_EVERY_S)
            else:
                return

    def _delete_claim_last(self) -> None:
        """Delete the folder with all of its entries. Raises JobError - some of it stays, and its claim too.

        Deleting a folder is not one step, neither on a disk nor in an object store. Some delete in the order of names,
        in which a claim comes before the tables. The tables would then look whole, each with its `_SUCCESS`.
        """
        for name in sorted(self.names(), key=_is_claim):
            (self / name).delete()
        self.delete()

    def delete(self) -> None:
        """Delete the path with all that is in it, if it exists. Raises JobError - some of it stays."""
        system, path = self._reach()
        if not self._do(lambda: system.delete(path, True)) and self.exists():
            raise JobError(f"the file system of {self.path} deleted some of it only")

    def read_text(self, name: str) -> str:
        """Return the content of a file in the folder. Raises JobError, NOT_FOUND - it does not exist."""
        file = self / name
        if not file.exists():
            raise JobError(f"{file.path} does not exist", ExitCode.NOT_FOUND)
        system, path = file._reach()

        def read() -> bytes:
            stream = system.open(path)
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

        content: bytes = self._do(read)
        return content.decode("utf-8", "replace")

    def put(self, file: Path) -> None:
        """Move a local file to this path."""
        system, path = self._reach()
        self._do(
            lambda: system.copyFromLocalFile(True, False, self._jvm.org.apache.hadoop.fs.Path(file.as_uri()), path)
        )

    def write_text(self, name: str, text: str) -> None:
        """Make a file with this content, or replace it. A reader sees all of the content or no file."""
        hidden, file = self / f".{name}.part", self / name
        system, part = hidden._reach()
        _, whole = file._reach()

        def write() -> None:
            stream = system.create(part, True)
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()
            system.delete(whole, False)
            if not system.rename(part, whole):
                raise JobError(f"{hidden.path} could not be renamed to {file.path}")

        self._do(write)

    @property
    def _jvm(self) -> Any:
        return self._spark._jvm

    def _reach(self) -> tuple[Any, Any]:
        def reach() -> tuple[Any, Any]:
            path = self._jvm.org.apache.hadoop.fs.Path(self.path)
            return path.getFileSystem(self._spark._jsc.hadoopConfiguration()), path

        reached: tuple[Any, Any] = self._do(reach)
        return reached

    def _do(self, work: Any) -> Any:
        try:
            return work()
        except Py4JJavaError as exc:
            said = in_one_line(str(exc.java_exception.getMessage() or exc.java_exception.getClass().getName()))
            raise JobError(f"the file system of {self.path} refuses: {said}") from exc


def _is_claim(name: str) -> bool:
    return name.startswith(_CLAIM)
