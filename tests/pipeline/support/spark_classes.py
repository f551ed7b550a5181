"""An archive of the classes that Spark loads: a Java process that maps it starts in half of the processor time."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pyspark

from hedwig.cli.dev.servers.java import find_java

__all__ = ["share_spark_classes"]

_DRIVER_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
_MAKE_S: Final = 800.0
"""It took more than 300 s on a machine with six busy processes beside the tests."""
_FEW_CYCLES: Final = "-XX:TieredStopAtLevel=1"
"""Of two compilers the quick one: no job of a test runs long enough to earn the other."""

_QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"
"""By default a JVM writes warnings about archives to standard output, where jobs write their results."""


def share_spark_classes(folder: Path) -> None:
    """Have each driver that this process starts map the archive in `folder`. Make the archive if it is not there.

    The options are in SPARK_SUBMIT_OPTS then, from where tests give them to daemons and executors too.

    A JVM maps only an archive of its own release and its own jars. So the name of the archive depends on both.
    """
    shown = subprocess.run([find_java(), "-version"], capture_output=True, text=True, check=True, timeout=60).stderr
    key = hashlib.sha256("\n".join((shown, pyspark.__version__, str(Path(pyspark.__file__).parent))).encode())
    archive = folder / f"spark-{key.hexdigest()[:16]}.jsa"
    if not archive.exists():
        _make(archive)
    os.environ[_DRIVER_OPTIONS] = _options(archive)


def _options(archive: Path) -> str:
    # A JVM that cannot map the archive goes on without it.
    return f"{_FEW_CYCLES} -XX:SharedArchiveFile={archive} {_QUIET}"


def _make(archive: Path) -> None:
    """Run queries like those of the tests. The JVM writes the archive as it ends."""
    unfinished = archive.with_name(f"{os.getpid()}-{archive.name}")
    frame = unfinished.with_suffix(".parquet")
    options = f"{_FEW_CYCLES} -XX:ArchiveClassesAtExit={unfinished} {_QUIET}"
    environment = os.environ | {_DRIVER_OPTIONS: options, "PYSPARK_PYTHON": sys.executable}
    # The JVM outlives the driver. It holds the pipes, so this waits for its end too.
    ran = subprocess.run(
        [sys.executable, "-m", __name__, str(frame)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_MAKE_S,
        check=False,
    )
    shutil.rmtree(frame, ignore_errors=True)
    assert unfinished.exists(), f"no archive of Spark's classes was made: {ran.stderr[-2000:]}"
    unfinished.replace(archive)


def _query(frame_file: str) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = (
        builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    )
    rows = spark.createDataFrame([(number, str(number)) for number in range(8)], ["number", "text"])
    rows.groupBy("number").count().write.mode("overwrite").parquet(frame_file)
    spark.read.parquet(frame_file).join(rows, "number").mapInArrow(iter, "number long, count long, text string").count()
    spark.stop()


if __name__ == "__main__":
    _query(sys.argv[1])
