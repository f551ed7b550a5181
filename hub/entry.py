"""Where hedwig-hub begins: also without its extra, of which it then says how to install it."""

from typing import NoReturn

from hedwig.extras import starting

__all__ = ["main"]


def main() -> NoReturn:
    """Run hedwig-hub, and exit with its code."""
    with starting("hedwig-hub", "hub"):
        from hedwig.hub.main import main as run
    run()
