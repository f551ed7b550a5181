"""Publishers and subscribers with our real client: they pipeline, leave, come back, and take their time."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Protocol

from hedwig.client import HedwigClient, Subscription
from hedwig.errors import ClientNotSubscribedError, HedwigError, ServiceError, SubscriptionClosedError
from hedwig.model import MessageSeqId, Topic
from tests.simulation.history import History, Reader, Session, sent_by
from tests.simulation.network import MACHINE

__all__ = ["Publisher", "Subscriber", "Surroundings", "at"]


class Surroundings(Protocol):
    """What publishers and subscribers use of the run."""

    random: Random
    history: History
    topics: list[Topic]
    is_calm: bool
    """Whether nothing fails any more, and all clients only have to finish."""
    is_over: bool

    @property
    def late_s(self) -> float:
        """How long after the last request a request can still take effect."""

    @property
    def has_leases(self) -> bool:
        """Whether each hub stops answering before the others consider it dead."""

    def break_client(self, machine: str) -> None:
        """End all connections of a client's machine."""

    def hold_up(self, machine: str, topic: Topic) -> None:
        """Hold up all bytes between a client's machine and the owner of a topic."""

    def let_through(self, machine: str) -> None:
        """Let all bytes pass again, including those that were held up."""

    async def seek_back(self, reader: Reader, *, is_apart: bool) -> None:
        """Move the consume pointer of a subscription back; `is_apart`: no client has it open, or sends for it."""


def at(machine: str, make: Callable[[], HedwigClient]) -> HedwigClient:
    """Make a client on `machine`."""
    MACHINE.set(machine)
    return make()


class Publisher:
    """Publishes bursts of messages, without waiting for each answer.

    One with a name, `numbers`, publishes some of them again, whatever came of the first time.
    """

    def __init__(self, number: int, world: Surroundings, machine: str, client: HedwigClient, *, numbers: bool) -> None:
        self._number = number
        self._named = client.publisher(b"publisher %d" % number) if numbers else None
        self._sequences: dict[bytes, tuple[int, float]] = {}
        """The sequence of each message, and when it was sent first."""
        self._world = world
        self._machine = machine
        self._client = client
        self._count = 0

    async def run(self) -> None:
        MACHINE.set(self._machine)
        random = self._world.random
        while not self._world.is_calm:
            topic = random.choice(self._world.topics)
            self._sequences.clear()
            burst = [asyncio.create_task(self.publish(topic)) for _ in range(random.choice((1, 1, 2, 4, 8)))]
            if random.random() < 0.05:
                await asyncio.sleep(random.uniform(0.0, 0.1))
                random.choice(burst).cancel()
            await asyncio.wait(burst)
            if self._sequences and random.random() < 0.3:
                await asyncio.sleep(random.choice((0.0, 0.5, 2.0)) * random.random())
                await self._repeat(topic, random.choice(list(self._sequences)))
            await asyncio.sleep(random.choice((0.0, 0.05, 0.5, 2.0)) * random.random())

    async def publish(self, topic: Topic) -> bool:
        """Publish one message; return whether it was acknowledged."""
        history = self._world.history
        self._count += 1
        body = sent_by(self._number, self._count)
        history.sends(topic, body)
        try:
            if self._named is None:
                position = await self._client.publish(topic, body)
            else:
                self._sequences[body] = self._count, asyncio.get_running_loop().time()
                position = await self._named.publish(topic, body, sequence=self._count)
        except asyncio.CancelledError:
            history.is_unknown(body, "cancelled")
            raise
        except ServiceError as exc:
            (history.is_refused if exc.happened == "no" else history.is_unknown)(body, type(exc).__name__)
            return False
        history.is_acknowledged(body, position.local)
        return True

    async def _repeat(self, topic: Topic, body: bytes) -> None:
        assert self._named is not None, "it numbers its messages"
        sequence, sent_at = self._sequences[body]
        self._world.history.repeats(body)
        age_s = asyncio.get_running_loop().time() - sent_at
        try:
            position = await self._named.publish(topic, body, sequence=sequence, age_s=age_s)
        except ServiceError as exc:
            self._world.history.is_not_repeated(body, str(exc))
        else:
            self._world.history.is_repeated(body, position.local)

    async def close(self) -> None:
        await self._client.close()


class Subscriber:
    """Opens one subscription again and again, each time from one of its machines, and leaves it in many ways."""

    def __init__(
        self, world: Surroundings, reader: Reader, machines: list[tuple[str, HedwigClient]], *, auto_consume: bool
    ) -> None:
        self.reader = reader
        self._world = world
        self._machines = machines
        self._auto_consume = auto_consume
        self._left_open: list[Subscription] = []
        self._closings: list[asyncio.Task[bool]] = []
        self._session = Session()
        self._held_up: str | None = None
        """The machine whose last requests are held up until the next session has begun."""

    async def run(self) -> None:
        random = self._world.random
        while not self._world.is_over:
            if self._world.is_calm and self.reader.is_in_doubt:
                self._let_through()  # A request that is held up may delete the subscription much later.
                await asyncio.sleep(self._world.late_s)
                self.reader.is_in_doubt = False
                self.reader.begin_anew()
            machine, client = random.choice([each for each in self._machines if each[0] != self._held_up])
            MACHINE.set(machine)
            try:
                subscription = await self._open(client)
            finally:
                self._let_through()
            if subscription is not None:
                if self.reader.finished is not None and random.random() < 0.15:
                    await self._skip(subscription, self.reader.finished)
                is_silent = not self._auto_consume and len(self._machines) > 1 and random.random() < 0.2
                await self._read(subscription, is_silent=is_silent and not self._world.is_calm)
                await self._leave(machine, subscription, is_silent=is_silent and not self._world.is_calm)
            if not self._world.is_calm and random.random() < 0.15:
                await self._world.seek_back(self.reader, is_apart=False)
            if not self._world.is_calm and random.random() < 0.1:
                await self._unsubscribe(client)
            await asyncio.sleep(random.choice((0.0, 0.0, 0.01, 0.2, 1.0, 4.0)) if not self._world.is_calm else 0.1)

    def _let_through(self) -> None:
        if self._held_up is not None:
            self._world.let_through(self._held_up)
            self._held_up = None

    async def finish(self) -> None:
        """Close what was left open, and raise the error of any closing that failed."""
        for opened in self._left_open:
            await opened.close(last_is_finished=False)
        with suppress(asyncio.CancelledError):
            for closing in self._closings:
                await closing

    async def _open(self, client: HedwigClient) -> Subscription | None:
        random, reader, history = self._world.random, self.reader, self._world.history
        is_calm = self._world.is_calm
        standby = random.random() < 0.4
        force = is_calm or random.random() < 0.1 or (bool(self._left_open) and not standby)
        finished = reader.finished
        patience_s = None if is_calm else random.choice((None, None, None, 0.03, 0.5))
        if self._left_open and not force:
            # If the words of the other machine are held up, the hub notices first that it is silent.
            asyncio.get_running_loop().call_later(random.choice((0.05, 0.5, 2.0)), self._close_left_open)
        try:
            async with asyncio.timeout(patience_s):
                subscription = await client.subscribe(
                    reader.topic,
                    reader.name,
                    preferences=reader.preferences,
                    force_attach=force,
                    standby=standby,
                    auto_consume=self._auto_consume,
                )
        except TimeoutError:
            history.note(f"{reader} gave up subscribing")
            return None
        except HedwigError as exc:
            history.note(f"{reader} cannot subscribe: {type(exc).__name__}")
            return None
        history.act(f"{reader} subscribed at {MACHINE.get()}{', by force' if force else ''}")
        history.subscribes(reader)
        self._close_left_open()
        self._session = session = Session(finished)
        begin = subscription.begin_session

        def resume() -> None:
            session.resumed.add(subscription._last_queued)
            begin()

        subscription.begin_session = resume  # type: ignore[method-assign]
        return subscription

    def _close_left_open(self) -> None:
        for opened in self._left_open:
            self._closings.append(asyncio.create_task(opened.close(last_is_finished=False)))
        self._left_open.clear()

    async def _skip(self, subscription: Subscription, finished: int) -> None:
        """Consume messages that this session has not received: those of former sessions, or more."""
        last = self._world.history.last_of(self.reader.topic)
        self._session.ahead = ahead = self._world.random.choice(
            (finished, max(finished, last - 2), max(finished, last))
        )
        self._world.history.waives(self.reader, ahead)
        await self._consume(subscription, ahead)

    async def _read(self, subscription: Subscription, *, is_silent: bool) -> None:
        """Take a random number of messages, for a random time; if `is_silent`, without consuming them."""
        random, reader, history = self._world.random, self.reader, self._world.history
        loop = asyncio.get_running_loop()
        count = random.choice((1, 4, 15, 1000))
        until = loop.time() + random.choice((0.02, 0.5, 3.0, 8.0))
        pause_s = random.choice((0.0, 0.0, 0.0, 0.02, 0.2) if not self._session.ahead else (0.0, 0.2, 1.0))
        every = random.choice((1, 1, 3))
        while (count > 0 and loop.time() < until) or (self._world.is_calm and not reader.is_in_doubt):
            if self._auto_consume and self._session.last is not None:
                history.finishes(reader, self._session.last)
            try:
                # The timeout applies in a calm world too, to check whether the run is over.
                async with asyncio.timeout_at(max(until, loop.time() + 0.5)):
                    message = await anext(subscription)
            except TimeoutError:
                if self._world.is_over:
                    return
                if self._world.is_calm and not self._auto_consume and self._session.last is not None:
                    await self._consume(subscription, self._session.last)
                continue
            except (StopAsyncIteration, SubscriptionClosedError, ServiceError) as exc:
                history.note(f"{reader} ended: {type(exc).__name__}")
                return
            assert message.seq_id is not None, "a hub says where a message is"
            position = message.seq_id.local
            history.delivers(reader, position, message.body, self._session)
            count -= 1
            if is_silent and not self._world.is_calm:
                continue
            if not self._auto_consume and (position % every == 0 or self._world.is_calm):
                await self._consume(subscription, position)
            if pause_s and not self._world.is_calm:
                await asyncio.sleep(pause_s)

    async def _consume(self, subscription: Subscription, position: int) -> None:
        self._world.history.finishes(self.reader, position)
        try:
            await subscription.consume(MessageSeqId(position))
        except HedwigError as exc:
            self._world.history.note(f"{self.reader} cannot consume: {type(exc).__name__}")

    async def _unsubscribe(self, client: HedwigClient) -> None:
        """Delete the subscription, so that the next session creates it again."""
        reader, history = self.reader, self._world.history
        history.act(f"{reader} unsubscribes")
        if self._left_open and self._auto_consume and self._session.last is not None:
            history.finishes(reader, self._session.last)  # If it is still open, the client closes it first.
        try:
            await client.unsubscribe(reader.topic, reader.name)
        except ClientNotSubscribedError:
            history.note(f"{reader} was not subscribed")
        except HedwigError as exc:
            history.note(f"{reader} cannot unsubscribe: {type(exc).__name__}")
            if isinstance(exc, ServiceError) and exc.happened == "no":
                return
            reader.is_in_doubt = True
        if not self._world.has_leases:
            reader.is_in_doubt = True
        reader.begin_anew()
        self._session = Session()  # The finished messages belong to the subscription that is gone.

    async def _leave(self, machine: str, subscription: Subscription, *, is_silent: bool) -> None:
        random, reader, history = self._world.random, self.reader, self._world.history
        if is_silent and self._session.last is not None and not self._world.is_calm:
            history.act(f"{reader} leaves {machine}, whose last words are held up")
            self._world.hold_up(machine, reader.topic)
            self._held_up = machine
            await self._consume(subscription, self._session.last)
            self._left_open.append(subscription)
            return
        way = "close" if self._world.is_calm else random.choice(("close", "close", "cancel", "stay", "break"))
        history.act(f"{reader} leaves {machine}: {way}")
        if way == "break":
            self._world.break_client(machine)
            await asyncio.sleep(random.choice((0.0, 0.05, 1.0)))
        if way == "stay" and len(self._machines) > 1:
            self._left_open.append(subscription)
            return
        if self._auto_consume and self._session.last is not None:
            history.finishes(reader, self._session.last)
        closing = asyncio.create_task(subscription.close())
        if way == "cancel":
            self._closings.append(closing)
            await asyncio.sleep(random.choice((0.0, 0.005, 0.05)))
            closing.cancel()
            return
        is_confirmed = await closing
        # A former session that is still closing may consume yet, and move the pointer forward again.
        is_alone = all(former.done() for former in self._closings)
        if is_confirmed and is_alone and not self._world.is_calm and random.random() < 0.5:
            await self._world.seek_back(reader, is_apart=True)
