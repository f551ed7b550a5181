"""Speculation: Spark runs a slow task a second time beside the first, and stops one when the other is done."""

from contextlib import suppress
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hedwig.errors import ConfigurationError
from hedwig.pipeline.frames.policies import Policy

__all__ = ["check_policy", "is_speculating"]


_NAME: Final = "spark.speculation"
_OFF: Final = "false"


def is_speculating(spark: SparkSession) -> bool:
    """Say whether tasks of a session may run twice at once.

    The scheduler uses the setting with which the context was made. A later setting of the session changes nothing, but
    it is all that is known where the context cannot be asked.
    """
    said = [spark.conf.get(_NAME, _OFF)]
    with suppress(PySparkException):
        said.append(spark.sparkContext.getConf().get(_NAME, _OFF))
    return any(str(each).lower() == "true" for each in said)


def check_policy(policy: Policy, *, speculating: bool | None) -> None:
    """Raise ConfigurationError if a policy is unsafe where tasks may run twice at once.

    Args: speculating - whether they may; None if that is not known.
    """
    if policy is not Policy.OVERWRITE or speculating is False:
        return
    advice = (
        "set spark.speculation=false where the SparkContext is made: a later setting of a session changes nothing"
        if speculating
        else "call hedwig.pipeline.source.datasource.register(spark) first, which checks that"
    )
    raise ConfigurationError(
        f"the policy {policy} needs a session without speculation, since a task that runs twice at once could undo "
        f"later changes: {advice}"
    )
