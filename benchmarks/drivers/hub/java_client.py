"""Run the benchmark program of the original Java client against any hub, and read its numbers.

    python -m hedwig.benchmarks.drivers.hub.java_client 127.0.0.1:4080 publish --topics 50 --messages 100000

The program names its topics itself: topic0, topic1 … to publish and receive, warmup0 … for the warm-up. It counts
latency in whole milliseconds from handing a request to the client. The wait for a slot in flight does not count.

Source: org.apache.hedwig.client.benchmark.HedwigBenchmark in hedwig-client 4.3.2.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.cli.dev.servers.classpath import ClasspathCache, user_cache
from hedwig.cli.dev.servers.java import find_java

__all__ = ["JavaBenchmark", "JavaBenchmarkRun", "JavaMode", "JavaResult", "main", "run"]

_PROGRAM: Final = "org.apache.hedwig.client.benchmark.HedwigBenchmark"
_LATENCY_MS_MAX: Final = 60_000
_TAIL_LINES: Final = 15
_END_S: Final = 15.0
_LOG_SETTINGS: Final = """\
log4j.rootLogger=WARN, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%-5p %c{1}: %m%n
"""
_SUBSCRIBED: Final = "Finished subscribing to topics"
_DIED: Final = 'Exception in thread "main"'
_RESULT: Final = re.compile(
    r"Finished (?P<label>acked pubs|recvs|warmup): count = (?P<count>\d+), tput = (?P<rate>\S+) ops/s, "
    r"numFailed = (?P<failed>\d+)"
    r"(, avg latency = (?P<mean>\d+), \S+%ile latency = (?P<above> >= )?(?P<percentile>\d+))?"
)


class JavaMode(StrEnum):
    """What to measure; the values are the program's own words."""

    PUBLISH = "pub"
    """Publishes of one client. The only subscriber is that of the warm-up."""
    RECEIVE = "recv"
    """Deliveries to one subscription on each topic; another program must publish."""
    SUBSCRIBE = "sub"
    """First subscriptions, each on its own topic and its own connection, all in flight at once."""


_LABEL: Final = {JavaMode.PUBLISH: "acked pubs", JavaMode.RECEIVE: "recvs", JavaMode.SUBSCRIBE: "warmup"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaBenchmark:
    """The program's options.

    `messages` are published or received in all, a multiple of `topics`. A publisher sends the first message of each
    topic alone and does not count it. Before that it sends `warmups` messages of 1 KiB to another topic.
    A run that subscribes uses `subscriptions` only. With `rate_per_s` 0 the program publishes as fast as it can.
    It reports one percentile of the latencies.

    Raises: ValueError - the program would refuse it.
    """

    mode: JavaMode
    topics: int = 50
    messages: int = 10_000
    in_flight: int = 100
    message_bytes: int = 1024
    warmups: int = 1000
    subscriptions: int = 1000
    first_topic: int = 0
    rate_per_s: int = 0
    subscriber: int = 0
    percentile: float = 99.0

    def __post_init__(self) -> None:
        if self.topics < 1 or self.in_flight < 1 or min(self.message_bytes, self.warmups, self.first_topic) < 0:
            raise ValueError(
                "topics and in_flight must be at least 1, message_bytes, warmups and first_topic at least 0"
            )
        if self.messages % self.topics or self.messages <= self.topics:
            raise ValueError(
                f"messages must be a multiple of the {self.topics} topics, and more than one each, not {self.messages}"
            )
        if self.subscriptions < 2:
            raise ValueError("subscriptions must be at least 2: with fewer the program reports nothing")

    def arguments(self, address: str) -> list[str]:
        """Return the program's arguments for a hub at host:port."""
        subscribing = self.mode is JavaMode.SUBSCRIBE
        given = {
            "mode": self.mode.value,
            "defaultHub": address,
            # After the counted subscriptions the program makes one more on each of these topics.
            "nTopics": 1 if subscribing else self.topics,
            "nMsgs": self.messages,
            "npar": self.in_flight,
            "msgSize": self.message_bytes,
            "nwarmups": self.subscriptions if subscribing else self.warmups,
            "startTopicLabel": self.first_topic,
            "rate": self.rate_per_s,
            "replicaIndex": self.subscriber,
        }
        return [word for name, value in given.items() for word in (f"-{name}", str(value))]


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaResult:
    """What the program measured. Latencies are whole milliseconds, and None if the program received.

    `percentile_ms` is a lower bound if `percentile_is_above`.
    """

    count: int
    failed: int
    rate_per_s: float
    latency_mean_ms: int | None
    percentile_ms: int | None
    percentile_is_above: bool


class JavaBenchmarkRun:
    """A running program, which `with` starts, and ends if it still runs.

    Raises in its methods: BenchmarkError - the program ended without a result, or did not get that far in time.
    """

    def __init__(
        self,
        address: str,
        benchmark: JavaBenchmark,
        *,
        heap_mb: int = 1024,
        classpath: str | None = None,
        progress: Callable[[str], None] = print,
    ) -> None:
        self._benchmark = benchmark
        self._address = address
        self._heap_mb = heap_mb
        self._classpath = classpath or ClasspathCache(user_cache() / "classpath").classpath("hedwig43", progress)
        self._changed = threading.Condition()
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._subscribed = False
        self._ended = False
        self._result: JavaResult | None = None

    def __enter__(self) -> Self:
        self._settings = tempfile.TemporaryDirectory(prefix="hedwig-java-benchmark-")
        log_settings = Path(self._settings.name, "log4j.properties")
        log_settings.write_text(_LOG_SETTINGS)
        command = [
            find_java(),
            f"-Xmx{self._heap_mb}m",
            "-Djava.net.preferIPv4Stack=true",
            f"-Dlog4j.configuration={log_settings.as_uri()}",
            f"-Dpercentile={self._benchmark.percentile}",
            f"-DnumBuckets={_LATENCY_MS_MAX + 1}",
            "-cp",
            self._classpath,
            _PROGRAM,
            *self._benchmark.arguments(self._address),
        ]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read, name="java benchmark", daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._process.kill()
            self._process.wait(_END_S)
            self._reader.join(_END_S)
        finally:
            self._settings.cleanup()

    @property
    def pid(self) -> int:
        """Return the process id of the program."""
        return self._process.pid

    def wait_subscribed(self, timeout_s: float) -> None:
        """Wait until all topics are subscribed, in the mode that receives; then another program may publish."""
        self._wait(lambda: self._subscribed, timeout_s, "subscribe its topics")

    def result(self, timeout_s: float) -> JavaResult:
        """Wait for the numbers."""
        self._wait(lambda: self._result is not None, timeout_s, "finish")
        assert self._result is not None
        return self._result

    def _wait(self, reached: Callable[[], bool], timeout_s: float, what: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: reached() or self._ended, timeout_s)
            if reached():
                return
            why = "it ended" if self._ended else f"not within {timeout_s:.0f} s"
            error = BenchmarkError(f"the Java benchmark against {self._address} did not {what}: {why}")
            error.add_note("\n".join(self._tail))
            raise error

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout:
            for line in self._process.stdout:
                with self._changed:
                    self._note(line.rstrip())
                    self._changed.notify_all()
                if line.startswith(_DIED):
                    break  # Threads of the client keep the process alive after its main thread has ended.
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _note(self, line: str) -> None:
        self._tail.append(line)
        self._subscribed = self._subscribed or line.startswith(_SUBSCRIBED)
        match = _RESULT.search(line)
        if match is not None and match["label"] == _LABEL[self._benchmark.mode]:
            self._result = JavaResult(
                count=int(match["count"]),
                failed=int(match["failed"]),
                rate_per_s=float(match["rate"]),
                latency_mean_ms=int(match["mean"]) if match["mean"] else None,
                percentile_ms=int(match["percentile"]) if match["percentile"] else None,
                percentile_is_above=match["above"] is not None,
            )


def run(address: str, benchmark: JavaBenchmark, timeout_s: float, *, heap_mb: int = 1024) -> JavaResult:
    """Run the program to its end and return what it measured.

    Raises: BenchmarkError - it failed, or took longer than `timeout_s`; DevError - no Java, no jars.
    """
    with JavaBenchmarkRun(address, benchmark, heap_mb=heap_mb) as running:
        return running.result(timeout_s)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description="Run the original Java client's benchmark against a hub.")
    parser.add_argument("address", help="host:port of the hub")
    parser.add_argument("mode", choices=[mode.name.lower() for mode in JavaMode])
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--messages", type=int, default=10_000, help="in all, a multiple of the topics")
    parser.add_argument("--in-flight", type=int, default=100)
    parser.add_argument("--size", type=int, default=1024, help="bytes of a message's body")
    parser.add_argument("--warmups", type=int, default=1000)
    parser.add_argument("--subscriptions", type=int, default=1000, help="to make in the mode subscribe")
    parser.add_argument("--first-topic", type=int, default=0)
    parser.add_argument("--rate", type=int, default=0, help="messages a second; 0: as fast as it can")
    parser.add_argument("--percentile", type=float, default=99.0)
    parser.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS")
    given = parser.parse_args(arguments)
    try:
        benchmark = JavaBenchmark(
            mode=JavaMode[given.mode.upper()],
            topics=given.topics,
            messages=given.messages,
            in_flight=given.in_flight,
            message_bytes=given.size,
            warmups=given.warmups,
            subscriptions=given.subscriptions,
            first_topic=given.first_topic,
            rate_per_s=given.rate,
            percentile=given.percentile,
        )
    except ValueError as error:
        parser.error(str(error))
    began = time.monotonic()
    try:
        result = run(given.address, benchmark, given.timeout)
    except BenchmarkError as error:
        sys.exit("\n".join((f"error: {error}", *error.__notes__)))
    print(_summary(benchmark, result, time.monotonic() - began))


def _summary(benchmark: JavaBenchmark, result: JavaResult, took_s: float) -> str:
    words = f"{benchmark.mode.name.lower()}: {result.count:,} at {result.rate_per_s:,.0f}/s, {result.failed} failed"
    if result.latency_mean_ms is not None:
        above = ">= " if result.percentile_is_above else ""
        words += f", mean {result.latency_mean_ms} ms, p{benchmark.percentile:g} {above}{result.percentile_ms} ms"
    return f"{words} (in all {took_s:.1f} s on {os.cpu_count()} processors)"


if __name__ == "__main__":
    main()
