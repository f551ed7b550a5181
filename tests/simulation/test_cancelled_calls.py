"""Prove that a call of the client that is cancelled leaves nothing behind, wherever it was when it was cancelled.

Each call runs again and again, in a cluster in virtual time, and is cancelled one turn of the event loop later each
time, until it comes to its end before that. Then nothing of it may be left in the client or at a hub, no message is
lost, and another client can use the same topic and the same subscription.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from hedwig.client import ClientOptions, HedwigClient, HubAddress, Subscription
from hedwig.client.client import Opening
from hedwig.errors import ClientNotSubscribedError, HedwigError, SubscriptionClosedError
from hedwig.model import MessageSeqId, SubscriberId, Topic
from tests.hub.ledgers.bookkeeper.support.model import ModelMetadata
from tests.simulation.network import MACHINE, Network, NetworkedLoop, NetworkedTime
from tests.simulation.simulated_hub import PORT, VirtualClock
from tests.simulation.simulation import Simulation, SimulationFailed

READER: Final = SubscriberId(b"reader")
PATIENCE_S: Final = 120.0
LEFT_S: Final = 20.0
TURNS_MAX: Final = 20_000
CLIENT: Final = str(Path("hedwig") / "client")
LAST: Final = b"last"


class Cancelling(Simulation):
    """A cluster without faults, in which one kind of call is cancelled everywhere."""

    def __init__(self, seed: int, case: "Case", *, share: bool) -> None:
        super().__init__(seed)
        self._options = replace(self._options, repeat_window_s=PATIENCE_S)
        self._case = case
        self._share = share
        self.time = NetworkedTime(self.network)
        self.turns = 0
        """After how many turns the call is cancelled."""

    def make(self, machine: str) -> HedwigClient:
        """Make a client. Its tasks run on its machine, whoever calls it."""
        options = ClientOptions(
            hub=HubAddress(Network.any_host, PORT),
            share_channels=self._share,
            publish_once=True,
            publishes_in_flight_max=2,
            clock=VirtualClock(),
            random=self.random,
        )
        MACHINE.set(machine)
        return HedwigClient(options)

    async def _run(self) -> None:
        self.ledgers = ModelMetadata(self.random, delay_s=self._delay_s)
        for number in range(2):
            await self.start_hub(f"hub{number}")
        async with self.make("ours") as self.client, self.make("another") as self.other:
            await self.client.publish("warm", b"up")
            await self.other.publish("warm", b"up")
            is_over = False
            while not is_over:
                assert self.turns < TURNS_MAX, "it comes to no end"
                is_over = await self._once(Topic(b"topic %d" % self.turns))
                # What hubs do for former topics takes turns too, so a long call would never be overtaken.
                self.turns += 1 + self.turns // 100
        for hub in self.serving():
            await hub.inside(hub.close())
        await asyncio.sleep(self.late_s)
        self._check_left()

    async def _once(self, topic: Topic) -> bool:
        """Begin the call, cancel it, and look. Return whether it came to its end instead."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, NetworkedLoop)
        loop.turns = 0
        async with asyncio.timeout(PATIENCE_S), self._case(self, topic) as call:
            calling = asyncio.ensure_future(call())
            left = self.turns

            def count() -> None:
                nonlocal left
                left -= 1
                if left < 0:
                    self.time.on_turn = None
                    calling.cancel()

            self.time.on_turn = count
            await asyncio.wait([calling])
            self.time.on_turn = None
            if not calling.cancelled():
                calling.result()
        await self.nothing_left(self.client)
        await self.nothing_left(self.other)
        return not calling.cancelled()

    async def nothing_left(self, client: HedwigClient) -> None:
        """Wait until nothing of a call is left in a client. What it closes may take a moment."""
        left: list[str] = []
        try:
            async with asyncio.timeout(LEFT_S):
                while left := list(left_in(client, share=self._share)):  # noqa: ASYNC110 (time is virtual)
                    await asyncio.sleep(0.05)
                for hub in self.serving():
                    while lines := hub.incarnation.subscribing.standbys._lines:
                        left = [f"a line at {hub.host}: {lines}"]
                        await asyncio.sleep(0.05)
        except TimeoutError:
            self.history.broken("nothing is left of a cancelled call", f"after {self.turns} turns: {left}")
            raise

    async def messages(self, topic: Topic) -> list[bytes]:
        """Return what the other client gets of a topic, as `reader`, up to a message that it publishes now."""
        bodies = []
        async with self.other.subscribe(topic, READER) as subscription:
            await self.other.publish(topic, LAST)
            async for message in subscription:
                if message.body == LAST:
                    break
                bodies.append(message.body)
        return bodies


Case = Callable[[Cancelling, Topic], Any]
"""An async context manager: it prepares, yields the function that calls, and looks at what came of it."""


def left_in(client: HedwigClient, *, share: bool) -> Iterator[str]:
    """Name what a client still holds."""
    for publishing in (client._publishing, *client._named.values()):
        if publishing._pending or publishing._lines:
            yield f"publishes: {list(publishing._pending.values())}, {list(publishing._lines)}"
        if publishing._room._value != 2:
            yield f"places for publishes: {2 - publishing._room._value}"
    counters = client.counters
    if counters.subscriptions or counters.late_subscriptions or counters.late_topics or client._subscriptions:
        yield f"subscriptions: {client._subscriptions}"
    channels = [*client._channels._open.values(), *client._attachments._channels]
    for channel in channels:
        if waiting := [request for request in channel._waiting if request]:
            yield f"requests at {channel.address}: {waiting}"
    if client._attachments._endings:
        yield f"endings: {client._attachments._endings}"
    for serving in client._attachments._shared.values():
        if serving.is_used or serving._paused:
            yield f"a shared channel has {serving.subscriptions}, {serving.asked}, {serving.closing}"
    if client._attachments._channels and not share:
        yield f"channels: {list(client._attachments._channels)}"
    if client._shares:
        yield f"shares: {list(client._shares)}"
    own = {channel._task for channel in channels}
    for task in asyncio.all_tasks():
        code = getattr(task.get_coro(), "cr_code", None)
        if code is not None and CLIENT in code.co_filename and task not in own and "close" not in code.co_qualname:
            machine = task.get_coro().cr_frame.f_locals.get("self")  # type: ignore[union-attr]
            if not (code.co_qualname == "Channel._receive" and machine.is_open):
                yield f"a task: {code.co_qualname}"


def is_subsequence(some: list[bytes], whole: list[bytes]) -> bool:
    rest = iter(whole)
    return all(each in rest for each in some)


# ---------------------------------------------------------------------------------------------------- publishing


@asynccontextmanager
async def publish(world: Cancelling, topic: Topic) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    await (await world.other.subscribe(topic, READER)).close()
    is_published = False

    async def call() -> None:
        nonlocal is_published
        await world.client.publish(topic, b"one")
        is_published = True

    yield call
    await world.client.publish(topic, b"two")
    assert await world.messages(topic) in ([[b"one", b"two"]] if is_published else [[b"one", b"two"], [b"two"]])


@asynccontextmanager
async def publish_under_a_name(world: Cancelling, topic: Topic) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    await (await world.other.subscribe(topic, READER)).close()
    publisher = world.client.publisher("name")
    yield lambda: publisher.publish(topic, b"one", sequence=1)
    await publisher.publish(topic, b"one", sequence=1, age_s=5.0)
    assert await world.messages(topic) == [b"one"]


@asynccontextmanager
async def publish_with_a_function(world: Cancelling, topic: Topic) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    await (await world.other.subscribe(topic, READER)).close()
    outcomes: list[MessageSeqId | HedwigError] = []
    has_begun = False

    async def call() -> None:
        nonlocal has_begun
        await world.client.begin_publish(topic, b"three", outcomes.append)
        has_begun = True

    await world.client.begin_publish(topic, b"one", outcomes.append)
    await world.client.begin_publish(topic, b"two", outcomes.append)
    yield call
    expected = [b"one", b"two", b"three"] if has_begun else [b"one", b"two"]
    while len(outcomes) < len(expected):  # noqa: ASYNC110 (time is virtual)
        await asyncio.sleep(0.01)
    assert await world.messages(topic) == expected
    assert outcomes == [MessageSeqId(number + 1) for number in range(len(expected))]


@asynccontextmanager
async def publish_many(world: Cancelling, topic: Topic) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    await (await world.other.subscribe(topic, READER)).close()
    bodies = [b"%d" % number for number in range(5)]
    published = 0

    async def call() -> None:
        nonlocal published
        async for _ in world.client.publish_many(topic, bodies):
            published += 1

    yield call
    stored = await world.messages(topic)
    assert stored[:published] == bodies[:published]
    assert is_subsequence(stored, bodies)


# -------------------------------------------------------------------------------------------------- subscriptions


@asynccontextmanager
async def subscribe(world: Cancelling, topic: Topic) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    opened: list[Subscription] = []

    async def call() -> None:
        opened.append(await world.client.subscribe(topic, READER))

    yield call
    for each in opened:
        await each.close()
    assert await world.messages(topic) == []


@asynccontextmanager
async def read_in_a_block(world: Cancelling, topic: Topic) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    await (await world.other.subscribe(topic, READER)).close()
    await world.other.publish(topic, b"one")
    taken: list[bytes] = []

    async def call() -> None:
        async with world.client.subscribe(topic, READER) as subscription:
            taken.append((await anext(subscription)).body)

    yield call
    assert await world.messages(topic) in ([[], [b"one"]] if taken else [[b"one"]])


async def _stand_by_or_force(
    world: Cancelling, topic: Topic, how: Callable[[], Opening], *, closes: bool
) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    holder = await world.other.subscribe(topic, READER)
    opened: list[Subscription] = []

    async def call() -> None:
        opened.append(await how())

    closing = asyncio.ensure_future(asyncio.sleep(0.05))
    if closes:
        closing.add_done_callback(lambda _: closings.append(asyncio.ensure_future(holder.close())))
    closings: list[asyncio.Future[bool]] = []
    yield call
    await closing
    for each in (*opened, holder):
        await each.close()
    assert await world.messages(topic) == []


@asynccontextmanager
async def stand_by(world: Cancelling, topic: Topic) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    opening = world.client.subscribe(topic, READER, standby=True)
    async for call in _stand_by_or_force(world, topic, lambda: opening, closes=True):
        yield call


@asynccontextmanager
async def take_by_force(world: Cancelling, topic: Topic) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    opening = world.client.subscribe(topic, READER, force_attach=True)
    async for call in _stand_by_or_force(world, topic, lambda: opening, closes=False):
        yield call


def _reading(way: str) -> Case:
    @asynccontextmanager
    async def read(world: Cancelling, topic: Topic) -> AsyncIterator[Callable[[], Awaitable[object]]]:
        subscription = await world.client.subscribe(topic, READER)
        taken: list[bytes] = []

        async def take_all() -> None:
            if way == "next":
                taken.append((await anext(subscription)).body)
            elif way == "receive":
                message = await subscription.receive(0.02)
                taken.extend([message.body] if message is not None else [])
            else:
                taken.extend(each.body for each in await anext(subscription.batches(2, wait_s=0.02)))

        async def call() -> None:
            while len(taken) < 3:
                await take_all()

        async def publish() -> None:
            for number in range(3):
                await world.other.publish(topic, b"%d" % number)
                await asyncio.sleep(0.01)

        publishing = asyncio.ensure_future(publish())
        yield call
        await publishing
        await call()
        assert taken == [b"0", b"1", b"2"]
        await subscription.close()
        assert await world.messages(topic) == []

    return read


@asynccontextmanager
async def consume(world: Cancelling, topic: Topic) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    subscription = await world.client.subscribe(topic, READER, auto_consume=False)
    await world.other.publish(topic, b"one")
    await world.other.publish(topic, b"two")
    first, second = await anext(subscription), await anext(subscription)
    assert second.body == b"two"
    yield lambda: subscription.consume(first.seq_id)
    await subscription.consume(first.seq_id)
    await subscription.close()
    assert await world.messages(topic) == [b"two"]


@asynccontextmanager
async def close(world: Cancelling, topic: Topic) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    subscription = await world.client.subscribe(topic, READER)
    await world.other.publish(topic, b"one")
    assert (await anext(subscription)).body == b"one"
    yield subscription.close
    assert not subscription.is_open or await subscription.close()
    assert await world.messages(topic) == []


@asynccontextmanager
async def unsubscribe(world: Cancelling, topic: Topic) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    await world.client.subscribe(topic, READER)
    yield lambda: world.client.unsubscribe(topic, READER)
    with suppress(ClientNotSubscribedError):
        await world.client.unsubscribe(topic, READER)
    with pytest.raises(ClientNotSubscribedError):
        await world.other.unsubscribe(topic, READER)


# ------------------------------------------------------------------------------------------- the client as a whole


@asynccontextmanager
async def close_client(world: Cancelling, topic: Topic) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    client = world.make("ours")
    subscription = await client.subscribe(topic, READER)
    await client.subscribe(topic, b"second")
    publishing = asyncio.ensure_future(client.publish(topic, b"one"))
    await asyncio.sleep(0)
    yield client.close
    if client._closing is not None:  # Else it was cancelled before it began.
        await asyncio.sleep(LEFT_S / 4)
        assert not client.counters.connections, "it goes on"
        with pytest.raises(SubscriptionClosedError):
            await subscription.consume(MessageSeqId(1))
    await client.close()
    assert not client.counters.connections
    with suppress(HedwigError):
        await publishing
    await world.nothing_left(client)
    assert await world.messages(topic) in ([], [b"one"])


@asynccontextmanager
async def take_part_in_a_share(world: Cancelling, topic: Topic) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    await (await world.other.subscribe(topic, READER)).close()
    await world.other.publish(topic, b"one")
    through = topic + b" share"
    taken: list[bytes] = []

    async def call() -> None:
        async with world.client.share([topic], READER, through=through) as share:
            taken.append((await anext(share))[1].body)

    yield call
    await world.nothing_left(world.client)
    rows = world.tables.execute("SELECT * FROM subscriptions WHERE topic = ?", (through,)).fetchall()
    assert not rows, "the worker has left the share"
    assert await world.messages(topic) in ([[], [b"one"]] if taken else [[b"one"]])


CASES: Final[dict[str, Case]] = {
    "publish": publish,
    "publish_under_a_name": publish_under_a_name,
    "begin_to_publish": publish_with_a_function,
    "publish_many": publish_many,
    "subscribe": subscribe,
    "read_in_a_block": read_in_a_block,
    "stand_by": stand_by,
    "take_by_force": take_by_force,
    "read": _reading("next"),
    "receive": _reading("receive"),
    "read_in_batches": _reading("batches"),
    "consume": consume,
    "close": close,
    "unsubscribe": unsubscribe,
    "close_the_client": close_client,
    "share": take_part_in_a_share,
}


LEAST_TURNS: Final = {"consume": 1, "take_by_force": 10}
"""Fewer than this is not the whole call. The others have more than 20."""


def prove(case: str, seed: int, *, share: bool) -> int:
    """Cancel a call everywhere. Return how many turns of the loop it takes."""
    simulation = Cancelling(seed, CASES[case], share=share)
    try:
        simulation.time.run(simulation.run())
    except SimulationFailed as exc:
        raise SimulationFailed(f"{case}, {share=}, after {simulation.turns} turns: {exc}") from None
    finally:
        simulation.tables.close()
    return simulation.turns


@pytest.mark.parametrize("share", [False, True], ids=["a channel each", "shared channels"])
@pytest.mark.parametrize("case", CASES)
def test_a_cancelled_call_leaves_nothing(case: str, share: bool) -> None:
    assert prove(case, 1, share=share) > LEAST_TURNS.get(case, 20), "it was cancelled in all its steps"


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("share", [False, True], ids=["a channel each", "shared channels"])
@pytest.mark.parametrize("case", CASES)
def test_a_cancelled_call_leaves_nothing_in_other_clusters(case: str, share: bool) -> None:
    for seed in range(2, 42):
        prove(case, seed, share=share)
