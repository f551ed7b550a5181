"""The driver of our own client: what an application with hedwig.client gets."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

from hedwig.benchmarks.drivers.hub.raw_frames import MARK, NUMBER
from hedwig.benchmarks.drivers.hub.raw_target import NOBODY
from hedwig.benchmarks.load.arrivals import Arrivals
from hedwig.benchmarks.load.load import Observer
from hedwig.benchmarks.load.workloads import Operation, Workload, subscriber_name, topic_name
from hedwig.client import ClientOptions, CreateOrAttach, HedwigClient, HubAddress, Received, Subscription
from hedwig.errors import ClientNotSubscribedError, HedwigError
from hedwig.model import SubscriberId, Topic

__all__ = ["ClientTarget"]

_ATTACHING: Final = 100


class ClientTarget:
    """Operations through HedwigClient: `connections` clients send requests, and each subscriber number has a client."""

    def __init__(self, workload: Workload, host: str, port: int, *, share: int = 0, shares: int = 1) -> None:
        if workload.subscribers and shares > 1:
            raise ValueError(
                "a workload with subscribers runs in one process, which counts its messages: use --processes 1"
            )
        self._workload = workload
        self._share, self._shares = share, shares
        self._options = ClientOptions(
            hub=HubAddress(host, port),
            share_channels=True,
            publishes_in_flight_max=workload.in_flight,
            consume_every=max(1, workload.consume_every),
        )
        connections = max(1, workload.connections // shares)
        self._clients = [HedwigClient(self._options) for _ in range(connections + workload.subscribers)]
        self._senders = self._clients[:connections]
        self._receivers = self._clients[connections:]
        self._filling = bytes(workload.message_bytes - len(MARK) - NUMBER.size)
        self._arrivals = Arrivals()
        self._running: set[asyncio.Task[None]] = set()
        self._attached: list[Subscription] = []

    async def open(self, observer: Observer) -> None:
        """Connect, and attach the subscribers. Raises HedwigError - the hub refused a request, or is not there."""
        self._observer = observer
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
            on_message=partial(self._received, topic, subscriber),
        )

    def _received(self, topic: int, subscriber: int, message: Received) -> None:
        body = message.body
        if body.startswith(MARK):
            (number,) = NUMBER.unpack_from(body, len(MARK))
            if not self._arrivals.is_next(topic, subscriber, number):
                self._observer.answered(number, "out of order")
            self._observer.delivered(number)

    def begin(self, number: int, operation: Operation, topic: int) -> None:
        """Begin an operation."""
        client = self._senders[topic % len(self._senders)]
        match operation:
            case Operation.PUBLISH | Operation.DELIVER:
                body = b"".join((MARK, NUMBER.pack(number), self._filling))
                work: Coroutine[Any, Any, object] = client.publish(
                    Topic(topic_name(self._workload.prefix, topic)), body
                )
            case Operation.SUBSCRIBE:
                work = self._subscribe(client, topic, self._new_subscriber(number))
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
        for client in self._clients:
            await client.close()
