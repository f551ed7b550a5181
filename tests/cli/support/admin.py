"""Runs hedwig-admin as its users do: in this process if only the result matters, else in a process of its own."""

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from click.testing import CliRunner

from hedwig.cli.main import main
from tests.support.checkout import CHECKOUT

__all__ = ["DEADLINE_S", "PROGRAM_TELLING_ITS_PEAK", "Admin", "Ran", "wait_until"]

DEADLINE_S: Final = 60.0
_PROGRAM: Final = (sys.executable, "-c", "from hedwig.cli.main import main; main()")
_TELLING_ITS_PEAK: Final = """
import sys
from hedwig.cli.main import main
try:
    main()
finally:
    with open("/proc/self/status") as status:
        print(next(line.split()[1] for line in status if line.startswith("VmHWM:")), file=sys.stderr)
"""
PROGRAM_TELLING_ITS_PEAK: Final = (sys.executable, "-c", _TELLING_ITS_PEAK)
"""For `run_apart`: the command, which prints last, on standard error, how many KiB it held at most.

getrusage begins with what the parent held, and the parent is a test with all the data that it has read.
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[Any]:
        """Return the objects of NDJSON output."""
        return [json.loads(line) for line in self.out.splitlines()]


class Admin:
    """hedwig-admin on one store, with a home directory of its own."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        self.url = url
        self.environment = {
            "HOME": str(directory),
            "XDG_DATA_HOME": str(directory / "data"),
            "XDG_CONFIG_HOME": str(directory / "config"),
            "HEDWIG_CONTEXT": "",
            "HEDWIG_METADATA": url,
            "HEDWIG_TIMEOUT": "",
            "HEDWIG_OUTPUT": "",
        }

    def run(self, *arguments: str, text: str | bytes | None = None, **environment: str) -> Ran:
        """Run a command to its end in this process; `text` is its standard input."""
        ran = CliRunner(env={**self.environment, **environment}).invoke(main, arguments, input=text)
        return Ran(ran.exit_code, ran.stdout, ran.stderr)

    def done(self, *arguments: str, text: str | bytes | None = None) -> Ran:
        """Run a command that must succeed."""
        ran = self.run(*arguments, text=text)
        assert ran.code == 0, ran
        return ran

    def start(
        self, *arguments: str | bytes, stdout: int = subprocess.PIPE, **environment: str
    ) -> "subprocess.Popen[bytes]":
        """Start a command in a process of its own, with pipes. The caller ends it."""
        return subprocess.Popen(
            [*_PROGRAM, *arguments],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=subprocess.PIPE,
            cwd=self.directory,
            env=self.whole_environment(**environment),
        )

    def run_apart(
        self,
        *arguments: str | bytes,
        text: bytes = b"",
        program: Sequence[str] = _PROGRAM,
        deadline_s: float = DEADLINE_S,
        **environment: str,
    ) -> Ran:
        """Run a command to its end in a process of its own."""
        ran = subprocess.run(
            [*program, *arguments],
            input=text,
            capture_output=True,
            cwd=self.directory,
            env=self.whole_environment(**environment),
            timeout=deadline_s,
            check=False,
        )
        return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return what SQLite answers, past the code under test. Only for a store in a file."""
        with closing(sqlite3.connect(self.url.removeprefix("sqlite://"))) as connection, connection:
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other writer out of the store, as another process can."""
        path = self.url.removeprefix("sqlite://")
        with closing(sqlite3.connect(path, timeout=DEADLINE_S, isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            yield
            holder.execute("ROLLBACK")

    @contextmanager
    def exclusively_locked(self) -> Iterator[None]:
        """Keep all other processes out of the store, readers too."""
        path = self.url.removeprefix("sqlite://")
        with closing(sqlite3.connect(path, timeout=DEADLINE_S, isolation_level=None)) as holder:
            holder.execute("PRAGMA locking_mode = EXCLUSIVE")
            holder.execute("BEGIN EXCLUSIVE")
            yield
            holder.execute("ROLLBACK")

    def count(self, table: str) -> int:
        """Return how many records of a kind the store has, past the code under test."""
        ((number,),) = self.query(f"SELECT count(*) FROM {table}")
        assert isinstance(number, int)
        return number

    def insert_topics(self, number: int, name: str = "'topic-' || n") -> None:
        """Insert topics into the store at once, past the code under test; `name` is an SQL expression over n."""
        self.done("metadata", "format")
        self.query(
            "INSERT INTO persistence (topic, version) WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL "
            f"SELECT n + 1 FROM numbers WHERE n < ?) SELECT CAST({name} AS BLOB), zeroblob(25) FROM numbers",
            number,
        )

    def whole_environment(self, **extra: str) -> dict[str, str]:
        """Return the environment for a process of its own."""
        # A test run has the source directory in its path; a process in another directory does not.
        sources = str(CHECKOUT)
        return {**os.environ, **self.environment, "PYTHONPATH": sources, **extra}


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    """Return the result of `condition` once it is true; fail if it does not become true in time."""
    end = time.monotonic() + DEADLINE_S
    while not (result := condition()):
        assert time.monotonic() < end, f"not within {DEADLINE_S:g} s: {what}"
        time.sleep(0.01)
    return result
