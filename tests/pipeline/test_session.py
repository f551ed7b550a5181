"""Sessions that jobs open themselves, in processes of their own. By default a task may fail and run again."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Final

import pytest

from hedwig.exit_codes import ExitCode
from tests.pipeline.support.stores import new_store

JOB_S: Final = 180.0
DRIVER: Final = textwrap.dedent(
    """
    from pyspark.taskcontext import TaskContext
    from hedwig.pipeline.session import SessionOptions, open_session

    def at_the_second_attempt(batches):
        if TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("the first attempt of a task ends here")
        yield from batches

    options = SessionOptions(settings={"spark.driver.memory": "512m"})
    with open_session("test", options, lambda text: None) as spark:
        print(spark.range(10, numPartitions=2).mapInArrow(at_the_second_attempt, "id bigint").count())
    """
)

pytestmark = pytest.mark.full


COLLECTOR: Final = textwrap.dedent(
    """
    from hedwig.pipeline.session import SessionOptions, open_session

    options = SessionOptions(settings={"spark.driver.memory": "512m"} | SETTINGS)
    with open_session("test", options, lambda text: None) as spark:
        beans = spark._jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
        print(beans.get(0).getName().split()[0], spark.range(5).count())
    """
)


def _run(*words: object, **variables: str) -> "subprocess.CompletedProcess[str]":
    left = ("PYSPARK_GATEWAY", "HEDWIG_SPARK_MASTER", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(left)} | variables
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=JOB_S, check=False)


def test_a_task_that_fails_once_ends_no_job() -> None:
    ran = _run("-c", DRIVER)
    assert ran.stdout == "10\n", ran.stderr
    assert "Traceback" not in ran.stderr


def test_what_fails_each_time_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "bad.tsv").write_text("topic without a subscriber\n")
    how = ("--subscriptions", tmp_path / "bad.tsv", "--conf", "spark.driver.memory=512m")
    ran = _run("-m", "hedwig.pipeline", "load", new_store(tmp_path), *how)
    assert ran.returncode == ExitCode.USAGE, ran.stderr
    assert ran.stdout == ""
    lines = ran.stderr.splitlines()
    assert lines[0] == "load: starting Spark…"
    # Java prints its own lines before anything that can fail.
    (error,) = (line for line in lines if not line.startswith(("load: ", "WARNING: Using incubator modules")))
    assert error.startswith("error: the line 'topic without a subscriber' cannot be loaded")


def test_the_collector_is_that_of_the_user_if_there_is_one_and_else_ours() -> None:
    """Java does not start with two collectors."""

    def collector(settings: dict[str, str], **variables: str) -> str:
        ran = _run("-c", COLLECTOR.replace("SETTINGS", repr(settings)), **variables)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.splitlines()[-1]

    assert collector({}) == "PS 5"
    assert collector({"spark.driver.extraJavaOptions": "-Dx=y -XX:+UseSerialGC"}) == "Copy 5"
    assert collector({}, JDK_JAVA_OPTIONS="-XX:+UseG1GC") == "G1 5"
