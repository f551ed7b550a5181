"""The driver of our own client: what an application with hedwig.client gets."""

import asyncio
from collections import deque
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

from hedwig.benchmarks.drivers.hub.raw_frames import MARK, NUMBER
from hedwig.benchmarks.drivers.hub.raw_target import NOBODY
from hedwig.benchmarks.load.load import Observer
from hedwig.benchmarks.load.workloads import Operation, Workload, subscriber_name, topic_name
from hedwig.client import ClientOptions, CreateOrAttach, HedwigClient, HubAddress, Received, Subscription
from hedwig.errors import ClientNotSubscribedError, HedwigError
from hedwig.model import MessageSeqId, SubscriberId, Topic

__all__ = ["ClientTarget"]

_ATTACHING: Final = 100


class ClientTarget:
    """Operations through HedwigClient: `connections` clients send requests, and each subscriber number has a client."""

    def __init__(
        self,
        workload: Workload,
        host: str,
        port: int,
        *,
        share: int = 0,
        shares: int = 1,
        publish_once: bool = False,
    ) -> None:
        if workload.subscribers and shares > 1:
            raise ValueError(
                "a workload with subscribers runs in one process, which counts its messages: use --processes 1"
            )
        self._workload = workload
        self._share, self._shares = share, shares
        self._options = ClientOptions(
            hub=HubAddress(host, port),
            share_channels=True,
            publish_once=publish_once,
            publishes_in_flight_max=workload.in_flight,
            consume_every=max(1, workload.consume_every),
        )
        connections = max(1, workload.connections // shares)
        self._clients = [HedwigClient(self._options) for _ in range(connections + workload.subscribers)]
        self._senders = self._clients[:connections]
        self._receivers = self._clients[connections:]
        self._running: set[asyncio.Task[None]] = set()
        self._publishers: list[_Publisher] = []
        self._attached: list[Subscription] = []

    async def open(self, observer: Observer) -> None:
        """Connect, and attach the subscribers. Raises HedwigError - the hub refused a request, or is not there."""
        self._observer = observer
        self._publishers = [_Publisher(client, self._workload, observer) for client in self._senders]
        room = asyncio.Semaphore(_ATTACHING)

        async def attach(client: HedwigClient, topic: int, subscriber: int) -> Subscription:
            async with room:
                return await self._subscribe(client, topic, subscriber)

        async with asyncio.TaskGroup() as group:
            attaching = [
                group.create_task(attach(client, topic, subscriber))
                for subscriber, client in enumerate(self._receivers)
                for topic in range(self._workload.topics)
            ]
        self._attached = [task.result() for task in attaching]

    async def _subscribe(self, client: HedwigClient, topic: int, subscriber: int) -> Subscription:
        return await client.subscribe(
            Topic(topic_name(self._workload.prefix, topic)),
            SubscriberId(subscriber_name(subscriber)),
            mode=CreateOrAttach.CREATE,
            auto_consume=self._workload.consume_every > 0,
            on_message=self._received,
        )

    def _received(self, message: Received) -> None:
        body = message.body
        if body.startswith(MARK):  # In order: the client drops any other, and then the operation does not finish.
            (number,) = NUMBER.unpack_from(body, len(MARK))
            self._observer.delivered(number)

    def begin(self, number: int, operation: Operation, topic: int) -> None:
        """Begin an operation."""
        sender = topic % len(self._senders)
        client = self._senders[sender]
        match operation:
            case Operation.PUBLISH | Operation.DELIVER:
                self._publishers[sender].add(number, topic)
                return
            case Operation.SUBSCRIBE:
                work: Coroutine[Any, Any, object] = self._subscribe(client, topic, self._new_subscriber(number))
            case Operation.OWN:
                work = self._own(client, topic)
            case Operation.SUBSCRIBE_AND_CLOSE:
                work = self._subscribe_and_close(client, topic, self._new_subscriber(number))
        task = asyncio.create_task(self._carry_out(number, work))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _new_subscriber(self, number: int) -> int:
        return self._workload.subscribers + number * self._shares + self._share

    async def _subscribe_and_close(self, client: HedwigClient, topic: int, subscriber: int) -> None:
        subscription = await self._subscribe(client, topic, subscriber)
        await subscription.close()

    async def _own(self, client: HedwigClient, topic: int) -> None:
        try:
            await client.unsubscribe(Topic(topic_name(self._workload.prefix, topic)), SubscriberId(NOBODY))
        except ClientNotSubscribedError:
            return  # The expected answer: it comes from the topic's owner.

    async def _carry_out(self, number: int, work: Coroutine[Any, Any, object]) -> None:
        try:
            await work
        except HedwigError as exc:
            self._observer.answered(number, exc.status.name)
        else:
            self._observer.answered(number, None)

    async def close(self) -> None:
        """Disconnect."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for publisher in self._publishers:
            await publisher.close()
        for client in self._clients:
            await client.close()


class _Publisher:
    """Publishes what the load asks for, in order, as a program with a high rate does: one task, and no future each."""

    def __init__(self, client: HedwigClient, workload: Workload, observer: Observer) -> None:
        self._client = client
        self._prefix = workload.prefix
        self._filling = bytes(workload.message_bytes - len(MARK) - NUMBER.size)
        self._observer = observer
        self._names: dict[int, Topic] = {}
        self._work: deque[tuple[int, int]] = deque()
        self._has_work = asyncio.Event()
        self._task = asyncio.create_task(self._publish())

    def add(self, number: int, topic: int) -> None:
        """Publish the message of an operation, later."""
        self._work.append((number, topic))
        self._has_work.set()

    async def _publish(self) -> None:
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            while self._work:
                number, topic = self._work.popleft()
                name = self._names.get(topic)
                if name is None:
                    name = self._names[topic] = Topic(topic_name(self._prefix, topic))
                body = b"".join((MARK, NUMBER.pack(number), self._filling))
                await self._client.begin_publish(name, body, partial(self._published, number))

    def _published(self, number: int, outcome: MessageSeqId | HedwigError) -> None:
        self._observer.answered(number, outcome.status.name if isinstance(outcome, HedwigError) else None)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
