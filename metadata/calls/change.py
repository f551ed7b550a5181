"""Changing a record: read it, decide, write at the version that was read, and start again if others were faster."""

import enum
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from hedwig.errors import BadVersionError, NoRecordError
from hedwig.model import Topic
from hedwig.versions import NEW, Version, Versioned

__all__ = ["Instead", "TopicRecords", "change"]

R = TypeVar("R")

_TRIES: Final = 8


class TopicRecords(Protocol[R]):
    """Records of one kind, one per topic: two of the managers, and for one subscriber the third one (see `of`)."""

    async def read(self, topic: Topic, /) -> Versioned[R] | None:
        """Return the record of `topic`, or None."""
        ...

    async def write(self, topic: Topic, record: R, version: Version, /) -> Version:
        """Store the record if `version` is still current. Raises: BadVersionError, NoRecordError - it is not."""
        ...

    async def delete(self, topic: Topic, version: Version, /) -> None:
        """Delete the record if `version` is still current. Raises as `write`."""
        ...


class Instead(enum.Enum):
    """What to do instead of writing a value."""

    LEAVE = enum.auto()
    """Leave the record as it is."""
    DELETE = enum.auto()
    """Delete it; nothing if there is none."""


class _Unread(enum.Enum):
    UNREAD = enum.auto()


async def change(
    manager: TopicRecords[R],
    topic: Topic,
    function: Callable[[Versioned[R] | None], R | Instead | Awaitable[R | Instead]],
    *,
    seen: Versioned[R] | _Unread | None = _Unread.UNREAD,
    tries: int = _TRIES,
) -> Version | None:
    """Change the record of `topic` to the value that `function` returns, by compare-and-set.

    `function` receives the record, or None, and returns the new value, LEAVE or DELETE. It may be asynchronous. It is
    called again, with the new record, each time another client was faster, so it must be repeatable. If it raises an
    error, the change ends and nothing is written.

    Args: seen - the record as the caller knows it (None: there is none), which saves the read; an outdated one costs
        only a refused write; tries - how many writes may be refused.
    Returns: the version that the record has now; None if there is no record now.
    Raises: BadVersionError, NoRecordError - others were faster each time, and nothing was written;
        UncertainStateError - a write was sent and has no known outcome: it is never repeated here, read before
        deciding; any other error of a read or write.
    """
    current = await manager.read(topic) if isinstance(seen, _Unread) else seen
    while True:
        decided = function(current)
        value = await decided if isinstance(decided, Awaitable) else decided
        if value is Instead.LEAVE or (value is Instead.DELETE and current is None):
            return None if current is None else current.version
        version = NEW if current is None else current.version
        tries -= 1
        try:
            if not isinstance(value, Instead):
                return await manager.write(topic, value, version)
            await manager.delete(topic, version)
            return None
        except BadVersionError as refused:
            if tries <= 0:
                raise
            current = refused.current or await manager.read(topic)
        except NoRecordError:
            if tries <= 0:
                raise
            current = None
