"""Stores with faults planted in them, for the tests of `metadata check` and `metadata repair`."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from hedwig.hub.ledgers import LocalLedgerStore
from hedwig.metadata import MetadataStore, open_metadata
from hedwig.model import (
    HubInfo,
    LedgerRange,
    LedgerRanges,
    MessageSeqId,
    SubscriberId,
    SubscriptionData,
    SubscriptionState,
    Topic,
)
from hedwig.versions import ANY, NEW

__all__ = [
    "DEAD",
    "FAULTS",
    "in_store",
    "listening_hub",
    "local_ledgers",
    "plant",
    "plant_sound",
    "ranges",
    "set_ranges",
]

T = TypeVar("T")

DEAD: Final = HubInfo(host="127.0.0.1", port=9, epoch=7)

FAULTS: Final = {
    ("dead-owner", "f/dead", None, "warning"),
    ("dead-owner", "f/dead-without-ranges", None, "warning"),
    ("lone-subscription", "f/lone", "consumed", "critical"),
    ("lone-subscription", "f/lone", "fresh", "warning"),
    ("range-overlap", "f/overlap", None, "critical"),
    ("range-gap", "f/gap", None, "critical"),
    ("range-overlap", "f/twice", None, "critical"),
}
"""What a check finds of the faults that `plant` plants: kind, topic, subscriber, severity."""


def in_store(url: str, work: Callable[[MetadataStore], Awaitable[T]]) -> T:
    """Return what `work` returns, given the open store."""

    async def run() -> T:
        async with await open_metadata(url) as store:
            return await work(store)

    return asyncio.run(run())


def ranges(*parts: tuple[int, int | None, int | None]) -> LedgerRanges:
    """Return the record of (ledger, start, end)s."""
    return LedgerRanges(
        tuple(
            LedgerRange(ledger_id=ledger_id, start=start, end=None if end is None else MessageSeqId(end))
            for ledger_id, start, end in parts
        )
    )


@contextmanager
def listening_hub(url: str) -> Iterator[HubInfo]:
    """Yield a hub that is registered as the standalone one of a store, and listen at its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}:-1"

        async def register(store: MetadataStore) -> int:
            return await store.register_standalone("planted", address)

        yield HubInfo.at(address, epoch=in_store(url, register))


def plant_sound(url: str, topics: int, owner: HubInfo | None = None) -> None:
    """Create topics in order, with ranges, subscriptions and, for every other topic, a living owner."""

    async def write(store: MetadataStore) -> None:
        for number in range(topics):
            topic = Topic(b"sound/%d" % number)
            await store.persistence.write(topic, ranges((number, 1, 5), (1000, 6, None)), NEW)
            for index in range(number % 4):
                data = SubscriptionData(state=SubscriptionState(MessageSeqId(index)))
                await store.subscriptions.create(topic, SubscriberId(b"s-%d" % index), data)
            if owner is not None and number % 2:
                await store.ownership.write(topic, owner, NEW)

    in_store(url, write)


def plant(url: str) -> None:
    """Plant one fault of each kind that the records alone show; see FAULTS."""

    async def write(store: MetadataStore) -> None:
        put = store.persistence.write
        await put(Topic(b"f/dead"), ranges((1, 1, 5), (2, 6, None)), NEW)
        await store.ownership.write(Topic(b"f/dead"), DEAD, NEW)
        await store.ownership.write(Topic(b"f/dead-without-ranges"), DEAD, NEW)
        for subscriber, consumed in ((b"consumed", 57), (b"fresh", 0)):
            data = SubscriptionData(state=SubscriptionState(MessageSeqId(consumed)))
            await store.subscriptions.create(Topic(b"f/lone"), SubscriberId(subscriber), data)
        await put(Topic(b"f/overlap"), ranges((3, 1, 5), (4, 5, None)), NEW)
        await put(Topic(b"f/gap"), ranges((5, 1, 5), (6, 8, None)), NEW)
        await put(Topic(b"f/twice"), ranges((7, 1, 5), (7, 1, 5), (8, 6, None)), NEW)

    in_store(url, write)


def local_ledgers(data: Path, *entries: int) -> list[int]:
    """Make closed ledgers of N entries each in the data directory of a stopped hub; return their ids."""

    async def make() -> list[int]:
        store = await LocalLedgerStore.open(data / "ledgers")
        made = []
        for number in entries:
            made.append(await store.create())
            for entry_id in range(number):
                await store.append(made[-1], entry_id, b"entry %d" % entry_id)
            await store.close(made[-1])
        await store.aclose()
        return made

    return asyncio.run(make())


def set_ranges(url: str, topic: str, record: LedgerRanges) -> None:
    """Write the ranges of a topic, whatever it had."""

    async def write(store: MetadataStore) -> Any:
        return await store.persistence.write(Topic(topic.encode()), record, ANY)

    in_store(url, write)
