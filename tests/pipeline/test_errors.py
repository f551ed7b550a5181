"""Prove that an error in a task ends its job with the text and exit code that it would have in the driver."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hedwig.errors import HedwigError, MetadataUnavailableError
from hedwig.exit_codes import ExitCode
from hedwig.operations.deployment.ledgers import LedgerLocation
from hedwig.pipeline.audit.open_ledgers import ask_open_ledgers
from hedwig.pipeline.errors import SPARK_ERRORS, JobError, explain, from_spark
from tests.pipeline.support.frames import ledgers


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (JobError("nobody answers", ExitCode.UNAVAILABLE), ExitCode.UNAVAILABLE),
        (JobError("nobody answers"), ExitCode.FAILED),
        (MetadataUnavailableError("nobody answers"), ExitCode.UNAVAILABLE),
    ],
)
def test_an_error_comes_out_of_a_task_as_it_was(spark: SparkSession, error: HedwigError, code: ExitCode) -> None:
    kind, arguments = type(error), (*error.args, *([error.code] if isinstance(error, JobError) else []))

    def fails(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise kind(*arguments)

    with pytest.raises(SPARK_ERRORS) as caught:
        spark.range(1).mapInArrow(fails, "id bigint").collect()
    raised = from_spark(caught.value)
    assert type(raised) is kind
    assert str(raised) == "nobody answers"
    assert explain(raised, "do it again")[1] is code


def test_ledgers_that_nobody_tells_of_are_unavailable(spark: SparkSession, tmp_path: Path) -> None:
    location = LedgerLocation(bookkeeper="zookeeper://127.0.0.1:1/ledgers", timeout_s=1.0)
    with pytest.raises(SPARK_ERRORS) as caught:
        ask_open_ledgers(spark, ledgers(spark, {b"t": [(1, 1, None)]}), location, str(tmp_path / "ends"))
    raised = from_spark(caught.value)
    assert isinstance(raised, HedwigError)
    assert explain(raised, "do it again")[1] is ExitCode.UNAVAILABLE
