"""The release of Spark that jobs run with: the data source needs what came with it."""

import os
from pathlib import Path
from typing import Final

from hedwig.errors import HedwigError

__all__ = ["RELEASE", "OtherSparkError", "check_spark"]

RELEASE: Final = "4.3"
"""That of the extra `spark` in pyproject.toml, which does not come along where code is submitted as a zip."""


class OtherSparkError(HedwigError):
    """The PySpark that is imported is of a release that jobs cannot run with; the text names it, and where it is."""


def check_spark() -> None:
    """Raise OtherSparkError unless PySpark is of RELEASE.

    Whoever imports anything else of PySpark does so after this: what another release lacks fails in words that say
    nothing of releases.
    """
    import pyspark
    import pyspark.version

    found = pyspark.version.__version__
    if found.split(".")[:2] == RELEASE.split("."):
        return
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        advice = f"take the spark-submit of Spark {RELEASE}, and a cluster of that release"
    else:
        advice = "in the checkout of hedwig: pip install '.[spark]'"
    raise OtherSparkError(
        f"this is PySpark {found}, imported from {Path(pyspark.__file__).parent}, and jobs need {RELEASE}; {advice}"
    )
