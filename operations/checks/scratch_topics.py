"""Topics of a measurement. They have a prefix of their own in the store, and are always removed at the end."""

import secrets
from collections.abc import Callable, Sequence
from typing import Any, Final

from hedwig.clock import Deadline, SystemClock
from hedwig.errors import MetadataUnavailableError, NoRecordError
from hedwig.metadata import Delete, MetadataStore, Outcome, Read, RecordKey
from hedwig.metadata.zookeeper.records.paths import Paths
from hedwig.model import SubscriberId, Topic
from hedwig.names import as_topic
from hedwig.operations.deployment.cluster import cluster_session, parse_cluster_url
from hedwig.operations.deployment.deployment import Deployment
from hedwig.outcomes import NotAppliedError, OutcomeUnknownError
from hedwig.versions import Versioned

__all__ = ["SCRATCH_PREFIX", "SUBSCRIBER", "ScratchTopics", "remove_left_over"]

SCRATCH_PREFIX: Final = "hedwig-check-perf"
SUBSCRIBER: Final = SubscriberId(b"check-perf")
_PER_FOLDER: Final = 1000
"""ZooKeeper lists all children of a node in one reply."""
_BATCH: Final = 500


class ScratchTopics:
    """The topics of one run, by number. At most `used` of them have a record."""

    def __init__(self) -> None:
        self.folder = f"{SCRATCH_PREFIX}/{secrets.token_hex(8)}"
        self.used = 0

    def topic(self, number: int) -> Topic:
        """Return the name of a topic, and count it as used from now on."""
        self.used = max(self.used, number + 1)
        return as_topic(f"{self.folder}/{number // _PER_FOLDER}/{number % _PER_FOLDER}".encode())

    async def remove(self, deployment: Deployment, store: MetadataStore, done: Callable[[int], None]) -> None:
        """Remove all records; `done` receives the number of topics removed, a few at a time. Raises: MetadataError."""
        for first in range(0, self.used, _BATCH):
            numbers = range(first, min(first + _BATCH, self.used))
            await _remove_topics(store, [self.topic(number) for number in numbers])
            done(len(numbers))
        await _remove_nodes(deployment, store, self.folder)


async def remove_left_over(deployment: Deployment, store: MetadataStore, done: Callable[[int], None]) -> int:
    """Remove the topics of killed runs; return how many topics they were. Raises: MetadataError."""
    removed = 0
    page: list[Topic] = []
    async for topic in store.topics(f"{SCRATCH_PREFIX}/".encode()):
        page.append(topic)
        if len(page) == _BATCH:
            await _remove_topics(store, page)
            removed += len(page)
            done(len(page))
            page = []
    await _remove_topics(store, page)
    done(len(page))
    await _remove_nodes(deployment, store, SCRATCH_PREFIX)
    return removed + len(page)


async def _remove_topics(store: MetadataStore, topics: Sequence[Topic]) -> None:
    """Delete all records of `topics`. Raises: MetadataError - some records remain."""
    records = [RecordKey(topic) for topic in topics]
    await _remove(store.subscriptions, [RecordKey(topic, SUBSCRIBER) for topic in topics])
    await _remove(store.ownership, records)
    await _remove(store.persistence, records)


async def _remove(manager: Any, keys: Sequence[RecordKey]) -> None:
    if not keys:
        return
    outcomes: list[Outcome[Any]] = await manager.apply([Read(key) for key in keys])
    there: list[tuple[RecordKey, Versioned[Any]]] = []
    for key, outcome in zip(keys, outcomes, strict=True):
        outcome.check()
        if outcome.record is not None:
            there.append((key, outcome.record))
    if not there:
        return
    for outcome in await manager.apply([Delete(key, record.version) for key, record in there]):
        if not isinstance(outcome.error, NoRecordError):
            outcome.check()


async def _remove_nodes(deployment: Deployment, store: MetadataStore, folder: str) -> None:
    """Remove the empty nodes that ZooKeeper keeps of deleted records. No client holds a version of these records."""
    if store.url.scheme != "zookeeper":
        return
    from hedwig.metadata.zookeeper.writes.wiping import delete_tree
    from hedwig.zookeeper import delete

    _, prefix = parse_cluster_url(store.url.text)
    topics = Paths(prefix).topics
    try:
        session = cluster_session(store.url.text, deployment.timeout_s, deployment.stores_file)
        async with session as (bridge, _):
            await delete_tree(bridge, deployment.store_options(), f"{topics}/{folder}")
            # The last run also removes the node above all runs. While other runs exist, ZooKeeper keeps that node.
            deadline = Deadline.after(SystemClock(), deployment.timeout_s)
            await bridge.send(deadline, delete(f"{topics}/{SCRATCH_PREFIX}"))
    except (NotAppliedError, OutcomeUnknownError) as exc:
        raise MetadataUnavailableError(f"empty nodes below {topics}/{folder} are left: {exc}") from exc
