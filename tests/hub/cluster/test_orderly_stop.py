"""Prove that subscribers of a hub that is stopped in order find their topics with another hub at the first try.

The original's client waits ten seconds (`subscribe_reconnect_retry_wait_time`) after a failed first try. Here the wait
is longer than any test. An earlier release closed channels before it released the topics, and the listener before both.
Then 12 to 31 of 100 Java subscribers failed when they asked the other hub first. All 100 failed when they asked the
stopped hub first.
"""

import asyncio
import time
from collections.abc import Iterator
from typing import Final

import pytest

from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.hub.hub import Hub
from hedwig.model import SubscriberId, Topic
from tests.faults.support.proxy import PASS, Action, Exchange, Step
from tests.faults.support.waiting import until
from tests.hub.cluster.support.deployment import Deployment, liveness_of
from tests.hub.cluster.test_one_owner import is_owner
from tests.hub.support.running import RunningHub
from tests.java_client.support.client import JavaClient
from tests.java_client.support.driver import JavaClientDriver, java_client_driver

ANN: Final = SubscriberId(b"ann")
TOPICS: Final = [Topic(b"topic-%d" % number) for number in range(100)]
_NEVER_S: Final = 3600


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClientDriver]:
    with java_client_driver(tmp_path_factory.mktemp("java-client-of-a-stop")) as started:
        yield started


@pytest.fixture(params=["the other", "the one that is stopped"])
def asks_other_first(request: pytest.FixtureRequest) -> bool:
    """Return whether a client without a known owner asks the other hub first."""
    return bool(request.param == "the other")


async def _two_hubs(deployment: Deployment) -> tuple[Hub, RunningHub]:
    """Return a hub that stays, and one that owns all topics and is stopped later."""
    stays, stopped = await deployment.start(), deployment.apart()
    await asyncio.to_thread(stopped.start)
    await until(lambda: len(liveness_of(stays).live) == 2, "the hubs know each other")
    to_stopped = await deployment.connect(stopped)
    for topic in TOPICS:
        assert await to_stopped.publish(topic, b"first") == 1
    return stays, stopped


async def _all_come(stays: Hub) -> None:
    def attached() -> int:
        return sum(topic.has_attached for topic in stays.topics)

    try:
        await until(lambda: attached() == len(TOPICS), "all subscribers come at their first try")
    except AssertionError:
        pytest.fail(f"{len(TOPICS) - attached()} of {len(TOPICS)} subscribers did not come at their first try")


@pytest.mark.parametrize(
    "shared", [pytest.param(False, id="simple", marks=pytest.mark.full), pytest.param(True, id="multiplexed")]
)
async def test_java_subscribers(
    deployment: Deployment, driver: JavaClientDriver, shared: bool, asks_other_first: bool
) -> None:
    stays, stopped = await _two_hubs(deployment)
    first = f"127.0.0.1:{stays.port}" if asks_other_first else stopped.address
    properties = {
        "subscription_channel_sharing_enabled": shared,
        "subscribe_reconnect_retry_wait_time": _NEVER_S * 1000,
    }
    with JavaClient(driver, first, properties) as client:
        for topic in TOPICS:
            await asyncio.to_thread(client.listen, topic, ANN)
        await asyncio.to_thread(stopped.stop)
        await _all_come(stays)


@pytest.mark.parametrize(
    "shared",
    [pytest.param(False, id="a channel each"), pytest.param(True, id="shared channels", marks=pytest.mark.full)],
)
async def test_subscribers_with_our_client(deployment: Deployment, shared: bool, asks_other_first: bool) -> None:
    stays, stopped = await _two_hubs(deployment)
    first = f"127.0.0.1:{stays.port}" if asks_other_first else stopped.address
    options = ClientOptions(
        hub=HubAddress.parse(first),
        share_channels=shared,
        reconnect_pause_s=_NEVER_S,
        reconnect_pause_max_s=_NEVER_S,
    )
    async with HedwigClient(options) as client:
        subscriptions = [await client.subscribe(topic, ANN) for topic in TOPICS]
        await asyncio.to_thread(stopped.stop)
        await _all_come(stays)
        async with HedwigClient(ClientOptions(hub=HubAddress.parse(f"127.0.0.1:{stays.port}"))) as other:
            for topic, subscription in zip(TOPICS, subscriptions, strict=True):
                assert (await other.publish(topic, b"second")).local == 2
                assert (await anext(subscription)).body == b"second"


async def test_hub_sends_on_who_comes_while_it_releases(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A subscriber keeps its channel until its topic is released. This hub serves no client after that."""
    stopped, stays = await deployment.start(), await deployment.start()
    await until(lambda: all(len(liveness_of(hub).live) == 2 for hub in (stopped, stays)), "the hubs know each other")
    client = await deployment.connect(stopped)
    await client.subscribed(TOPICS[0], ANN)
    assert await client.publish(TOPICS[0], b"first") == 1
    close, is_releasing, may_go_on = stopped.ledgers.close, asyncio.Event(), asyncio.Event()

    async def close_late(ledger_id: int) -> int:
        is_releasing.set()
        await may_go_on.wait()
        return await close(ledger_id)

    # A proxy that holds a request to the metadata would hold the reads behind it too. So hold the close of a ledger.
    monkeypatch.setattr(stopped.ledgers, "close", close_late)
    closing = asyncio.create_task(stopped.close())
    try:
        await until(is_releasing.is_set, "the topic is being released")
        coming = await deployment.connect(stopped)
        answer = await deployment.ask(coming, TOPICS[1])
        assert answer.text == stays.me.address, "a topic of nobody is another hub's"
        waiting = asyncio.create_task(deployment.ask(coming, TOPICS[0]))
        await client.barrier()
        assert not client.is_closed
        assert not waiting.done()
    finally:
        may_go_on.set()
    assert (await waiting).text == stays.me.address
    await client.closed_by_hub()
    assert is_owner(await deployment.ask(await deployment.connect(stays), TOPICS[0]))
    await closing


async def test_stop_ends_in_time_while_the_metadata_are_away(deployment: Deployment) -> None:
    armed = False

    def plan(_: Exchange) -> Step:
        return Step(Action.HOLD_REQUEST) if armed else PASS

    proxy, subject = await deployment.behind_proxy(plan)
    stopped, stays = await deployment.start(subject=subject, shutdown_s=1.0), await deployment.start()
    await until(lambda: all(len(liveness_of(hub).live) == 2 for hub in (stopped, stays)), "the hubs know each other")
    client = await deployment.connect(stopped)
    for topic in TOPICS[:10]:
        await client.subscribed(topic, ANN)
        assert await client.publish(topic, b"first") == 1
    armed = True
    began_at = time.monotonic()
    try:
        await stopped.close()
        # The limit covers the hub's own deadline, its last answers to clients, and the close of the metadata store.
        assert time.monotonic() - began_at < stopped.options.operation_timeout_s - 10
        await client.closed_by_hub()
    finally:
        armed = False
        proxy.release()
