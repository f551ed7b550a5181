"""Visitors: clients that subscribe under new names, read for a while, and stay away or delete their subscription."""

import asyncio
import itertools
import random
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Final, Self

from hedwig.client import HedwigClient
from hedwig.client.subscriptions.subscription import Subscription
from hedwig.errors import ClientNotSubscribedError, HedwigError, ServiceError
from hedwig.model import SubscriberId, Topic
from hedwig.wire import CreateOrAttach
from tests.chaos.support.history import ChaosHistory
from tests.chaos.support.recorded_client import RecordedClient
from tests.chaos.support.visits import Do, Reply, Visit, Visits, acknowledged_of, missing
from tests.chaos.support.workload import options_of
from tests.faults.linearizability import NOT_APPLIED, UNKNOWN
from tests.hub.support.delivery_history import Session
from tests.support.endings import end_all

__all__ = ["Visitors"]

_TRIES: Final = 20
_RETRY_S: Final = 0.5
_STAY_S: Final = (0.2, 2.0)
_AWAY_S: Final = (0.5, 4.0)
_LASTING: Final = 0.4
"""The share of visitors that stay subscribed."""
_AT_ONCE: Final = 32


class Visitors:
    """Visitors of some topics, one of each at a time. They begin with `begin`, and end with `finish`."""

    def __init__(self, hubs: Sequence[str], source: random.Random, history: ChaosHistory) -> None:
        self.visits = Visits()
        self._history = history
        # Only the sessions of visitors that stay subscribed must be complete.
        self._seen = ChaosHistory(attempts=history.attempts, dropped=history.dropped)
        self._source = source
        self._clients = [RecordedClient(options_of(hub), self._seen, self._delivered) for hub in hubs]
        self._made: set[tuple[bytes, str]] = set()
        """The subscriptions whose sessions are known from the first one on."""
        self._enough = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await end_all(self._tasks)
        finally:
            await asyncio.gather(*(client.close() for client in self._clients))

    def begin(self, topics: Iterable[bytes]) -> None:
        """Start a visitor of each of these topics."""
        for topic in topics:
            source = random.Random(self._source.randrange(1 << 60))
            self._tasks.append(asyncio.create_task(self._go_on(topic, source)))

    async def finish(self, timeout_s: float) -> list[str]:
        """End all visits after the last publish, look which visitors are still subscribed, and return all breaches.

        Visitors that are still subscribed receive their outstanding messages, unless the time is over before.
        """
        self._enough.set()
        turns = asyncio.Semaphore(_AT_ONCE)
        acknowledged = acknowledged_of(self._history.publishes)
        async with asyncio.timeout(2 * timeout_s):
            await asyncio.gather(*self._tasks)
            end = time.monotonic() + timeout_s

            async def look(visit: Visit) -> None:
                async with turns:
                    await self._look(visit, self._source, lambda: not missing(visit, acknowledged), end)

            await asyncio.gather(*(look(visit) for visit in self.visits))
        lasting = {(each.topic, each.name) for each in self.visits if each.is_to_last and each.is_seen} & self._made
        self._history.sessions += (each for each in self._seen.sessions if (each.topic, each.subscriber) in lasting)
        return self.visits.wrong(self._history.publishes)

    def __str__(self) -> str:
        outcomes = [(call.input, call.output) for visit in self.visits for call in visit.calls]
        counts = ", ".join(f"{do} {came}: {outcomes.count((do, came))}" for do, came in sorted(set(outcomes), key=str))
        return f"{sum(1 for _ in self.visits)} visits: {counts}"

    def _delivered(self, session: Session, local: int) -> None:
        self.visits.at(session.topic, session.subscriber).got.add(local)

    def _client(self, source: random.Random) -> HedwigClient:
        return source.choice(self._clients)

    async def _go_on(self, topic: bytes, source: random.Random) -> None:
        for number in itertools.count(1):
            await self._visit(self.visits.begin(topic, f"visitor-{number}"), source)
            try:
                async with asyncio.timeout(source.uniform(*_AWAY_S)):
                    await self._enough.wait()
                return
            except TimeoutError:
                continue

    async def _visit(self, visit: Visit, source: random.Random) -> None:
        sent = time.monotonic()
        try:
            subscription = await self._open(visit, source, CreateOrAttach.CREATE)
        except ServiceError:
            # The outcome is unknown even after a refusal: a hub may make a subscription, and lose the topic before its
            # answer.
            visit.add(Do.SUBSCRIBE, sent, UNKNOWN)
        else:
            visit.add(Do.SUBSCRIBE, sent, Reply.DONE)
            self._made.add((visit.topic, visit.name))
            await self._read(visit, subscription, source.uniform(*_STAY_S), self._enough.is_set)
        if source.random() > _LASTING:
            await self.unsubscribe(visit, source)
            if source.random() < 0.5:
                await self._look(visit, source, lambda: True)

    async def unsubscribe(self, visit: Visit, source: random.Random) -> None:
        """Delete the subscription; repeat until it is surely gone, at most `_TRIES` times."""
        for _ in range(_TRIES):
            sent = time.monotonic()
            try:
                await self._client(source).unsubscribe(Topic(visit.topic), SubscriberId(visit.name.encode()))
            except ClientNotSubscribedError:
                visit.add(Do.UNSUBSCRIBE, sent, Reply.NOT_SUBSCRIBED)
                return
            except ServiceError as exc:
                visit.add(Do.UNSUBSCRIBE, sent, NOT_APPLIED if exc.happened == "no" else UNKNOWN)
                await asyncio.sleep(source.uniform(0.5, 1.5) * _RETRY_S)
            else:
                visit.add(Do.UNSUBSCRIBE, sent, Reply.DONE)
                return

    async def _look(
        self, visit: Visit, source: random.Random, is_enough: Callable[[], bool], end: float | None = None
    ) -> None:
        """Attach, and read until `is_enough`; with an `end`, repeat failed attempts until then, else try once."""
        while True:
            sent = time.monotonic()
            try:
                subscription = await self._open(visit, source, CreateOrAttach.ATTACH)
            except ClientNotSubscribedError:
                visit.add(Do.ATTACH, sent, Reply.NOT_SUBSCRIBED)
                return
            except ServiceError:
                visit.add(Do.ATTACH, sent, NOT_APPLIED)
                if end is None or sent > end:
                    return
                await asyncio.sleep(source.uniform(0.5, 1.5) * _RETRY_S)
            else:
                visit.add(Do.ATTACH, sent, Reply.DONE)
                await self._read(visit, subscription, 0.0 if end is None else end - sent, is_enough)
                return

    async def _open(self, visit: Visit, source: random.Random, mode: CreateOrAttach) -> Subscription:
        client = self._client(source)
        return await client.subscribe(Topic(visit.topic), SubscriberId(visit.name.encode()), mode=mode)

    async def _read(
        self, visit: Visit, subscription: Subscription, seconds: float, is_enough: Callable[[], bool]
    ) -> None:
        """Read until `is_enough`, or the time is over, and close the subscription; record if it vanishes."""
        sent = time.monotonic()
        async with subscription:
            try:
                async with asyncio.timeout(seconds):
                    while not is_enough():
                        await anext(subscription)
            except TimeoutError:
                return
            except ClientNotSubscribedError:
                visit.add(Do.ATTACH, sent, Reply.NOT_SUBSCRIBED)
            except HedwigError:
                return
