"""One directory of servers: its files, its lock, its state, and the processes that belong to it."""

import contextlib
import random
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from hedwig.cli.dev.errors import DevError
from hedwig.cli.dev.locks import locked
from hedwig.cli.dev.log_files import last_lines
from hedwig.cli.dev.ports import LOOPBACK, choose_port
from hedwig.cli.dev.processes import ProcessIdentity, marked_processes, still_runs
from hedwig.cli.dev.servers.server_kind import SECURE, ServerKind, Site
from hedwig.cli.dev.state import DirectoryState, ServerRecord, read_state, write_state
from hedwig.private_files import make_directory

__all__ = ["ServerDirectory"]

_PLAIN_PATH = re.compile(r"[\w/.+@~=-]+", re.ASCII)
_STATE, _LOCK, _HOSTS = "state.json", "lock", "hosts"
_FOLDERS = ("conf", "data", "logs", SECURE, "tmp")


class ServerDirectory:
    """The directory `root`. Only the launcher's own files are written or removed in it."""

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().absolute()
        self._rng = random.Random()

    @contextmanager
    def locked(self, timeout_s: float) -> Iterator[None]:
        """Keep every other launcher from changing the state.

        Raises: DevError - another one works for longer than `timeout_s`, the directory holds other files, or Java
            programs cannot use its name.
        """
        if not _PLAIN_PATH.fullmatch(str(self.root)):
            raise DevError(
                f"cannot keep servers in {str(self.root)!r}: class paths and property files of Java cannot hold such a "
                "name; give a --dir of plain letters, digits and ._+@~=-"
            )
        held = self._entries()
        if held and _LOCK not in held:
            raise DevError(
                f"cannot keep servers in {self.root}: it holds other files; give an empty or a new directory with --dir"
            )
        try:
            make_directory(self.root)
        except OSError as exc:
            raise DevError(f"cannot make {self.root}: {exc.strerror}; give another directory with --dir") from exc
        with locked(self.root / _LOCK, timeout_s):
            yield

    def state(self) -> DirectoryState:
        """Read the state."""
        return read_state(self.root / _STATE)

    def write(self, state: DirectoryState) -> DirectoryState:
        """Replace the state, and return it. Only the holder of the lock may call this."""
        write_state(self.root / _STATE, state)
        return state

    def site(self, state: DirectoryState) -> Site:
        """Return the directory as the kinds of server see it."""
        return Site(self.root, state)

    def marker(self, name: str) -> str:
        """Return the argument that marks the process of a server as ours."""
        return f"-Dhedwig.dev.server={self.root}/{name}"

    def process(self, record: ServerRecord) -> ProcessIdentity | None:
        """Return the process of a server if it lives."""
        identity = record.process
        return identity if identity is not None and still_runs(identity, self.marker(record.name)) else None

    def adopt(self, state: DirectoryState) -> DirectoryState:
        """Record processes of ours that are not on record, because their launcher was killed at the wrong moment."""
        marked = self.marked_processes()
        for record in state.servers.values():
            if record.name in marked and self.process(record) is None:
                state = state.with_server(replace(record, process=marked[record.name]))
        return state

    def marked_processes(self) -> dict[str, ProcessIdentity]:
        """Return all live processes of this directory by the name of their server, recorded or not."""
        return marked_processes(self.marker(""))

    def new_record(self, name: str, kind: ServerKind, count: int, state: DirectoryState) -> ServerRecord:
        """Return the record of one of `count` servers of a kind.

        It has a free port for every role. No other server of the directory has any of them.
        """
        taken = {port for record in state.servers.values() for port in record.ports.values()}
        ports = {}
        for role in kind.port_roles(count):
            ports[role] = choose_port(taken, self._rng)
            taken.add(ports[role])
        return ServerRecord(name, kind.name, ports)

    def hosts_file(self) -> Path:
        """Write the servers' only source of host names, in which this machine's own name is loopback, too."""
        path = self.root / _HOSTS
        content = f"{LOOPBACK} localhost {socket.gethostname()}\n"
        if not path.exists() or path.read_text() != content:
            # Replace it in one step: running servers read it at every look-up.
            partial = path.with_suffix(".partial")
            partial.write_text(content)
            partial.replace(path)
        return path

    def log_tail(self, name: str, lines: int) -> tuple[str, ...]:
        """Return the last lines of a server's log; none if it has no log."""
        try:
            content, _position = last_lines(self.site(DirectoryState()).log(name), lines)
        except FileNotFoundError:
            return ()
        return tuple(content.decode(errors="replace").splitlines())

    def remove(self) -> None:
        """Remove all that the launcher made, and the directory if it is empty then. Only for the lock's holder."""
        for folder in _FOLDERS:
            shutil.rmtree(self.root / folder, ignore_errors=True)
        for file in (_STATE, _HOSTS, _LOCK):
            (self.root / file).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # It is not empty: it has other files, or another launcher is just starting.
            self.root.rmdir()

    def _entries(self) -> set[str]:
        """Return the names in the directory, read at once, since another launcher may be removing them."""
        try:
            return {entry.name for entry in self.root.iterdir()}
        except FileNotFoundError:
            return set()
