"""Start the real servers on loopback, without Docker: for tests, for benchmarks, and for trying things out."""

from hedwig.cli.dev.errors import DevError, NotAnsweringError, UnknownServerError
from hedwig.cli.dev.launcher import DevServers, ServerState, ServerStatus

__all__ = ["DevError", "DevServers", "NotAnsweringError", "ServerState", "ServerStatus", "UnknownServerError"]
