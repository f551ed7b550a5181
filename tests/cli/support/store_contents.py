"""Contents of stores for tests that compare them, and stores with records of every kind."""

import asyncio
from typing import Any, Final

from hedwig.metadata import MetadataStore, Outcome, RecordKey, Write, open_metadata
from hedwig.metadata.contract.kinds import OWNERSHIP
from hedwig.metadata.testing import samples
from hedwig.model import SubscriberId, Topic
from hedwig.versions import NEW

__all__ = ["contents", "fill"]

_BATCH: Final = 1000


def contents(url: str, *, owners: bool = True) -> dict[Any, Any]:
    """Return every record of a store without its version, by kind, topic and subscriber."""

    async def read() -> dict[Any, Any]:
        async with await open_metadata(url) as store:
            items = [item async for page in store.scan() for item in page if owners or item.kind is not OWNERSHIP]
            return {(item.kind.name, item.key.topic, item.key.subscriber): item.read().value for item in items}

    return asyncio.run(read())


def fill(url: str, topics: int, *, first: int = 0) -> None:
    """Create topics, most with an owner, each with up to 12 different subscriptions, some with odd names."""

    async def write() -> None:
        async with await open_metadata(url) as store:
            await _fill(store, range(first, first + topics))

    asyncio.run(write())


async def _fill(store: MetadataStore, numbers: range) -> None:
    keys = {number: RecordKey(_topic(number)) for number in numbers}
    owners = [Write(key, samples.hub(number), NEW) for number, key in keys.items() if number % 4]
    ranges = [Write(key, samples.ranges(number), NEW) for number, key in keys.items() if number % 7]
    subscriptions = [
        Write(RecordKey(key.topic, SubscriberId(b"s-%d\xff" % index)), samples.subscription(number * 100 + index), NEW)
        for number, key in keys.items()
        for index in range(number % 13)
    ]
    for start in range(0, max(len(owners), len(ranges), len(subscriptions)), _BATCH):
        part = slice(start, start + _BATCH)
        outcomes: list[Outcome[Any]] = [
            *await store.ownership.apply(owners[part]),
            *await store.persistence.apply(ranges[part]),
            *await store.subscriptions.apply(subscriptions[part]),
        ]
        for outcome in outcomes:
            outcome.check()


def _topic(number: int) -> Topic:
    return Topic((b"odd\x00\xff/%d", b"plain/%d/", b"weather/%d")[min(number % 9, 2)] % number)
