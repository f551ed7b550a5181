"""Folders of any file system that Spark knows: a disk, HDFS, an object store.

Whoever makes one claims it first, by a file in it whose name nobody else chooses. Two jobs that claim the same folder
at once see each other's, and neither goes on: that takes no more of a file system than to list what was made, and not
that it makes a file for one of two only, which disks and some object stores do not promise through Hadoop.
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
"""How the names of claims begin; Spark passes over files that are called so."""
_CLEAR_S: Final = 5.0
_CLEAR_EVERY_S: Final = 0.2


class Folder:
    """A folder, reached as Spark reaches it. It need not exist.

    Every method raises JobError if the file system does not answer, or refuses.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self.path = path.rstrip("/") or path

    def __truediv__(self, name: str) -> Self:
        return type(self)(self._spark, f"{self.path}/{name}")

    def exists(self) -> bool:
        """Say whether it is there, as a folder or as a file."""
        system, path = self._reach()
        return bool(self._do(lambda: system.exists(path)))

    def names(self) -> list[str]:
        """Return the names of what is in it; none if it is not there, its own if it is a file."""
        if not self.exists():
            return []
        system, path = self._reach()
        return [str(each.getPath().getName()) for each in self._do(lambda: system.listStatus(path))]

    @property
    def is_unfinished(self) -> bool:
        """Say whether a job makes it just now, or was killed when it did."""
        return self._is_taken(self.names())

    def check_empty(self) -> None:
        """Raise JobError if there is something in it."""
        if self.is_unfinished:
            raise self._taken()
        if self.names():
            raise self._full()

    @contextmanager
    def deleted_on_failure(self) -> Iterator[None]:
        """Claim it, which has to be empty; delete it when what is done inside does not come to its end.

        Before that the tasks that are at work have some time to end: one that goes on makes files, and with them the
        folder, once more, without the claim that says that it is half. The claim goes last: what is left by a job that
        is killed in the middle of that is known as a half, too.

        Raises: JobError - something is in it, or another job makes it; then it stays as it is.
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
            f"{self.path} is being made by another job, or one that made it was killed: name another folder; remove "
            "this one if no job is at work there",
            ExitCode.USAGE,
        )

    def _make(self, name: str) -> None:
        """Make an empty file in it, and the folder if it is not there."""
        system, path = (self / name)._reach()
        self._do(lambda: system.create(path, False).close())

    def _wait_for_tasks(self, until: float) -> None:
        """Wait for tasks, as far as one can ask for them: what is to be told has failed before."""
        with suppress(Exception):
            wait_for_tasks(self._spark, until)

    def _clear(self, delete: Callable[[], None]) -> None:
        """Delete it as far as that is possible: what it is deleted for is what is to be told.

        From here on a second signal ends the process: a file system may hang. A first one, where a job has failed, is
        no reason to leave the half: it is told once that is gone.
        """
        heed_signals()
        try:
            self._keep_trying(delete)
        except KeyboardInterrupt:
            heed_signals()
            self._keep_trying(delete)
            raise

    def _keep_trying(self, delete: Callable[[], None]) -> None:
        """Delete it, and warn where that cannot be done.

        More than one try is due: Spark takes away its own half in there at the same time, and a call to the JVM that
        a signal has broken off can take the next connection with it.
        """
        deadline = time.monotonic() + _CLEAR_S
        while True:
            try:
                delete()
            except Exception as exc:
                if time.monotonic() > deadline:
                    told = f"{self.path} is not whole and could not be deleted, remove it: {exc}"
                    click.echo(f"warning: {told}", err=True)
                    return
                time.sleep(_CLEAR_EVERY_S)
            else:
                return

    def _delete_claim_last(self) -> None:
        """Delete it with all that is in it. Raises JobError - some of it stays, and its claim with it.

        To delete a folder is not one step, neither on a disk nor in an object store; and in the order of names, which
        some of these take, a claim is before the tables. These would look whole, each with its `_SUCCESS`.
        """
        for name in sorted(self.names(), key=_is_claim):
            (self / name).delete()
        self.delete()

    def delete(self) -> None:
        """Delete it with all that is in it; nothing happens if it is not there. Raises JobError - some of it stays."""
        system, path = self._reach()
        if not self._do(lambda: system.delete(path, True)) and self.exists():
            raise JobError(f"the file system of {self.path} deleted some of it only")

    def read_text(self, name: str) -> str:
        """Return the content of a file in it. Raises JobError, NOT_FOUND - there is none."""
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
        """Move a local file here, so that the path is that of this file."""
        system, path = self._reach()
        self._do(
            lambda: system.copyFromLocalFile(True, False, self._jvm.org.apache.hadoop.fs.Path(file.as_uri()), path)
        )

    def write_text(self, name: str, text: str) -> None:
        """Make a file with this content, at once: others see all of it or nothing. One that is there is replaced."""
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
