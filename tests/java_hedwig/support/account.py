"""The account of published messages and consumed positions, whichever hubs and client libraries took part."""

from contextlib import ExitStack
from typing import Final, Protocol

from hedwig.client import BlockingClient, BlockingSubscription
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.wire import CreateOrAttach
from hedwig.wire import pubsub_pb2 as pb
from tests.java_client.support.client import JavaClient, JavaSubscription, Mode, SubscribeOptions
from tests.java_hedwig.support.stack import REGION_PATH, JavaStack, eventually

__all__ = ["Account", "Attached", "JavaSide", "OurSide", "Side"]

_PATIENCE_S: Final = 30.0


class Attached(Protocol):
    """An open subscription, which consumes nothing by itself."""

    def take(self, count: int) -> list[tuple[int, bytes]]:
        """Return id and body of the next messages."""
        ...

    def consume(self, up_to: int) -> None: ...

    def close(self) -> None: ...


class Side(Protocol):
    """A client of one library."""

    def publish(self, topic: Topic, body: bytes) -> int:
        """Publish, and return the id."""
        ...

    def subscribe(self, topic: Topic, subscriber: SubscriberId, wanted: SubscriptionPreferences) -> None:
        """Create a new subscription, and leave it closed."""
        ...

    def attach(self, topic: Topic, subscriber: SubscriberId) -> Attached:
        """Open an existing subscription."""
        ...

    def unsubscribe(self, topic: Topic, subscriber: SubscriberId) -> None: ...


class Account:
    """The messages of every topic, and the position of each subscription."""

    def __init__(self) -> None:
        self.published: dict[Topic, list[bytes]] = {}
        self.consumed: dict[tuple[Topic, SubscriberId], int] = {}

    def publish(self, side: Side, topic: Topic, count: int) -> None:
        """Publish N messages; fail unless each gets the next id."""
        bodies = self.published.setdefault(topic, [])
        for _ in range(count):
            bodies.append(b"%d of %s" % (len(bodies) + 1, topic))
            assert side.publish(topic, bodies[-1]) == len(bodies), topic

    def subscribe(
        self,
        side: Side,
        topic: Topic,
        subscriber: SubscriberId,
        wanted: SubscriptionPreferences | None = None,
    ) -> None:
        """Create a subscription that begins after all messages published so far."""
        side.subscribe(topic, subscriber, wanted or SubscriptionPreferences())
        self.consumed[topic, subscriber] = len(self.published.setdefault(topic, []))

    def unsubscribe(self, side: Side, topic: Topic, subscriber: SubscriberId) -> None:
        """End a subscription."""
        side.unsubscribe(topic, subscriber)
        del self.consumed[topic, subscriber]

    def consume(self, side: Side, topic: Topic, subscriber: SubscriberId, up_to: int) -> None:
        """Receive and consume messages up to that id; fail if they are not the ones after the consumed position."""
        wanted = [pair for pair in self.left(topic, subscriber) if pair[0] <= up_to]
        attached = side.attach(topic, subscriber)
        assert attached.take(len(wanted)) == wanted, (topic, subscriber)
        attached.consume(up_to)
        attached.close()
        self.consumed[topic, subscriber] = up_to

    def check_all(self, side: Side, more: int) -> None:
        """Fail unless each subscription gets its unconsumed messages and the next ones, once and in order.

        After the unconsumed messages, N more are published to each topic. Each subscription gets them next, which
        proves that nothing else arrives. Nothing is consumed.
        """
        with ExitStack() as stack:
            opened: dict[tuple[Topic, SubscriberId], Attached] = {}
            for topic, subscriber in self.consumed:
                opened[topic, subscriber] = attached = side.attach(topic, subscriber)
                stack.callback(attached.close)
            for (topic, subscriber), attached in opened.items():
                left = self.left(topic, subscriber)
                assert attached.take(len(left)) == left, (topic, subscriber)
            for topic in self.published:
                self.publish(side, topic, more)
            for (topic, subscriber), attached in opened.items():
                new = self.left(topic, subscriber)[-more:]
                assert attached.take(more) == new, (topic, subscriber)

    def left(self, topic: Topic, subscriber: SubscriberId) -> list[tuple[int, bytes]]:
        """Return id and body of the messages that a subscription has not consumed."""
        return [*enumerate(self.published[topic], start=1)][self.consumed[topic, subscriber] :]


class JavaSide:
    """A client of the original library, for a hub of `stack`.

    The client must allow as many unacknowledged messages as there are.
    """

    def __init__(self, client: JavaClient, stack: JavaStack) -> None:
        self._client = client
        self._stack = stack

    def publish(self, topic: Topic, body: bytes) -> int:
        answer = self._client.publish(topic, body)
        assert answer is not None, "the hub returned no id"
        return answer

    def subscribe(self, topic: Topic, subscriber: SubscriberId, wanted: SubscriptionPreferences) -> None:
        settings: SubscribeOptions = {"mode": Mode.CREATE, "options": wanted.options}
        if wanted.message_bound is not None:
            settings["bound"] = wanted.message_bound
        if wanted.message_window_size is not None:
            settings["window"] = wanted.message_window_size
        self._client.subscribe(topic, subscriber, **settings).close()

    def attach(self, topic: Topic, subscriber: SubscriberId) -> "_AttachedJava":
        opened = self._client.subscribe(topic, subscriber, mode=Mode.ATTACH)
        opened.start(hold=True)
        path = f"{REGION_PATH}/topics/{topic.decode()}/subscribers/{subscriber.decode()}"
        return _AttachedJava(opened, self._stack, path)

    def unsubscribe(self, topic: Topic, subscriber: SubscriberId) -> None:
        self._client.unsubscribe(topic, subscriber)


class _AttachedJava:
    def __init__(self, opened: JavaSubscription, stack: JavaStack, path: str) -> None:
        self._opened = opened
        self._stack = stack
        self._path = path

    def take(self, count: int) -> list[tuple[int, bytes]]:
        return [(message.local, message.body) for message in self._opened.take(count)]

    def consume(self, up_to: int) -> None:
        """Consume, and wait until the hub has stored it: the hub answers no consume, so an attach could overtake it."""
        self._opened.consume(up_to)
        with self._stack.znodes() as raw:
            eventually(
                f"{self._path} says {up_to}",
                lambda: pb.SubscriptionData.FromString(raw.get(self._path)[0]).state.msgId.localComponent == up_to,
            )

    def close(self) -> None:
        self._opened.close()


class OurSide:
    """A client of our library."""

    def __init__(self, client: BlockingClient) -> None:
        self._client = client

    def publish(self, topic: Topic, body: bytes) -> int:
        return self._client.publish(topic, body).local

    def subscribe(self, topic: Topic, subscriber: SubscriberId, wanted: SubscriptionPreferences) -> None:
        self._client.subscribe(topic, subscriber, mode=CreateOrAttach.CREATE, preferences=wanted).close()

    def attach(self, topic: Topic, subscriber: SubscriberId) -> "_AttachedOurs":
        return _AttachedOurs(self._client.subscribe(topic, subscriber, mode=CreateOrAttach.ATTACH, auto_consume=False))

    def unsubscribe(self, topic: Topic, subscriber: SubscriberId) -> None:
        self._client.unsubscribe(topic, subscriber)


class _AttachedOurs:
    def __init__(self, opened: BlockingSubscription) -> None:
        self._opened = opened

    def take(self, count: int) -> list[tuple[int, bytes]]:
        return [self._next() for _ in range(count)]

    def consume(self, up_to: int) -> None:
        self._opened.consume(MessageSeqId(up_to))

    def close(self) -> None:
        self._opened.close()

    def _next(self) -> tuple[int, bytes]:
        message = self._opened.receive(_PATIENCE_S)
        assert message is not None, f"no message within {_PATIENCE_S:g} s"
        assert message.seq_id is not None
        return message.seq_id.local, message.body
