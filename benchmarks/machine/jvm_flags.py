"""The flags of the Java virtual machines that a run has started, as its result keeps them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from hedwig.cli.dev import DevServers

__all__ = ["SERVERS", "NoteFlags", "flags_of", "flags_of_servers", "note_flags"]

SERVERS: Final = "servers"
"""Where machines are that all cases of a result share."""
_MEMBER: Final = "jvm_flags"
_WHERE: Final = "-XX:ErrorFile="

NoteFlags: TypeAlias = Callable[[str, Mapping[str, list[str]]], None]
"""Takes note of flags: of which servers, as in `note_flags`, and those of each kind.

Servers come and go while a run lasts, and the environment of its result is told before.
"""


def flags_of(pid: int) -> list[str]:
    """Return the flags that a machine was started with, none if it has ended."""
    try:
        words = Path("/proc", str(pid), "cmdline").read_text().split("\0")
    except OSError:
        return []
    return [word for word in words if word.startswith("-X")]


def flags_of_servers(servers: DevServers) -> dict[str, list[str]]:
    """Return by kind of server the flags of the machines that run, but not where they may write."""
    found = {server.kind: flags_of(server.pid) for server in servers.status() if server.pid is not None}
    return {kind: [flag for flag in flags if not flag.startswith(_WHERE)] for kind, flags in found.items() if flags}


def note_flags(environment: dict[str, Any], where: str, flags: Mapping[str, list[str]]) -> None:
    """Keep flags in the environment of a result, beside those that are there; the same kind of server has one list.

    where: a word for the servers: how durable they are, if a result has both, else `SERVERS`.
    """
    environment.setdefault(_MEMBER, {}).setdefault(where, {}).update(flags)
