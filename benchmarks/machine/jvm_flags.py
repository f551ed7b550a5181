"""The flags of the Java virtual machines that a run starts, and how its result records them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from hedwig.cli.dev import DevServers

__all__ = [
    "AS_IN_PRODUCTION",
    "SERVERS",
    "NoteFlags",
    "flags_as_in_production",
    "flags_of",
    "flags_of_servers",
    "note_flags",
]

AS_IN_PRODUCTION: Final = "G1 with the whole heap from the start, both compilers"
"""What `flags_as_in_production` says, in the words of a result's terms."""
SERVERS: Final = "servers"
"""The group of machines that all cases of a result share."""
_MEMBER: Final = "jvm_flags"
_WHERE: Final = "-XX:ErrorFile="

NoteFlags: TypeAlias = Callable[[str, Mapping[str, list[str]]], None]
"""Records flags: the group of servers, as in `note_flags`, and the flags of each kind.

Servers start and end during a run, but the environment of its result is recorded before.
"""


def flags_as_in_production(heap_mb: Mapping[str, int]) -> dict[str, str]:
    """Return flags for each kind of dev server, so that it runs as a server in production would.

    Dev servers have the serial collector, a heap that grows, and only the first compiler: small and quick to start.
    With such a collector and heap, 20,000 updates a second stopped a region server for 25 ms four times a second.

    Args: heap_mb - the heap of each kind, MiB.
    """
    common = "-XX:TieredStopAtLevel=4 -XX:-UseSerialGC -XX:+UseG1GC"
    return {kind: f"{common} -Xms{size}m" for kind, size in heap_mb.items()}


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
