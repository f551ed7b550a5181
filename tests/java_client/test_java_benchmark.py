"""Prove that the original client's benchmark runs to its end against both hubs, and that its numbers are read."""

import random

import pytest

from hedwig.benchmarks.drivers.hub.java_client import JavaBenchmark, JavaBenchmarkRun, JavaMode, run
from hedwig.benchmarks.errors import BenchmarkError
from tests.java_client.support.hubs import Hub

TIMEOUT_S = 120.0


@pytest.fixture
def first_topic() -> int:
    """The number of the first topic: the program builds topic names from numbers."""
    return random.Random().randrange(1_000_000, 1_000_000_000)


def test_publishing_while_another_receives(hub: Hub, first_topic: int) -> None:
    receive = JavaBenchmark(mode=JavaMode.RECEIVE, topics=5, messages=500, first_topic=first_topic)
    publish = JavaBenchmark(
        mode=JavaMode.PUBLISH, topics=5, messages=500, warmups=100, message_bytes=100, first_topic=first_topic
    )
    with JavaBenchmarkRun(hub.address, receive) as receiver:
        receiver.wait_subscribed(TIMEOUT_S)
        published = run(hub.address, publish, TIMEOUT_S)
        received = receiver.result(TIMEOUT_S)
    assert (published.count, published.failed) == (495, 0), "the first message of each topic does not count"
    assert published.rate_per_s > 0
    assert published.latency_mean_ms is not None
    assert published.percentile_ms is not None
    assert (received.count, received.failed) == (500, 0)


def test_subscribing(hub: Hub) -> None:
    made = run(hub.address, JavaBenchmark(mode=JavaMode.SUBSCRIBE, subscriptions=100), TIMEOUT_S)
    assert (made.count, made.failed) == (100, 0)
    assert made.rate_per_s > 0


def test_a_hub_that_is_not_there_is_an_error() -> None:
    with pytest.raises(BenchmarkError, match="did not finish: it ended") as failure:
        run("127.0.0.1:1", JavaBenchmark(mode=JavaMode.PUBLISH), TIMEOUT_S)
    # Which of the client's threads says why first is chance.
    assert any('Exception in thread "main"' in note for note in failure.value.__notes__)


def test_what_the_program_would_refuse_is_refused_before() -> None:
    with pytest.raises(ValueError, match="must be a multiple of the 50 topics"):
        JavaBenchmark(mode=JavaMode.PUBLISH, topics=50, messages=1001)
