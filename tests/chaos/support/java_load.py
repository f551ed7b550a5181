"""Publishers and subscribers of the original Java client, beside our own and on the same topics."""

import asyncio
import contextlib
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from hedwig.cli.dev.servers.classpath import ClasspathCache, user_cache
from hedwig.cli.dev.servers.java import find_java, jvm_flags
from hedwig.cli.dev.servers.log4j import write_log4j
from tests.chaos.support.workload import Workload
from tests.hub.support.delivery_history import Acknowledged, Outcome, Publish, Session, Unknown
from tests.java_client.support.client import JavaClient, JavaSubscription
from tests.java_client.support.driver import SOURCE, DriverError, JavaClientDriver, JavaError, Received, Value
from tests.support.endings import end_all

__all__ = ["JavaLoad", "java_load"]

T = TypeVar("T")

_HEAP_MB: Final = 192
_ANSWER_S: Final = 6.0
_LISTEN_S: Final = 0.5
_STUCK_S: Final = 8.0
"""An application that receives nothing for this time, though there are messages, opens its subscription again."""
_RETRY_S: Final = 0.5
_PROPERTIES: Final[dict[str, Value]] = {
    "subscription_channel_sharing_enabled": True,
    "subscribe_reconnect_retry_wait_time": 300,
    "message_consume_retry_wait_time": 500,
    "server_ack_response_timeout": int(_ANSWER_S * 1000),
}


class JavaLoad:
    """Java publishers and subscribers of one run, which write into the history of `load`."""

    def __init__(self, driver: JavaClientDriver, load: Workload, hubs: Sequence[str], source: random.Random) -> None:
        self._driver = driver
        self._load = load
        self._hubs = hubs
        self._source = random.Random(source.randrange(1 << 60))
        self._threads = ThreadPoolExecutor(32, "java client")
        self._tasks: list[asyncio.Task[None]] = []
        self._enough = asyncio.Event()

    def publisher(self, topic: bytes, think_s: float) -> None:
        """Start a publisher to a topic, which sends one message after the other."""
        self._tasks.append(asyncio.create_task(self._publish(topic, think_s, self._source.randrange(len(self._hubs)))))

    def subscriber(self, topic: bytes, name: str) -> None:
        """Start a subscriber of a topic."""
        self._tasks.append(asyncio.create_task(self._follow(topic, name, self._source.randrange(len(self._hubs)))))

    def end_publishers(self) -> None:
        """End all publishers."""
        self._enough.set()

    async def close(self) -> None:
        """End all publishers and subscribers."""
        try:
            await end_all(self._tasks)
        finally:
            self._threads.shutdown(wait=True, cancel_futures=True)

    async def _call(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def _client(self, number: int) -> JavaClient:
        hub = self._hubs[number % len(self._hubs)]
        return await self._call(lambda: JavaClient(self._driver, hub, _PROPERTIES))

    async def _close(self, client: JavaClient) -> None:
        with contextlib.suppress(JavaError, TimeoutError, DriverError):
            await self._call(lambda: client.call("close", {}))

    async def _publish(self, topic: bytes, think_s: float, first: int) -> None:
        number, client = 0, await self._client(first)
        while not self._enough.is_set():
            body = b"%s java %d" % (topic, number)
            number += 1
            sent = time.monotonic()
            outcome: Outcome
            try:
                local = await self._call(partial(client.publish, topic, body, deadline_s=_ANSWER_S))
                assert local is not None, "an acknowledgement without an id"
            except (JavaError, TimeoutError):
                # The Java client's exceptions do not tell for certain whether a message was sent.
                outcome = Unknown()
            else:
                outcome = Acknowledged(local)
                self._load.acknowledged(topic, local, sent)
            self._load.outcomes[f"java {type(outcome).__name__}"] += 1
            self._load.history.publishes.append(Publish(topic, "java", body, sent, time.monotonic(), outcome))
            if isinstance(outcome, Unknown):
                first += 1
                await self._close(client)
                client = await self._client(first)
            await asyncio.sleep(self._source.uniform(0, 2 * think_s) if isinstance(outcome, Acknowledged) else _RETRY_S)

    async def _follow(self, topic: bytes, name: str, first: int) -> None:
        inbox = _Inbox(self._load, topic, name)
        self._load.seen(topic, name, 0)
        # The subscription may exist since the first attempt to make it.
        asked = time.monotonic()
        while True:
            client = await self._client(first)
            first += 1
            try:
                subscription = await self._call(partial(client.listen, topic, name.encode()))
                self._load.outcomes["java subscriptions"] += 1
                inbox.begin(asked)
                asked = time.monotonic()
                await self._receive(subscription, inbox)
                await self._close(client)
                # Messages that the application received before the end were consumed.
                while subscription.waiting:
                    inbox.take(*await self._call(partial(subscription.take, 1, _LISTEN_S)))
            except (JavaError, TimeoutError):
                self._load.outcomes["java subscriptions refused"] += 1
                await self._close(client)
            await asyncio.sleep(_RETRY_S)

    async def _receive(self, subscription: JavaSubscription, inbox: "_Inbox") -> None:
        """Take messages. Return once the subscription is stuck."""
        heard = time.monotonic()
        while True:
            try:
                inbox.take(*await self._call(partial(subscription.take, 1, _LISTEN_S)))
                heard = time.monotonic()
            except TimeoutError:
                if not self._load.is_behind(inbox.topic, inbox.name):
                    heard = time.monotonic()
                elif time.monotonic() - heard > _STUCK_S:
                    self._load.outcomes["java subscriptions stuck"] += 1
                    return


class _Inbox:
    """The messages of a Java subscriber. Its client reconnects by itself, which shows as ids that go back."""

    def __init__(self, load: Workload, topic: bytes, name: str) -> None:
        self.topic = topic
        self.name = name
        self._load = load
        self._session = Session(topic, name, 0.0, 0.0)

    def begin(self, asked: float) -> None:
        """Begin a session that was requested at that time."""
        self._session = Session(self.topic, self.name, asked, time.monotonic())
        self._load.history.sessions.append(self._session)

    def take(self, message: Received) -> None:
        """Record a message. The client consumes it as soon as the application has handled it."""
        now = time.monotonic()
        if self._session.deliveries and message.local <= self._session.deliveries[-1][0]:
            self.begin(now)
        self._session.deliveries.append((message.local, message.body))
        self._session.consumed.append((message.local, now))
        self._load.seen(self.topic, self.name, message.local)
        self._load.outcomes["java delivered"] += 1


@asynccontextmanager
async def java_load(
    directory: Path, load: Workload, hubs: Sequence[str], source: random.Random
) -> AsyncIterator[JavaLoad]:
    """Run Java clients in a process of their own until the end."""
    write_log4j(directory)
    jars = ClasspathCache(user_cache() / "classpath").classpath("hedwig43", print)
    command = [find_java(), *jvm_flags(_HEAP_MB), "-cp", f"{directory}{os.pathsep}{jars}", str(SOURCE)]
    driver = JavaClientDriver(command, directory / "java-client.log")
    await asyncio.to_thread(driver.__enter__)
    try:
        java = JavaLoad(driver, load, hubs, source)
        try:
            yield java
        finally:
            await java.close()
    finally:
        await asyncio.to_thread(driver.__exit__, None, None, None)
