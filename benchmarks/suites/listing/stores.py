"""The stores that `hedwig-bench listing` measures: its own ones, or those at given URLs, all filled by it."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.stores.command_stores import OPTIONS, Progress, store_servers
from hedwig.metadata import MetadataStore, RecordKey, format_metadata, open_metadata
from hedwig.metadata.bulk.loading import BATCH_ROWS, RowOutcome, RowResult, TopicCreator, load_batches
from hedwig.metadata.contract.url import MetadataUrl
from hedwig.model import Topic

__all__ = [
    "NAME_MARK",
    "FilledStore",
    "given_stores",
    "own_stores",
    "topic_of",
]

NAME_MARK: Final = b"topic-"
"""A part of every topic name. A listing has it once for each topic, and nowhere else."""

_DEPARTMENTS: Final = 100
_REPORT_EVERY_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledStore:
    """A store with `topics` topics, each with an empty record of ledger ranges and nothing else."""

    name: str
    url: str
    topics: int


def topic_of(number: int, *, is_nested: bool) -> Topic:
    """Return the name of a topic: below one of 100 departments if `is_nested`, else beside all others."""
    if is_nested:
        return Topic(b"company/department-%02d/topic-%08d" % (number % _DEPARTMENTS, number))
    return Topic(b"company-topic-%08d" % number)


@contextmanager
def own_stores(
    backends: Sequence[str], sizes: Sequence[int], directory: Path, *, is_nested: bool, progress: Progress
) -> Iterator[list[FilledStore]]:
    """Start the needed servers, make a store of each size on each backend, and end the servers again.

    Raises: BenchmarkError, DevError, HedwigError - a server or a store does not come up, or cannot be filled.
    """
    with store_servers(backends, directory, progress=progress) as url:
        yield [
            _filled(url(backend, f"listing{topics}"), topics, is_nested=is_nested, progress=progress)
            for backend in backends
            for topics in sizes
        ]


def given_stores(
    urls: Sequence[str], sizes: Sequence[int], *, is_nested: bool, progress: Progress
) -> list[FilledStore]:
    """Fill the stores at `urls`, each with its own size if `sizes` has one for each, else with the first size.

    Raises: BenchmarkError, HedwigError - as `own_stores`.
    """
    each = sizes if len(sizes) == len(urls) else [sizes[0]] * len(urls)
    return [
        _filled(url, topics, is_nested=is_nested, progress=progress) for url, topics in zip(urls, each, strict=True)
    ]


def _filled(url: str, topics: int, *, is_nested: bool, progress: Progress) -> FilledStore:
    backend = MetadataUrl.parse(url).scheme
    shape = f", topics {'below 100 nodes' if is_nested else 'side by side'}" if backend == "zookeeper" else ""
    asyncio.run(_fill(url, topics, is_nested=is_nested, progress=progress))
    return FilledStore(name=f"{backend}{shape}", url=url, topics=topics)


async def _fill(url: str, topics: int, *, is_nested: bool, progress: Progress) -> None:
    await format_metadata(url, OPTIONS)
    async with await open_metadata(url, OPTIONS) as store:
        # Topics are made in this order, a few batches at a time. If the last one exists, all do.
        last = topic_of(topics - 1, is_nested=is_nested)
        if await store.persistence.read(last) is None:
            progress(f"filling {url} with {topics:,} topics")
            await _load(store, topics, is_nested=is_nested, progress=progress)


async def _load(store: MetadataStore, topics: int, *, is_nested: bool, progress: Progress) -> None:
    creator = TopicCreator(store)
    done, reported_at = 0, time.monotonic()

    async def batches() -> AsyncGenerator[list[RecordKey], None]:
        for start in range(0, topics, BATCH_ROWS):
            numbers = range(start, min(start + BATCH_ROWS, topics))
            yield [RecordKey(topic_of(number, is_nested=is_nested)) for number in numbers]

    def record(batch: Sequence[RecordKey], outcomes: Sequence[RowOutcome]) -> None:
        nonlocal done, reported_at
        failed = [outcome.reason for outcome in outcomes if outcome.result is RowResult.FAILED]
        if failed:
            raise BenchmarkError(f"the store {store.url.text} could not be filled: {failed[0]}")
        done += len(batch)
        if time.monotonic() - reported_at > _REPORT_EVERY_S:
            reported_at = time.monotonic()
            progress(f"    {done:,} topics")

    async with aclosing(batches()) as coming:
        await load_batches(coming, creator.create, record)
