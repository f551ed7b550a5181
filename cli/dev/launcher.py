"""The launcher of real servers on this machine, for tests, benchmarks and the `hedwig-admin dev` commands."""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from hedwig.cli.dev.certificates import STORES_FILE, make_certificates
from hedwig.cli.dev.errors import DevError, UnknownServerError
from hedwig.cli.dev.ports import LOOPBACK
from hedwig.cli.dev.processes import ProcessIdentity, is_paused, send_signal, wait_gone, wait_paused
from hedwig.cli.dev.server_directory import ServerDirectory
from hedwig.cli.dev.servers.classpath import ClasspathCache, user_cache
from hedwig.cli.dev.servers.java import find_java, jvm_flags
from hedwig.cli.dev.servers.server_kind import KDC, SECURE
from hedwig.cli.dev.services import KINDS, SERVICES, planned_servers
from hedwig.cli.dev.startup import Startup
from hedwig.cli.dev.state import DirectorySettings, DirectoryState, ServerRecord

__all__ = ["DevServers", "ServerState", "ServerStatus"]

_LOCK_TIMEOUT_S = 15.0
_STOP_TIMEOUT_S = 30.0
_KILL_TIMEOUT_S = 15.0
_TOOL_HEAP_MB = 256


class ServerState(StrEnum):
    """What a server is doing. A `dead` server ended by itself; a `stopped` one was stopped or never started."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """One server as it is now; `pid` is None unless it runs or is paused."""

    name: str
    kind: str
    pid: int | None
    host: str
    port: int
    state: ServerState
    log: Path


class DevServers:
    """The servers of one directory. Their data, logs, ports and processes belong to that directory only.

    Methods block. Several processes may use one directory. Methods that change its state wait for each other; `kill`,
    `pause`, `resume` and `status` wait for no other process.

    Properties, heap sizes and Java flags hold for servers started from now on, and are saved in the directory. Heap
    sizes, in MiB, and flags are by kind of server. Flags are those of the virtual machine, as on a command line. They
    win over ours, which are for small servers that start quickly. Class paths, one of CLASSPATHS by kind, run another
    build of the same server.

    Raises in every method: DevError - with one line that says what to do.
    """

    def __init__(
        self,
        directory: Path,
        *,
        progress: Callable[[str], None] | None = None,
        heap_mb: Mapping[str, int] | None = None,
        zookeeper_properties: Mapping[str, str] | None = None,
        hbase_properties: Mapping[str, str] | None = None,
        bookie_properties: Mapping[str, str] | None = None,
        hub_properties: Mapping[str, str] | None = None,
        java_flags: Mapping[str, str] | None = None,
        classpaths: Mapping[str, str] | None = None,
        classpath_cache: Path | None = None,
    ) -> None:
        self._directory = ServerDirectory(directory)
        self._progress = progress or _say_nothing
        self._settings = DirectorySettings(
            heap_mb=heap_mb or {},
            zookeeper_properties=zookeeper_properties or {},
            hbase_properties=hbase_properties or {},
            bookie_properties=bookie_properties or {},
            hub_properties=hub_properties or {},
            java_flags=java_flags or {},
            classpaths=classpaths or {},
        )
        settings = self._settings
        by_kind = (("heap", settings.heap_mb), ("Java flags", settings.java_flags), ("class path", settings.classpaths))
        for what, kinds in by_kind:
            for kind in kinds:
                if kind not in KINDS:
                    raise DevError(
                        f"cannot set the {what} of {kind!r}: there is no such kind of server; "
                        f"choose from {', '.join(KINDS)}"
                    )
        self._classpaths = ClasspathCache(classpath_cache or user_cache() / "classpath")

    @property
    def directory(self) -> Path:
        """Return the directory."""
        return self._directory.root

    def up(
        self,
        kinds: Sequence[str],
        *,
        regionservers: int = 1,
        bookies: int = 1,
        zookeepers: int = 1,
        secure: bool = False,
        timeout_s: float = 180.0,
    ) -> None:
        """Start the services `kinds` and what they require, except servers that run, and wait until all answer.

        A directory keeps the servers it has. More region servers and bookies can be added, but the first start fixes
        the number of ZooKeeper servers, and whether servers are `secure`: these speak TLS only, and know their clients
        by certificates. Programs need `stores_file` then. The time that Maven takes to fetch jars does not count
        towards `timeout_s`.

        Raises: DevError - unknown name, no JDK, no Maven, a server died or did not answer in time; what was started
            is not stopped.
        """
        counts = {"regionservers": regionservers, "bookies": bookies, "zookeepers": zookeepers}
        for option, count in counts.items():
            if count < 1:
                raise DevError(f"cannot start {count} {option}: give at least 1")
        find_java()
        with self._directory.locked(timeout_s):
            state = self._adopted_state()
            known = len(state.of_kind("zookeeper"))
            if known and zookeepers not in (1, known):
                raise DevError(
                    f"{self.directory} has {known} ZooKeeper servers, not {zookeepers}: run `hedwig-admin dev down`"
                )
            if secure:
                self._make_secure(state, kerberos=KDC in kinds)
            elif KDC in kinds and not state.of_kind(KDC):
                raise DevError(
                    "Kerberos is for secure servers, and decides which: run `hedwig-admin dev up … --secure`"
                )
            plan = planned_servers(kinds, counts, state)
            for which in dict.fromkeys(state.settings.classpaths.get(kind.name, kind.classpath) for _, kind in plan):
                self._jars(which)
            for name, kind in plan:
                if name not in state.servers:
                    count = sum(other.name == kind.name for _, other in plan)
                    state = state.with_server(self._directory.new_record(name, kind, count, state))
            self._directory.write(state)
            self._startup().run([name for name, _ in plan], timeout_s)

    @property
    def stores_file(self) -> Path | None:
        """Return the file with what programs show to secure servers; None if they are not secure."""
        secure = self._directory.site(DirectoryState()).secure
        return None if secure is None else secure / STORES_FILE

    def status(self) -> list[ServerStatus]:
        """Return every server of the directory. A server comes after those that it builds on."""
        state = self._directory.state()
        return [self._status(record) for kind in KINDS for record in state.of_kind(kind)]

    def address(self, kind: str) -> str:
        """Return host:port of a service or a kind of server, joined by commas if there are several of the kind.

        For `hbase` it is the address of the master.
        """
        name = SERVICES[kind].kinds[0].name if kind in SERVICES else kind
        addresses = self._directory.site(self._directory.state()).address(name)
        if not addresses:
            raise DevError(f"there is no {kind} in {self.directory}: run `hedwig-admin dev up {kind}`")
        return addresses

    def port(self, name: str) -> int:
        """Return the port that the clients of the server `name` connect to."""
        return self._record(name).port

    def pid(self, name: str) -> int:
        """Return the process id of the server `name`, which must run or be paused."""
        return self._process(name).pid

    def log_path(self, name: str) -> Path:
        """Return the log file of the server `name`."""
        self._record(name)
        return self._directory.site(DirectoryState()).log(name)

    def kill(self, name: str) -> None:
        """End a server with SIGKILL, paused or not, and wait until its process is gone."""
        self._signal_and_wait(name, signal.SIGKILL)

    def pause(self, name: str) -> None:
        """Freeze a server with SIGSTOP. Its connections stay open, and it answers nothing once this returns."""
        process = self._signal(name, signal.SIGSTOP)
        if not wait_paused(process, self._directory.marker(name), _KILL_TIMEOUT_S):
            raise DevError(
                f"{name} (pid {process.pid}) was not frozen within {_KILL_TIMEOUT_S:.0f} s of its SIGSTOP: look at it "
                "with ps, then repeat"
            )

    def resume(self, name: str) -> None:
        """Resume a paused server."""
        self._signal(name, signal.SIGCONT)

    def stop(self, name: str) -> None:
        """End a server with SIGTERM so that it can tidy up, and with SIGKILL if it takes longer than half a minute."""
        process = self._process(name)
        self._terminate(name, process, _STOP_TIMEOUT_S)
        with self._directory.locked(_LOCK_TIMEOUT_S):
            state = self._directory.state()
            self._directory.write(state.with_server(replace(state.servers[name], process=None)))

    def start(self, name: str, wait: bool = True, *, timeout_s: float = 180.0) -> None:
        """Start a server that was killed, was stopped or died, on the same port and data, and wait until it answers.

        Raises: DevError - it runs already, its port is taken, it died, or it did not answer in time.
        """
        find_java()
        kind = KINDS[self._record(name).kind]
        self._jars(self._adopted_state().settings.classpaths.get(kind.name, kind.classpath))
        with self._directory.locked(_LOCK_TIMEOUT_S):
            state = self._adopted_state()
            self._directory.write(state)
            if self._directory.process(self._record(name)) is not None:
                raise DevError(f"{name} runs already: nothing to start")
            self._startup().launch(name, keep_port=True)
        if wait:
            self._startup().wait(name, timeout_s)

    def down(self, *, keep_data: bool = False) -> None:
        """End all servers and remove what the directory holds. With `keep_data`, stop them in order and keep all."""
        if not self.directory.exists():
            return
        with self._directory.locked(_LOCK_TIMEOUT_S):
            if keep_data:
                self._stop_in_order()
            for name, process in self._directory.marked_processes().items():
                send_signal(process, self._directory.marker(name), signal.SIGKILL)
                self._expect_gone(name, process)
            if keep_data:
                state = self._directory.state()
                stopped = {name: replace(record, process=None) for name, record in state.servers.items()}
                self._directory.write(DirectoryState(stopped, state.settings))
            else:
                self._directory.remove()

    def classpath(self, which: str) -> str:
        """Return the class path `which` (one of CLASSPATHS), for tools and Java programs of tests."""
        return self._jars(which)

    def java_command(self, which: str, main_class: str, arguments: Sequence[str]) -> list[str]:
        """Return the command that runs `main_class` on the class path `which` with our JVM flags.

        On `hbase` it finds the configuration of the HBase of this directory, if there is one.
        """
        jars = self._jars(which)
        if which == "hbase" and self._directory.state().of_kind("hbase-master"):
            jars = f"{self._directory.site(DirectoryState()).configuration('hbase-master')}{os.pathsep}{jars}"
        return [find_java(), *jvm_flags(_TOOL_HEAP_MB), "-XX:-UsePerfData", "-cp", jars, main_class, *arguments]

    def _make_secure(self, state: DirectoryState, *, kerberos: bool) -> None:
        if kerberos and state.servers and not state.of_kind(KDC):
            raise DevError(f"the servers in {self.directory} know no Kerberos: run `hedwig-admin dev down`")
        if state.servers and self.stores_file is None:
            raise DevError(f"the servers in {self.directory} are not secure: run `hedwig-admin dev down`")
        try:
            make_certificates(self.directory / SECURE, kerberos=kerberos)
        except OSError as exc:
            raise DevError(f"cannot make certificates in {self.directory}: {exc.strerror}; give another --dir") from exc

    def _adopted_state(self) -> DirectoryState:
        state = self._directory.adopt(self._directory.state())
        return DirectoryState(state.servers, state.settings.overridden_by(self._settings))

    def _startup(self) -> Startup:
        return Startup(self._directory, self._jars, self._progress)

    def _jars(self, which: str) -> str:
        return self._classpaths.classpath(which, self._progress)

    def _record(self, name: str) -> ServerRecord:
        servers = self._directory.state().servers
        if name not in servers:
            known = f"choose from {', '.join(servers)}" if servers else "run `hedwig-admin dev up` first"
            raise UnknownServerError(f"there is no server {name!r} in {self.directory}: {known}")
        return servers[name]

    def _process(self, name: str) -> ProcessIdentity:
        process = self._directory.process(self._record(name))
        if process is None:
            raise DevError(f"{name} does not run: run `hedwig-admin dev start {name}` first")
        return process

    def _status(self, record: ServerRecord) -> ServerStatus:
        process = self._directory.process(record)
        if process is not None:
            state = ServerState.PAUSED if is_paused(process) else ServerState.RUNNING
        else:
            state = ServerState.DEAD if record.process else ServerState.STOPPED
        return ServerStatus(
            name=record.name,
            kind=record.kind,
            pid=process.pid if process else None,
            host=LOOPBACK,
            port=record.port,
            state=state,
            log=self._directory.site(DirectoryState()).log(record.name),
        )

    def _signal(self, name: str, number: signal.Signals) -> ProcessIdentity:
        process = self._process(name)
        if not send_signal(process, self._directory.marker(name), number):
            raise DevError(f"{name} has just ended: run `hedwig-admin dev start {name}` first")
        return process

    def _signal_and_wait(self, name: str, number: signal.Signals) -> None:
        self._expect_gone(name, self._signal(name, number))

    def _expect_gone(self, name: str, process: ProcessIdentity) -> None:
        if not wait_gone(process, self._directory.marker(name), _KILL_TIMEOUT_S):
            raise DevError(
                f"{name} (pid {process.pid}) did not end within {_KILL_TIMEOUT_S:.0f} s of its SIGKILL: "
                "look at it with ps, then repeat"
            )

    def _terminate(self, name: str, process: ProcessIdentity, timeout_s: float) -> None:
        marker = self._directory.marker(name)
        send_signal(process, marker, signal.SIGTERM)
        send_signal(process, marker, signal.SIGCONT)
        if not wait_gone(process, marker, timeout_s):
            send_signal(process, marker, signal.SIGKILL)
            self._expect_gone(name, process)

    def _stop_in_order(self) -> None:
        """Stop servers before those that they build on, all of one kind at the same time, with one deadline."""
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        state = self._directory.state()
        for kind in reversed(list(KINDS)):
            processes = [(record.name, self._directory.process(record)) for record in state.of_kind(kind)]
            running = [(name, process) for name, process in processes if process is not None]
            for name, process in running:
                send_signal(process, self._directory.marker(name), signal.SIGTERM)
            for name, process in running:
                self._terminate(name, process, max(0.0, deadline - time.monotonic()))


def _say_nothing(_line: str) -> None:
    """Report no progress."""
