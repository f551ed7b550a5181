"""Doors: every way to write a record, behind one interface, so that one test covers all of them.

A door is a manager together with the form of its calls: its named methods, or `apply`. For subscriptions it is also the
form of a write: the update of the present parts, or the replacement of the whole record.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from hedwig.metadata import Delete, MetadataStore, Operation, Outcome, Read, RecordKey, Write
from hedwig.metadata.contract.kinds import OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS, RecordKind
from hedwig.metadata.testing import samples
from hedwig.model import SubscriberId, Topic
from hedwig.versions import NEW, Version, Versioned

__all__ = ["CALLS", "DOORS", "Call", "Door"]


class Door(Protocol):
    """One way to write the records of one kind."""

    @property
    def label(self) -> str:
        """Return the name of the door for a test's id."""

    @property
    def kind(self) -> RecordKind[Any]:
        """Return the kind of the records that it writes."""

    def key(self, name: bytes) -> RecordKey:
        """Return the key of a record of this kind on the topic `name`."""

    def value(self, number: int) -> Any:
        """Return a record that differs from the record of every other number."""

    async def read(self, store: MetadataStore, key: RecordKey) -> Versioned[Any] | None:
        """Read the record at `key`."""

    async def write(self, store: MetadataStore, key: RecordKey, value: Any, version: Version) -> Version:
        """Write `value`, creating the record if `version` is NEW."""

    async def delete(self, store: MetadataStore, key: RecordKey, version: Version) -> None:
        """Delete the record."""

    async def apply(self, store: MetadataStore, operations: list[Operation[Any]]) -> list[Outcome[Any]]:
        """Run many operations on records of this kind."""

    def topics(self, store: MetadataStore, prefix: bytes | None = None, start_after: Topic | None = None) -> Any:
        """List the topics that have a record of this kind."""


@dataclass(frozen=True, slots=True)
class Call:
    """The named methods of one manager."""

    label: str
    kind: RecordKind[Any]
    manager: Callable[[MetadataStore], Any]
    value: Callable[[int], Any]
    merge: bool = False

    def key(self, name: bytes) -> RecordKey:
        return RecordKey(Topic(name), SubscriberId(b"subscriber") if self.kind.has_subscriber else None)

    async def read(self, store: MetadataStore, key: RecordKey) -> Versioned[Any] | None:
        record: Versioned[Any] | None = await self.manager(store).read(*_names(key))
        return record

    async def write(self, store: MetadataStore, key: RecordKey, value: Any, version: Version) -> Version:
        manager = self.manager(store)
        write = manager.write if not self.kind.has_subscriber else manager.update if self.merge else manager.replace
        written: Version
        if self.kind.has_subscriber and version == NEW:
            written = await manager.create(*_names(key), value)
        else:
            written = await write(*_names(key), value, version)
        return written

    async def delete(self, store: MetadataStore, key: RecordKey, version: Version) -> None:
        await self.manager(store).delete(*_names(key), version)

    async def apply(self, store: MetadataStore, operations: list[Operation[Any]]) -> list[Outcome[Any]]:
        outcomes: list[Outcome[Any]] = await self.manager(store).apply(operations)
        return outcomes

    def topics(self, store: MetadataStore, prefix: bytes | None = None, start_after: Topic | None = None) -> Any:
        return self.manager(store).topics(prefix, start_after)


@dataclass(frozen=True, slots=True)
class Applied:
    """The same operations, each sent through `apply`."""

    call: Call

    @property
    def label(self) -> str:
        return f"{self.call.label}, applied"

    @property
    def kind(self) -> RecordKind[Any]:
        return self.call.kind

    def key(self, name: bytes) -> RecordKey:
        return self.call.key(name)

    def value(self, number: int) -> Any:
        return self.call.value(number)

    async def read(self, store: MetadataStore, key: RecordKey) -> Versioned[Any] | None:
        outcome = await self._one(store, Read(key))
        outcome.check()
        return outcome.record

    async def write(self, store: MetadataStore, key: RecordKey, value: Any, version: Version) -> Version:
        return (await self._one(store, Write(key, value, version, self.call.merge))).written()

    async def delete(self, store: MetadataStore, key: RecordKey, version: Version) -> None:
        (await self._one(store, Delete(key, version))).check()

    async def _one(self, store: MetadataStore, operation: Operation[Any]) -> Outcome[Any]:
        (outcome,) = await self.apply(store, [operation])
        return outcome

    async def apply(self, store: MetadataStore, operations: list[Operation[Any]]) -> list[Outcome[Any]]:
        return await self.call.apply(store, operations)

    def topics(self, store: MetadataStore, prefix: bytes | None = None, start_after: Topic | None = None) -> Any:
        return self.call.topics(store, prefix, start_after)


def _names(key: RecordKey) -> tuple[bytes, ...]:
    return (key.topic,) if key.subscriber is None else (key.topic, key.subscriber)


_OWNERSHIP = Call("ownership", OWNERSHIP, lambda store: store.ownership, samples.hub)
_PERSISTENCE = Call("persistence", PERSISTENCE, lambda store: store.persistence, samples.ranges)
_REPLACE = Call("subscription", SUBSCRIPTIONS, lambda store: store.subscriptions, samples.subscription)
_UPDATE = Call(
    "subscription update", SUBSCRIPTIONS, lambda store: store.subscriptions, samples.subscription, merge=True
)

CALLS: tuple[Call, ...] = (_OWNERSHIP, _PERSISTENCE, _REPLACE)
"""One door for each manager."""

DOORS: tuple[Door, ...] = (_OWNERSHIP, _PERSISTENCE, _REPLACE, _UPDATE, *map(Applied, (*CALLS, _UPDATE)))
"""Every door."""
