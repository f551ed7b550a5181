"""One Spark session for all tests of the pipeline: making one takes longer than most tests."""

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pipeline.datasource import register

__all__: list[str] = []


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of two threads in which a task may fail twice."""
    # Else workers take the first python3 of the path, whatever is installed there.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.memory": "768m",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
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
