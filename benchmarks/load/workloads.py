"""Workloads: which operations run, how often, and on which topics. They name no client and no server."""

import random
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Final, Self

from hedwig.benchmarks.load.key_choice import draws

__all__ = ["FILL", "RESTART", "Among", "Choice", "Operation", "Workload", "subscriber_name", "topic_name"]

FILL: Final = "fill"
RESTART: Final = "restart"
"""Names of what a run does once to a store of each size: fill it, and kill and restart its server."""

_DRAWN: Final = 1 << 16


class Operation(StrEnum):
    """An operation on one topic, and when it counts as finished."""

    PUBLISH = "publish"
    """A message; finished when the hub has acknowledged it."""
    DELIVER = "deliver"
    """A message; finished when it is acknowledged and every attached subscriber has received it."""
    SUBSCRIBE = "subscribe"
    """A new durable subscription, left attached; finished when the hub has acknowledged it."""
    SUBSCRIBE_AND_CLOSE = "subscribe-and-close"
    """A new durable subscription, then detached; finished when the hub has acknowledged both."""
    OWN = "own"
    """The hub becomes the owner of a topic through a request that changes nothing: it unsubscribes an unknown
    subscriber. Finished when the owner answers that there is no such subscription."""
    READ = "read"
    """A metadata record is read."""
    CREATE = "create"
    """A metadata record that must not exist; finished when the store has acknowledged it."""
    UPDATE = "update"
    """A whole metadata record is written, if it is at the version last seen; acknowledged."""
    PARTIAL_UPDATE = "partial-update"
    """Only the part of a metadata record that changes often is written, on the same condition; acknowledged."""
    CONTENDED_UPDATE = "contended-update"
    """A metadata record is read, and written at the version read. If another caller was faster, the write is repeated
    at the version that the other one left, until it is done."""
    COMMAND = "command"
    """A command of hedwig-admin over a whole store, in a process of its own; finished when the process has ended."""
    CLAIM = "claim"
    """The owner of a topic is read, and a new one written if the owner, or its absence, is unchanged. If another caller
    was faster, the write is repeated at the version that the other one left, until it is done."""
    READ_OWNER = "read-owner"
    """The owner of a topic is read from the store; it must have one."""
    CONSUME = "consume"
    """The consume pointer of a subscription is written at the version that its hub knows. Writes of one subscription
    follow one another."""
    CREATE_SUBSCRIPTION = "create-subscription"
    """A subscription that must not exist, on a topic that does; acknowledged by the store."""
    DELETE_SUBSCRIPTION = "delete-subscription"
    """A subscription that exists, at the version of its creation; acknowledged by the store."""
    READ_SUBSCRIPTIONS = "read-subscriptions"
    """All subscriptions of a topic are read; there must be as many as were made."""
    LIST_PAGE = "list-page"
    """The next thousand topics behind some topic are listed; behind the last topic, the list starts over."""
    RECREATE = "recreate"
    """The ledger ranges of a topic are deleted at the version known, and created anew; both acknowledged."""


class Choice(StrEnum):
    """Which topic an operation goes to."""

    TURNS = "turns"
    """Each in turn, in an order that the seed decides. With as many operations as topics, each topic comes once."""
    UNIFORM = "uniform"
    """Drawn for each operation, all topics equally likely. Each load and each round has draws of its own."""
    ZIPF = "zipf"
    """Drawn like UNIFORM, but the lower a topic's number, the likelier: the same topics are popular in all loads."""


class Among(StrEnum):
    """Which of a store's topics the operations go to."""

    ALL = "all"
    OWNED = "owned"
    """Those that have an owner: every other one."""
    UNOWNED = "unowned"
    """Those that never had one, each once."""
    LATEST = "latest"
    """Claims go to topics that never had an owner, each once. All other operations go to the topics that got their
    owner last; the topic chosen first is the newest."""
    CONTENDED = "contended"
    """The first `keys` topics with an owner; the operations in flight share them evenly."""
    WIDE = "wide"
    """Topics with `wide` subscriptions each, beside the usual ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The operations to run, and how.

    name: the measurement that the workload belongs to.
    mix: operations with their weights.
    topics, prefix: the topics are `prefix`-00000000 and so on.
    message_bytes: the size of a message's body.
    subscribers: number of subscribers attached to each topic before the load; they receive.
    consume_every: a subscriber tells the hub what it has consumed every N messages; 0: never.
    rate_per_s: the offered load, with times counted from when an operation should have begun; 0: closed loop, an
        operation begins when one before it has finished.
    in_flight: unfinished operations at most, over all connections.
    connections: number of connections that carry the operations, each for its share of the topics.
    operations: number of operations; 0: as many as there is time for.
    seconds, warmup_s: duration of the load, and how much of it does not count. With `operations`, a closed loop has no
        warm-up by time, and ends earlier if its operations are done.
    warmup_share: in a closed loop with a number of operations, the share of them that does not count: the first ones.
    among, keys, wide: which topics of a store the operations go to.
    sample, first: with TURNS, only `sample` topics are used, from position `first` on in the order; 0: all topics.
    seed: decides the order of topics and of operations.

    Raises: ValueError - a value is out of its range.
    """

    name: str
    mix: Mapping[str, float] = field(default_factory=lambda: {Operation.PUBLISH.value: 1.0})
    topics: int = 50
    prefix: str = "bench"
    message_bytes: int = 100
    subscribers: int = 0
    consume_every: int = 100
    rate_per_s: float = 0.0
    in_flight: int = 100
    connections: int = 1
    operations: int = 0
    seconds: float = 10.0
    warmup_s: float = 2.0
    warmup_share: float = 0.0
    choice: Choice = Choice.TURNS
    among: Among = Among.ALL
    keys: int = 0
    wide: int = 0
    sample: int = 0
    first: int = 0
    seed: int = 1

    def __post_init__(self) -> None:
        if min(self.topics, self.in_flight, self.connections) < 1:
            raise ValueError("topics, in_flight and connections must be at least 1")
        if min(self.subscribers, self.consume_every, self.operations, self.rate_per_s, self.keys, self.wide) < 0:
            raise ValueError("subscribers, consume_every, operations, rate_per_s, keys and wide must not be negative")
        if (self.among is Among.CONTENDED) != bool(self.keys) or (self.among is Among.WIDE) != bool(self.wide):
            raise ValueError("contended topics and no others need keys, wide topics and no others need wide")
        if min(self.sample, self.first) < 0 or self.first + self.sample > self.topics:
            raise ValueError("first and sample must not be negative, nor exceed the topics together")
        if self.sample and self.choice is not Choice.TURNS:
            raise ValueError(f"a sample needs the choice {Choice.TURNS.value}")
        if not self.operations and not 0 <= self.warmup_s < self.seconds:
            raise ValueError("a warm-up must be shorter than the load")
        if not 0 <= self.warmup_share < 1 or (self.warmup_share and not self.is_bounded):
            raise ValueError(
                "warmup_share must be from 0 to below 1, and needs a closed loop with a number of operations"
            )
        if self.message_bytes < 16:
            raise ValueError("message_bytes must be at least 16: a message carries its number")
        if not self.mix or min(self.mix.values()) <= 0:
            raise ValueError("the mix needs an operation, with a weight above 0")
        for name in self.mix:
            Operation(name)

    @property
    def is_open_loop(self) -> bool:
        """Say whether operations begin at their time, even if earlier ones have not finished."""
        return self.rate_per_s > 0

    @property
    def is_bounded(self) -> bool:
        """Say whether the workload is a closed loop that ends after a number of operations."""
        return self.operations > 0 and not self.is_open_loop

    def topic_chooser(self, round_number: int = 0) -> Callable[[int], int]:
        """Return a function that gives the topic of an operation by its number, without end.

        It gives the topic's index among the topics that may be chosen: all of them, or those with an owner.
        With TURNS the seed decides the order. Otherwise the draws differ for each name, load and round. So a load does
        not find in memory what the load before it has just used. The draws do not depend on the driver or the backend,
        so that all backends get the same topics in a round.
        """
        if self.choice is Choice.TURNS:
            order = list(range(self._drawn))
            random.Random(self.seed).shuffle(order)
            if self.sample:
                order = order[self.first : self.first + self.sample]
            return lambda number: order[number % len(order)]
        load = f"{self.name}/{self.choice}/{self.rate_per_s:g}/{self.in_flight}/{self.keys}/{self.wide}"
        salt = f"{self.seed}/{round_number}/{load}"
        return draws(self._drawn, salt, is_zipf=self.choice is Choice.ZIPF)

    @property
    def _drawn(self) -> int:
        """Return how many topics to choose from: only half of them have an owner.

        A draw from more numbers than there are such topics would make some of them twice as popular.
        """
        return (self.topics + 1) // 2 if self.among in (Among.OWNED, Among.LATEST) else self.topics

    def operation_chooser(self) -> Callable[[int], Operation]:
        """Return a function that gives the kind of an operation by its number; the same for the same seed."""
        kinds = [Operation(name) for name in self.mix]
        if len(kinds) == 1:
            only = kinds[0]
            return lambda _: only
        drawn = random.Random(self.seed + 1).choices(kinds, list(self.mix.values()), k=_DRAWN)
        return lambda number: drawn[number % _DRAWN]

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self) | {"mix": dict(self.mix)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read the output of `to_json`; drop members that a later version of this program has added."""
        known = {each.name for each in fields(cls)}
        given = {name: value for name, value in values.items() if name in known}
        choice, among = Choice(given.get("choice", Choice.TURNS)), Among(given.get("among", Among.ALL))
        return cls(**given | {"choice": choice, "among": among})


def topic_name(prefix: str, topic: int) -> bytes:
    """Return the name of a topic by its number; all names of a workload have the same length."""
    return f"{prefix}-{topic:08d}".encode()


def subscriber_name(subscriber: int) -> bytes:
    """Return the id of a subscriber by its number; all ids have the same length."""
    return f"subscriber-{subscriber:010d}".encode()
