"""Reads from the kernel which sockets processes listen on, because the launcher's own view is under test."""

import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["listening_addresses", "processes_naming"]

_LISTEN = "0A"


def processes_naming(directory: Path) -> list[int]:
    """Return the processes with `directory` anywhere in their command line."""
    wanted = str(directory).encode()
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if wanted in command:
                pids.append(int(entry.name))
    return pids


def listening_addresses(pids: Iterable[int]) -> set[tuple[str, int]]:
    """Return the address, in the kernel's hexadecimal form, and the port of every listening socket of `pids`."""
    sockets = {target for pid in pids for target in _open_files(pid)}
    addresses = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            address, _, port = fields[1].partition(":")
            if fields[3] == _LISTEN and f"socket:[{fields[9]}]" in sockets:
                addresses.add((address, int(port, 16)))
    return addresses


def _open_files(pid: int) -> list[str]:
    files = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            files.append(str(entry.readlink()))
        except OSError:
            continue
    return files
