"""The records that metadata workloads work on: their number, names and content.

Topics are numbered. Each has an empty record of ledger ranges and its subscriptions. Topics with an even number have an
owner. Those with an odd number never had one, until a workload claims them. Beside them are a few wide topics.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Protocol, Self

from hedwig.benchmarks.drivers.records.record_clients import DATA
from hedwig.benchmarks.load.workloads import subscriber_name, topic_name
from hedwig.metadata.contract.operations import RecordKey
from hedwig.metadata.managers import SubscriptionDataManager, TopicOwnershipManager, TopicPersistenceManager
from hedwig.model import HubInfo, MessageSeqId, SubscriberId, SubscriptionData, SubscriptionState, Topic

__all__ = [
    "DATA",
    "PAGE",
    "PREDECESSOR",
    "SUCCESSOR",
    "Batch",
    "Dataset",
    "FillTask",
    "Task",
    "WorkloadManagers",
    "owned",
    "unowned",
    "wide_count",
]

_BATCH: Final = 256
"""Subscriptions and topics of a batch. For ZooKeeper, writes made together share few transactions. HBase's client
spreads them over calls of its own."""
PAGE: Final = 1000
_PREFIX: Final = "bench"
_WIDE_RECORDS: Final = 2_000
"""Subscriptions at least, over all wide topics with the same number of them; a single topic would be a hot spot."""
_WIDE_TOPICS_MAX: Final = 500
PREDECESSOR: Final = HubInfo(host="hub-1.example.net", port=4080, ssl_port=9876, epoch=4294967297)
FRESH: Final = replace(DATA, state=SubscriptionState(MessageSeqId(0)))
"""A subscription to a topic without messages."""
SUCCESSOR: Final = HubInfo(host="hub-2.example.net", port=4080, ssl_port=9876, epoch=4294967298)


def owned(number: int) -> int:
    """Return the number of a topic with an owner by its index among those topics."""
    return 2 * number


def unowned(number: int) -> int:
    """Return the number of a topic without an owner by its index among those topics."""
    return 2 * number + 1


def wide_count(wide: int) -> int:
    """Return how many topics have `wide` subscriptions."""
    return min(_WIDE_TOPICS_MAX, max(1, _WIDE_RECORDS // wide))


class WorkloadManagers(Protocol):
    """The managers of a store that workloads use."""

    @property
    def ownership(self) -> TopicOwnershipManager: ...

    @property
    def persistence(self) -> TopicPersistenceManager: ...

    @property
    def subscriptions(self) -> SubscriptionDataManager: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """What a store holds when a workload begins.

    topics, subscribers: the number of topics, and of subscriptions of each.
    drawn: the number of keys that operations with a version go to; they are drawn beforehand.
    first_claim, claims: which topics without owner may be claimed, by their index.
    token: makes names unique, so that no other case has used them.
    """

    topics: int
    subscribers: int
    drawn: int
    first_claim: int = 0
    claims: int = 0
    token: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        return cls(**values)

    def topic(self, number: int) -> Topic:
        return Topic(topic_name(_PREFIX, number))

    def subscription(self, topic: int, subscriber: int) -> RecordKey:
        return RecordKey(self.topic(topic), SubscriberId(subscriber_name(subscriber)))

    def new_subscription(self, topic: int, number: int) -> RecordKey:
        """Return the key of a subscription that no earlier case has used."""
        return RecordKey(self.topic(topic), SubscriberId(f"new-{self.token}-{number:010d}".encode()))

    def wide_topic(self, wide: int, number: int) -> Topic:
        return Topic(topic_name(f"wide-{wide}", number % wide_count(wide)))


class Task(Protocol):
    """Records to make. seconds_max: a fill that takes longer is given up."""

    @property
    def records(self) -> int: ...

    @property
    def seconds_max(self) -> float: ...

    def batches(self) -> Iterable["Batch"]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FillTask:
    """The records of a fill: topics from `first` up to `last`, excluded, and wide topics with numbers of subscriptions.

    seconds_max: a fill that takes longer is given up.
    is_released: topics are as hubs leave topics without clients: without owners, and without messages.
    """

    first: int
    last: int
    subscribers: int
    wide: Sequence[int] = ()
    seconds_max: float = 3600.0
    is_released: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"wide": list(self.wide)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        return cls(**values)

    @property
    def records(self) -> int:
        """Return the number of records."""
        topics = self.last - self.first
        owners = 0 if self.is_released else (self.last + 1) // 2 - (self.first + 1) // 2
        return topics * (1 + self.subscribers) + owners + sum(wide_count(wide) * (1 + wide) for wide in self.wide)

    def batches(self) -> Iterator["Batch"]:
        """Yield the records in batches."""
        dataset = Dataset(topics=self.last, subscribers=self.subscribers, drawn=0)
        # A batch of few topics with many subscriptions takes as much work as one of many topics with few.
        step = max(1, _BATCH // (1 + self.subscribers))
        for first in range(self.first, self.last, step):
            numbers = range(first, min(self.last, first + step))
            yield Batch(
                topics=[dataset.topic(number) for number in numbers],
                owned=[dataset.topic(number) for number in numbers if number % 2 == 0 and not self.is_released],
                subscriptions=[
                    dataset.subscription(number, each) for number in numbers for each in range(self.subscribers)
                ],
                data=FRESH if self.is_released else DATA,
            )
        for wide in self.wide:
            yield from _wide_batches(dataset, wide)


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that are made together: topics, owners of topics (all the same hub), and subscriptions."""

    topics: list[Topic]
    owned: list[Topic]
    subscriptions: list[RecordKey]
    data: SubscriptionData = DATA
    owner: HubInfo = PREDECESSOR

    @property
    def records(self) -> int:
        return len(self.topics) + len(self.owned) + len(self.subscriptions)


def _wide_batches(dataset: Dataset, wide: int) -> Iterator[Batch]:
    """Yield batches of wide topics: several topics in one batch, or the subscriptions of one topic in several."""
    step = max(1, _BATCH // wide)
    for first in range(0, wide_count(wide), step):
        topics = [dataset.wide_topic(wide, number) for number in range(first, min(wide_count(wide), first + step))]
        keys = [RecordKey(topic, SubscriberId(subscriber_name(each))) for topic in topics for each in range(wide)]
        for begin in range(0, len(keys), _BATCH):
            yield Batch(topics=topics if begin == 0 else [], owned=[], subscriptions=keys[begin : begin + _BATCH])
