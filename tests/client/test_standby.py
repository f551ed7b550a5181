"""Prove that a worker can stand by: it waits for a subscription, and gets it within a second when it is free."""

import asyncio
import signal
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from hedwig.client import BlockingClient, ClientOptions, HedwigClient, HubAddress, Opening, Subscription
from hedwig.errors import ClientNotSubscribedError, SubscriptionClosedError, TopicBusyError
from hedwig.model import SubscriberId, Topic
from tests.client.support.wire import Wire
from tests.faults.support.waiting import until
from tests.hub.support.running import RunningHub
from tests.support.endings import end_all
from tests.support.servers import RunningServers

ANN = SubscriberId(b"ann")
PATIENCE_S = 60.0
_WORKER = """
import asyncio, sys
from hedwig.client import ClientOptions, HedwigClient, HubAddress

async def main():
    options = ClientOptions(hub=HubAddress.parse(sys.argv[1]), silence_s=float(sys.argv[3]))
    async with HedwigClient(options) as client:
        async with client.subscribe(sys.argv[2], "ann", standby=True) as subscription:
            print("attached", flush=True)
            async for message in subscription:
                print(message.body.decode(), flush=True)

asyncio.run(main())
"""
"""A worker in a process of its own, which can be killed and stopped."""


async def take(subscription: Subscription) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        return (await anext(subscription)).body


def waits_at(opening: Opening, place: int) -> bool:
    return opening.place == place


@pytest.mark.parametrize("share", [False, True], ids=["a channel each", "shared channels"])
async def test_workers_wait_in_order_of_arrival(own_hub: HubAddress, topic: Topic, share: bool) -> None:
    options = ClientOptions(hub=own_hub, share_channels=share)
    clients = [HedwigClient(options) for _ in range(4)]
    try:
        openings = [client.subscribe(topic, ANN, standby=True) for client in clients]
        served = await openings[0]
        assert (openings[0].place, served.place) == (None, None)
        waiting = []
        for place, opening in enumerate(openings[1:], 1):
            waiting.append(asyncio.create_task(opening.open()))
            await until(partial(waits_at, opening, place), "it waits")
        for number, following in enumerate(waiting, 1):
            await clients[0].publish(topic, b"%d" % number)
            assert await take(served) == b"%d" % number
            began = time.monotonic()
            assert await served.close()
            served = await following
            assert time.monotonic() - began < PATIENCE_S
            for place, opening in enumerate(openings[number + 1 :], 1):
                await until(partial(waits_at, opening, place), "the others move up")
    finally:
        await asyncio.gather(*(client.close() for client in clients))


async def test_a_cancelled_wait_leaves_nothing_behind(own_hub: HubAddress, topic: Topic) -> None:
    options = ClientOptions(hub=own_hub, share_channels=True)
    async with HedwigClient(options) as one, HedwigClient(options) as other, HedwigClient(options) as third:
        served = await one.subscribe(topic, ANN)
        await other.subscribe(topic, b"so that the channel is used")
        opening = other.subscribe(topic, ANN, standby=True)
        waiting = asyncio.create_task(opening.open())
        await until(lambda: opening.place == 1, "it waits")
        last = third.subscribe(topic, ANN, standby=True)
        following = asyncio.create_task(last.open())
        await until(lambda: last.place == 2, "the third waits behind it")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until(lambda: last.place == 1, "the third is the next")
        await served.close()
        assert (await following).is_attached


async def test_an_error_ends_the_wait(own_hub: HubAddress, topic: Topic) -> None:
    options = ClientOptions(hub=own_hub)
    async with HedwigClient(options) as one, HedwigClient(options) as other, HedwigClient(options) as third:
        await one.subscribe(topic, ANN)
        with pytest.raises(TopicBusyError):
            await other.subscribe(topic, ANN)
        opening = other.subscribe(topic, ANN, standby=True)
        waiting = asyncio.create_task(opening.open())
        await until(lambda: opening.place == 1, "it waits")
        await third.unsubscribe(topic, ANN)
        with pytest.raises(ClientNotSubscribedError):
            await waiting


async def test_force_takes_over_and_tells_who_lost(own_hub: HubAddress, topic: Topic) -> None:
    options = ClientOptions(hub=own_hub)
    async with HedwigClient(options) as one, HedwigClient(options) as other, HedwigClient(options) as third:
        lost = await one.subscribe(topic, ANN, standby=True)
        opening = other.subscribe(topic, ANN, standby=True)
        waiting = asyncio.create_task(opening.open())
        await until(lambda: opening.place == 1, "it waits")
        taken = await third.subscribe(topic, ANN, force_attach=True)
        with pytest.raises(SubscriptionClosedError):
            await take(lost)
        assert opening.place == 1
        await taken.close()
        assert (await waiting).is_attached


async def test_a_worker_that_lost_its_connection_queues_anew(own_hub: HubAddress, topic: Topic) -> None:
    """Messages that waited in it for the application go to the one that takes over, and come once there."""
    async with Wire(own_hub) as wire:
        wire.asks_hub = True
        async with (
            HedwigClient(ClientOptions(hub=wire.address)) as one,
            HedwigClient(ClientOptions(hub=own_hub)) as two,
        ):
            first = await one.subscribe(topic, ANN, standby=True)
            opening = two.subscribe(topic, ANN, standby=True)
            waiting = asyncio.create_task(opening.open())
            await until(lambda: opening.place == 1, "it waits")
            for body in (b"1", b"2", b"3"):
                await two.publish(topic, body)
            assert await take(first) == b"1"
            await until(lambda: len(first._queue) == 2, "two messages wait for the application")
            wire.cut()
            second = await waiting
            assert [await take(second) for _ in range(3)] == [b"1", b"2", b"3"]
            await until(lambda: first.place == 1, "the first waits behind it")
            await second.close()
            await two.publish(topic, b"4")
            assert await take(first) == b"4"


async def test_workers_outlive_their_hub(tmp_path: Path, topic: Topic) -> None:
    with RunningHub(tmp_path) as hub:
        options = ClientOptions(hub=HubAddress.parse(hub.address))
        async with HedwigClient(options) as one, HedwigClient(options) as other:
            served = await one.subscribe(topic, ANN, standby=True)
            opening = other.subscribe(topic, ANN, standby=True)
            waiting = asyncio.create_task(opening.open())
            await until(lambda: opening.place == 1, "it waits")
            await asyncio.to_thread(hub.kill)
            await asyncio.to_thread(hub.start)
            await until(lambda: served.is_attached or waiting.done(), "one of them is attached")
            await until(lambda: opening.place == 1 or served.place == 1, "the other waits")
            if waiting.done():
                await (await waiting).close()
                await until(lambda: served.is_attached, "the first is attached again")
            else:
                await served.close()
                assert (await waiting).is_attached


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
async def test_the_next_takes_over_from_a_worker_that_is_killed_or_frozen(
    own_hub: HubAddress, topic: Topic, end: signal.Signals
) -> None:
    silence_s = 5.0  # A busy machine may keep the worker from saying anything for a while.
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _WORKER, str(own_hub), topic.decode(), str(silence_s), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert worker.stdout is not None
        assert await worker.stdout.readline() == b"attached\n"
        async with HedwigClient(ClientOptions(hub=own_hub)) as client:
            opening = client.subscribe(topic, ANN, standby=True)
            waiting = asyncio.create_task(opening.open())
            await until(lambda: opening.place == 1, "it waits")
            await asyncio.sleep(2 * silence_s)
            assert not waiting.done(), "a worker that is only idle keeps its subscription"
            worker.send_signal(end)
            began = time.monotonic()
            async with asyncio.timeout(PATIENCE_S):
                subscription = await waiting
            print(f"attached {time.monotonic() - began:.2f} s after {end.name}")
            await client.publish(topic, b"for the next")
            assert await take(subscription) == b"for the next"
            if end is signal.SIGSTOP:
                worker.send_signal(signal.SIGCONT)
                await client.publish(topic, b"still for the next")
                assert await take(subscription) == b"still for the next"
                await subscription.close()
                await client.publish(topic, b"back again")
                async with asyncio.timeout(PATIENCE_S):
                    assert await worker.stdout.readline() == b"back again\n"
    finally:
        with suppress(ProcessLookupError):
            worker.kill()
        await worker.wait()


async def test_a_hub_that_keeps_no_lines_is_asked_again(servers: RunningServers, topic: Topic) -> None:
    options = ClientOptions(hub=HubAddress.parse(servers.address("java-hedwig")), reconnect_pause_max_s=0.2)
    async with HedwigClient(options) as one, HedwigClient(options) as other:
        served = await one.subscribe(topic, ANN, standby=True)
        opening = other.subscribe(topic, ANN, standby=True)
        waiting = asyncio.create_task(opening.open())
        try:
            await asyncio.sleep(2.0)
            assert (opening.place, waiting.done()) == (None, False)
            await served.close()
            async with asyncio.timeout(PATIENCE_S):
                assert (await waiting).is_attached
        finally:
            await end_all([waiting])


def test_a_blocking_worker_stands_by(own_hub: HubAddress, topic: Topic) -> None:
    options = ClientOptions(hub=own_hub, answer_timeout_s=0.5, connect_timeout_s=0.5)
    with BlockingClient(options) as one, BlockingClient(options) as other:
        served = one.subscribe(topic, ANN)
        leaving = threading.Timer(9.0, served.close)  # After all deadlines of a request.
        leaving.start()
        try:
            with other.subscribe(topic, ANN, standby=True) as subscription:
                one.publish(topic, b"for the next")
                assert next(subscription).body == b"for the next"
        finally:
            leaving.join()
