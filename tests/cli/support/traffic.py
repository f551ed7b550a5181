"""Traffic of every kind on hubs during a migration: publishes, consumes, subscriptions made and ended."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from hedwig.client import BlockingClient, BlockingSubscription, ClientOptions, HubAddress
from hedwig.errors import HedwigError
from hedwig.model import SubscriberId, Topic
from tests.cli.support.admin import DEADLINE_S

__all__ = ["READER", "TOPICS", "Traffic"]

READER: Final = SubscriberId(b"reader")
TOPICS: Final = tuple(Topic(b"live/%d" % number) for number in range(8))
_PAUSE_S: Final = 0.005
_KEPT: Final = 5
"""How many subscriptions stay open to being ended; older ones are ended one after the other."""


class Traffic:
    """The operations that hubs acknowledged. Refused and unanswered ones are not among them.

    `published`: acknowledged messages, by topic and id. `received`: messages that the readers got, and consumed.
    `made`: acknowledged subscriptions that nobody tried to end. `ended`: subscriptions whose end was acknowledged.
    `refused`: how many operations were refused.
    """

    def __init__(self, hub: str) -> None:
        self.published: dict[Topic, dict[int, bytes]] = {topic: {} for topic in TOPICS}
        self.received: dict[Topic, dict[int, bytes]] = {topic: {} for topic in TOPICS}
        self.made: set[tuple[Topic, SubscriberId]] = set()
        self.ended: set[tuple[Topic, SubscriberId]] = set()
        self.refused = 0
        self._hub = hub
        self._enough = threading.Event()
        self._defects: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,))
            for work in (self._publish, self._read, self._subscribe)
        ]

    def __enter__(self) -> Self:
        with self.client() as client:
            for topic in TOPICS:
                client.subscribe(topic, READER).close()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the traffic, and wait until its threads have ended. Raise its first error. May be called twice."""
        self._enough.set()
        for thread in self._threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive(), "the traffic does not end"
        if self._defects:
            raise self._defects[0]

    def client(self) -> BlockingClient:
        """Return a client. The caller closes it."""
        hub = HubAddress.parse(self._hub)
        return BlockingClient(ClientOptions(hub=hub, publish_once=True, consume_every=1, answer_timeout_s=10.0))

    def read_the_rest(self, topic: Topic) -> None:
        """Receive until the last acknowledged message of `topic` arrives; fail if it does not."""
        with self.client() as client, _closing(client.subscribe(topic, READER)) as subscription:
            last = max(self.published[topic], default=0)
            while max(self.received[topic], default=0) < last or not self._has_all(topic):
                message = subscription.receive(DEADLINE_S)
                assert message is not None, f"{topic!r} ends at {max(self.received[topic], default=0)}, not at {last}"
                assert message.seq_id is not None
                self.received[topic][message.seq_id.local] = message.body

    def _has_all(self, topic: Topic) -> bool:
        return self.published[topic].items() <= self.received[topic].items()

    def _guarded(self, work: Callable[[BlockingClient], None]) -> None:
        try:
            with self.client() as client:
                work(client)
        except BaseException as exc:
            self._defects.append(exc)

    def _publish(self, client: BlockingClient) -> None:
        number = 0
        while not self._enough.wait(_PAUSE_S):
            topic, body = TOPICS[number % len(TOPICS)], b"message %d" % number
            number += 1
            try:
                seq_id = client.publish(topic, body)
            except HedwigError:
                self.refused += 1
            else:
                assert seq_id is not None
                self.published[topic][seq_id.local] = body

    def _read(self, client: BlockingClient) -> None:
        subscriptions = [client.subscribe(topic, READER) for topic in TOPICS]
        while not self._enough.is_set():
            for topic, subscription in zip(TOPICS, subscriptions, strict=True):
                try:
                    message = subscription.receive(_PAUSE_S)
                except HedwigError:
                    self.refused += 1
                    continue
                if message is not None:
                    assert message.seq_id is not None
                    self.received[topic][message.seq_id.local] = message.body

    def _subscribe(self, client: BlockingClient) -> None:
        number = 0
        kept: list[tuple[Topic, SubscriberId]] = []
        while not self._enough.wait(_PAUSE_S):
            key = TOPICS[number % len(TOPICS)], SubscriberId(b"s-%d" % number)
            number += 1
            try:
                client.subscribe(*key).close()
            except HedwigError:
                self.refused += 1
            else:
                self.made.add(key)
                kept.append(key)
            if number % 2 and len(kept) > _KEPT:
                old = kept.pop(0)
                # Until the hub answers, nobody knows whether it exists.
                self.made.discard(old)
                try:
                    client.unsubscribe(*old)
                except HedwigError:
                    self.refused += 1
                else:
                    self.ended.add(old)


class _closing:
    """Close a subscription at the end of a block."""

    def __init__(self, subscription: BlockingSubscription) -> None:
        self._subscription = subscription

    def __enter__(self) -> BlockingSubscription:
        return self._subscription

    def __exit__(self, *_: object) -> None:
        self._subscription.close()
