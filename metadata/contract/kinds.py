"""The three kinds of record, each with the names of its errors."""

from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from hedwig.errors import (
    BadVersionError,
    InvalidArgumentError,
    NoRecordError,
    NoSubscriptionStateError,
    NoTopicOwnerInfoError,
    NoTopicPersistenceInfoError,
    RecordTooLargeError,
    SubscriptionStateExistsError,
    TopicOwnerInfoExistsError,
    TopicPersistenceInfoExistsError,
)
from hedwig.metadata.contract.operations import RecordKey
from hedwig.model import HubInfo, LedgerRanges, SubscriptionData
from hedwig.versions import NEW, Version, Versioned

__all__ = [
    "BY_SUBSCRIBER",
    "KINDS",
    "OWNERSHIP",
    "PERSISTENCE",
    "RECORD_BYTES_MAX",
    "SUBSCRIPTIONS",
    "RecordKind",
    "kind_named",
]

R = TypeVar("R")

RECORD_BYTES_MAX: Final = 512 * 1024
"""The most bytes that the encoded form of a record may have, on every backend.

It is half of ZooKeeper's packet limit, so that a path and the guard fit beside the record. It holds about twenty
thousand ledger ranges.
"""

_RANGES_BYTES_MAX: Final = 768 * 1024
"""The same limit for ledger ranges. It leaves room to end the ranges that began within the limit of all records.

If the last range of a topic could not be ended, the topic could be neither released nor recovered.
"""


@dataclass(frozen=True, slots=True)
class RecordKind(Generic[R]):
    """The records of one manager: the manager's name, the noun for a record, and the errors of its refusals."""

    name: str
    noun: str
    exists_error: type[BadVersionError]
    missing_error: type[NoRecordError]
    has_subscriber: bool = False
    bytes_max: int = RECORD_BYTES_MAX

    def check(self, key: RecordKey) -> None:
        """Raise InvalidArgumentError if `key` cannot name a record of this kind."""
        key.check()
        if (key.subscriber is not None) != self.has_subscriber:
            raise InvalidArgumentError(f"the key of {self.noun} has {'a' if self.has_subscriber else 'no'} subscriber")

    def check_delete(self, key: RecordKey, version: Version) -> None:
        """Raise InvalidArgumentError if the key is invalid or the version is NEW."""
        self.check(key)
        if version == NEW:
            raise InvalidArgumentError("a delete takes the version last read, or ANY, never NEW")

    def check_size(self, key: RecordKey, *parts: bytes | None) -> None:
        """Raise RecordTooLargeError if the encoded parts together exceed the limit."""
        size = sum(len(part) for part in parts if part is not None)
        if size > self.bytes_max:
            raise RecordTooLargeError(
                f"the {self.noun} of {key} encodes to {size} bytes; at most {self.bytes_max} can be stored"
            )

    def exists(self, key: RecordKey, current: Versioned[R]) -> BadVersionError:
        """Return the error for NEW when the record exists."""
        return self.exists_error(f"the {self.noun} of {key} exists already, at version {current.version}", current)

    def stale(self, key: RecordKey, current: Versioned[R]) -> BadVersionError:
        """Return the error for a version that is not current."""
        return BadVersionError(f"the {self.noun} of {key} is at version {current.version}, not the one given", current)

    def missing(self, key: RecordKey) -> NoRecordError:
        """Return the error for a version, or ANY on delete, when there is no record."""
        return self.missing_error(f"there is no {self.noun} of {key}")


OWNERSHIP: Final[RecordKind[HubInfo]] = RecordKind(
    "ownership", "owner record", TopicOwnerInfoExistsError, NoTopicOwnerInfoError
)
PERSISTENCE: Final[RecordKind[LedgerRanges]] = RecordKind(
    "persistence",
    "persistence record",
    TopicPersistenceInfoExistsError,
    NoTopicPersistenceInfoError,
    bytes_max=_RANGES_BYTES_MAX,
)
SUBSCRIPTIONS: Final[RecordKind[SubscriptionData]] = RecordKind(
    "subscriptions", "subscription", SubscriptionStateExistsError, NoSubscriptionStateError, has_subscriber=True
)
KINDS: Final = (OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS)

BY_SUBSCRIBER: Final[RecordKind[None]] = RecordKind(
    "subscribers", "index entry", SubscriptionStateExistsError, NoSubscriptionStateError, has_subscriber=True
)
"""The entries of the index of subscriptions by subscriber, which are empty (hedwig.metadata.calls.indexed_table).

No manager keeps them, so they are not among KINDS. In their keys topic and subscriber have changed places.
"""


def kind_named(name: str) -> RecordKind[Any]:
    """Return the kind of that name. Raises InvalidArgumentError if there is none."""
    kinds: tuple[RecordKind[Any], ...] = KINDS
    for kind in kinds:
        if kind.name == name:
            return kind
    raise InvalidArgumentError(f"there are no records of a kind {name!r}; there are {', '.join(k.name for k in kinds)}")
