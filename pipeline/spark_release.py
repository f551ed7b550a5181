"""The release of Spark that jobs need: the data source uses what came with it."""

import os
from pathlib import Path
from typing import Final

from hedwig.errors import HedwigError

__all__ = ["RELEASE", "OtherSparkError", "check_spark"]

RELEASE: Final = "4.3"
"""The release of the extra `spark` in pyproject.toml. Code that is submitted as a zip comes without that file."""


class OtherSparkError(HedwigError):
    """Jobs cannot run with the release of the imported PySpark. The text names the release, and its folder."""


def check_spark() -> None:
    """Raise OtherSparkError unless PySpark is of RELEASE.

    Call this before importing anything else of PySpark. If another release lacks a name, the import error does not
    mention releases.
    """
    import pyspark
    import pyspark.version

    release = pyspark.version.__version__
    if release.split(".")[:2] == RELEASE.split("."):
        return
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        advice = f"take the spark-submit of Spark {RELEASE}, and a cluster of that release"
    else:
        advice = "in the checkout of hedwig: pip install '.[spark]'"
    raise OtherSparkError(
        f"this is PySpark {release}, imported from {Path(pyspark.__file__).parent}, and jobs need {RELEASE}; {advice}"
    )
