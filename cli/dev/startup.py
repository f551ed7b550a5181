"""Starts a set of servers, and waits until each of them really answers."""

import os
import shlex
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import assert_never

from hedwig.cli.dev.errors import DevError, NotAnsweringError, NotReadyError
from hedwig.cli.dev.ports import LOOPBACK, is_free
from hedwig.cli.dev.processes import identify_child, is_paused, spawn
from hedwig.cli.dev.server_directory import ServerDirectory
from hedwig.cli.dev.servers.java import find_java, jvm_flags
from hedwig.cli.dev.servers.server_kind import PortKeeper, ServerKind
from hedwig.cli.dev.services import KINDS, kinds_needing
from hedwig.cli.dev.state import ServerRecord

__all__ = ["Startup"]

_LOG_TAIL_LINES = 15

_POLL_S = 0.1
_TALK_EVERY_S = 15.0
# How many times a server may lose its port to another program between our look and its own bind.
_PORT_LOSSES_MAX = 3


class Startup:
    """Start servers, each as soon as those that it builds on answer, and wait for all of them.

    The holder of the directory's lock makes one for each `up` or `start`.
    """

    def __init__(self, directory: ServerDirectory, jars: Callable[[str], str], progress: Callable[[str], None]) -> None:
        self._directory = directory
        self._jars = jars
        self._progress = progress

    def run(self, names: Sequence[str], timeout_s: float) -> None:
        """Start those of the recorded servers `names` that do not run, and wait until all answer.

        Raises: DevError - a server died, is paused, lost its port, or did not answer within `timeout_s`.
        """
        started_at = time.monotonic()
        deadline, talk_at = started_at + timeout_s, started_at + _TALK_EVERY_S
        waiting = dict.fromkeys(names, "not started: it waits for other servers")
        launched: dict[str, float] = {}
        losses = dict.fromkeys(names, 0)
        while waiting:
            unready = {self._kind(name).name for name in waiting}
            for name in tuple(waiting):
                record, kind = self._record(name), self._kind(name)
                if self._directory.process(record) is None:
                    if name in launched:
                        losses[name] += 1
                        self._handle_death(record, losses[name])
                    if unready.isdisjoint(kind.starts_after):
                        self.launch(name)
                        launched[name] = time.monotonic()
                        waiting[name] = "not asked yet: it waits for other servers"
                elif unready.isdisjoint(kind.answers_after):
                    waiting[name] = self._what_is_missing(record, kind)
                    if not waiting[name]:
                        del waiting[name]
                        self._progress(self._ready_line(record, launched.get(name)))
            if waiting and time.monotonic() > deadline:
                name, why = next(iter(waiting.items()))
                raise self._not_answering(name, timeout_s, why)
            if waiting and time.monotonic() > talk_at:
                talk_at += _TALK_EVERY_S
                reasons = ", ".join(f"{name} ({why})" for name, why in waiting.items())
                self._progress(f"still waiting after {time.monotonic() - started_at:.0f} s: {reasons}")
            if waiting:
                time.sleep(_POLL_S)

    def wait(self, name: str, timeout_s: float) -> None:
        """Wait until a launched server answers. Needs no lock, since it starts nothing.

        Raises: DevError - it died, is paused, or did not answer within `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        began = time.monotonic()
        while True:
            record, kind = self._record(name), self._kind(name)
            if self._directory.process(record) is None:
                raise self._died(name)
            why = self._what_is_missing(record, kind)
            if not why:
                self._progress(self._ready_line(record, began))
                return
            if time.monotonic() > deadline:
                raise self._not_answering(name, timeout_s, why)
            time.sleep(_POLL_S)

    def launch(self, name: str, *, keep_port: bool = False) -> None:
        """Start one server and record its process.

        Raises: DevError - one of its ports is taken, and `keep_port` or a running server that knows the port forbids
            another one.
        """
        record, kind = self._record(name), self._kind(name)
        if self._taken_ports(record):
            record = self._move(record, kind, keep_port)
        state = self._directory.state()
        site = self._directory.site(state)
        launch = kind.prepare(site, record)
        heap_mb = state.settings.heap_mb.get(kind.name, kind.heap_mb)
        own_flags = shlex.split(state.settings.java_flags.get(kind.name, ""))
        scratch, log = site.scratch(name), site.log(name)
        jars = self._jars(state.settings.classpaths.get(kind.name, kind.classpath))
        command = [
            find_java(),
            self._directory.marker(name),
            *jvm_flags(heap_mb, self._directory.hosts_file()),
            # A killed server would leave its performance data and unpacked libraries in the system's temporary
            # directory.
            "-XX:-UsePerfData",
            f"-Djava.io.tmpdir={scratch}",
            f"-XX:ErrorFile={log.with_suffix('.crash.log')}",
            "-XX:+ExitOnOutOfMemoryError",
            *launch.flags,
            *own_flags,
            "-cp",
            f"{launch.class_directory}{os.pathsep}{jars}" if launch.class_directory else jars,
            launch.main_class,
            *launch.arguments,
        ]
        with _signals_held():
            pid = spawn(command, os.environ, log)
            self._directory.write(state.with_server(replace(record, process=identify_child(pid))))

    def _what_is_missing(self, record: ServerRecord, kind: ServerKind) -> str:
        """Return the empty string if the server answers, else why not."""
        process = self._directory.process(record)
        if process is not None and is_paused(process):
            raise DevError(f"{record.name} is paused, so it cannot answer: run `hedwig-admin dev resume {record.name}`")
        try:
            kind.check(self._directory.site(self._directory.state()), record)
        except NotReadyError as exc:
            return str(exc)
        except OSError as exc:
            return f"it does not answer ({exc})"
        return ""

    def _handle_death(self, record: ServerRecord, losses: int) -> None:
        """Raise DevError, unless the server lost its port before its bind, and may try another one."""
        if losses >= _PORT_LOSSES_MAX or not self._taken_ports(record):
            raise self._died(record.name)

    def _move(self, record: ServerRecord, kind: ServerKind, keep_port: bool) -> ServerRecord:
        """Give a server new ports in place of those that another program has."""
        taken = ", ".join(map(str, self._taken_ports(record)))
        if keep_port or self._is_port_kept(record, kind):
            raise DevError(
                f"cannot start {record.name}: another program has taken its port {taken}; "
                "stop that program, or run `hedwig-admin dev down`"
            )
        state = self._directory.state()
        count = len(state.of_kind(kind.name))
        moved = replace(self._directory.new_record(record.name, kind, count, state), process=None)
        self._directory.write(state.with_server(moved))
        self._progress(f"{record.name}: another program has taken port {taken}, moved to {moved.port}")
        return moved

    def _taken_ports(self, record: ServerRecord) -> list[int]:
        """Return the ports on which the server would listen, and that another program has.

        A record of an earlier release may name more ports. Other programs may use these.
        """
        count = len(self._directory.state().of_kind(record.kind))
        return [
            record.ports[role] for role in self._kind(record.name).port_roles(count) if not is_free(record.ports[role])
        ]

    def _is_port_kept(self, record: ServerRecord, kind: ServerKind) -> bool:
        match kind.port_kept_by:
            case PortKeeper.NOBODY:
                return False
            case PortKeeper.ITS_DATA:
                return any(self._directory.site(self._directory.state()).data(record.name).iterdir())
            case PortKeeper.THOSE_WHO_NEED_IT:
                needing = kinds_needing(kind.name)
                others = [one for one in self._directory.state().servers.values() if one.kind in needing]
                return any(self._directory.process(one) is not None for one in others)
            case _ as unknown:
                assert_never(unknown)

    def _died(self, name: str) -> DevError:
        return DevError(f"{name} died while it started: {_what_to_do(name)}", self._log_tail(name))

    def _not_answering(self, name: str, timeout_s: float, why: str) -> DevError:
        message = f"{name} does not answer after {timeout_s:.0f} s: {why}; {_what_to_do(name)}"
        return NotAnsweringError(message, self._log_tail(name))

    def _log_tail(self, name: str) -> tuple[str, ...]:
        return self._directory.log_tail(name, _LOG_TAIL_LINES)

    def _ready_line(self, record: ServerRecord, launched: float | None) -> str:
        how = "was running" if launched is None else f"ready after {time.monotonic() - launched:.1f} s"
        return f"{record.name} {how} on {LOOPBACK}:{record.port}"

    def _record(self, name: str) -> ServerRecord:
        return self._directory.state().servers[name]

    def _kind(self, name: str) -> ServerKind:
        return KINDS[self._record(name).kind]


def _what_to_do(name: str) -> str:
    return f"see `hedwig-admin dev logs {name}`, then run `up` again or `hedwig-admin dev down`"


@contextmanager
def _signals_held() -> Iterator[None]:
    """Delay Ctrl-C until a started process is on record, too. It interrupts only the main thread."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
