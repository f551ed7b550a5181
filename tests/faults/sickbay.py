"""Making servers well again after a test that harmed them."""

from typing import Final

from cli.dev import DevServers, ServerState

__all__ = ["heal"]

_SERVICES: Final = {"hbase-master": "hbase", "regionserver": "hbase"}
"""The services of those kinds of server that have another name."""


def heal(launcher: DevServers) -> None:
    """Let paused servers go on, start those that ended where they were, and wait until all answer."""
    known = launcher.status()
    for server in known:
        if server.state is ServerState.PAUSED:
            launcher.resume(server.name)
        elif server.state is ServerState.DEAD:
            launcher.start(server.name, wait=False)
    launcher.up(list(dict.fromkeys(_SERVICES.get(server.kind, server.kind) for server in known)))
