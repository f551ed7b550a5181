"""Publishers and subscribers that continue through crashes of their hub, and record what they sent and received."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Coroutine
from typing import Any, Final

from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.errors import ServiceError
from hedwig.model import SubscriberId, Topic
from hedwig.status import StatusCode
from hedwig.wire import CreateOrAttach, Delivery
from tests.faults.support.waiting import until
from tests.hub.support.delivery_history import (
    Acknowledged,
    Confirmation,
    DeliveryHistory,
    Outcome,
    Publish,
    Refused,
    Session,
    Unknown,
)
from tests.hub.support.wire_channel import WireChannel
from tests.support.endings import end_all

__all__ = ["CrashWorkload"]

_BURST_MAX: Final = 32
_THINK_S: Final = 0.08
_IDLE_S: Final = 0.3
_WINDOWS: Final = (None, None, 10, 50)


class CrashWorkload:
    """All clients of one run, and their common history."""

    def __init__(self, port: int, source: random.Random) -> None:
        self.history = DeliveryHistory()
        self.outcomes: Counter[str] = Counter()
        """The number of each outcome. `delivered` counts deliveries, and `again` those of messages delivered before."""
        self.port = port
        self._source = source
        self._enough = asyncio.Event()
        self._last_of: Counter[bytes] = Counter()
        self._publishers: list[asyncio.Task[None]] = []
        self._subscribers: list[asyncio.Task[None]] = []

    def options(self) -> ClientOptions:
        """Return options of a client that reconnects quickly."""
        return ClientOptions(hub=HubAddress("127.0.0.1", self.port), reconnect_pause_max_s=0.5)

    def random(self) -> random.Random:
        """Return a source of randomness for one task, which does not depend on the draws of others."""
        return random.Random(self._source.randrange(1 << 60))

    def last_id(self, topic: bytes) -> int:
        """Return the greatest acknowledged id of the topic."""
        return self._last_of[topic]

    @property
    def is_draining(self) -> bool:
        """Whether all publishers have ended, so that a subscriber may end once it has everything."""
        return self._enough.is_set() and all(each.done() for each in self._publishers)

    @property
    def acknowledged(self) -> int:
        return self.outcomes["Acknowledged"]

    async def more(self, publishes: int) -> None:
        """Wait until `publishes` more messages are acknowledged."""
        goal = self.acknowledged + publishes
        await until(lambda: self.acknowledged >= goal or self._has_failed(), f"{publishes} more publishes")

    def publisher(self, topic: bytes, name: str) -> None:
        """Start a publisher of a topic."""
        self._publishers.append(asyncio.create_task(self._publish(topic, name)))

    def subscriber(self, subscriber: Coroutine[Any, Any, None]) -> None:
        """Start a subscriber."""
        self._subscribers.append(asyncio.create_task(subscriber))

    async def finish(self, timeout_s: float) -> None:
        """End the publishers, and wait until the subscribers have everything. Raises TimeoutError, and their errors."""
        self._enough.set()
        async with asyncio.timeout(timeout_s):
            await asyncio.gather(*self._publishers, *self._subscribers)

    async def cancel(self) -> None:
        """End everything at once."""
        await end_all([*self._publishers, *self._subscribers])

    def _has_failed(self) -> bool:
        return any(each.done() and each.exception() for each in (*self._publishers, *self._subscribers))

    def took(self, session: Session, delivery: Delivery, last: int) -> int:
        """Record a delivery to a subscriber that had messages up to `last`; return its id."""
        assert (delivery.topic, delivery.subscriber) == (session.topic, session.subscriber.encode())
        seq_id = delivery.message.seq_id
        assert seq_id is not None, "a delivery without an id"
        session.deliveries.append((seq_id.local, delivery.message.body))
        self.outcomes["delivered"] += 1
        self.outcomes["again"] += seq_id.local <= last
        return seq_id.local

    async def _publish(self, topic: bytes, name: str) -> None:
        source, number = self.random(), 0
        async with HedwigClient(self.options()) as client:
            while not self._enough.is_set():
                count = source.randint(1, _BURST_MAX)
                bodies = [b"%s %d " % (name.encode(), number + each) for each in range(count)]
                padded = [body + bytes(source.randrange(400)) for body in bodies]
                await asyncio.gather(*(self._publish_one(client, topic, name, body) for body in padded))
                number += count
                await asyncio.sleep(source.uniform(0, 2 * _THINK_S))

    async def _publish_one(self, client: HedwigClient, topic: bytes, name: str, body: bytes) -> None:
        sent = time.monotonic()
        outcome: Outcome
        try:
            local = (await client.publish(Topic(topic), body)).local
        except ServiceError as exc:
            outcome = Refused() if exc.happened == "no" else Unknown()
        else:
            outcome = Acknowledged(local)
            self._last_of[topic] = max(self._last_of[topic], local)
        self.outcomes[type(outcome).__name__] += 1
        self.history.publishes.append(Publish(topic, name, body, sent, time.monotonic(), outcome))

    # --------------------------------------------------------------------------------------------- subscribers

    async def follow(self, topic: bytes, name: str, attached: asyncio.Event) -> None:
        """Subscribe with the client that applications use: each message arrives once, whatever happens to the hub."""
        async with HedwigClient(self.options()) as client:
            asked = time.monotonic()
            async with client.subscribe(Topic(topic), SubscriberId(name.encode())) as subscription:
                session = Session(topic, name, asked, time.monotonic())
                self.history.sessions.append(session)
                attached.set()
                last = 0
                while not (self.is_draining and last >= self.last_id(topic)):
                    try:
                        async with asyncio.timeout(_IDLE_S):
                            message = await anext(subscription)
                    except TimeoutError:
                        continue
                    delivery = Delivery(topic=Topic(topic), subscriber=SubscriberId(name.encode()), message=message)
                    last = self.took(session, delivery, last)

    async def roam(self, topic: bytes, name: str) -> None:
        """Subscribe, consume, attach again, close and drop connections at random."""
        await _Roamer(self, topic, name).run()


class _Roamer:
    """A subscriber that sees the bare protocol, including repeated deliveries."""

    def __init__(self, load: CrashWorkload, topic: bytes, name: str) -> None:
        self._load = load
        self._topic = topic
        self._name = name
        self._subscriber = name.encode()
        self._source = load.random()
        self._first_asked: float | None = None
        self._is_subscribed = False
        self._last = 0
        """The greatest id delivered so far."""
        self._seen = 0
        """The greatest id delivered in this session, up to which it may consume."""
        self._consumed = 0
        """The greatest id consumed so far."""
        self._unconfirmed: int | None = None
        """The consume sent on this channel that is not confirmed yet."""

    @property
    def _has_everything(self) -> bool:
        return self._load.is_draining and self._last >= self._load.last_id(self._topic)

    async def run(self) -> None:
        """Run until everything was delivered."""
        while not self._has_everything:
            try:
                async with await WireChannel.open(self._load.port) as channel:
                    await self._use(channel)
            except (OSError, TimeoutError):
                self._load.outcomes["connections lost"] += 1
            self._unconfirmed = None
            await asyncio.sleep(self._source.uniform(0, 0.2))

    async def _use(self, channel: WireChannel) -> None:
        session = await self._attach(channel, None)
        while session is not None and not self._has_everything:
            await self._read(channel, session, self._source.randint(1, 150), self._source.randint(1, 30))
            dice = self._source.random()
            if dice < 0.4:
                session = await self._attach(channel, session)
            elif dice < 0.55:
                if not await self._close(channel, session):
                    return  # The subscriber may still be attached, and its messages would belong to no session.
                session = await self._attach(channel, None) if self._source.random() < 0.5 else None
            elif dice < 0.65:
                return
            elif dice < 0.8:
                session = await self._rest(channel, session)

    async def _rest(self, channel: WireChannel, session: Session) -> Session | None:
        """Have the hub confirm the consumes, then pause consuming. So only the flush interval stores the last one."""
        confirmed = await self._attach(channel, session)
        for _ in range(self._source.randint(8, 24)):
            if confirmed is None or self._load.is_draining:
                break
            await self._read(channel, confirmed, 20, consume_every=1 << 30, consume_when_idle=False)
        return confirmed

    async def _attach(self, channel: WireChannel, before: Session | None) -> Session | None:
        """Send SUBSCRIBE; return the session that begins. `before` is the session that it ends on the same channel."""
        mode = CreateOrAttach.ATTACH if self._is_subscribed else CreateOrAttach.CREATE_OR_ATTACH
        asked = time.monotonic()
        self._first_asked = self._first_asked or asked
        window = self._source.choice(_WINDOWS)
        txn_id = await channel.subscribe(self._topic, self._subscriber, mode, window=window)
        answer = await self._answer(channel, txn_id, before)
        if answer is not StatusCode.SUCCESS:
            assert not (answer is StatusCode.CLIENT_NOT_SUBSCRIBED and self._is_subscribed), "a subscription is gone"
            self._load.outcomes[answer.name] += 1
            return None
        session = Session(
            self._topic, self._name, asked if self._is_subscribed else self._first_asked, time.monotonic()
        )
        self._load.history.sessions.append(session)
        self._is_subscribed = True
        self._seen = 0
        self._confirm(session, asked, is_stored=False)
        return session

    async def _close(self, channel: WireChannel, session: Session) -> bool:
        """Send CLOSESUBSCRIPTION; return whether it succeeded."""
        asked = time.monotonic()
        txn_id = await channel.close_subscription(self._topic, self._subscriber)
        is_done = await self._answer(channel, txn_id, session) is StatusCode.SUCCESS
        if is_done:
            self._confirm(session, asked, is_stored=True)
        return is_done

    async def _answer(self, channel: WireChannel, txn_id: int, session: Session | None) -> StatusCode:
        """Return the status of an answer; deliveries before it belong to `session`."""
        while True:
            heard = await channel.receive()
            if isinstance(heard, Delivery):
                assert session is not None, "a delivery without a session"
                self._take(session, heard)
            else:
                status = getattr(heard, "status", None)
                assert isinstance(status, StatusCode), f"an event out of the blue: {heard}"
                if getattr(heard, "txn_id", None) == txn_id:
                    return status
                # The hub answers a consume only if it refuses it.
                self._unconfirmed = None

    async def _read(
        self,
        channel: WireChannel,
        session: Session,
        messages: int,
        consume_every: int,
        *,
        consume_when_idle: bool = True,
    ) -> None:
        """Read messages, and consume now and then; return early when none arrives."""
        for number in range(messages):
            try:
                heard = await channel.receive(_IDLE_S)
            except TimeoutError:
                if consume_when_idle and self._source.random() < 0.8:
                    await self._consume(channel, session, self._seen)
                return
            if not isinstance(heard, Delivery):
                self._unconfirmed = None
                continue
            self._take(session, heard)
            if number % consume_every == consume_every - 1:
                await self._consume(channel, session, self._seen - self._source.choice((0, 0, 1, 5)))

    def _take(self, session: Session, delivery: Delivery) -> None:
        self._seen = self._load.took(session, delivery, self._last)
        self._last = max(self._last, self._seen)

    async def _consume(self, channel: WireChannel, session: Session, local: int) -> None:
        if local <= self._consumed and self._unconfirmed is not None:
            return
        local = max(local, self._consumed) if self._seen else self._consumed
        if not local:
            return
        self._consumed = local
        session.consumed.append((local, time.monotonic()))
        await channel.consume(self._topic, self._subscriber, local)
        self._unconfirmed = local

    def _confirm(self, session: Session, asked: float, *, is_stored: bool) -> None:
        """Record that the hub has handled the consumes that were sent on this channel before."""
        if self._unconfirmed is not None:
            session.confirmations.append(Confirmation(self._unconfirmed, asked, time.monotonic(), is_stored))
            self._load.outcomes["confirmed consumes"] += 1
