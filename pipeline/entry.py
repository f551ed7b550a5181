"""The entry point of hedwig-pipeline. If its extra is missing, it says how to install it."""

from typing import NoReturn

from hedwig.extras import starting

__all__ = ["main"]


def main() -> NoReturn:
    """Run a job, and exit with its code."""
    with starting("hedwig-pipeline", "spark"):
        from hedwig.pipeline.main import main as run
    run()
