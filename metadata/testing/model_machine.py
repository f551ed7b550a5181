"""The state machine: two clients of one store, and a dict that predicts the outcome of every operation."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, multiple, rule

from hedwig.errors import BadVersionError, HedwigError, InvalidArgumentError, NoRecordError
from hedwig.metadata import Delete, MetadataStore, Operation, Outcome, Read, RecordKey, Write
from hedwig.metadata.testing.doors import CALLS, DOORS, Call, Door
from hedwig.model import SubscriberId, SubscriptionData, Topic
from hedwig.versions import ANY, NEW, Version, Versioned

__all__ = ["TwoClients"]

T = TypeVar("T")

_TOPICS = (b"a", b"a\x00", b"a/b", b"a/hub", b"ab", b"\xff")
_SUBSCRIBERS = (b"s", b"s\x00", b"s/t")
_NUMBERS = itertools.count()

_clients = st.integers(0, 1)
_doors = st.sampled_from(DOORS)
_managers = st.sampled_from(CALLS)
_names = st.tuples(st.sampled_from(_TOPICS), st.sampled_from(_SUBSCRIBERS))
_values = st.integers(1, 10**6)
_parts = st.sampled_from(["both", "preferences", "state", "none"])
_choices = st.sampled_from(["current", "current", "current", "new", "new", "any", "given", "given"])
"""Which version an operation gives: mostly one that may succeed, and often one kept from an earlier write."""


class TwoClients(RuleBasedStateMachine):
    """Operations of two clients in turn on few records, so that each meets the writes of the other.

    `versions` holds the versions that all writes of all records returned. So a given version is current, stale or of
    another record.
    """

    versions = Bundle("versions")

    def __init__(self, runner: asyncio.Runner, stores: tuple[MetadataStore, MetadataStore]) -> None:
        super().__init__()
        self._runner = runner
        self._stores = stores
        # Examples share a store, and must not see each other's records.
        self._prefix = b"example%d-" % next(_NUMBERS)
        self._model: dict[tuple[str, RecordKey], Versioned[Any]] = {}
        self._seen: set[tuple[str, RecordKey, Version]] = set()

    def _run(self, work: Awaitable[T]) -> T:
        async def run() -> T:
            async with asyncio.timeout(60):
                return await work

        return self._runner.run(run())

    # The rules' operations

    @rule(target=versions, client=_clients, door=_doors, name=_names, number=_values, parts=_parts, choice=_choices)
    def write(self, client: int, door: Door, name: tuple[bytes, bytes], number: int, parts: str, choice: str) -> Any:
        return self._write(client, door, self._key(door, name), _value(door, number, parts), choice, ANY)

    @rule(target=versions, client=_clients, door=_doors, name=_names, number=_values, kept=versions)
    def write_with_a_kept_version(
        self, client: int, door: Door, name: tuple[bytes, bytes], number: int, kept: Version
    ) -> Any:
        return self._write(client, door, self._key(door, name), _value(door, number, "both"), "given", kept)

    @rule(client=_clients, door=_doors, name=_names, choice=_choices)
    def delete(self, client: int, door: Door, name: tuple[bytes, bytes], choice: str) -> None:
        self._delete(client, door, self._key(door, name), choice, ANY)

    @rule(client=_clients, door=_doors, name=_names, kept=versions)
    def delete_with_a_kept_version(self, client: int, door: Door, name: tuple[bytes, bytes], kept: Version) -> None:
        self._delete(client, door, self._key(door, name), "given", kept)

    @rule(client=_clients, door=_doors, name=_names)
    def read(self, client: int, door: Door, name: tuple[bytes, bytes]) -> None:
        key = self._key(door, name)
        assert self._run(door.read(self._stores[client], key)) == self._model.get((door.kind.name, key))

    @rule(client=_clients, door=_doors, steps=st.dictionaries(_names, st.tuples(_choices, _values, st.booleans())))
    def apply(self, client: int, door: Door, steps: dict[tuple[bytes, bytes], tuple[str, int, bool]]) -> None:
        """Run one operation on each of several records at once."""
        operations: dict[RecordKey, Operation[Any]] = {}
        for name, (choice, number, deletes) in steps.items():
            key = self._key(door, name)
            version = self._version(door, key, choice, ANY)
            write = Write(key, _value(door, number, "both"), version)
            operations[key] = Delete(key, version) if deletes else write if number % 5 else Read(key)
        outcomes = self._run(door.apply(self._stores[client], list(operations.values())))
        assert len(outcomes) == len(operations)
        for operation, outcome in zip(operations.values(), outcomes, strict=True):
            self._settle(door, operation, outcome)

    @rule(client=_clients, manager=_managers)
    def list_topics(self, client: int, manager: Call) -> None:
        listed = self._own(self._run(_all(manager.topics(self._stores[client]))))
        expected = {key.topic for name, key in self._model if name == manager.kind.name}
        assert len(listed) == len(expected)
        assert set(listed) == expected

    @rule(client=_clients)
    def list_all_topics(self, client: int) -> None:
        listed = self._own(self._run(_all(self._stores[client].topics())))
        expected = {key.topic for _, key in self._model}
        assert len(listed) == len(expected)
        assert set(listed) == expected

    @rule(client=_clients, name=st.sampled_from(_TOPICS))
    def scan(self, client: int, name: bytes) -> None:
        topic = Topic(self._prefix + name)
        listed = self._run(_all(self._stores[client].subscriptions.read_subscriptions(topic)))
        expected = {
            key.subscriber: record for (_, key), record in self._model.items() if key.topic == topic and key.subscriber
        }
        assert len(listed) == len(expected)
        assert dict(listed) == expected

    # The expected outcomes

    def _write(self, client: int, door: Door, key: RecordKey, value: Any, choice: str, kept: Version) -> Any:
        version = self._version(door, key, choice, kept)
        operation = Write(key, value, version, merge=door in (DOORS[3], DOORS[7]))
        outcome: Outcome[Any]
        try:
            outcome = Outcome(version=self._run(door.write(self._stores[client], key, value, version)))
        except HedwigError as error:
            outcome = Outcome(error=error)
        self._settle(door, operation, outcome)
        return multiple() if outcome.error is not None else outcome.version

    def _delete(self, client: int, door: Door, key: RecordKey, choice: str, kept: Version) -> None:
        version = self._version(door, key, choice, kept)
        outcome: Outcome[Any] = Outcome()
        try:
            self._run(door.delete(self._stores[client], key, version))
        except HedwigError as error:
            outcome = Outcome(error=error)
        self._settle(door, Delete(key, version), outcome)

    def _settle(self, door: Door, operation: Operation[Any], outcome: Outcome[Any]) -> None:
        """Check an outcome against the truth table, and apply its effect to the model."""
        name, key = door.kind.name, operation.key
        current = self._model.get((name, key))
        if isinstance(operation, Read):
            assert outcome.error is None
            assert outcome.record == current
            return
        expected = _refusal(door, operation, current)
        raised = None if outcome.error is None else type(outcome.error)
        assert raised is expected, (operation, outcome, current)
        if isinstance(outcome.error, BadVersionError):
            assert outcome.error.current == current
        if expected is not None:
            return
        if isinstance(operation, Delete):
            del self._model[name, key]
            return
        version = outcome.written()
        assert (name, key, version) not in self._seen, "a version came again"
        self._seen.add((name, key, version))
        self._model[name, key] = Versioned(_merged(operation, current), version)

    def _own(self, topics: list[Topic]) -> list[Topic]:
        """Return the topics of this example."""
        return [topic for topic in topics if topic.startswith(self._prefix)]

    def _key(self, door: Door, name: tuple[bytes, bytes]) -> RecordKey:
        topic, subscriber = name
        return RecordKey(Topic(self._prefix + topic), SubscriberId(subscriber) if door.kind.has_subscriber else None)

    def _version(self, door: Door, key: RecordKey, choice: str, kept: Version) -> Version:
        current = self._model.get((door.kind.name, key))
        match choice:
            case "new":
                return NEW
            case "given":
                return kept
            case "current" if current is not None:
                return current.version
            case "current":
                return NEW
            case _:
                return ANY


def _value(door: Door, number: int, parts: str) -> Any:
    value = door.value(number)
    if not isinstance(value, SubscriptionData):
        return value
    return SubscriptionData(
        preferences=value.preferences if parts in ("both", "preferences") else None,
        state=value.state if parts in ("both", "state") else None,
    )


def _refusal(door: Door, operation: Write[Any] | Delete, current: Versioned[Any] | None) -> type[HedwigError] | None:
    """Return the error that the truth table names for an operation on the current record."""
    if isinstance(operation, Delete) and operation.version == NEW:
        return InvalidArgumentError
    if current is None:
        absent_is_fine = isinstance(operation, Write) and operation.version in (NEW, ANY)
        missing: type[NoRecordError] = door.kind.missing_error
        return None if absent_is_fine else missing
    if operation.version == NEW:
        exists: type[BadVersionError] = door.kind.exists_error
        return exists
    return None if operation.version in (ANY, current.version) else BadVersionError


def _merged(operation: Write[Any], current: Versioned[Any] | None) -> Any:
    if not operation.merge or current is None:
        return operation.record
    was, now = current.value, operation.record
    return SubscriptionData(preferences=now.preferences or was.preferences, state=now.state or was.state)


async def _all(items: AsyncIterator[T]) -> list[T]:
    return [item async for item in items]
