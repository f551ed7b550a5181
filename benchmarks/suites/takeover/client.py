"""The client of the takeover storm. By hedwig.client it publishes to topics of all hubs, receives, and records times.

Like benchmarks.drivers.generator it reads and writes lines of JSON:

1. It reads the plan. It writes `filled` once the topics that the plan has it claim have an owner.
2. It writes `ready` once it has published to all topics in use, and attached their subscribers.
3. It reads when to begin. After the kill it reads which topics lost their hub, and when.
4. It writes `served` when all topics that are asked for are served again, or after the plan's time limit.
5. It reads that it may end, and when all topics had an owner again, and writes its `summary`.
"""

import asyncio
import gc
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from hedwig.benchmarks.load.json_lines import converse, hear_later, say
from hedwig.benchmarks.load.workloads import topic_name
from hedwig.benchmarks.suites.takeover.record import TakeoverRecord, TimedPublish
from hedwig.client import ClientOptions, CreateOrAttach, HedwigClient, HubAddress, Subscription
from hedwig.errors import ClientNotSubscribedError, HedwigError
from hedwig.model import SubscriberId, Topic

__all__ = ["main"]

_FILLING: Final = 200
_ASKING: Final = 500
_ATTACHING: Final = 50
_ASKER_REDIRECTS: Final = 2
"""Enough to find a live owner. While hubs redirect to the dead hub, more redirects would only add load."""
_FIRST_PAUSE_S: Final = 0.05
_PAUSE_MAX_S: Final = 1.0
_NOBODY: Final = SubscriberId(b"nobody")
_SUBSCRIBER: Final = SubscriberId(b"takeover")
_MARK_BYTES: Final = 8
_SECOND_NS: Final = 1_000_000_000


def main() -> None:
    """Read a plan from standard input, and run it."""
    converse(lambda plan: _TakeoverClient(plan).run())


class _TakeoverClient:
    """A publisher for each topic in use, each at its own pace, over clients of each hub that stays alive."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self._plan = plan
        self._claimed: int = plan["claimed"]
        self._used: list[int] = plan["used"]
        self._attached: list[int] = plan["attached"]
        self._record = TakeoverRecord()
        self._pending: set[int] = set()
        self._all_served = asyncio.Event()
        self._lost_ns = 0
        self._over = asyncio.Event()
        self._publishers: list[HedwigClient] = []
        self._receivers: list[HedwigClient] = []
        self._askers: list[HedwigClient] = []

    async def run(self) -> None:
        """Run the plan."""
        for address in self._plan["hubs"]:
            host, _, port = address.rpartition(":")
            options = ClientOptions(hub=HubAddress(host, int(port)), share_channels=True)
            self._publishers.append(HedwigClient(options))
            self._receivers.append(HedwigClient(options))
            self._askers.append(HedwigClient(replace(options, redirects_max=_ASKER_REDIRECTS)))
        try:
            await self._fill()
            say({"filled": True})
            receiving = await self._attach()
            await _each(self._used, _ATTACHING, self._publish_until_served)
            gc.collect()
            gc.freeze()
            say({"ready": True})
            start_ns = (await hear_later())["start_ns"]
            publishing = [
                asyncio.create_task(self._publish_in_turn(position, topic, start_ns))
                for position, topic in enumerate(self._used)
            ]
            await self._follow_the_loss()
            owned_ns = (await hear_later())["owned_ns"]
            self._over.set()
            done, late = await asyncio.wait(publishing, timeout=self._plan["drain_s"])
            for task in (*late, *receiving):
                task.cancel()
            await asyncio.gather(*late, *receiving, return_exceptions=True)
            for task in done:
                task.result()
            say({"summary": self._record.summary(start_ns, self._lost_ns, unfinished=len(late), owned_ns=owned_ns)})
        finally:
            for client in (*self._publishers, *self._receivers, *self._askers):
                await client.close()

    def _client_of(self, clients: list[HedwigClient], topic: int) -> HedwigClient:
        return clients[topic % len(clients)]

    def _name(self, topic: int) -> Topic:
        return Topic(topic_name(self._plan["prefix"], topic))

    # -------------------------------------------------------------------------------------------------- before

    async def _fill(self) -> None:
        """Have as many topics claimed as the plan says, by a request that changes nothing and makes no ledger."""
        await _each(range(self._claimed), _FILLING, self._ask_until_served)

    async def _ask_until_served(self, topic: int) -> None:
        await self._until_served(topic, self._ask(topic))

    async def _ask(self, topic: int) -> None:
        try:
            await self._client_of(self._askers, topic).unsubscribe(self._name(topic), _NOBODY)
        except ClientNotSubscribedError:
            return  # This is the expected answer, and it comes from the topic's owner.

    async def _attach(self) -> list[asyncio.Task[None]]:
        receiving: list[asyncio.Task[None]] = []

        async def attach(topic: int) -> None:
            subscription = await self._client_of(self._receivers, topic).subscribe(
                self._name(topic), _SUBSCRIBER, mode=CreateOrAttach.CREATE_OR_ATTACH
            )
            receiving.append(asyncio.create_task(self._receive(topic, subscription)))

        await _each(self._attached, _ATTACHING, attach)
        return receiving

    async def _receive(self, topic: int, subscription: Subscription) -> None:
        async for message in subscription:
            begun_ns = int.from_bytes(message.body[:_MARK_BYTES], "big")
            self._record.received(topic, begun_ns, time.monotonic_ns())

    # -------------------------------------------------------------------------------------------------- the load

    async def _publish_in_turn(self, position: int, topic: int, start_ns: int) -> None:
        """Publish to one topic at its pace, one message after the other. Repeat each until a hub acknowledges it."""
        count = len(self._used)
        period_ns = _SECOND_NS * count / self._plan["rate_per_s"]
        number = 0
        while not self._over.is_set():
            intended_ns = start_ns + round((number + position / count) * period_ns)
            if not await self._wait_until(intended_ns):
                return
            number += 1
            begun_ns = time.monotonic_ns()
            answered_from_ns = await self._publish_until_served(topic)
            finished_ns = time.monotonic_ns()
            self._record.published(TimedPublish(topic, intended_ns, begun_ns, finished_ns))
            self._note_served(topic, answered_from_ns, finished_ns)

    async def _wait_until(self, at_ns: int) -> bool:
        """Wait until `at_ns`; return whether that came before the end of the load."""
        ahead_s = (at_ns - time.monotonic_ns()) / _SECOND_NS
        if ahead_s > 0:
            try:
                async with asyncio.timeout(ahead_s):
                    await self._over.wait()
            except TimeoutError:
                return True
        return not self._over.is_set()

    async def _publish_until_served(self, topic: int) -> int:
        """Publish until a hub acknowledges it; return when the acknowledged attempt began."""
        pause_s = _FIRST_PAUSE_S
        while True:
            begun_ns = time.monotonic_ns()
            body = begun_ns.to_bytes(_MARK_BYTES, "big").ljust(self._plan["message_bytes"], b"\0")
            try:
                await self._client_of(self._publishers, topic).publish(self._name(topic), body)
            except HedwigError as exc:
                self._record.failed(topic, time.monotonic_ns(), exc.status.name, str(exc))
            else:
                return begun_ns
            await asyncio.sleep(pause_s)
            pause_s = min(_PAUSE_MAX_S, 2 * pause_s)

    async def _until_served(self, topic: int, first: Any) -> int:
        pause_s = _FIRST_PAUSE_S
        attempt = first
        while True:
            begun_ns = time.monotonic_ns()
            try:
                await attempt
            except HedwigError as exc:
                self._record.failed(topic, time.monotonic_ns(), exc.status.name, str(exc))
            else:
                return begun_ns
            await asyncio.sleep(pause_s)
            pause_s = min(_PAUSE_MAX_S, 2 * pause_s)
            attempt = self._ask(topic)

    # -------------------------------------------------------------------------------------------------- the loss

    async def _follow_the_loss(self) -> None:
        """Read which topics lost their hub, ask for those without a publisher, and report when all are served."""
        lost = await hear_later()
        self._lost_ns = lost["lost_ns"]
        self._record.lost(lost["used"])
        self._pending = {*lost["used"], *lost["asked"]}
        if not self._pending:
            self._all_served.set()
        room = asyncio.Semaphore(_ASKING)

        async def ask(topic: int) -> None:
            # The pause between two attempts is outside the semaphore, so that other topics can use its slot.
            pause_s = _FIRST_PAUSE_S
            while True:
                async with room:
                    begun_ns = time.monotonic_ns()
                    try:
                        await self._ask(topic)
                    except HedwigError as exc:
                        self._record.failed(topic, time.monotonic_ns(), exc.status.name, str(exc))
                    else:
                        self._note_served(topic, begun_ns, time.monotonic_ns())
                        return
                await asyncio.sleep(pause_s)
                pause_s = min(_PAUSE_MAX_S, 2 * pause_s)

        asking = [asyncio.create_task(ask(topic)) for topic in lost["asked"]]
        try:
            async with asyncio.timeout(self._plan["served_max_s"]):
                await self._all_served.wait()
        except TimeoutError:
            for task in asking:
                task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        say({"served": len(self._pending)})

    def _note_served(self, topic: int, begun_ns: int, finished_ns: int) -> None:
        """Record a topic's first success whose attempt began after the kill, so that another hub served it."""
        if topic in self._pending and begun_ns >= self._lost_ns:
            self._pending.discard(topic)
            self._record.served(topic, finished_ns)
            if not self._pending:
                self._all_served.set()


async def _each(topics: Iterable[int], at_once: int, work: Any) -> None:
    """Await `work` for each topic, for at most `at_once` topics at a time."""
    left = iter(topics)

    async def worker() -> None:
        for topic in left:
            await work(topic)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(worker())


if __name__ == "__main__":
    main()
