"""One Spark session for all tests of the pipeline: creating one takes longer than most tests."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from hedwig.exit_codes import ExitCode
from hedwig.metadata.testing.bulk_contents import fill
from hedwig.pipeline.main import jobs
from hedwig.pipeline.source.datasource import register
from tests.pipeline.support.spark_classes import share_spark_classes
from tests.pipeline.support.standalone_cluster import StandaloneCluster, standalone_cluster
from tests.pipeline.support.stores import new_store, with_store

__all__ = ["Run"]

Run = Callable[..., Any]

_TIMEOUT_S: Final = 900
"""The first test waits for the archive of Spark's classes too, for up to 800 s."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test of this folder time for what the session makes before the first of them."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_TIMEOUT_S))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A master and two workers, for all tests of a module."""
    with standalone_cluster(tmp_path_factory.mktemp("standalone")) as running:
        yield running


@pytest.fixture(scope="session", autouse=True)
def _classes(pytestconfig: pytest.Config) -> None:
    folder = pytestconfig.rootpath / ".pytest_cache" / "spark"
    folder.mkdir(parents=True, exist_ok=True)
    share_spark_classes(folder)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of two threads in which a task may fail twice."""
    # Otherwise workers take the first python3 of the path, which may lack the packages.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.memory": "768m",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[2,3]").appName("tests of the pipeline")
    session = builder.config(map=settings).getOrCreate()
    register(session)
    yield session
    session.stop()


@pytest.fixture
def filled(tmp_path: Path) -> str:
    """The URL of a store with records of each kind."""
    url = new_store(tmp_path)
    with_store(url, fill)
    return url


@pytest.fixture
def run(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a job that must end with `code`, and returns its result, or its error lines if it fails."""

    def run_job(*arguments: object, code: ExitCode = ExitCode.DONE) -> Any:
        capfd.readouterr()
        actual = jobs.run_line([*map(str, arguments), "--json"])
        out, err = capfd.readouterr()
        assert actual == code, err
        if code is ExitCode.DONE or out:
            return json.loads(out)
        lines = [line for line in err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, err
        return lines[0]

    return run_job
