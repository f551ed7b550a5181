"""Prove that a hub that ends in order leaves no publish in doubt: each is stored, or definitely refused."""

import asyncio
import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.errors import HedwigError
from hedwig.exit_codes import ExitCode
from hedwig.model import SubscriberId, Topic
from hedwig.status import StatusCode
from hedwig.wire import Message, Publish, Subscribe
from hedwig.wire import pubsub_pb2 as pb
from tests.faults.support.waiting import until
from tests.hub.neighbours.support.clients import before_hub
from tests.hub.support.running import RunningHub
from tests.hub.support.wire_client import WireClient
from tests.support.endings import end_all

PATIENT = """
import hedwig.hub.hub

hedwig.hub.hub._LAST_WORDS_S = 60.0
"""
"""The client of these tests may wait for a processor for longer than a hub waits for a client that stands still."""
_TOPICS = 40
_PUBLISHERS = 8
"""The publishers of each topic."""


async def test_every_publish_pipelined_into_an_orderly_stop_has_an_outcome(tmp_path: Path) -> None:
    hub = RunningHub(tmp_path, environment=before_hub(tmp_path, PATIENT))
    await asyncio.to_thread(hub.start)
    topics = [Topic(b"t%d" % number) for number in range(_TOPICS)]
    acknowledged: dict[Topic, set[bytes]] = {topic: set() for topic in topics}
    ends: Counter[str] = Counter()
    unclear: list[HedwigError] = []

    async def publish_to_the_end(client: HedwigClient, topic: Topic, number: int) -> None:
        count = 0
        while True:
            body = b"%d-%d" % (number, count)
            try:
                await client.publish(topic, body)
            except HedwigError as exc:
                ends[type(exc).__name__] += 1
                if exc.happened != "no":
                    unclear.append(exc)
                return
            acknowledged[topic].add(body)
            count += 1

    try:
        options = ClientOptions(hub=HubAddress.parse(hub.address), answer_timeout_s=10)
        async with HedwigClient(options) as client:
            for topic in topics:
                async with client.subscribe(topic, SubscriberId(b"reader")):
                    pass
            tasks = [
                asyncio.create_task(publish_to_the_end(client, topic, number))
                for topic in topics
                for number in range(_PUBLISHERS)
            ]
            try:
                await until(lambda: all(len(each) > _PUBLISHERS for each in acknowledged.values()), "publishes flow")
                assert hub.process is not None
                hub.process.send_signal(signal.SIGTERM)
                await asyncio.wait(tasks, timeout=60)
                assert all(task.done() for task in tasks)
            finally:
                await end_all(tasks)
        assert await asyncio.to_thread(hub.wait) == ExitCode.DONE
        assert not unclear, f"{ends}, such as {unclear[0]!r}"
        assert sum(ends.values()) == _TOPICS * _PUBLISHERS
        await asyncio.to_thread(hub.start)
        async with HedwigClient(ClientOptions(hub=HubAddress.parse(hub.address))) as client:
            for topic in topics:
                async with client.subscribe(topic, SubscriberId(b"reader")) as subscription:
                    stored = [(await anext(subscription)).body for _ in acknowledged[topic]]
                assert set(stored) == acknowledged[topic]
    finally:
        await asyncio.to_thread(hub.kill)


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Keep the hub from writing its metadata."""
    with closing(sqlite3.connect(file, timeout=30, isolation_level=None, check_same_thread=False)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield
        holder.execute("ROLLBACK")


async def test_publishes_that_wait_for_a_ledger_are_refused_when_the_time_for_the_stop_is_over(tmp_path: Path) -> None:
    hub = RunningHub(tmp_path, "shutdown_s=300 ms")
    await asyncio.to_thread(hub.start)
    try:
        async with await WireClient.connect(hub.port) as client:
            subscribe = Subscribe(subscriber=SubscriberId(b"reader"))
            assert (await client.request(b"news", subscribe)).status is StatusCode.SUCCESS
            with _locked(hub.data / "metadata.db"):
                sent = [client.send(b"news", Publish(Message(b"%d" % number))) for number in range(100)]
                # This request follows them on the channel, so its answer shows that the hub has read them.
                await client.answer(client.send_raw(topic=b"news", type=pb.START_DELIVERY))
                assert hub.process is not None
                hub.process.send_signal(signal.SIGTERM)
                answers = [await client.answer(txn_id) for txn_id in sent]
            assert {answer.status for answer in answers} == {StatusCode.SERVICE_DOWN}
        assert await asyncio.to_thread(hub.wait) == ExitCode.DONE
    finally:
        await asyncio.to_thread(hub.kill)
