"""Speculation: Spark runs a slow task a second time beside the first, and stops neither before the other is done."""

from pyspark.sql import SparkSession

from hedwig.errors import ConfigurationError
from pipeline.policies import Policy

__all__ = ["check_policy", "is_speculating"]


def is_speculating(spark: SparkSession) -> bool:
    """Say whether tasks of a session may run twice at once."""
    return str(spark.conf.get("spark.speculation", "false")).lower() == "true"


def check_policy(policy: Policy, *, speculating: bool | None) -> None:
    """Raise ConfigurationError if a policy does more harm than good where tasks run twice at once.

    Args: speculating - whether they may; None if nobody has looked.
    """
    if policy is not Policy.OVERWRITE or speculating is False:
        return
    advice = (
        "set spark.speculation=false when the session is made"
        if speculating
        else "call pipeline.datasource.register(spark) before, which looks at that"
    )
    raise ConfigurationError(
        f"the policy {policy} needs a session without speculation, in which no task runs twice at once, so that no "
        f"late one writes over what came after it: {advice}"
    )
