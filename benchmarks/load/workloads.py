"""Workloads: what is done, how often, and on which topics; not by whom, and not against what."""

import random
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Final, Self

from hedwig.benchmarks.load.key_choice import draws

__all__ = ["FILL", "RESTART", "Among", "Choice", "Operation", "Workload", "subscriber_name", "topic_name"]

FILL: Final = "fill"
RESTART: Final = "restart"
"""Names of what is done once to a store of each size: it is filled, and its server is killed and started again."""

_DRAWN: Final = 1 << 16


class Operation(StrEnum):
    """One thing that is done to one topic, and when it counts as finished."""

    PUBLISH = "publish"
    """A message; finished when the hub has acknowledged it."""
    DELIVER = "deliver"
    """A message; finished when it is acknowledged and every attached subscriber has received it."""
    SUBSCRIBE = "subscribe"
    """A new durable subscription, left attached; finished when the hub has acknowledged it."""
    SUBSCRIBE_AND_CLOSE = "subscribe-and-close"
    """A new durable subscription, then detached; finished when the hub has acknowledged both."""
    OWN = "own"
    """The hub becomes the owner of a topic, for a request that changes nothing: a subscriber that the topic does not
    have is unsubscribed. Finished when the owner says that there is none."""
    READ = "read"
    """A metadata record is read."""
    CREATE = "create"
    """A metadata record that must not exist; finished when the store has acknowledged it."""
    UPDATE = "update"
    """A whole metadata record, if it is at the version last seen; acknowledged."""
    PARTIAL_UPDATE = "partial-update"
    """The part of a metadata record that changes often, and nothing else of it, on the same condition; acknowledged."""
    CONTENDED_UPDATE = "contended-update"
    """A metadata record is read, and written at the version read; when others were faster, again at the version that
    they left, until it is done."""
    COMMAND = "command"
    """A command of hedwig-admin over a whole store, in a process of its own; finished when that has ended."""
    CLAIM = "claim"
    """The owner of a topic is read, and a new one written if it is still the one read, or still none; when others were
    faster, again at the version that they left, until it is done."""
    READ_OWNER = "read-owner"
    """The owner of a topic is read from the store; it must have one."""
    CONSUME = "consume"
    """The consume pointer of a subscription is written at the version that its hub knows; one write of a subscription
    after the other."""
    CREATE_SUBSCRIPTION = "create-subscription"
    """A subscription that must not exist, on a topic that does; acknowledged by the store."""
    DELETE_SUBSCRIPTION = "delete-subscription"
    """A subscription that exists, at the version of its creation; acknowledged by the store."""
    READ_SUBSCRIPTIONS = "read-subscriptions"
    """All subscriptions of a topic are read; they must be as many as were made."""
    LIST_PAGE = "list-page"
    """The next thousand topics behind some topic are listed; behind the last one those from the beginning."""
    RECREATE = "recreate"
    """The ledger ranges of a topic are deleted at the version known, and created anew; both acknowledged."""


class Choice(StrEnum):
    """Which topic an operation goes to."""

    TURNS = "turns"
    """Each in turn, in an order that the seed decides: with as many operations as topics, each topic once."""
    UNIFORM = "uniform"
    """Any, as likely as any other, and drawn anew for each operation; each load and each round has draws of its own."""
    ZIPF = "zipf"
    """Drawn as those, but the lower a topic's number, the likelier: the same topics are popular in all loads."""


class Among(StrEnum):
    """To which of a store's topics the operations go."""

    ALL = "all"
    OWNED = "owned"
    """Those that have an owner: every other one."""
    UNOWNED = "unowned"
    """Those that never had one, each once."""
    LATEST = "latest"
    """Claims go to those that never had an owner, each once; what else is done, to those that got theirs last: the
    topic chosen first is the newest."""
    CONTENDED = "contended"
    """The first `keys` of those with an owner, each shared by as many of the operations in flight as any other."""
    WIDE = "wide"
    """Topics with `wide` subscriptions each, beside the usual ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What to do.

    name: the measurement that it belongs to.
    mix: operations with their weights.
    topics, prefix: on the topics `prefix`-00000000 and so on.
    message_bytes: the size of a message's body.
    subscribers: so many are attached to each topic before, and receive.
    consume_every: a subscriber tells the hub what it has consumed after so many messages; 0: never.
    rate_per_s: the offered load, with times counted from when an operation should have begun; 0: closed loop, an
        operation begins when one before it has finished.
    in_flight: unfinished operations at most, over all connections.
    connections: so many carry the operations, each its share of the topics.
    operations: how many in all; 0: as many as there is time for.
    seconds, warmup_s: how long it goes on, and how much of that does not count; with `operations`, a closed loop ends
        with them if they are done before, and has no warm-up by time.
    warmup_share: of the operations of a closed loop with a number of them: so many of those that began do not count,
        the first ones.
    among, keys, wide: to which topics of a store operations go.
    sample, first: in turns, only to `sample` topics, those from place `first` on in the order; 0: to all.
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
            raise ValueError("keys are of contended topics, wide of wide ones, and of no others")
        if min(self.sample, self.first) < 0 or self.first + self.sample > self.topics:
            raise ValueError("a sample is of the topics that there are")
        if self.sample and self.choice is not Choice.TURNS:
            raise ValueError("a sample is taken in turns")
        if not self.operations and not 0 <= self.warmup_s < self.seconds:
            raise ValueError("a warm-up must be shorter than the whole")
        if not 0 <= self.warmup_share < 1 or (self.warmup_share and not self.is_bounded):
            raise ValueError("a share to warm up with is of the operations of a closed loop, and less than all of them")
        if self.message_bytes < 16:
            raise ValueError("message_bytes must be at least 16: a message carries its number")
        if not self.mix or min(self.mix.values()) <= 0:
            raise ValueError("the mix needs an operation, with a weight above 0")
        for name in self.mix:
            Operation(name)

    @property
    def is_open_loop(self) -> bool:
        """Say whether operations begin when their time has come, whatever became of those before."""
        return self.rate_per_s > 0

    @property
    def is_bounded(self) -> bool:
        """Say whether it is a closed loop that ends with a number of operations."""
        return self.operations > 0 and not self.is_open_loop

    def topic_chooser(self, round_number: int = 0) -> Callable[[int], int]:
        """Return what tells the topic of an operation by its number, however many there are.

        A topic is told by its place among those that are drawn from: among all, or among those with an owner.
        In turns the order is the seed's. What is drawn is different for each name, load and round: a load must not find
        in memory what the one before it has just used. It does not depend on what is measured, so that all backends
        get the same topics in a round.
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
        """Return from how many topics is drawn; what is popular among them all must not be two at once to others."""
        return (self.topics + 1) // 2 if self.among in (Among.OWNED, Among.LATEST) else self.topics

    def operation_chooser(self) -> Callable[[int], Operation]:
        """Return what tells the kind of an operation by its number; the same for the same seed."""
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
        """Read what `to_json` made; members that came later than this program are left out."""
        known = {each.name for each in fields(cls)}
        given = {name: value for name, value in values.items() if name in known}
        choice, among = Choice(given.get("choice", Choice.TURNS)), Among(given.get("among", Among.ALL))
        return cls(**given | {"choice": choice, "among": among})


def topic_name(prefix: str, topic: int) -> bytes:
    """Return the name of a topic by its number; all of a workload are of one length."""
    return f"{prefix}-{topic:08d}".encode()


def subscriber_name(subscriber: int) -> bytes:
    """Return the id of a subscriber by its number; all are of one length."""
    return f"subscriber-{subscriber:010d}".encode()
