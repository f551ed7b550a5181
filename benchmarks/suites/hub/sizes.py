"""The cases that a run of `hedwig-bench hub` measures, derived from a few sizes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hedwig.benchmarks.drivers.drivers import LEDGERS, ZNODES
from hedwig.benchmarks.load.cases import EMBEDDED, Case
from hedwig.benchmarks.load.workloads import Choice, Operation, Workload

__all__ = [
    "CLUSTER",
    "CLUSTER_43",
    "FULL",
    "HUB_KINDS",
    "MEASUREMENTS",
    "ORIGINAL",
    "QUICK",
    "SHARED",
    "SMOKE",
    "USUAL",
    "Sizes",
    "cases",
]

PUBLISH: Final = "publish"
DELIVER: Final = "deliver"
SUBSCRIBE: Final = "subscribe"
COLD: Final = "publish-cold"
IDLE_TOPICS: Final = "idle-topics"
IDLE_CONNECTIONS: Final = "idle-connections"
MEASUREMENTS: Final = (PUBLISH, DELIVER, SUBSCRIBE, COLD, IDLE_TOPICS, IDLE_CONNECTIONS)

CLUSTER: Final = "cluster"
"""Our hub, its messages on three bookies of BookKeeper 4.17, in a ledger for each topic."""
SHARED: Final = "cluster-shared"
"""The same, with the messages of all topics in one log."""
CLUSTER_43: Final = "cluster-4.3"
"""Our hub, its messages on the three bookies of 4.3.2 that the original hub has."""
ORIGINAL: Final = "original"
"""The original Java hub 4.3.2, its messages on three bookies of the same release."""
HUB_KINDS: Final = (EMBEDDED, SHARED, CLUSTER, CLUSTER_43, ORIGINAL)
_WITH_LEDGER_CLIENT: Final = (CLUSTER, CLUSTER_43)
"""The kinds of hub beside which the ledger client is measured, one for each kind of bookie."""
_LIMIT_S: Final = 3600.0
"""The time limit of workloads with a number of operations. Operations that have not begun by then count as missed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of a run. `rates` are offered at `rate_topics` topics, beside the closed loops.

    warm_s: for how many seconds a hub that is not embedded first runs the same load on other topics, not counted. The
        virtual machines compile code that runs often.
    """

    topics: Sequence[int] = (1, 50, 10_000)
    message_bytes: Sequence[int] = (100, 1024)
    subscribers: Sequence[int] = (1, 10, 20)
    deliver_topics: int = 50
    rates: Sequence[float] = (5_000.0,)
    rate_topics: int = 50
    in_flight: int = 100
    in_flight_open: int = 10_000
    deliver_in_flight: int = 500
    connections: int = 1
    seconds: float = 12.0
    warmup_s: float = 2.0
    subscriptions: int = 20_000
    java_subscriptions: int = 2_000
    cold_topics: int = 10_000
    idle_topics: Sequence[int] = (10_000, 100_000)
    idle_connections: Sequence[int] = (10_000,)
    warm_s: float = 10.0
    rounds: int = 3


USUAL: Final = Sizes()
FULL: Final = Sizes(idle_topics=(10_000, 100_000, 1_000_000))
QUICK: Final = Sizes(
    topics=(1, 50),
    seconds=5.0,
    warmup_s=1.0,
    subscribers=(1, 10),
    subscriptions=5_000,
    java_subscriptions=500,
    cold_topics=2_000,
    idle_topics=(10_000,),
    idle_connections=(2_000,),
    warm_s=4.0,
    rounds=1,
)
SMOKE: Final = Sizes(
    topics=(5,),
    message_bytes=(100,),
    subscribers=(2,),
    deliver_topics=3,
    rates=(200.0,),
    rate_topics=5,
    in_flight=10,
    deliver_in_flight=10,
    seconds=1.0,
    warmup_s=0.25,
    subscriptions=50,
    java_subscriptions=20,
    cold_topics=30,
    idle_topics=(300,),
    idle_connections=(100,),
    warm_s=0.5,
    rounds=1,
)


def cases(
    measurements: Sequence[str], drivers: Sequence[str], sizes: Sizes, seed: int, on: Sequence[str] = (EMBEDDED,)
) -> Iterator[Case]:
    """Yield the cases of one round, each with a driver that can run it. Cases to compare follow each other."""
    for case in _cases_anywhere(measurements, drivers, sizes, seed):
        for hub_kind in on:
            if _can_be(case, hub_kind):
                yield replace(case, on=hub_kind)


def _can_be(case: Case, hub_kind: str) -> bool:
    """Say whether a case can run on a kind of hub. Idle topics and idle connections are for embedded hubs only."""
    if case.driver == ZNODES:
        return hub_kind == EMBEDDED
    if case.driver == LEDGERS:
        return hub_kind in _WITH_LEDGER_CLIENT and case.workload.name == PUBLISH
    return hub_kind == EMBEDDED or case.workload.name not in (IDLE_TOPICS, IDLE_CONNECTIONS)


def _cases_anywhere(measurements: Sequence[str], drivers: Sequence[str], sizes: Sizes, seed: int) -> Iterator[Case]:
    if PUBLISH in measurements:
        for workload in _publishes(sizes, seed):
            yield from (Case(workload, driver) for driver in drivers if driver != ZNODES)
    ours = [driver for driver in drivers if driver not in ("java", LEDGERS, ZNODES)]
    if DELIVER in measurements:
        for workload in _deliveries(sizes, seed):
            yield from (Case(workload, driver) for driver in drivers if driver in (*ours, ZNODES))
    if SUBSCRIBE in measurements:
        yield from (Case(workload, driver) for driver in ours for workload in _subscriptions(sizes, seed))
        if "java" in drivers:
            # The Java program has all subscriptions in flight at once.
            count = sizes.java_subscriptions
            yield Case(_first_subscriptions(count, count, seed), "java")
    if COLD in measurements:
        yield from (Case(_cold(sizes, seed), driver) for driver in ours)
    # The hub's cost does not depend on the driver, so the cheapest driver will do.
    if IDLE_TOPICS in measurements:
        yield from (Case(_idle_topics(count, seed), "raw") for count in sizes.idle_topics)
    if IDLE_CONNECTIONS in measurements:
        yield from (
            Case(Workload(name=IDLE_CONNECTIONS, topics=1, connections=count, seed=seed), "raw")
            for count in sizes.idle_connections
        )


def _publishes(sizes: Sizes, seed: int) -> Iterator[Workload]:
    for message_bytes in sizes.message_bytes:
        for topics in sizes.topics:
            yield Workload(
                name=PUBLISH,
                topics=topics,
                message_bytes=message_bytes,
                in_flight=sizes.in_flight,
                connections=sizes.connections,
                seconds=sizes.seconds,
                warmup_s=sizes.warmup_s,
                seed=seed,
            )
        for rate in sizes.rates:
            yield Workload(
                name=PUBLISH,
                topics=sizes.rate_topics,
                message_bytes=message_bytes,
                rate_per_s=rate,
                in_flight=sizes.in_flight_open,
                connections=sizes.connections,
                seconds=sizes.seconds,
                warmup_s=sizes.warmup_s,
                seed=seed,
            )


def _deliveries(sizes: Sizes, seed: int) -> Iterator[Workload]:
    for message_bytes in sizes.message_bytes:
        for subscribers in sizes.subscribers:
            yield Workload(
                name=DELIVER,
                mix={Operation.DELIVER.value: 1.0},
                topics=sizes.deliver_topics,
                message_bytes=message_bytes,
                subscribers=subscribers,
                in_flight=sizes.deliver_in_flight,
                connections=sizes.connections,
                seconds=sizes.seconds,
                warmup_s=sizes.warmup_s,
                seed=seed,
            )


def _subscriptions(sizes: Sizes, seed: int) -> Iterator[Workload]:
    yield Workload(
        name=SUBSCRIBE,
        mix={Operation.SUBSCRIBE.value: 1.0},
        topics=sizes.rate_topics,
        in_flight=sizes.in_flight,
        operations=sizes.subscriptions,
        seconds=_LIMIT_S,
        seed=seed,
    )
    yield _first_subscriptions(sizes.subscriptions, sizes.in_flight, seed)


def _first_subscriptions(count: int, in_flight: int, seed: int) -> Workload:
    return Workload(
        name=SUBSCRIBE,
        mix={Operation.SUBSCRIBE.value: 1.0},
        topics=count,
        in_flight=in_flight,
        operations=count,
        seconds=_LIMIT_S,
        seed=seed,
    )


def _cold(sizes: Sizes, seed: int) -> Workload:
    return Workload(
        name=COLD,
        topics=sizes.cold_topics,
        in_flight=sizes.in_flight,
        operations=sizes.cold_topics,
        seconds=_LIMIT_S,
        choice=Choice.TURNS,
        seed=seed,
    )


def _idle_topics(count: int, seed: int) -> Workload:
    return Workload(
        name=IDLE_TOPICS,
        mix={Operation.SUBSCRIBE_AND_CLOSE.value: 1.0},
        topics=count,
        in_flight=200,
        operations=count,
        seconds=_LIMIT_S,
        seed=seed,
    )
