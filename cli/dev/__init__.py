"""Start the real servers on loopback, without Docker: for tests, for benchmarks, and for trying things out."""

from hedwig.extras import needed

with needed("all", "starting servers needs"):
    # Import these first, so that one line says what is missing.
    import kazoo  # noqa: F401
    import thriftpy2  # noqa: F401

from hedwig.cli.dev.errors import DevError, NotAnsweringError, UnknownServerError
from hedwig.cli.dev.launcher import DevServers, ServerState, ServerStatus

__all__ = ["DevError", "DevServers", "NotAnsweringError", "ServerState", "ServerStatus", "UnknownServerError"]
