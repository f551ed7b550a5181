"""Publishers and subscribers on many topics that continue through all faults, and record what they see."""

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Final, Self

from hedwig.client import ClientOptions, HubAddress
from hedwig.errors import HedwigError, ServiceError
from hedwig.model import SubscriberId, Topic
from tests.chaos.support.history import ChaosHistory
from tests.chaos.support.recorded_client import RecordedClient
from tests.faults.support.waiting import until
from tests.hub.support.delivery_history import Acknowledged, Outcome, Publish, Refused, Session, Unknown
from tests.support.endings import end_all

__all__ = ["REDIRECTS_MAX", "Workload", "names_of", "options_of"]

REDIRECTS_MAX: Final = 2
"""How many redirects our clients follow with one request."""

_ANSWER_S: Final = 4.0
_BURST_MAX: Final = 4
_RETRY_S: Final = 0.5
"""The mean pause between two attempts of a refused client; hundreds of them may try at once."""
_ROUND_S: Final = 0.05
_ATTEMPTS_BACK: Final = 10_000


class Workload:
    """Our own clients of one run, and the history. They begin with `with`, and end with `finish` at the latest.

    There is one client for each hub, which it asks first. A refused task uses another client for its next attempt.
    """

    def __init__(self, hubs: Sequence[str], source: random.Random, rate: float, history: ChaosHistory) -> None:
        """`rate`: publishes per second of all publishers together, without faults."""
        self.history = history
        self.outcomes: Counter[str] = Counter()
        self._source = source
        self._rate = rate
        self._clients = [RecordedClient(options_of(hub), history, self._delivered) for hub in hubs]
        self._acknowledged: defaultdict[bytes, list[tuple[float, float]]] = defaultdict(list)
        """When the acknowledged publishes of each topic were sent and answered."""
        self._last: Counter[bytes] = Counter()
        self._seen: Counter[tuple[bytes, str]] = Counter()
        """The greatest id that each subscriber received."""
        self._wave = asyncio.Event()
        """Set, and replaced, when all publishers are to publish."""
        self._enough = asyncio.Event()
        self._publishers: dict[asyncio.Task[None], bytes] = {}
        self._subscribers: list[asyncio.Task[None]] = []
        self.attached = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await end_all([*self._publishers, *self._subscribers])
        finally:
            await asyncio.gather(*(client.close() for client in self._clients))

    # ------------------------------------------------------------------------------------------------- beginning

    def publisher(self, topic: bytes, name: str) -> None:
        """Start a publisher to a topic."""
        source = random.Random(self._source.randrange(1 << 60))
        task = asyncio.create_task(self._publish(topic, name, source))
        self._publishers[task] = topic

    def subscriber(self, topic: bytes, name: str) -> None:
        """Start a subscriber of a topic."""
        source = random.Random(self._source.randrange(1 << 60))
        self._subscribers.append(asyncio.create_task(self._subscribe(topic, name, source)))

    async def all_attached(self, timeout_s: float) -> None:
        """Wait until every subscriber is attached."""
        await until(lambda: self.attached == len(self._subscribers) or self._defect(), "all attached", timeout_s)
        self.check()

    def wave(self) -> None:
        """Have every publisher publish at once."""
        wave, self._wave = self._wave, asyncio.Event()
        wave.set()

    def check(self) -> None:
        """Raise the error of a task that ended too early."""
        defect = self._defect()
        if defect is not None:
            raise defect

    def _defect(self) -> BaseException | None:
        done = (each for each in (*self._publishers, *self._subscribers) if each.done() and not each.cancelled())
        return next((error for each in done if (error := each.exception()) is not None), None)

    # -------------------------------------------------------------------------------------------------- looking

    @property
    def topics(self) -> set[bytes]:
        """The topics that have publishers."""
        return set(self._publishers.values())

    def served(self, since: float) -> dict[bytes, float]:
        """Return when each topic was first served since a moment: when it acknowledged a publish sent since then."""
        served = {}
        for topic, acknowledged in self._acknowledged.items():
            for sent, ended in reversed(acknowledged):
                # Publishes are in the order of their answers, so all earlier ones were sent before the moment too.
                if ended < since:
                    break
                if sent >= since:
                    served[topic] = ended
        return served

    def owners(self) -> dict[bytes, str]:
        """Return the hub that last acknowledged a publish of each topic, as far as recent attempts show it."""
        owners: dict[bytes, str] = {}
        for attempt in self.history.attempts[-_ATTEMPTS_BACK:]:
            if attempt.local is not None:
                owners[attempt.topic] = attempt.hub
        return owners

    def last_id(self, topic: bytes) -> int:
        """Return the greatest id of a topic that was acknowledged."""
        return self._last[topic]

    def acknowledged(self, topic: bytes, local: int, sent: float) -> None:
        """Record an acknowledgement."""
        self._acknowledged[topic].append((sent, time.monotonic()))
        self._last[topic] = max(self._last[topic], local)

    def seen(self, topic: bytes, name: str, local: int) -> None:
        """Record the id of a message that a subscriber received."""
        self._seen[topic, name] = max(self._seen[topic, name], local)

    def is_behind(self, topic: bytes, name: str) -> bool:
        """Say whether a subscriber lacks acknowledged messages."""
        return self._seen[topic, name] < self._last[topic]

    def behind(self) -> list[str]:
        """Return the subscribers that lack acknowledged messages, as far as the ids show."""
        return [
            f"{name} on {topic.decode()}: {local} of {self._last[topic]}"
            for (topic, name), local in self._seen.items()
            if local < self._last[topic]
        ]

    async def finish(self, timeout_s: float) -> None:
        """End the publishers, and wait until every subscriber has caught up, or the time is over."""
        self._enough.set()
        self.wave()
        async with asyncio.timeout(timeout_s):
            await asyncio.gather(*self._publishers)
        deadline = time.monotonic() + timeout_s
        while self.behind() and time.monotonic() < deadline and self._defect() is None:  # noqa: ASYNC110 (found by looking)
            await asyncio.sleep(_ROUND_S)
        self.check()

    # ------------------------------------------------------------------------------------------------ publishing

    async def _publish(self, topic: bytes, name: str, source: random.Random) -> None:
        number, first, is_well = 0, source.randrange(len(self._clients)), True
        think_s = len(self._publishers) * (1 + _BURST_MAX) / self._rate
        while not self._enough.is_set():
            # Publishes sent before a wave do not count for it.
            wave = self._wave
            # A refused publisher tries with one message, since hundreds of them may try at once.
            count = source.randint(1, _BURST_MAX) if is_well else 1
            # Concurrent publishes may overtake each other when a topic moves, so each has its own publisher name.
            outcomes = await asyncio.gather(
                *(self.publish(topic, f"{name}.{slot}", b"%d" % number, first) for slot in range(count))
            )
            number += 1
            is_well = all(isinstance(each, Acknowledged) for each in outcomes)
            if is_well:
                pause_s = source.uniform(0, think_s)
            else:
                first += 1
                pause_s = source.uniform(0.5, 1.5) * _RETRY_S
            if pause_s < 2 * _RETRY_S:
                await asyncio.sleep(pause_s)
            else:
                await _wait(wave, pause_s)

    async def publish(self, topic: bytes, name: str, text: bytes, first: int = 0) -> Outcome:
        """Publish one message, first to the hub number `first`; record the outcome, and return it."""
        body = b"%s %s %s" % (topic, name.encode(), text)
        sent = time.monotonic()
        outcome: Outcome
        try:
            local = (await self._clients[first % len(self._clients)].publish(Topic(topic), body)).local
        except ServiceError as exc:
            outcome = Refused() if exc.happened == "no" else Unknown()
        else:
            outcome = Acknowledged(local)
            self.acknowledged(topic, local, sent)
        self.note(Publish(topic, name, body, sent, time.monotonic(), outcome))
        return outcome

    def note(self, publish: Publish) -> None:
        """Record a publish."""
        self.outcomes[type(publish.outcome).__name__] += 1
        self.history.publishes.append(publish)

    # ----------------------------------------------------------------------------------------------- subscribing

    def _delivered(self, session: Session, local: int) -> None:
        self.outcomes["delivered"] += 1
        self.outcomes["again"] += local <= self._seen[session.topic, session.subscriber]
        self.seen(session.topic, session.subscriber, local)

    async def _subscribe(self, topic: bytes, name: str, source: random.Random) -> None:
        """Subscribe, and read for ever; subscribe again when the client reports that it cannot go on."""
        self._seen[topic, name] += 0
        first = source.randrange(len(self._clients))
        is_first = True
        while True:
            try:
                client = self._clients[first % len(self._clients)]
                async with client.subscribe(Topic(topic), SubscriberId(name.encode())) as subscription:
                    self.attached += is_first
                    is_first = False
                    async for _ in subscription:
                        pass
            except HedwigError as exc:
                self.outcomes[f"subscription ended: {type(exc).__name__}"] += 1
                first += 1
                await asyncio.sleep(source.uniform(0.5, 1.5) * _RETRY_S)


def options_of(hub: str) -> ClientOptions:
    """Return the options of our clients; they ask `hub` first."""
    return ClientOptions(
        hub=HubAddress.parse(hub),
        connect_timeout_s=2.0,
        answer_timeout_s=_ANSWER_S,
        publish_once=True,
        redirects_max=REDIRECTS_MAX,
        reconnect_pause_s=0.3,
        reconnect_pause_max_s=1.0,
        share_channels=True,
    )


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, for at most `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


def names_of(count: int, prefix: str = "topic") -> Iterable[bytes]:
    """Return the names of `count` topics."""
    return (f"{prefix}-{number}".encode() for number in range(count))
