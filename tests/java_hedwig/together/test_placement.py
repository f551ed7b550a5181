"""Prove that each hub counts the topics of the other when it places topics, and that they come to rest."""

import itertools
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
from tests.java_hedwig.hub_client import HubClient, RefusedByHubError
from tests.java_hedwig.stack import eventually
from tests.java_hedwig.together.deployment import Deployment
from tests.java_hedwig.together.members import Member, connect_ours

__all__: list[str] = []

MANY: Final = 30
INTERVAL_S: Final = 2
QUIET_S: Final = 4 * INTERVAL_S
PATIENCE_S: Final = 90.0
TOLERANCE: Final = 0.1


def names(topic: bytes, count: int = MANY) -> list[bytes]:
    return [b"%s-%d" % (topic, number) for number in range(count)]


def test_loads_are_announced_as_the_other_reads_them(deployment: Deployment, topic: bytes) -> None:
    before = deployment.loads()
    for member in deployment.members:
        for name in names(topic + member.name.encode(), 5):
            deployment.give(name, member)
    # The original announces its load while it acquires a topic, and counts that one with the next.
    wanted = [before["ours"] + 5, before["original"] + 4]
    found: list[int] = []

    def announced() -> bool:
        loads = deployment.loads()
        found[:] = [loads["ours"], loads["original"]]
        return found[0] == wanted[0] and found[1] in (wanted[1], wanted[1] + 1)

    try:
        eventually("the loads are announced", announced)
    except AssertionError as exc:
        raise AssertionError(f"{exc}: {found}, not {wanted}") from None


def test_hub_with_more_topics_sends_new_ones_to_the_other(deployment: Deployment, topic: bytes) -> None:
    """The original sends all of them to whoever has least; ours most of them, by weight and chance."""
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
            told = [_redirect(client, each) for each in new]
        assert set(told) <= {None, deployment.address(other)}
        owners = [deployment.owner(each) for each in new]
        assert [None if owner is None else owner.address for owner in owners] == [
            text or deployment.address(asked) for text in told
        ]
        assert told.count(None) == 0 if asked is deployment.original else told.count(None) < 10


def _has_load(deployment: Deployment, member: Member, least: int) -> bool:
    return deployment.loads()[member.name] >= least


def _redirect(client: HubClient, topic: bytes) -> str | None:
    """Ask for a topic; return whom a hub names that does not take it."""
    try:
        client.close_subscription(topic, b"nobody")
    except RefusedByHubError as refused:
        if refused.status != pb.NOT_RESPONSIBLE_FOR_TOPIC:
            raise
        return refused.text
    return None


@pytest.fixture
def rebalancing(deployment: Deployment) -> Iterator[Deployment]:
    """The deployment, with hubs that own nothing and look every other second whether they own too much."""
    deployment.stop_both()
    deployment.ours.start(cluster__rebalance_interval_s=INTERVAL_S, cluster__rebalance_tolerance=TOLERANCE)
    deployment.original.start(rebalance_interval_sec=INTERVAL_S, rebalance_tolerance=TOLERANCE * 100)
    yield deployment
    deployment.stop_both()


@pytest.mark.parametrize("first", ["ours", "original"])
def test_topics_are_shared_out_and_stay_where_they_are(rebalancing: Deployment, first: str, topic: bytes) -> None:
    owner = next(member for member in rebalancing.members if member.name == first)
    topics = names(topic)
    for name in topics:
        rebalancing.give(name, owner)
    with _asked_for(rebalancing, topics) as ids:
        allowed = _at_rest(rebalancing, topics)
        shares = [sum(1 for name in topics if _is_owner(rebalancing, member, name)) for member in rebalancing.members]
        assert sum(shares) == MANY
        assert max(shares) <= allowed, shares
        if first == "ours":
            rebalancing.ours.admin.post("/drain?state=on")
            eventually(
                "the original has them all",
                lambda: all(_is_owner(rebalancing, rebalancing.original, name) for name in topics),
            )
            # A hub that is drained is not taken for one that has less.
            _at_rest(rebalancing, topics)
            assert all(_is_owner(rebalancing, rebalancing.original, name) for name in topics)
            rebalancing.ours.admin.post("/drain?state=off")
            _at_rest(rebalancing, topics)
            assert any(_is_owner(rebalancing, rebalancing.ours, name) for name in topics)
    for name in topics:
        assert ids[name] == list(range(1, len(ids[name]) + 1)), name
        assert ids[name], name


def _is_owner(deployment: Deployment, member: Member, topic: bytes) -> bool:
    owner = deployment.owner(topic)
    return owner is not None and member.is_at(owner.address)


def _at_rest(deployment: Deployment, topics: list[bytes]) -> int:
    """Wait until no topic has moved for several looks of both hubs; return how many topics a hub may own."""
    deadline = time.monotonic() + PATIENCE_S
    seen, since = None, 0.0
    while True:
        owners = [deployment.owner(name) for name in topics]
        if owners != seen or None in owners:
            seen, since = owners, time.monotonic()
        elif time.monotonic() > since + QUIET_S:
            mean = len(topics) / 2
            return int(-(-mean * (1 + TOLERANCE) // 1))
        assert time.monotonic() < deadline, "topics go to and fro"
        time.sleep(0.2)


@contextmanager
def _asked_for(deployment: Deployment, topics: list[bytes]) -> Iterator[dict[bytes, list[int]]]:
    """Publish to all topics over and over, one publish of each at a time, by turns through each hub; yield the ids."""
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
        yield ids
    finally:
        stopping.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
