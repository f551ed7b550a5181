"""Prove that each hub counts the topics of the other when it places topics, and that the topics settle."""

import itertools
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import pytest

from hedwig.errors import ServiceError
from hedwig.model import Topic
from hedwig.wire import pubsub_pb2 as pb
from tests.java_hedwig.support.hub_client import HubClient, RefusedByHubError
from tests.java_hedwig.support.stack import eventually
from tests.java_hedwig.together.support.deployment import Deployment
from tests.java_hedwig.together.support.members import Member, connect_ours

__all__: list[str] = []

MANY: Final = 30
OUR_INTERVAL_S: Final = 6
"""Longer than the age of the loads that our hub sees, which is up to five seconds."""
THEIR_INTERVAL_S: Final = 3
QUIET_S: Final = 2 * OUR_INTERVAL_S + 1
PATIENCE_S: Final = 90.0
TOLERANCE: Final = 0.1


def names(topic: bytes, count: int = MANY) -> list[bytes]:
    return [b"%s-%d" % (topic, number) for number in range(count)]


def test_loads_are_announced_as_the_other_reads_them(deployment: Deployment, topic: bytes) -> None:
    before = _settled_loads(deployment)
    for member in deployment.members:
        for name in names(topic + member.name.encode(), 5):
            deployment.give(name, member)
    # The original announces its load while it acquires a topic, and counts that topic the next time.
    wanted = [before["ours"] + 5, before["original"] + 4]
    seen: list[int] = []

    def announced() -> bool:
        loads = deployment.loads()
        seen[:] = [loads["ours"], loads["original"]]
        return seen[0] == wanted[0] and seen[1] in (wanted[1], wanted[1] + 1)

    try:
        eventually("the loads are announced", announced)
    except AssertionError as exc:
        raise AssertionError(f"{exc}: {seen}, not {wanted}") from None


def test_hub_with_more_topics_sends_new_ones_to_the_other(deployment: Deployment, topic: bytes) -> None:
    """The original sends all of them to the least loaded hub; ours sends most of them, by weight and chance."""
    for asked in deployment.members:
        name, other = topic + asked.name.encode(), deployment.other(asked)
        loads = deployment.loads()
        more = max(0, loads[other.name] - loads[asked.name]) + MANY
        for each in names(name, more):
            deployment.give(each, asked)
        eventually("the load is announced", partial(_has_load, deployment, asked, loads[asked.name] + more - 1))
        new = names(name + b"-new", 20)
        with HubClient(asked.port) as client:
            client.should_claim = False
            redirects = [_redirect(client, each) for each in new]
        assert set(redirects) <= {None, deployment.address(other)}
        owners = [deployment.owner(each) for each in new]
        assert [None if owner is None else owner.address for owner in owners] == [
            text or deployment.address(asked) for text in redirects
        ]
        assert redirects.count(None) == 0 if asked is deployment.original else redirects.count(None) < 10


def _has_load(deployment: Deployment, member: Member, least: int) -> bool:
    return deployment.loads()[member.name] >= least


def _redirect(client: HubClient, topic: bytes) -> str | None:
    """Send a request for a topic; return the hub that a refusing hub names."""
    try:
        client.publish(topic, b"m")
    except RefusedByHubError as refused:
        if refused.status != pb.NOT_RESPONSIBLE_FOR_TOPIC:
            raise
        return refused.text
    return None


@pytest.fixture
def rebalancing(deployment: Deployment) -> Deployment:
    """The deployment, with hubs that own nothing, and check every few seconds whether they own too much."""
    deployment.stop_both()
    deployment.ours.start(cluster__rebalance_interval_s=OUR_INTERVAL_S, cluster__rebalance_tolerance=TOLERANCE)
    deployment.original.start(rebalance_interval_sec=THEIR_INTERVAL_S, rebalance_tolerance=TOLERANCE * 100)
    return deployment


@pytest.mark.parametrize("first", ["ours", pytest.param("original", marks=pytest.mark.full)])
def test_topics_are_shared_out_and_stay_where_they_are(rebalancing: Deployment, first: str, topic: bytes) -> None:
    owner = next(member for member in rebalancing.members if member.name == first)
    topics = names(topic)
    for name in topics:
        rebalancing.give(name, owner)
    with _asked_for(rebalancing, topics):
        _wait_at_rest(rebalancing, topics)
        shares = [_owned(rebalancing, member, topics) for member in rebalancing.members]
        assert sum(shares) == MANY
        assert max(shares) <= math.ceil(MANY / 2 * (1 + TOLERANCE)), shares


@pytest.mark.full
def test_topics_of_a_drained_hub_go_to_the_original_and_come_back_afterwards(
    rebalancing: Deployment, topic: bytes
) -> None:
    """A drained hub does not count as less loaded, so the original gives nothing up meanwhile."""
    topics = names(topic)
    for name in topics:
        rebalancing.give(name, rebalancing.ours)
    with _asked_for(rebalancing, topics):
        rebalancing.ours.admin.post("/drain?state=on")
        _wait_at_rest(rebalancing, topics)
        assert _owned(rebalancing, rebalancing.original, topics) == MANY
        rebalancing.ours.admin.post("/drain?state=off")
        eventually("ours has some again", lambda: _owned(rebalancing, rebalancing.ours, topics) > MANY // 4)
        _wait_at_rest(rebalancing, topics)


def _settled_loads(deployment: Deployment) -> dict[str, int]:
    """Return the loads once they are stable: a hub announces its last topic with its next beat."""
    settled, since = deployment.loads(), time.monotonic()
    while time.monotonic() < since + OUR_INTERVAL_S:
        time.sleep(0.2)
        if (loads := deployment.loads()) != settled:
            settled, since = loads, time.monotonic()
    return settled


def _owned(deployment: Deployment, member: Member, topics: list[bytes]) -> int:
    """Return how many of the topics a hub owns."""
    owners = [deployment.owner(name) for name in topics]
    return sum(1 for owner in owners if owner is not None and member.is_at(owner.address))


def _wait_at_rest(deployment: Deployment, topics: list[bytes]) -> None:
    """Wait until all topics have owners, and none has moved during several checks of both hubs."""
    deadline = time.monotonic() + PATIENCE_S
    seen, since = None, 0.0
    while True:
        owners = [deployment.owner(name) for name in topics]
        if owners != seen or None in owners:
            seen, since = owners, time.monotonic()
        elif time.monotonic() > since + QUIET_S:
            return
        assert time.monotonic() < deadline, "topics go to and fro"
        time.sleep(0.2)


@contextmanager
def _asked_for(deployment: Deployment, topics: list[bytes]) -> Iterator[None]:
    """Publish to all topics over and over, through each hub in turn; finally fail unless their ids are continuous."""
    ids: dict[bytes, list[int]] = {name: [] for name in topics}
    stopping = threading.Event()

    def run(part: list[bytes]) -> None:
        with connect_ours(deployment.ours) as one, connect_ours(deployment.original) as other:
            for client in itertools.cycle((one, other)):
                for name in part:
                    if stopping.is_set():
                        return
                    try:
                        local = client.publish(Topic(name), b"m").local
                    except ServiceError:
                        continue
                    ids[name].append(local)
                stopping.wait(0.05)

    threads = [threading.Thread(target=run, args=(topics[start::3],), daemon=True) for start in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
    for name, given in ids.items():
        assert given, f"{name!r} was never published to"
        assert given == sorted(set(given)), f"{name!r} got the ids {given}"
