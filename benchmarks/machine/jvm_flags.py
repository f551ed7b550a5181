"""The flags of the Java virtual machines that a run has started, as its result records them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from hedwig.cli.dev import DevServers

__all__ = ["SERVERS", "NoteFlags", "flags_of", "flags_of_servers", "note_flags"]

SERVERS: Final = "servers"
"""The group of machines that all cases of a result share."""
_MEMBER: Final = "jvm_flags"
_WHERE: Final = "-XX:ErrorFile="

NoteFlags: TypeAlias = Callable[[str, Mapping[str, list[str]]], None]
"""Records flags: the group of servers, as in `note_flags`, and the flags of each kind.

Servers start and end during a run, but the environment of its result is recorded before.
"""


def flags_of(pid: int) -> list[str]:
    """Return the flags that a machine was started with; an empty list if it has ended."""
    try:
        words = Path("/proc", str(pid), "cmdline").read_text().split("\0")
    except OSError:
        return []
    return [word for word in words if word.startswith("-X")]


def flags_of_servers(servers: DevServers) -> dict[str, list[str]]:
    """Return the flags of the running machines by kind of server, without the paths where they write."""
    by_kind = {server.kind: flags_of(server.pid) for server in servers.status() if server.pid is not None}
    return {kind: [flag for flag in flags if not flag.startswith(_WHERE)] for kind, flags in by_kind.items() if flags}


def note_flags(environment: dict[str, Any], where: str, flags: Mapping[str, list[str]]) -> None:
    """Record flags in the environment of a result, beside those that are there; each kind of server has one list.

    where: a word for the group of servers: their durability, if a result has both kinds, else `SERVERS`.
    """
    environment.setdefault(_MEMBER, {}).setdefault(where, {}).update(flags)
