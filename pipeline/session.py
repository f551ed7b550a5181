"""The Spark session of a job: what is set in it, whatever it runs on, and why."""

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
    # Two attempts at the same rows at once come to the same end, but the slower one may still write after the job.
    "spark.speculation": "false",
    # We tell how far a job has come ourselves, in rows.
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS_MAX),
    "spark.sql.session.timeZone": "UTC",
    # How many rows a task has done comes with its heartbeat.
    "spark.executor.heartbeatInterval": "5s",
}
_LOCAL: Final = {
    "spark.driver.memory": "2g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}
"""On one machine nobody else is to reach it. One gigabyte, Spark's default, is little for sorting millions of rows."""
_LOCAL_MASTER: Final = "local[*,4]"
"""On all processors; a task may fail three times, as on a cluster: local[*] alone would end the job with the first."""
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_QUIET: Final = "log4j2-quiet.properties"
_COLLECTOR: Final = "-XX:+UseParallelGC"
"""Nobody waits for an answer of the tasks in it: the collector with the least work, and not that with short pauses."""
_A_COLLECTOR: Final = re.compile(r"-XX:[+-]Use\w*GC\b")
"""A virtual machine that is told of two does not start."""
_ENDING_S: Final = 2.0
_ASK_EVERY_S: Final = 0.1
_OF_ALL_JAVA: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """What was said of a session: where it runs, settings, and whether Spark's log is shown."""

    master: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    debug: bool = False


@contextmanager
def open_session(job: str, options: SessionOptions, tell: Callable[[str], None]) -> Iterator[SparkSession]:
    """Open the session of a job, and stop it at the end. One that this process has open already is used and left.

    Started by spark-submit, the session takes from there what neither `options` says nor every job sets. Else it runs
    on local[*,4], unless `options` names another master. `tell` hears that it starts, which takes a while.
    """
    if (open_already := SparkSession.getActiveSession()) is not None:
        yield open_already
        return
    tell("starting Spark…")
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    master, settings = options.master, options.settings
    if master is None and not is_submitted:
        master = _LOCAL_MASTER
    # Spark starts the python3 of the path, which lacks what this one has.
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
            # What a task fails with comes back to us, and is told in one line.
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

    py4j raises the same where only its own connection is in disorder; so the JVM's port is asked.
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
        time.sleep(_ASK_EVERY_S)  # Of a process that is killed not everything ends at once.
    return False


def _java_options(settings: Mapping[str, str], *, is_local: bool, debug: bool) -> str:
    """Return Java options of the driver: those that were given, and ours beside them."""
    given = settings.get(_JAVA_OPTIONS, "")
    options = [given] if given else []
    file = Path(__file__).with_name(_QUIET)
    if not debug and file.is_file():
        # Spark's own log stays off standard error from the first line on.
        options.insert(0, f"-Dlog4j2.configurationFile={file.as_uri()}")
    known = " ".join([given, *(os.environ.get(name, "") for name in _OF_ALL_JAVA)])
    if is_local and _A_COLLECTOR.search(known) is None:
        options.insert(0, _COLLECTOR)
    return " ".join(options)
