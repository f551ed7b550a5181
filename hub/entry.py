"""The entry point of hedwig-hub. If its extra is missing, it says how to install it."""

from typing import NoReturn

from hedwig.extras import starting

__all__ = ["main"]


def main() -> NoReturn:
    """Run hedwig-hub, and exit with its code."""
    with starting("hedwig-hub", "hub"):
        from hedwig.hub.main import main as run
    run()
