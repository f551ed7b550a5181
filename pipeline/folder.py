"""Folders of any file system that Spark knows: a disk, HDFS, an object store."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from hedwig.exit_codes import ExitCode
from pipeline.errors import JobError, in_one_line

__all__ = ["Folder"]


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

    def is_empty(self) -> bool:
        """Say whether nothing is in it; also if it is not there."""
        system, path = self._reach()
        return not self.exists() or not self._do(lambda: system.listStatus(path))

    def check_empty(self) -> None:
        """Raise JobError if there is something in it."""
        if not self.is_empty():
            raise JobError(
                f"{self.path} has something in it, and nothing is overwritten: name another folder, or remove this one",
                ExitCode.USAGE,
            )

    @contextmanager
    def deleted_on_failure(self) -> Iterator[None]:
        """Delete it, which was empty, when what is done inside does not come to its end."""
        try:
            yield
        except BaseException:
            self.delete()
            raise

    def delete(self) -> None:
        """Delete it with all that is in it; nothing happens if it is not there."""
        system, path = self._reach()
        self._do(lambda: system.delete(path, True))

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
