"""Prove what a look-up of an owner costs the metadata store, how fast a hub claims, and which owner it chooses."""

import asyncio
import time
from collections import Counter
from typing import Final

from hedwig.clock import SystemClock
from hedwig.concurrency.rate_limiter import RateLimiter
from hedwig.hub.topics.known_owners import KnownOwners
from hedwig.hub.topics.ownership import Ownership
from hedwig.model import HubInfo, Topic
from hedwig.status import StatusCode
from tests.faults.support.proxy import Proxy
from tests.faults.support.waiting import until
from tests.hub.cluster.support.both import on_both, on_hbase, on_zookeeper_first
from tests.hub.cluster.support.deployment import Deployment, liveness_of
from tests.hub.cluster.test_one_owner import is_owner

_IDLE: Final = frozenset({"ping", "connect"})
"""The requests that a session sends by itself."""


def seen(proxy: Proxy) -> Counter[str]:
    """Return the requests to the store so far, by name."""
    return Counter({name: number for name, number in proxy.seen.items() if name not in _IDLE})


@on_both
async def test_concurrent_look_ups_of_a_topic_cost_as_much_as_one(deployment: Deployment) -> None:
    proxy, subject = await deployment.behind_proxy()
    hub = await deployment.start(subject=subject)
    await deployment.begin_log(hub)
    clients = [await deployment.connect(hub) for _ in range(5)]
    assert is_owner(await deployment.ask(clients[0], b"warm"))
    costs = []
    for topic, times in ((b"one", 1), (b"two", 40)):
        before = seen(proxy)
        answers = await asyncio.gather(
            *(deployment.ask(client, topic) for client in clients[: min(5, times)] for _ in range(times))
        )
        assert all(is_owner(answer) for answer in answers)
        costs.append(seen(proxy) - before)
    assert costs[0] == costs[1]
    assert costs[0].total() > 0


@on_both
async def test_owner_that_was_looked_up_is_named_again_without_asking_the_store(deployment: Deployment) -> None:
    proxy, subject = await deployment.behind_proxy()
    asked = await deployment.start(subject=subject)
    await deployment.begin_log(asked)
    owner = await deployment.start()
    await until(lambda: len(liveness_of(asked).live) == 2, "it knows the owner")
    client, to_owner = await deployment.connect(asked), await deployment.connect(owner)
    assert is_owner(await deployment.ask(to_owner, b"t"))

    async def cost(*, should_claim: bool) -> int:
        before = seen(proxy)
        answer = await deployment.ask(client, b"t", should_claim=should_claim)
        assert answer.text == owner.me.address
        return (seen(proxy) - before).total()

    assert await cost(should_claim=False) > 0
    assert [await cost(should_claim=False) for _ in range(5)] == [0] * 5
    # The owner itself may have redirected this client here.
    assert await cost(should_claim=True) > 0
    topic = owner.topics.get(Topic(b"t"))
    assert topic is not None
    await owner.topics.release(topic)
    assert is_owner(await deployment.ask(client, b"t"))


async def test_owner_that_has_died_is_not_named_again(deployment: Deployment) -> None:
    proxy, subject = await deployment.behind_proxy()
    asked = await deployment.start(subject=subject, cluster={"owners_kept_s": 3600.0})
    await deployment.begin_log(asked)
    owner = deployment.apart()
    await asyncio.to_thread(owner.start)
    client, to_owner = await deployment.connect(asked), await deployment.connect(owner)
    assert is_owner(await deployment.ask(to_owner, b"t"))
    await until(lambda: len(liveness_of(asked).live) == 2, "it knows the owner")
    assert not is_owner(await deployment.ask(client, b"t", should_claim=False))
    before = seen(proxy)
    assert not is_owner(await deployment.ask(client, b"t", should_claim=False))
    assert seen(proxy) == before, "it is named again"
    owner.kill()
    await until(lambda: len(liveness_of(asked).live) == 1, "it has heard of the end of the owner")
    assert is_owner(await deployment.ask(client, b"t", should_claim=False))
    assert (seen(proxy) - before).total() > 0


@on_hbase
async def test_claims_after_the_end_of_a_hub_make_no_write_that_is_refused(deployment: Deployment) -> None:
    proxy, subject = await deployment.behind_proxy()
    asked = await deployment.start(subject=subject, cluster={"takeover_rate": 0})
    await deployment.begin_log(asked)
    dead = deployment.apart()
    await asyncio.to_thread(dead.start)
    client, to_dead = await deployment.connect(asked), await deployment.connect(dead)
    topics = [b"t%d" % number for number in range(4)]
    for topic in topics:
        assert is_owner(await deployment.ask(to_dead, topic))
    await until(lambda: len(liveness_of(asked).live) == 2, "it knows the owner")
    dead.kill()
    await until(lambda: len(liveness_of(asked).live) == 1, "it has heard of the end of the owner")
    write, writes = deployment.networked.write, []
    for topic in (*topics, b"new", b"newer"):
        before = proxy.seen[write]
        assert is_owner(await deployment.ask(client, topic))
        writes.append(proxy.seen[write] - before)
    # Each is one claim, and a new topic one record more. The first write and that of a dead log's end say nothing.
    assert writes[1:] == [1, 1, 1, 2, 2]


@on_zookeeper_first
async def test_clients_that_come_back_from_a_dead_owner_cost_the_store_one_look_a_second(
    deployment: Deployment,
) -> None:
    """The hub redirects each client to the dead owner. The client finds no hub there, and returns as redirected."""
    proxy, subject = await deployment.behind_proxy()
    asked = await deployment.start(subject=subject)
    await deployment.begin_log(asked)
    owner = deployment.apart()
    await asyncio.to_thread(owner.start)
    client, to_owner = await deployment.connect(asked), await deployment.connect(owner)
    assert is_owner(await deployment.ask(to_owner, b"t"))
    await until(lambda: len(liveness_of(asked).live) == 2, "it knows the owner")
    before = seen(proxy)
    assert not is_owner(await deployment.ask(client, b"t"))
    a_look = (seen(proxy) - before).total()
    assert a_look > 0
    owner.kill()
    began_at, before, came_back = time.monotonic(), seen(proxy), 0
    while len(liveness_of(asked).live) == 2:
        # The hub may learn of the owner's end between any two of these requests.
        if is_owner(await deployment.ask(client, b"t", should_claim=False)) or is_owner(
            await deployment.ask(client, b"t", tried=[asked.me])
        ):
            break
        came_back += 1
    looks = (seen(proxy) - before).total() / a_look
    # One further look-up ends the outage. It costs more: the hub replaces the dead owner, and opens its ledgers.
    allowed = time.monotonic() - began_at + 1 + 10
    assert came_back > 3 * allowed, "there is nothing to see"
    assert looks <= allowed, f"{looks} for {came_back} clients"
    # The next request finds the new owner at once.
    assert is_owner(await deployment.ask(client, b"t", tried=[asked.me]))


async def test_client_that_another_hub_sent_here_is_never_sent_back_from_memory(deployment: Deployment) -> None:
    """Whatever this hub has just read, the redirecting hub may have released the topic since, or chosen this hub."""
    asked, owner, third = [await deployment.start() for _ in range(3)]
    await until(lambda: len(liveness_of(asked).live) == 3, "it knows the others")
    client, to_owner = await deployment.connect(asked), await deployment.connect(owner)
    senders: tuple[list[HubInfo], ...] = ([owner.me], [third.me], [asked.me, owner.me], [asked.me, third.me], [])
    for number, tried in enumerate(senders):
        topic = b"topic-%d" % number
        assert is_owner(await deployment.ask(to_owner, topic))
        assert not is_owner(await deployment.ask(client, topic, should_claim=False))
        assert not is_owner(await deployment.ask(client, topic))
        owned = owner.topics.get(Topic(topic))
        assert owned is not None
        await owner.topics.release(owned)
        assert (await deployment.ask(client, topic, should_claim=False)).text == owner.me.address, (
            "that is what it remembers"
        )
        assert is_owner(await deployment.ask(client, topic, tried=tried))


async def test_client_that_comes_back_is_told_within_a_second_that_its_owner_released_the_topic(
    deployment: Deployment,
) -> None:
    clock = _StandingClock()
    known = KnownOwners(10, 3600.0, clock, lambda _: True)
    topic, owner = Topic(b"t"), HubInfo(host="127.0.0.1", port=1, ssl_port=None, epoch=1)
    liveness = liveness_of(await deployment.start()).registration
    ownership = Ownership(deployment.store.ownership, liveness, known)
    me = f"{liveness.hub.host}:{liveness.hub.port}".encode()
    known.note(topic, owner)
    clock.now_s += 0.9
    assert ownership.known_owner(topic, should_claim=True, tried=[b"10.0.0.1:4080", me]) == owner
    assert ownership.known_owner(topic, should_claim=True, tried=[me, b"10.0.0.1:4080"]) is None
    assert ownership.known_owner(topic, should_claim=True, tried=[]) is None
    # The owner itself redirected the client. Its redirect counts under each of its names.
    assert ownership.known_owner(topic, should_claim=True, tried=[b"127.0.0.1:1", me]) is None
    clock.now_s += 0.2
    assert ownership.known_owner(topic, should_claim=True, tried=[me]) is None
    assert ownership.known_owner(topic, should_claim=False) == owner


class _StandingClock(SystemClock):
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


def test_pace_gives_so_many_turns_a_second_and_no_more_for_having_waited() -> None:
    clock = _StandingClock()
    pace = RateLimiter(50, clock)
    turns = 0
    for _ in range(10_000):
        while pace.wait_s() == 0:
            turns += 1
        clock.now_s += 0.001
    assert 495 <= turns <= 510
    clock.now_s += 3600
    at_once = 0
    while pace.wait_s() == 0:
        at_once += 1
    assert at_once <= 6
    clock.now_s += pace.wait_s() + 1e-6
    assert pace.wait_s() == 0
    assert RateLimiter(0, clock).wait_s() == 0


async def test_hub_claims_no_faster_than_its_rate(deployment: Deployment) -> None:
    hub = await deployment.start(cluster={"claims_rate": 50})
    client = await deployment.connect(hub)
    began_at = time.monotonic()
    answers = await asyncio.gather(*(deployment.ask(client, b"topic-%d" % number) for number in range(60)))
    assert all(answer.status is StatusCode.SUCCESS for answer in answers)
    assert time.monotonic() - began_at >= (60 - 6) / 50


async def _choices(deployment: Deployment, placement: str, loads: tuple[int, ...]) -> Counter[str]:
    """Return how often, of 200 times, a hub without topics chose itself ("me") and others with these loads."""
    asked = await deployment.start(cluster={"placement": placement})
    others = [await deployment.start() for _ in loads]
    for other, load in zip(others, loads, strict=True):
        client = await deployment.connect(other)
        await asyncio.gather(*(deployment.ask(client, b"%d of %d" % (number, other.port)) for number in range(load)))
    names = {asked.me.address: "me"} | {other.me.address: str(load) for other, load in zip(others, loads, strict=True)}

    def knows() -> bool:
        return {names[hub.info.address]: hub.load for hub in liveness_of(asked).live if hub.info != asked.me} == {
            str(load): load for load in loads
        }

    await until(knows, "it knows the loads of the others")
    client = await deployment.connect(asked)
    choices: Counter[str] = Counter()
    for number in range(200):
        answer = await deployment.ask(client, b"new-%d" % number, should_claim=False)
        choices["me" if is_owner(answer) else names[answer.text or ""]] += 1
        if is_owner(answer):
            topic = asked.topics.get(Topic(b"new-%d" % number))
            assert topic is not None
            await asked.topics.release(topic)
    return choices


async def test_topic_without_owner_goes_to_a_hub_with_few_topics(deployment: Deployment) -> None:
    choices = await _choices(deployment, "load", (0, 90))
    assert 1.3 * choices["90"] < min(choices["me"], choices["0"]), choices


async def test_topic_without_owner_goes_anywhere_if_placement_is_uniform(deployment: Deployment) -> None:
    choices = await _choices(deployment, "uniform", (0, 90))
    assert min(choices["me"], choices["0"], choices["90"]) > 30, choices
