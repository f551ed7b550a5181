"""Reading a record together with what its next write needs.

The parent is read before the node. ZooKeeper serves the reads of a session in the order sent. So the guard is that of
the moment when the node was read, or older. An older guard can fail a later check that could have passed, which costs
one read. In the other order, a write could overwrite a record that was deleted and created anew between the two reads.

Reads by users and hubs go to the connected server, which may lag behind the leader (not behind what this session has
seen). Reads that decide the outcome of a write let the server catch up first.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kazoo.exceptions import NoAuthError, NoNodeError, ZookeeperError

from hedwig.clock import Deadline
from hedwig.errors import MetadataUnavailableError
from hedwig.metadata.calls.attempts import Attempts
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.zookeeper.records.paths import RecordPath
from hedwig.metadata.zookeeper.records.records import Codec
from hedwig.metadata.zookeeper.writes.versions import Identity, ZnodeVersion
from hedwig.outcomes import AbortedError, ForbiddenError, NotAppliedError, OutcomeUnknownError
from hedwig.zookeeper import Bridge, exists, get, sync

__all__ = [
    "GuardedRead",
    "NodeContent",
    "answer",
    "content_of",
    "look",
    "look_alone",
    "look_before",
    "look_closely",
    "reading",
    "version_of",
]

T = TypeVar("T")

_STORED_BYTES_MAX: Final = 1024
"""Records up to this size stay with their version, so that a merge needs no read."""


@dataclass(frozen=True, slots=True)
class NodeContent:
    """A node's content."""

    data: bytes
    czxid: int
    data_version: int
    is_ephemeral: bool = False

    @property
    def identity(self) -> Identity:
        return self.czxid, self.data_version


@dataclass(frozen=True, slots=True)
class GuardedRead:
    """A record's node (None: absent), and its parent before that (`guard` None: absent).

    `mark` is the parent's content: the token of the last create or delete under it. `mark_zxid` is the zxid that set
    it. Only `look_closely` reads these two.
    """

    content: NodeContent | None
    guard: int | None
    mark: bytes = b""
    mark_zxid: int = 0


async def look(bridge: Bridge, record_path: RecordPath, deadline: Deadline) -> GuardedRead:
    """Read a record for a caller that only reads. Raises as `Bridge.send`."""
    stat, node = await bridge.send(deadline, exists(record_path.parent), get(record_path.path))
    parent = answer(stat)
    return GuardedRead(content_of(node), None if parent is None else parent.version)


async def look_alone(bridge: Bridge, path: str, deadline: Deadline) -> NodeContent | None:
    """Read a node without its parent, as of now at the leader. Raises as `Bridge.send`."""
    caught_up, node = await bridge.send(deadline, sync(path), get(path))
    answer(caught_up)
    return content_of(node)


async def look_before(bridge: Bridge, path: str, deadline: Deadline) -> NodeContent | None:
    """As `look_alone`, in an attempt to write the node. Raises as `Bridge.send`, but for OutcomeUnknownError."""
    try:
        return await look_alone(bridge, path, deadline)
    except OutcomeUnknownError as exc:
        raise NotAppliedError(str(exc)) from exc  # Losing a read leaves nothing unknown.


async def look_closely(bridge: Bridge, record_path: RecordPath, deadline: Deadline) -> GuardedRead:
    """Read a record to decide a write: as of now at the leader, and with the parent's content."""
    caught_up, parent, node = await bridge.send(
        deadline, sync(record_path.parent), get(record_path.parent), get(record_path.path)
    )
    answer(caught_up)
    content = content_of(node)
    if isinstance(parent, NoNodeError):
        return GuardedRead(content, None)
    mark, stat = answer(parent)
    return GuardedRead(content, stat.version, mark, stat.mzxid)


def version_of(path: str, content: NodeContent, guard: int | None, codec: Codec[Any]) -> ZnodeVersion:
    """Return the version of a node's content, seen while its parent was at `guard` or later."""
    stored = content.data if len(content.data) <= _STORED_BYTES_MAX else None
    return ZnodeVersion.of(content.identity, path, guard, codec.token(content.data), stored)


def content_of(node: Any) -> NodeContent | None:
    """Return the node in the result of a `get`, or None if it is absent. Raises AbortedError for any other error."""
    if isinstance(node, NoNodeError):
        return None
    data, stat = answer(node)
    return NodeContent(data or b"", stat.czxid, stat.version, bool(stat.ephemeralOwner))


async def reading(
    options: StoreOptions, what: str, attempt: Callable[[Deadline], Awaitable[T]], deadline: Deadline | None = None
) -> T:
    """Repeat a read until an answer, by `deadline` or within the operation timeout. Raises MetadataUnavailableError."""
    try:
        return await Attempts(options, what, deadline).read(attempt)
    except AbortedError as exc:
        raise MetadataUnavailableError(f"{what}: {exc}") from exc


def answer(result: Any, *expected: type[ZookeeperError]) -> Any:
    """Return a result, or an error of a type in `expected`. Raises AbortedError, ForbiddenError - any other error."""
    if isinstance(result, ZookeeperError) and not isinstance(result, expected):
        if isinstance(result, NoAuthError):
            raise ForbiddenError("its access control list in ZooKeeper does not permit it")
        reason = str(result) or (type(result).__doc__ or "").strip()
        raise AbortedError(f"ZooKeeper refuses it: {type(result).__name__} {reason}".rstrip(), sent=False)
    return result
