"""Owners of the topics of a storm: reads their records, and writes records for topics that no client has asked for."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.workloads import topic_name
from hedwig.benchmarks.stores.dataset import Batch
from hedwig.benchmarks.stores.fill import fill
from hedwig.metadata import StoreOptions, open_metadata
from hedwig.model import HubInfo, Topic

__all__ = ["Owners", "read_owners", "write_owners"]

_READING: Final = 500
_BATCH: Final = 256


@dataclass(frozen=True, slots=True)
class Owners:
    """Topics of some hubs, in order, by the hub's address. infos: each hub as owner records name it."""

    topics: Mapping[str, Sequence[int]]
    infos: Mapping[str, HubInfo]


async def read_owners(url: str, prefix: str, topics: Iterable[int]) -> Owners:
    """Return the owners of topics from the store at `url`. Topics without owner are left out."""
    room = asyncio.Semaphore(_READING)
    topics_by_hub: dict[str, list[int]] = {}
    infos: dict[str, HubInfo] = {}
    async with await open_metadata(url) as store:

        async def read(topic: int) -> HubInfo | None:
            async with room:
                record = await store.ownership.read(_name(prefix, topic))
            return None if record is None else record.value

        asked = list(topics)
        answers = await asyncio.gather(*map(read, asked))
    for topic, info in zip(asked, answers, strict=True):
        if info is not None:
            topics_by_hub.setdefault(info.name, []).append(topic)
            infos[info.name] = info
    return Owners(topics_by_hub, infos)


async def write_owners(url: str, prefix: str, topics: Sequence[int], infos: Mapping[str, HubInfo]) -> Owners:
    """Write owner records that give topics without owner to hubs in turn.

    Raises: BenchmarkError - not all topics got an owner.
    """
    hubs = list(infos)
    owners = Owners({hub: list(topics[index :: len(hubs)]) for index, hub in enumerate(hubs)}, infos)
    async with await open_metadata(url, StoreOptions(gather=True)) as store:
        _, why = await fill(store, _OwnersTask(owners, prefix))
    if why is not None:
        raise BenchmarkError(f"not all topics could be given an owner: {why}")
    return owners


@dataclass(frozen=True, slots=True)
class _OwnersTask:
    """The owner records to write, as a task for `fill`."""

    owners: Owners
    prefix: str
    seconds_max: float = 3600.0

    @property
    def records(self) -> int:
        return sum(map(len, self.owners.topics.values()))

    def batches(self) -> Iterator[Batch]:
        for hub, own in self.owners.topics.items():
            for first in range(0, len(own), _BATCH):
                names = [_name(self.prefix, topic) for topic in own[first : first + _BATCH]]
                yield Batch([], names, [], owner=self.owners.infos[hub])


def _name(prefix: str, topic: int) -> Topic:
    return Topic(topic_name(prefix, topic))
