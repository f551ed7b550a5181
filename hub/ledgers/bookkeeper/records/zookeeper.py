"""What the ledgers need of a ZooKeeper session, and the requests that they make in it."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from hedwig.clock import Deadline

__all__ = [
    "Request",
    "Session",
    "children",
    "create",
    "create_ephemeral",
    "create_ephemeral_sequential",
    "delete",
    "exists",
    "get",
    "glance",
    "set_at",
]

Request: TypeAlias = Callable[[Any], Any]
"""Submits one request to a kazoo client and returns its completion."""


class Session(Protocol):
    """A session with ZooKeeper that survives its connections; many requests may be in flight."""

    async def send(self, deadline: Deadline, *requests: Request) -> list[Any]:
        """Submit requests back to back, and return their results in order; an error answer is its exception.

        Raises: LedgerStoreUnavailableError - never submitted; LedgerWriteError - submitted, and one was not answered.
        """
        ...


def get(path: str) -> Request:
    """Return (data, stat), or NoNodeError; as of now, since the server that we talk to catches up first."""

    def submit(client: Any) -> Any:
        client.sync_async(path)
        return client.get_async(path)

    return submit


def glance(path: str) -> Request:
    """Return (data, stat), or NoNodeError; as the server at hand has it."""
    return lambda client: client.get_async(path)


def exists(path: str) -> Request:
    """Return the stat, or None."""
    return lambda client: client.exists_async(path)


def children(path: str, on_change: Callable[[Any], None] | None = None) -> Request:
    """Return the names of the children, or NoNodeError. `on_change` is called once, in kazoo's thread."""
    return lambda client: client.get_children_async(path, watch=on_change)


def create(path: str, data: bytes = b"") -> Request:
    """Return the path, NodeExistsError, or NoNodeError if the parent is missing."""
    return lambda client: client.create_async(path, data)


def create_ephemeral(path: str) -> Request:
    """Return the path, NodeExistsError, or NoNodeError if the parent is missing."""
    return lambda client: client.create_async(path, b"", ephemeral=True)


def create_ephemeral_sequential(prefix: str) -> Request:
    """Return the path with the digits that ZooKeeper appended, or NoNodeError if the parent is missing."""
    return lambda client: client.create_async(prefix, b"", ephemeral=True, sequence=True)


def set_at(path: str, data: bytes, version: int) -> Request:
    """Return the stat, BadVersionError or NoNodeError."""
    return lambda client: client.set_async(path, data, version)


def delete(path: str, version: int = -1) -> Request:
    """Return True, NoNodeError or NotEmptyError; with a version BadVersionError, too."""
    return lambda client: client.delete_async(path, version)
