"""The Spark session of a job: its settings, and the reason for each."""

import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from hedwig.pipeline.errors import CONNECTION_ERRORS
from hedwig.pipeline.frames.tables import BATCH_ROWS_MAX

__all__ = ["SessionOptions", "has_ended", "open_session"]

_ALWAYS: Final = {
    # Two attempts at the same rows have the same result, but the slower one may still write after the job has ended.
    "spark.speculation": "false",
    # The job shows its own progress, in rows.
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS_MAX),
    "spark.sql.session.timeZone": "UTC",
    # The count of rows that a task has done arrives with its heartbeat.
    "spark.executor.heartbeatInterval": "5s",
}
_LOCAL: Final = {
    "spark.driver.memory": "2g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}
"""No other machine may connect to it. One gigabyte, Spark's default, is little for sorting millions of rows."""
_LOCAL_MASTER: Final = "local[*,4]"
"""On all processors. A task may fail three times, as on a cluster. With local[*] the first failure ends the job."""
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_QUIET: Final = "log4j2-quiet.properties"
_COLLECTOR: Final = "-XX:+UseParallelGC"
"""The collector with the least work. Short pauses do not matter, since no client waits for answers of the tasks."""
_A_COLLECTOR: Final = re.compile(r"-XX:[+-]Use\w*GC\b")
"""A JVM that is given two collectors does not start."""
_ENDING_S: Final = 2.0
_ASK_EVERY_S: Final = 0.1
_OF_ALL_JAVA: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """The caller's options for a session: where it runs, settings, and whether to show Spark's log."""

    master: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    debug: bool = False


@contextmanager
def open_session(job: str, options: SessionOptions, tell: Callable[[str], None]) -> Iterator[SparkSession]:
    """Open the session of a job, and stop it at the end. If this process has a session open, use that, and leave it.

    Under spark-submit, the session takes from there all settings that neither `options` nor every job sets. Else it
    runs on local[*,4], unless `options` names another master. `tell` receives a line when Spark starts, which takes a
    while.
    """
    if (open_already := SparkSession.getActiveSession()) is not None:
        yield open_already
        return
    tell("starting Spark…")
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    master, settings = options.master, options.settings
    if master is None and not is_submitted:
        master = _LOCAL_MASTER
    # By default Spark starts the python3 of the path, which lacks the packages of this one.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"hedwig-pipeline {job}")
    chosen = dict(_ALWAYS)
    is_local = master is not None and master.startswith("local")
    if master is not None:
        builder = builder.master(master)
    if is_local:
        chosen |= _LOCAL
    chosen |= settings
    if not is_submitted and (java_options := _java_options(settings, is_local=is_local, debug=options.debug)):
        chosen[_JAVA_OPTIONS] = java_options
    for name, value in chosen.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        if not options.debug:
            # The job reports the error of a failed task itself, in one line.
            spark.sparkContext.setLogLevel("OFF")
        yield spark
    finally:
        try:
            spark.stop()
        except CONNECTION_ERRORS:
            if not has_ended(spark):
                raise


def has_ended(spark: SparkSession) -> bool:
    """Say whether the JVM of a session is gone, after a call to it has failed with one of `CONNECTION_ERRORS`.

    py4j raises the same errors if only its own connection is broken. So this connects to the JVM's port.
    """
    gateway = spark.sparkContext._gateway
    assert gateway is not None, "the session was opened"
    address = gateway.gateway_parameters.address, gateway.gateway_parameters.port
    until = time.monotonic() + _ENDING_S
    while time.monotonic() < until:
        try:
            socket.create_connection(address, timeout=_ENDING_S).close()
        except ConnectionRefusedError:
            return True
        except OSError:
            pass
        time.sleep(_ASK_EVERY_S)  # The port of a killed process may stay open for a moment.
    return False


def _java_options(settings: Mapping[str, str], *, is_local: bool, debug: bool) -> str:
    """Return the Java options of the driver: the caller's, and ours in front of them."""
    given = settings.get(_JAVA_OPTIONS, "")
    options = [given] if given else []
    file = Path(__file__).with_name(_QUIET)
    if not debug and file.is_file():
        # Keep Spark's own log off standard error from the first line on.
        options.insert(0, f"-Dlog4j2.configurationFile={file.as_uri()}")
    known = " ".join([given, *(os.environ.get(name, "") for name in _OF_ALL_JAVA)])
    if is_local and _A_COLLECTOR.search(known) is None:
        options.insert(0, _COLLECTOR)
    return " ".join(options)
