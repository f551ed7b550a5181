"""Send each update of a package to all packages that depend on it, and check that all of them received it.

    python examples/package_feed.py --limit 1000     a reduced run, some seconds
    python examples/package_feed.py                  all of Debian 12: 63,666 topics, 277,181 subscriptions

Each package of `examples/data/` is a topic, and each package that depends on it a durable subscriber of that topic.

1. Subscribe: every dependency becomes a subscription. It outlives connections, so the feed closes most of them at once.
   Those on the followed topic (`libs/libc6`) stay open, and receive the update as soon as it is published.
2. Publish: one update per package. The hub answers with the position of the message in its topic, counted from 1.
3. Catch up: the followed topic's subscribers open their other subscriptions, and receive what was published meanwhile.
4. Check: each of these subscriptions received each update once, in order, at the position that the publisher received.

Without `--hub` the feed starts its own hub, with its data in a temporary directory.
"""

import asyncio
import contextlib
import gc
import gzip
import os
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from hedwig.client import ClientOptions, CreateOrAttach, HedwigClient, HubAddress, Message, Subscription
from hedwig.errors import HedwigError
from hedwig.model import SubscriberId, Topic
from hedwig.names import show_name

__all__ = ["Dependency", "Feed", "Graph", "difference", "main"]

T = TypeVar("T")

_ROOT: Final = Path(__file__).parents[1]
_DATA: Final = Path(__file__).parent / "data"
_HUB_START_S: Final = 30.0
_HUB_STOP_S: Final = 120.0
_LINE_EVERY_S: Final = 5.0
_PROBLEMS_SHOWN: Final = 5
_GARBAGE_OBJECTS: Final = 50_000
"""How many new objects start the garbage collector; Python's default is 700."""


# ---------------------------------------------------------------------------------------------------------- the graph


@dataclass(frozen=True, slots=True)
class Dependency:
    """One edge of the graph: the package `subscriber` wants to receive updates of the package `topic`."""

    topic: Topic
    subscriber: SubscriberId


@dataclass(frozen=True, slots=True)
class Graph:
    """The versions of the packages, by topic, and the dependencies between packages."""

    versions: dict[Topic, bytes]
    dependencies: Sequence[Dependency]

    @classmethod
    def read(cls, subscribers_max: int | None = None) -> "Graph":
        """Read the package graph. With a limit, read at most N subscribers, spread over it, and what they depend on."""
        versions = {Topic(topic): version for topic, version in _rows(_DATA / "topics.tsv.gz")}
        edges = list(_rows(_DATA / "subscriptions.tsv.gz"))
        if subscribers_max is not None:
            names = sorted({name for _, name in edges})
            count = min(subscribers_max, len(names))
            kept = {names[index * len(names) // count] for index in range(count)}
            edges = [(topic, name) for topic, name in edges if name in kept]
            topics = {topic for topic, _ in edges}
            versions = {topic: version for topic, version in versions.items() if topic in topics}
        return cls(versions, [Dependency(Topic(topic), SubscriberId(name)) for topic, name in edges])

    def followed(self, topic: Topic) -> "tuple[list[Dependency], list[Dependency]]":
        """Return the subscriptions on `topic`, and all other subscriptions of the same subscribers."""
        live = [each for each in self.dependencies if each.topic == topic]
        subscribers = {each.subscriber for each in live}
        others = [each for each in self.dependencies if each.subscriber in subscribers and each.topic != topic]
        return live, others


def _rows(path: Path) -> Iterator[tuple[bytes, bytes]]:
    with gzip.open(path) as lines:
        for line in lines:
            first, second = line.rstrip(b"\n").split(b"\t")[:2]
            yield first, second


# ----------------------------------------------------------------------------------------------------------- the feed

Received = tuple[int, bytes]
"""The position of a message in its topic, and its body."""


class Feed:
    """Subscribes, publishes, receives, and records the answers to publishers and the messages to subscribers."""

    def __init__(
        self, client: HedwigClient, graph: Graph, followed: Topic, *, updates: int, in_flight: int, patience_s: float
    ) -> None:
        self.graph = graph
        self.live, self.others = graph.followed(followed)
        self.published: dict[Topic, list[Received]] = {topic: [] for topic in graph.versions}
        self.received: dict[Dependency, list[Received]] = {each: [] for each in (*self.live, *self.others)}
        self.received_count = 0
        self.earlier_count = 0
        """How many messages of earlier runs arrived, which no subscriber had consumed."""
        self._client = client
        self._updates = updates
        self._in_flight = in_flight
        self._patience_s = patience_s
        # A hub that is used twice has the messages of both runs. The first word of a message names its run.
        self._run = uuid.uuid4().hex[:8].encode()
        self._open: list[Subscription] = []
        self._live_count = 0
        self._live_began: float | None = None
        self._live_s = 0.0
        self._live_arrived = asyncio.Event()

    async def run(self, timing: "Timing") -> None:
        """Run all phases. Raises HedwigError - the hub cannot be reached, or refuses a request."""
        live_count = len(self.live) * self._updates
        # A reader that fails ends the feed. An application that lost a subscription must not go on as if it had not.
        async with asyncio.TaskGroup() as readers:
            with timing.phase("subscribe", len(self.graph.dependencies), "subscriptions") as advance:
                await self._subscribe_all(readers, advance)
            with timing.phase("publish", len(self.graph.versions) * self._updates, "messages") as advance:
                await self._publish_all(advance)
            with timing.progress("live", live_count, "messages") as advance:
                await self._await_live(live_count, advance)
            timing.add("live", self._live_count, "messages, from the first to the last", self._live_s)
            with timing.phase("catch up", len(self.others), "subscriptions") as advance:
                await self._each(self.others, self._catch_up, advance)
            with timing.phase("close", len(self._open), "subscriptions") as advance:
                # This ends their readers. A message that is delivered twice has arrived twice by now.
                await self._each(self._open, _close, advance)

    async def _subscribe_all(self, readers: asyncio.TaskGroup, advance: Callable[[], None]) -> None:
        live = set(self.live)

        async def subscribe(dependency: Dependency) -> None:
            subscription = await self._client.subscribe(dependency.topic, dependency.subscriber)
            if dependency in live:
                self._open.append(subscription)
                readers.create_task(self._read(dependency, subscription))
            else:
                # The subscription itself stays, and the hub keeps for it what is published from now on.
                await subscription.close()

        await self._each(self.graph.dependencies, subscribe, advance)

    async def _publish_all(self, advance: Callable[[], None]) -> None:
        async def publish(topic: Topic) -> None:
            published = self.published[topic]
            body = b"%b %b %b update %d" % (self._run, topic, self.graph.versions[topic], len(published) + 1)
            seq_id = await self._client.publish(topic, body)
            published.append((seq_id.local, body))

        # The hub may store publishes in flight in any order. To keep an order, wait for the answer to the one before.
        for _ in range(self._updates):
            await self._each(self.graph.versions, publish, advance)

    async def _read(self, dependency: Dependency, subscription: Subscription) -> None:
        # Asking for the next message consumes this one. The loop ends when the subscription is closed.
        async for message in subscription:
            if self._take(dependency, message):
                now = time.monotonic()
                self._live_began = self._live_began or now
                self._live_s = now - self._live_began
                self._live_count += 1
                self._live_arrived.set()

    async def _await_live(self, count: int, advance: Callable[[], None]) -> None:
        shown = 0
        while True:
            for _ in range(shown, min(self._live_count, count)):
                advance()
            shown = self._live_count
            if shown >= count:
                return
            self._live_arrived.clear()
            try:
                async with asyncio.timeout(self._patience_s):
                    await self._live_arrived.wait()
            except TimeoutError:
                return  # The check says what is missing.

    async def _catch_up(self, dependency: Dependency) -> None:
        last, _ = self.published[dependency.topic][-1]
        # ATTACH, not CREATE_OR_ATTACH: if the hub had forgotten the subscription, a new one would hide that.
        subscription = await self._client.subscribe(dependency.topic, dependency.subscriber, mode=CreateOrAttach.ATTACH)
        async with subscription:
            with contextlib.suppress(TimeoutError):  # The check says what is missing.
                async with asyncio.timeout(self._patience_s):
                    async for message in subscription:
                        self._take(dependency, message)
                        if message.seq_id.local >= last:
                            break

    def _take(self, dependency: Dependency, message: Message) -> bool:
        """Record what a subscriber received; return whether this run has published it."""
        assert message.seq_id is not None, "a delivered message has its position"
        if not message.body.startswith(self._run):
            self.earlier_count += 1
            return False
        self.received[dependency].append((message.seq_id.local, message.body))
        self.received_count += 1
        return True

    async def _each(
        self, items: Iterable[T], work: Callable[[T], Awaitable[None]], advance: Callable[[], None]
    ) -> None:
        """Run `work` on each item, `in_flight` at a time.

        One at a time would wait for the hub's disk each time, although the hub can take many at once. All at a time
        would fill the hub's queues, and the hub refuses what does not fit.
        """
        remaining = iter(items)

        async def worker() -> None:
            for item in remaining:
                await work(item)
                advance()

        async with asyncio.TaskGroup() as workers:
            for _ in range(self._in_flight):
                workers.create_task(worker())

    def problems(self) -> Iterator[str]:
        """Compare the messages of subscribers with the answers to publishers; yield a line for each difference."""
        for dependency, received in self.received.items():
            wrong = difference(self.published[dependency.topic], received)
            if wrong is not None:
                yield f"'{show_name(dependency.subscriber)}' on '{show_name(dependency.topic)}': {wrong}"


def difference(published: Sequence[Received], received: Sequence[Received]) -> str | None:
    """Return how `received` differs from `published`, each once and in order; None if it does not."""
    if list(published) == list(received):
        return None
    missing = sorted(local for local, body in set(published) - set(received))
    unknown = sorted(local for local, body in set(received) - set(published))
    twice = sorted(local for (local, body), count in Counter(received).items() if count > 1)
    for what, positions in (("not received", missing), ("never published", unknown), ("received twice", twice)):
        if positions:
            return f"{what}: {', '.join(map(str, positions))}"
    return f"out of order: {', '.join(str(local) for local, body in received)}"


async def _close(subscription: Subscription) -> None:
    await subscription.close()


# ------------------------------------------------------------------------------------------------------------ the hub


@asynccontextmanager
async def own_hub(directory: Path) -> AsyncIterator[tuple[HubAddress, int]]:
    """Run a hub with its data in `directory`; yield its address and its process id.

    Raises click.ClickException if the hub does not start, or ends by itself; the text names its log.
    """
    log = directory / "hub.log"
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "hedwig.hub.main",
                "--data",
                str(directory / "data"),
                "--port",
                "0",
                "--admin-port",
                "-1",
            ),
            cwd=_ROOT,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C must reach only the feed. It stops the hub when it no longer needs it.
        )
    assert process.stdout is not None
    try:
        line = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HUB_START_S):
                line = await process.stdout.readline()
        _, _, address = line.decode().partition("serving ")
        if not address:
            said = log.read_text(errors="replace").strip().splitlines()
            raise click.ClickException(f"the hub does not start: {said[-1] if said else 'it says nothing'}; see {log}")
        yield HubAddress.parse(address.split(",")[0].strip()), process.pid
        if process.returncode is not None:
            raise click.ClickException(f"the hub ended by itself, with {process.returncode}; see {log}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(_HUB_STOP_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


# ------------------------------------------------------------------------------------------------- progress and result


class Timing:
    """Shows the progress of each phase, as a bar on a terminal and as lines elsewhere, and records its duration."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, int, str, float]] = []
        self._is_terminal = sys.stderr.isatty()

    @contextmanager
    def phase(self, name: str, total: int, noun: str) -> Iterator[Callable[[], None]]:
        """Show a phase and time it; yield a function to call after each of the `total` items."""
        began = time.monotonic()
        with self.progress(name, total, noun) as advance:
            yield advance
        self.add(name, total, noun, time.monotonic() - began)

    def add(self, name: str, total: int, noun: str, seconds: float) -> None:
        """Record how long a phase took."""
        self.phases.append((name, total, noun, seconds))

    def progress(self, name: str, total: int, noun: str) -> AbstractContextManager[Callable[[], None]]:
        """Show how far a phase has come; entering it returns a function to call after each item."""
        return self._bar(name, total, noun) if self._is_terminal else self._lines(name, total, noun)

    @contextmanager
    def _bar(self, name: str, total: int, noun: str) -> Iterator[Callable[[], None]]:
        columns = (
            TextColumn("{task.description:<10}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} {task.fields[noun]}"),
        )
        with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(name, total=total, noun=noun)
            yield lambda: bar.advance(task)

    @contextmanager
    def _lines(self, name: str, total: int, noun: str) -> Iterator[Callable[[], None]]:
        done, last = 0, time.monotonic()
        click.echo(f"{name}: {total:,} {noun}", err=True)

        def advance() -> None:
            nonlocal done, last
            done += 1
            now = time.monotonic()
            if now - last >= _LINE_EVERY_S:
                last = now
                click.echo(f"{name}: {done:,} of {total:,} {noun}", err=True)

        yield advance


def _peak_memory(process_id: int) -> str:
    """Return the peak memory of a running process so far, if the system reports it (Linux)."""
    try:
        lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    except OSError:
        lines = []
    kibibytes = next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), None)
    return "not known" if kibibytes is None else f"{kibibytes / 1024:,.0f} MiB"


def _report(feed: Feed, timing: Timing, hub_memory: str) -> bool:
    """Print counts, times and memory; return whether all messages were received as expected."""
    for name, total, noun, seconds in timing.phases:
        click.echo(f"{name:<10}{total:>9,} {noun:<32}{seconds:>8.1f} s {total / max(seconds, 1e-9):>9,.0f}/s")
    click.echo(f"peak memory: client {_peak_memory(os.getpid())}, hub {hub_memory}")
    if feed.earlier_count:
        click.echo(f"{feed.earlier_count:,} messages of earlier runs, not counted")
    expected = sum(len(feed.published[each.topic]) for each in feed.received)
    problems = list(feed.problems())
    for problem in problems[:_PROBLEMS_SHOWN]:
        click.echo(f"wrong: {problem}", err=True)
    if len(problems) > _PROBLEMS_SHOWN:
        click.echo(f"wrong: {len(problems) - _PROBLEMS_SHOWN:,} more", err=True)
    verdict = "each once and in order" if not problems else f"{len(problems):,} subscriptions are wrong"
    click.echo(
        f"received: {feed.received_count:,} of {expected:,} messages on {len(feed.received):,} subscriptions of "
        f"{len(feed.live):,} subscribers: {verdict}"
    )
    return not problems


# ---------------------------------------------------------------------------------------------------------- the command


@click.command(epilog="Example: python examples/package_feed.py --limit 1000")
@click.option("--hub", metavar="HOST:PORT", help="A running hub; without it, the feed starts its own.")
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help="Read at most N subscribers, and the packages they depend on."
)
@click.option("--follow", default="libs/libc6", show_default=True, help="The topic whose subscribers receive.")
@click.option("--updates", type=click.IntRange(1), default=1, show_default=True, help="Updates of each package.")
@click.option(
    "--in-flight", type=click.IntRange(1), default=500, show_default=True, help="Requests that run at the same time."
)
@click.option(
    "--patience", type=click.FloatRange(0.1), default=60.0, show_default=True, help="Seconds to wait for a message."
)
@click.option("--keep", is_flag=True, help="Keep the data directory of the feed's own hub.")
def main(
    hub: str | None, limit: int | None, follow: str, updates: int, in_flight: int, patience: float, keep: bool
) -> None:
    """Send the updates of Debian's packages to all that depend on them; exit with 1 if one misses an update."""
    try:
        asyncio.run(_run(hub, limit, Topic(follow.encode()), updates, in_flight, patience, keep))
    except KeyboardInterrupt:
        click.echo("interrupted; a hub given with --hub keeps the subscriptions and messages", err=True)
        sys.exit(128 + signal.SIGINT)
    except asyncio.CancelledError:
        sys.exit(128 + signal.SIGTERM)
    except BaseExceptionGroup as group:
        raise _first(group) from group
    except HedwigError as exc:
        raise click.ClickException(str(exc)) from exc


async def _run(
    hub: str | None, limit: int | None, follow: Topic, updates: int, in_flight: int, patience_s: float, keep: bool
) -> None:
    this = asyncio.current_task()
    assert this is not None
    # SIGTERM ends the feed as Ctrl-C does: in order, with its hub.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    graph = Graph.read(limit)
    if not any(each.topic == follow for each in graph.dependencies):
        raise click.ClickException(
            f"no package in this graph depends on '{show_name(follow)}'; follow another, or raise --limit"
        )
    # The graph lives as long as the feed. Without this, the garbage collector looks through all of it again and again.
    # That took half of the feed's processor time while it subscribed, and takes a quarter with this.
    gc.freeze()
    gc.set_threshold(_GARBAGE_OBJECTS)
    timing = Timing()

    async def feed_through(address: HubAddress) -> Feed:
        # One connection for all subscriptions: 21,841 would be possible, but they cost both ends more than they gain.
        options = ClientOptions(hub=address, share_channels=True)
        async with HedwigClient(options) as client:
            feed = Feed(client, graph, follow, updates=updates, in_flight=in_flight, patience_s=patience_s)
            await feed.run(timing)
            return feed

    if hub is not None:
        feed = await feed_through(HubAddress.parse(hub))
        sys.exit(not _report(feed, timing, "not known, since the feed did not start it"))
    directory = Path(tempfile.mkdtemp(prefix="package-feed-"))
    click.echo(f"the hub's data and log: {directory}", err=True)
    is_right = False
    try:
        async with own_hub(directory) as (address, process_id):
            feed = await feed_through(address)
            is_right = _report(feed, timing, _peak_memory(process_id))
            click.echo("the hub stops now; the more topics it must release, the longer that takes", err=True)
    finally:
        if is_right and not keep:
            shutil.rmtree(directory)
        else:
            click.echo(f"the hub's data and log stay in {directory}", err=True)
    sys.exit(not is_right)


def _first(group: BaseExceptionGroup) -> BaseException:
    """Return the first error of a group: a HedwigError as a ClickException, any other as it is."""
    errors = [each for each in group.exceptions if not isinstance(each, BaseExceptionGroup)]
    inner = [_first(each) for each in group.exceptions if isinstance(each, BaseExceptionGroup)]
    first = (*errors, *inner)[0]
    return click.ClickException(str(first)) if isinstance(first, HedwigError) else first


if __name__ == "__main__":
    main()
