"""Finds the processes that a run left behind."""

from pathlib import Path

__all__ = ["processes_over"]


def processes_over(directory: Path) -> list[str]:
    """Return the command lines of processes that were started with this directory."""
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(directory) in command:
            commands.append(command)
    return commands
