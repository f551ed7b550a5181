"""What the launcher saves of one directory: its servers, their ports and processes, and their settings."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from hedwig.cli.dev.errors import DevError
from hedwig.cli.dev.processes import ProcessIdentity

__all__ = ["DirectorySettings", "DirectoryState", "ServerRecord", "read_state", "write_state"]

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """One server: its kind, its ports by role (clients use the first), and its process while it should run."""

    name: str
    kind: str
    ports: Mapping[str, int]
    process: ProcessIdentity | None = None

    @property
    def port(self) -> int:
        """Return the port that clients connect to."""
        return next(iter(self.ports.values()))

    @property
    def number(self) -> int:
        """Return the number at the end of the name; 1 if there is only one of the kind."""
        tail = self.name.rpartition("-")[2]
        return int(tail) if tail.isdigit() else 1


@dataclass(frozen=True, slots=True)
class DirectorySettings:
    """The settings of callers, saved so that a server that starts again gets the same."""

    heap_mb: Mapping[str, int] = field(default_factory=dict)
    zookeeper_properties: Mapping[str, str] = field(default_factory=dict)
    hbase_properties: Mapping[str, str] = field(default_factory=dict)
    bookie_properties: Mapping[str, str] = field(default_factory=dict)
    hub_properties: Mapping[str, str] = field(default_factory=dict)
    java_flags: Mapping[str, str] = field(default_factory=dict)
    classpaths: Mapping[str, str] = field(default_factory=dict)

    def overridden_by(self, other: "DirectorySettings") -> "DirectorySettings":
        """Return these settings, overridden by those of `other`."""
        return DirectorySettings(
            heap_mb={**self.heap_mb, **other.heap_mb},
            zookeeper_properties={**self.zookeeper_properties, **other.zookeeper_properties},
            hbase_properties={**self.hbase_properties, **other.hbase_properties},
            bookie_properties={**self.bookie_properties, **other.bookie_properties},
            hub_properties={**self.hub_properties, **other.hub_properties},
            java_flags={**self.java_flags, **other.java_flags},
            classpaths={**self.classpaths, **other.classpaths},
        )


@dataclass(frozen=True, slots=True)
class DirectoryState:
    """The servers of a directory by name, and the settings that they got."""

    servers: Mapping[str, ServerRecord] = field(default_factory=dict)
    settings: DirectorySettings = field(default_factory=DirectorySettings)

    def with_server(self, record: ServerRecord) -> "DirectoryState":
        """Return the state with `record`, which replaces the record of the same name."""
        return DirectoryState({**self.servers, record.name: record}, self.settings)

    def of_kind(self, kind: str) -> list[ServerRecord]:
        """Return the servers of one kind, in the order of their numbers."""
        return sorted((one for one in self.servers.values() if one.kind == kind), key=lambda one: one.number)


def read_state(path: Path) -> DirectoryState:
    """Read the state file; an absent one is an empty state.

    Raises: DevError - the file is damaged, or another release wrote it.
    """
    try:
        raw = json.loads(path.read_text())
        if raw["format"] != _FORMAT:
            raise DevError(
                f"cannot use {path}: its format is {raw['format']}, not {_FORMAT}; delete it, or give another --dir"
            )
        servers = {name: _record(name, entry) for name, entry in raw["servers"].items()}
        return DirectoryState(servers, DirectorySettings(**raw["settings"]))
    except FileNotFoundError:
        return DirectoryState()
    except OSError as exc:
        raise DevError(
            f"cannot read {path}: {exc.strerror or exc}; ask its owner for permission, or give another --dir"
        ) from exc
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise DevError(f"cannot read {path}: {exc!r}; give another --dir, or delete the directory") from exc


def write_state(path: Path, state: DirectoryState) -> None:
    """Replace the state file in one step, so that a reader sees the old state or the new one, never a part."""
    servers = {
        one.name: {"kind": one.kind, "ports": dict(one.ports), "process": asdict(one.process) if one.process else None}
        for one in state.servers.values()
    }
    settings = {name: dict(value) for name, value in asdict(state.settings).items()}
    content = json.dumps({"format": _FORMAT, "servers": servers, "settings": settings}, indent=2)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text(content + "\n")
    partial.replace(path)


def _record(name: str, entry: Mapping[str, object]) -> ServerRecord:
    kind, ports, process = entry["kind"], entry["ports"], entry["process"]
    if not isinstance(kind, str) or not isinstance(ports, dict):
        raise ValueError(f"server {name} has no kind or no ports")
    identity = ProcessIdentity(**process) if isinstance(process, dict) else None
    return ServerRecord(name, kind, {str(role): int(port) for role, port in ports.items()}, identity)
