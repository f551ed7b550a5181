"""Prove what looking an owner up costs the metadata store, how fast a hub claims, and whom it chooses."""

import asyncio
import time
from collections import Counter
from typing import Final

from hedwig.clock import SystemClock
from hedwig.model import Topic
from hedwig.status import StatusCode
from hub.pace import Pace
from tests.faults.proxy import Proxy
from tests.faults.waiting import until
from tests.hub.cluster.both import on_both
from tests.hub.cluster.deployment import Deployment, ask, liveness_of
from tests.hub.cluster.test_one_owner import is_owner

_IDLE: Final = frozenset({"ping", "connect"})
"""What a session says by itself."""


def seen(proxy: Proxy) -> Counter[str]:
    """Return the requests to the store so far, by name."""
    return Counter({name: number for name, number in proxy.seen.items() if name not in _IDLE})


@on_both
async def test_concurrent_look_ups_of_a_topic_cost_as_much_as_one(deployment: Deployment) -> None:
    proxy, place = await deployment.behind_proxy()
    hub = await deployment.start(place=place)
    clients = [await deployment.connect(hub) for _ in range(5)]
    assert is_owner(await ask(clients[0], b"warm"))
    costs = []
    for topic, times in ((b"one", 1), (b"two", 40)):
        before = seen(proxy)
        answers = await asyncio.gather(
            *(ask(client, topic) for client in clients[: min(5, times)] for _ in range(times))
        )
        assert all(is_owner(answer) for answer in answers)
        costs.append(seen(proxy) - before)
    assert costs[0] == costs[1]
    assert costs[0].total() > 0


@on_both
async def test_owner_that_was_looked_up_is_named_again_without_asking_the_store(deployment: Deployment) -> None:
    proxy, place = await deployment.behind_proxy()
    asked = await deployment.start(place=place)
    owner = await deployment.start()
    await until(lambda: len(liveness_of(asked).live) == 2, "it knows the owner")
    client, to_owner = await deployment.connect(asked), await deployment.connect(owner)
    assert is_owner(await ask(to_owner, b"t"))

    async def cost(*, should_claim: bool) -> int:
        before = seen(proxy)
        answer = await ask(client, b"t", should_claim=should_claim)
        assert answer.text == owner.me.address
        return (seen(proxy) - before).total()

    assert await cost(should_claim=False) > 0
    assert [await cost(should_claim=False) for _ in range(5)] == [0] * 5
    # The owner itself may have sent this client here.
    assert await cost(should_claim=True) > 0
    topic = owner.topics.get(Topic(b"t"))
    assert topic is not None
    await owner.topics.release(topic)
    assert is_owner(await ask(client, b"t"))


async def test_owner_that_has_died_is_not_named_again(deployment: Deployment) -> None:
    proxy, place = await deployment.behind_proxy()
    asked = await deployment.start(place=place, cluster={"owners_kept_s": 3600.0})
    owner = deployment.apart()
    await asyncio.to_thread(owner.start)
    client, to_owner = await deployment.connect(asked), await deployment.connect(owner)
    assert is_owner(await ask(to_owner, b"t"))
    await until(lambda: len(liveness_of(asked).live) == 2, "it knows the owner")
    assert not is_owner(await ask(client, b"t", should_claim=False))
    before = seen(proxy)
    assert not is_owner(await ask(client, b"t", should_claim=False))
    assert seen(proxy) == before, "it is named again"
    owner.kill()
    await until(lambda: len(liveness_of(asked).live) == 1, "it has heard of the end of the owner")
    assert is_owner(await ask(client, b"t", should_claim=False))
    assert (seen(proxy) - before).total() > 0


class _StandingClock(SystemClock):
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


def test_pace_gives_so_many_turns_a_second_and_no_more_for_having_waited() -> None:
    clock = _StandingClock()
    pace = Pace(50, clock)
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
    assert Pace(0, clock).wait_s() == 0


async def test_hub_claims_no_faster_than_its_rate(deployment: Deployment) -> None:
    hub = await deployment.start(cluster={"claims_rate": 50})
    client = await deployment.connect(hub)
    began_at = time.monotonic()
    answers = await asyncio.gather(*(ask(client, b"topic-%d" % number) for number in range(60)))
    assert all(answer.status is StatusCode.SUCCESS for answer in answers)
    assert time.monotonic() - began_at >= (60 - 6) / 50


async def _choices(deployment: Deployment, placement: str, loads: tuple[int, ...]) -> Counter[str]:
    """Return how often a hub without topics chose itself ("me") and others with these loads, of 200 times."""
    asked = await deployment.start(cluster={"placement": placement})
    others = [await deployment.start() for _ in loads]
    for other, load in zip(others, loads, strict=True):
        client = await deployment.connect(other)
        await asyncio.gather(*(ask(client, b"%d of %d" % (number, other.port)) for number in range(load)))
    names = {asked.me.address: "me"} | {other.me.address: str(load) for other, load in zip(others, loads, strict=True)}

    def knows() -> bool:
        return {names[hub.info.address]: hub.load for hub in liveness_of(asked).live if hub.info != asked.me} == {
            str(load): load for load in loads
        }

    await until(knows, "it knows the loads of the others")
    client = await deployment.connect(asked)
    found: Counter[str] = Counter()
    for number in range(200):
        answer = await ask(client, b"new-%d" % number, should_claim=False)
        found["me" if is_owner(answer) else names[answer.text or ""]] += 1
        if is_owner(answer):
            topic = asked.topics.get(Topic(b"new-%d" % number))
            assert topic is not None
            await asked.topics.release(topic)
    return found


async def test_topic_without_owner_goes_to_a_hub_with_few_topics(deployment: Deployment) -> None:
    found = await _choices(deployment, "load", (0, 90))
    assert found["90"] < 40, found
    assert min(found["me"], found["0"]) > 40, found


async def test_topic_without_owner_goes_anywhere_if_placement_is_uniform(deployment: Deployment) -> None:
    found = await _choices(deployment, "uniform", (0, 90))
    assert min(found["me"], found["0"], found["90"]) > 30, found
