"""How a process contends for topics: it looks, claims, takes over and releases, and records every call."""

import asyncio
import random
from pathlib import Path
from typing import Any, Final, Protocol

from hedwig.errors import BadVersionError, MetadataUnavailableError, NoRecordError
from hedwig.metadata import MetadataStore
from hedwig.model import HubInfo, Topic
from hedwig.names import as_topic
from hedwig.versions import NEW, Version, Versioned
from tests.faults.linearizability.support.recorder import RecordedOwnership

__all__ = ["OwnerRecords", "contend", "contend_in_process"]

_AT_ONCE: Final = 3
_STALE_SHARE: Final = 0.15


class OwnerRecords(Protocol):
    """The part of a TopicOwnershipManager that a contender uses."""

    async def read(self, topic: Topic) -> Versioned[HubInfo] | None:
        """Read, as the manager does."""

    async def write(self, topic: Topic, hub: HubInfo, version: Version) -> Version:
        """Write, as the manager does."""

    async def delete(self, topic: Topic, version: Version) -> None:
        """Delete, as the manager does."""


async def contend(
    records: OwnerRecords,
    hub: HubInfo,
    topics: list[Topic],
    rng: random.Random,
    *,
    rounds: int,
    at_once: int = _AT_ONCE,
) -> None:
    """Run `rounds` rounds, `at_once` at a time: each is a look at a random topic and a change of its owner.

    Some changes use an outdated version, as a hub does after a pause.
    """
    overtaken: dict[Topic, Version] = {}

    async def change(topic: Topic) -> None:
        record = await records.read(topic)
        version = NEW if record is None else record.version
        if topic in overtaken and rng.random() < _STALE_SHARE:
            version = overtaken[topic]
        elif record is not None and rng.random() < 0.5:
            overtaken[topic] = record.version
        if version != NEW and (rng.random() < 0.2 or (record is not None and record.value == hub)):
            await records.delete(topic, version)
        else:
            await records.write(topic, hub, version)

    async def go_on(share: int) -> None:
        for _ in range(share):
            try:
                await change(rng.choice(topics))
            except (BadVersionError, NoRecordError, MetadataUnavailableError):
                continue  # The call is recorded, which is all that is needed.

    async with asyncio.TaskGroup() as group:
        for number in range(at_once):
            group.create_task(go_on(len(range(number, rounds, at_once))))


async def contend_in_process(store: MetadataStore, settings: dict[str, Any]) -> None:
    """Contend by `settings`: `worker`, `seed`, `topics`, `rounds`, and the file `record`."""
    worker: int = settings["worker"]
    hub = HubInfo(host=f"hub-{worker}", port=4080, epoch=worker + 1)
    topics = [as_topic(name.encode()) for name in settings["topics"]]
    rng = random.Random(f"{settings['seed']} {worker}")
    with RecordedOwnership(store.ownership, f"hub-{worker}", Path(settings["record"])) as records:
        await contend(records, hub, topics, rng, rounds=settings["rounds"])
