"""Owners of the topics of a storm: who has them, and records that say so of topics that nobody has asked for."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.errors import BenchmarkError
from benchmarks.workloads import topic_name
from hedwig.model import HubInfo, Topic
from hedwig.versions import NEW
from metadata import MetadataStore, StoreOptions, open_metadata
from metadata.bulk import load_batches
from metadata.operations import RecordKey, Write

__all__ = ["Owners", "read_owners", "write_owners"]

_READING: Final = 500
_BATCH: Final = 256
_BATCHES_IN_FLIGHT: Final = 6


@dataclass(frozen=True, slots=True)
class Owners:
    """Topics of some hubs, by the hub's address, in order. infos: what their records say of each hub."""

    topics: Mapping[str, Sequence[int]]
    infos: Mapping[str, HubInfo]


async def read_owners(url: str, prefix: str, topics: Iterable[int]) -> Owners:
    """Return the owners of topics, as the store at `url` has them; those without one are left out."""
    room = asyncio.Semaphore(_READING)
    found: dict[str, list[int]] = {}
    infos: dict[str, HubInfo] = {}
    async with await open_metadata(url) as store:

        async def read(topic: int) -> HubInfo | None:
            async with room:
                record = await store.ownership.read_owner_info(_name(prefix, topic))
            return None if record is None else record.value

        asked = list(topics)
        answers = await asyncio.gather(*map(read, asked))
    for topic, info in zip(asked, answers, strict=True):
        if info is not None:
            found.setdefault(info.name, []).append(topic)
            infos[info.name] = info
    return Owners(found, infos)


async def write_owners(url: str, prefix: str, topics: Sequence[int], infos: Mapping[str, HubInfo]) -> Owners:
    """Give topics, none of which has an owner, to hubs in turn. Raises BenchmarkError - one has; and as stores do."""
    hubs = list(infos)
    shares = {hub: list(topics[place :: len(hubs)]) for place, hub in enumerate(hubs)}
    owner_of = {topic: infos[hub] for hub, own in shares.items() for topic in own}
    async with await open_metadata(url, StoreOptions(gather=True)) as store:

        async def write(batch: Sequence[int]) -> None:
            await _write(store, [Write(RecordKey(_name(prefix, topic)), owner_of[topic], NEW) for topic in batch])

        await load_batches(_batches(topics), write, lambda _batch, _made: None, in_flight_max=_BATCHES_IN_FLIGHT)
    return Owners(shares, infos)


async def _write(store: MetadataStore, writes: Sequence["Write[HubInfo]"]) -> None:
    for outcome in await store.ownership.apply(writes):
        if outcome.error is not None:
            raise BenchmarkError(f"an owner could not be written: {type(outcome.error).__name__}: {outcome.error}")


async def _batches(topics: Sequence[int]) -> AsyncIterator[Sequence[int]]:
    for first in range(0, len(topics), _BATCH):
        yield topics[first : first + _BATCH]


def _name(prefix: str, topic: int) -> Topic:
    return Topic(topic_name(prefix, topic))
