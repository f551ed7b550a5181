"""Operations as values, so that many can travel in one `apply`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from hedwig.errors import CorruptRecordError, HedwigError
from hedwig.model import SubscriberId, Topic
from hedwig.names import as_subscriber, as_topic, show_name
from hedwig.versions import Version, Versioned

__all__ = ["Delete", "Operation", "Outcome", "Read", "RecordKey", "Write", "outcome_of"]

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class RecordKey:
    """Which record: a topic, and for a subscription its subscriber."""

    topic: Topic
    subscriber: SubscriberId | None = None

    def __str__(self) -> str:
        topic = f"topic '{show_name(self.topic)}'"
        return topic if self.subscriber is None else f"subscriber '{show_name(self.subscriber)}' on {topic}"

    def check(self) -> None:
        """Raise NameLimitError if a name is empty or too long."""
        as_topic(self.topic)
        if self.subscriber is not None:
            as_subscriber(self.subscriber)


@dataclass(frozen=True, slots=True)
class Read:
    """Read one record."""

    key: RecordKey


@dataclass(frozen=True, slots=True)
class Write(Generic[R]):
    """Write one record if `version` is still current.

    With `merge`, parts that are absent in `record` stay as they are stored; else the whole record is written.
    """

    key: RecordKey
    record: R
    version: Version
    merge: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete one record if `version` is still current."""

    key: RecordKey
    version: Version


Operation: TypeAlias = Read | Write[R] | Delete


@dataclass(frozen=True, slots=True)
class Outcome(Generic[R]):
    """The outcome of one operation: its error, or a Write's new version, or a Read's record (None: absent)."""

    version: Version | None = None
    record: Versioned[R] | None = None
    error: HedwigError | None = None

    def check(self) -> None:
        """Raise the error, if there is one."""
        if self.error is None:
            return
        try:
            raise self.error
        finally:
            # The error's traceback holds this frame, so the frame must not hold the error. With thousands of refusals a
            # second, such cycles are too many for the garbage collector.
            del self

    def written(self) -> Version:
        """Return the version of a Write that was applied; else raise its error."""
        if self.version is not None:
            return self.version
        try:
            self.check()
            raise AssertionError("the outcome of a Read or Delete has no version")
        finally:
            del self  # As in `check`.


def outcome_of(decode: Callable[[], Versioned[R]]) -> Outcome[R]:
    """Return the outcome with the record that `decode` returns, or with the error that it cannot be read."""
    try:
        return Outcome(record=decode())
    except CorruptRecordError as exc:
        return Outcome(error=exc.with_traceback(None))
