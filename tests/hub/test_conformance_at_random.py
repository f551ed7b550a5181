"""Clients act in any order while topics are released, ledgers deleted and hubs restarted, and lose nothing.

The checked promises are: ids are 1, 2, 3 ... per topic. An acknowledged message is delivered under its id. Each
attachment delivers without gap, from the message after the consumed ones or before it. A new subscription misses no
message published after its answer.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from hedwig.hub.hub import Hub
from hedwig.model import SubscriberId, SubscriptionPreferences, Topic
from hedwig.status import StatusCode
from hedwig.wire import Answer, Delivery, Message, Publish, Subscribe
from tests.hub.conftest import StartHub
from tests.hub.support.wire_client import ChannelClosedError, WireClient, eventually

_STEPS = 120
_TOPICS = [Topic(b"T%d" % number) for number in range(3)]
_SUBSCRIBERS = [SubscriberId(b"s%d" % number) for number in range(3)]


@dataclass
class Subscribed:
    """The known state of a subscription: it may miss no message after `consumed`."""

    consumed: int
    next_id: int | None = None
    """The id that the attachment must deliver next; None before its first delivery."""
    newest: int = 0


@dataclass
class World:
    """A hub, its clients, and the promises made to them."""

    hub: Hub
    source: random.Random
    clients: list[WireClient] = field(default_factory=list)
    seen: dict[WireClient, int] = field(default_factory=dict)
    acknowledged: dict[tuple[Topic, int], bytes] = field(default_factory=dict)
    subscriptions: dict[tuple[Topic, SubscriberId], Subscribed] = field(default_factory=dict)
    published: int = 0

    def last(self, topic: Topic) -> int:
        return max((local for name, local in self.acknowledged if name == topic), default=0)

    async def client(self) -> WireClient:
        """Return a channel that is open as far as known; now and then a new one."""
        self.look()
        for each in [each for each in self.clients if each.is_closed]:
            self.clients.remove(each)
            await each.close()
        if not self.clients or (len(self.clients) < 4 and self.source.random() < 0.2):
            self.clients.append(await WireClient.connect(self.hub.port))
        return self.source.choice(self.clients)

    def look(self) -> None:
        """Check the deliveries against the promises."""
        for client in self.clients:
            new = client.received[self.seen.get(client, 0) :]
            self.seen[client] = len(client.received)
            for response in new:
                if isinstance(response, Delivery):
                    self.delivered(response)

    def delivered(self, delivery: Delivery) -> None:
        assert delivery.message.seq_id is not None
        local = delivery.message.seq_id.local
        known = self.acknowledged.get((delivery.topic, local))
        assert known is None or known == delivery.message.body, "an id was given twice"
        subscription = self.subscriptions.get((delivery.topic, delivery.subscriber))
        if subscription is None:
            return
        if subscription.next_id is None or local != subscription.next_id:
            # This is the first delivery of an attachment. Unconsumed messages are delivered again, without gap.
            assert local <= subscription.consumed + 1, (delivery, subscription)
        subscription.next_id = local + 1
        subscription.newest = max(subscription.newest, local)

    # ------------------------------------------------------------------------------------------------ steps

    async def publish(self) -> None:
        client, topic = await self.client(), self.source.choice(_TOPICS)
        sent = []
        for _ in range(self.source.randrange(1, 8)):
            self.published += 1
            body = b"%d" % self.published
            sent.append((client.send(topic, Publish(Message(body))), body))
        for txn_id, body in sent:
            self.note(topic, await client.answer(txn_id), body)

    def note(self, topic: Topic, answer: Answer, body: bytes) -> None:
        assert answer.status in (StatusCode.SUCCESS, StatusCode.SERVICE_DOWN), answer
        if answer.published is not None:
            key = topic, answer.published.local
            assert self.acknowledged.setdefault(key, body) == body, "an id was given twice"

    async def subscribe(self) -> None:
        client, topic, subscriber = await self.client(), *self.pair()
        window = self.source.choice([None, 0, 2])
        action = Subscribe(
            subscriber=subscriber,
            preferences=SubscriptionPreferences(message_window_size=window),
            force_attach=self.source.random() < 0.7,
        )
        # The answer precedes the first delivery, so check the delivery against the state before the request.
        existing = self.subscriptions.get((topic, subscriber))
        if existing is None:
            self.subscriptions[topic, subscriber] = Subscribed(consumed=1 << 62)
        answer = await client.request(topic, action)
        if existing is None:
            if answer.status is StatusCode.SUCCESS:
                # The hub may have stored messages whose answers are missing, so ask it directly.
                owned = self.hub.topics.get(topic)
                self.subscriptions[topic, subscriber].consumed = owned.log.last_id if owned else 1 << 61
            else:
                del self.subscriptions[topic, subscriber]
        assert answer.status in (StatusCode.SUCCESS, StatusCode.TOPIC_BUSY), answer

    async def consume(self) -> None:
        client, topic, subscriber = await self.client(), *self.pair()
        subscription = self.subscriptions.get((topic, subscriber))
        if subscription is None or subscription.newest == 0 or subscription.consumed >= 1 << 61:
            return
        local = self.source.randrange(subscription.newest + 1)
        subscription.consumed = max(subscription.consumed, local)
        client.consume(topic, subscriber, local)

    async def close(self) -> None:
        client, topic, subscriber = await self.client(), *self.pair()
        assert (await client.close_subscription(topic, subscriber)).status is StatusCode.SUCCESS

    async def unsubscribe(self) -> None:
        client, topic, subscriber = await self.client(), *self.pair()
        known = self.subscriptions.pop((topic, subscriber), None)
        status = (await client.unsubscribe(topic, subscriber)).status
        assert status is (StatusCode.SUCCESS if known is not None else StatusCode.CLIENT_NOT_SUBSCRIBED)

    async def disconnect(self) -> None:
        client = await self.client()
        await client.barrier()
        self.look()
        await client.close()

    async def release(self) -> None:
        topic = self.hub.topics.get(self.source.choice(_TOPICS))
        if topic is not None:
            await self.hub.topics.release(topic)

    async def collect(self) -> None:
        for topic in self.hub.topics:
            topic.is_to_collect = True
        await self.hub.retention.sweep()

    async def release_amid_publishes(self) -> None:
        client, name = await self.client(), self.source.choice(_TOPICS)
        sent = []
        for _ in range(6):
            self.published += 1
            body = b"%d" % self.published
            sent.append((client.send(name, Publish(Message(body))), body))
        if self.source.random() < 0.5:
            await client.barrier()
        topic = self.hub.topics.get(name)
        if topic is not None:
            await self.hub.topics.release(topic)
        for txn_id, body in sent:
            self.note(name, await client.answer(txn_id), body)

    def pair(self) -> tuple[Topic, SubscriberId]:
        return self.source.choice(_TOPICS), self.source.choice(_SUBSCRIBERS)

    async def step(self) -> None:
        steps: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (30, self.publish),
            (30, self.subscribe),
            (20, self.consume),
            (6, self.close),
            (3, self.unsubscribe),
            (5, self.disconnect),
            (3, self.release),
            (4, self.collect),
            (4, self.release_amid_publishes),
        ]
        (chosen,) = self.source.choices([step for _, step in steps], [weight for weight, _ in steps])
        try:
            await chosen()
        except ChannelClosedError:
            # A forced attach after an event, or a release, closed the channel: its outcome is unknown, and the promises
            # stay.
            self.forget_what_is_open()

    def forget_what_is_open(self) -> None:
        """Drop subscriptions that may or may not have been created or deleted."""
        for key in [key for key, each in self.subscriptions.items() if each.consumed >= 1 << 62]:
            del self.subscriptions[key]

    async def settle(self) -> None:
        """Attach to every subscription, and wait for the last message of each."""
        self.look()
        for client in self.clients:
            await client.close()
        self.clients = [await WireClient.connect(self.hub.port)]
        (client,) = self.clients
        await eventually(lambda: len(self.hub.channels) == 1, "the other channels are gone")
        for (topic, subscriber), subscription in self.subscriptions.items():
            subscription.next_id = None
            await client.subscribed(
                topic, subscriber, force=True, preferences=SubscriptionPreferences(message_window_size=0)
            )
        for topic in _TOPICS:
            self.published += 1
            body = b"%d" % self.published
            self.note(topic, await client.request(topic, Publish(Message(body))), body)
        for (topic, subscriber), subscription in self.subscriptions.items():

            def has_all(topic: Topic = topic, subscription: Subscribed = subscription) -> bool:
                self.look()
                return subscription.newest >= self.last(topic)

            await eventually(has_all, f"all messages of {topic!r} at {subscriber!r}")
        await client.close()


@pytest.mark.parametrize("seed", range(6))
async def test_nothing_is_lost_whatever_clients_do(start_hub: StartHub, seed: int) -> None:
    source = random.Random(seed)
    world: World | None = None
    for _ in range(2):
        hub = await start_hub(
            ledger_messages_max=source.choice([2, 5, 50]),
            cache_bytes=source.choice([0, 300, 1 << 20]),
            consume_interval=source.choice([1, 5, 50]),
            consume_flush_s=source.choice([0.01, 60.0]),
            read_messages_max=source.choice([1, 4, 128]),
        )
        if world is None:
            world = World(hub, source)
        world.hub = hub
        for _ in range(_STEPS):
            await world.step()
        await world.settle()
        assert len(world.acknowledged) > 50
        await hub.close()
