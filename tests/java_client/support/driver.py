"""The original Java client in a process of its own, which tests drive by lines of text and JSON."""

import base64
import contextlib
import itertools
import json
import os
import queue
import subprocess
import threading
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar

from hedwig.cli.dev.servers.classpath import ClasspathCache, user_cache
from hedwig.cli.dev.servers.java import find_java, jvm_flags
from hedwig.cli.dev.servers.log4j import write_log4j

__all__ = [
    "DriverError",
    "Inbox",
    "JavaClientDriver",
    "JavaError",
    "Received",
    "SubscriptionKey",
    "Value",
    "java_client_driver",
]

T = TypeVar("T")
Value: TypeAlias = bytes | str | int | bool
SubscriptionKey: TypeAlias = tuple[str, bytes, bytes]
"""The name of a client, a topic, a subscriber."""

SOURCE: Final = Path(__file__).with_name("JavaClientDriver.java")
_START_S: Final = 60.0  # Java compiles the program first.
_COMMAND_S: Final = 30.0
_GRACE_S: Final = 10.0  # Time for the report that a command missed its deadline.
_END_S: Final = 15.0
_HEAP_MB: Final = 256


class DriverError(Exception):
    """The process of the Java client is unusable: it ended, or it does not answer."""


class JavaError(Exception):
    """What the Java client threw: the simple name of its class, its text, and the class names of its causes."""

    def __init__(self, name: str, text: str, causes: Sequence[str]) -> None:
        super().__init__(f"{' caused by '.join((name, *causes))}: {text}")
        self.name = name
        self.text = text
        self.causes = tuple(causes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A message as the Java application's handler received it."""

    local: int
    body: bytes
    source_region: bytes
    message_type: str | None
    properties: Mapping[str, bytes]


class Inbox(Generic[T]):
    """The items that the Java client sent for one receiver, in order."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._items: queue.SimpleQueue[T | DriverError] = queue.SimpleQueue()

    def put(self, item: T | DriverError) -> None:
        """Append an item, or finally the reason why no more will follow."""
        self._items.put(item)

    def next(self, timeout_s: float) -> T:
        """Return the next item. Raises: TimeoutError - none came in time; DriverError - the process ended."""
        try:
            item = self._items.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError(f"no {self._what} from the Java client within {timeout_s:.0f} s") from None
        if isinstance(item, DriverError):
            self._items.put(item)
            raise item
        return item

    @property
    def waiting(self) -> int:
        """Return how many items have arrived and were not taken."""
        return self._items.qsize()


def java_client_driver(directory: Path) -> "JavaClientDriver":
    """Return a driver whose process has not started yet, with its log and settings in `directory`."""
    write_log4j(directory)
    jars = ClasspathCache(user_cache() / "classpath").classpath("hedwig43", print)
    command = [find_java(), *jvm_flags(_HEAP_MB), "-cp", f"{directory}{os.pathsep}{jars}", str(SOURCE)]
    return JavaClientDriver(command, directory / "client.log")


class JavaClientDriver:
    """The process, which `with` ends. Several threads may give commands.

    Raises in every method: DriverError - the process ended or does not answer; the text has the end of its log.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command = command
        self._log = log
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._answers: dict[int, Inbox[dict[str, Any]]] = {}
        self._messages: dict[int, Inbox[Received]] = {}
        self._events: dict[SubscriptionKey, Inbox[str]] = {}
        self._ended: DriverError | None = None
        self._ready = threading.Event()

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, encoding="ascii"
            )
        self._reader = threading.Thread(target=self._read, name="java client", daemon=True)
        self._reader.start()
        if not self._ready.wait(_START_S) or self._ended is not None:
            self._end()
            raise DriverError(f"the Java client did not start: {self._log_tail()}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def call(self, verb: str, values: Mapping[str, Value], deadline_s: float = _COMMAND_S) -> dict[str, Any]:
        """Give one command and return its result.

        Raises: JavaError - what the client threw; TimeoutError - the call did not end within `deadline_s`.
        """
        number, answers = next(self._numbers), Inbox[dict[str, Any]](f"answer to {verb}")
        given = {**values, "deadline_ms": round(deadline_s * 1000)}
        line = " ".join((str(number), verb, *(f"{name}={_quoted(value)}" for name, value in given.items())))
        with self._lock:
            if self._ended is not None:
                raise self._ended
            self._answers[number] = answers
            self._write(line)
        try:
            answer = answers.next(deadline_s + _GRACE_S)
        except TimeoutError as exc:
            raise DriverError(f"{exc}: {self._log_tail()}") from exc
        finally:
            with self._lock:
                del self._answers[number]
        if "error" not in answer:
            result: dict[str, Any] = answer["result"]
            return result
        error = answer["error"]
        if error["class"] == "TimeoutException":
            raise TimeoutError(f"the Java client's {verb} did not return within {deadline_s:.0f} s")
        raise JavaError(error["class"], error["text"] or "", error["causes"])

    def messages(self, delivery: int) -> Inbox[Received]:
        """Return the messages of the delivery that started under this number."""
        with self._lock:
            return self._messages.setdefault(delivery, Inbox("message"))

    def events(self, key: SubscriptionKey) -> Inbox[str]:
        """Return the names of the events of a subscription, as the application's listener receives them."""
        with self._lock:
            return self._events.setdefault(key, Inbox("subscription event"))

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except OSError as exc:
            raise DriverError(f"the Java client has ended: {self._log_tail()}") from exc

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            line = json.loads(text)
            if "command" in line:
                with self._lock:
                    waiting = self._answers.get(line["command"])
                if waiting is not None:
                    waiting.put(line)
            elif line["event"] == "message":
                self.messages(line["delivery"]).put(_received(line))
            elif line["event"] == "subscription":
                key = (line["client"], base64.b64decode(line["topic"]), base64.b64decode(line["subscriber"]))
                self.events(key).put(line["kind"])
            else:
                self._ready.set()
        ended = DriverError(f"the Java client has ended: {self._log_tail()}")
        with self._lock:
            self._ended = ended
            for inboxes in (self._answers, self._messages, self._events):
                for inbox in inboxes.values():
                    inbox.put(ended)
        self._ready.set()

    def _end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):  # The process may have ended already.
            self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_END_S)
        self._reader.join(_END_S)
        self._process.stdout.close()

    def _log_tail(self) -> str:
        return " | ".join(self._log.read_text(errors="replace").splitlines()[-15:]) or "its log is empty"


def _quoted(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return urllib.parse.quote_from_bytes(value if isinstance(value, bytes) else str(value).encode(), safe="/")


def _received(line: dict[str, Any]) -> Received:
    return Received(
        local=line["local"],
        body=base64.b64decode(line["body"]),
        source_region=base64.b64decode(line["source_region"]),
        message_type=line.get("message_type"),
        properties={name: base64.b64decode(value) for name, value in line["properties"].items()},
    )
