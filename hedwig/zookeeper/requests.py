"""The requests to ZooKeeper, ready for `Bridge.send`, and how to recognize that a transaction was refused.

An error answer is a result too, so the functions here "return" errors.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import RolledBackError, RuntimeInconsistency, ZookeeperError
from kazoo.security import ACL

__all__ = [
    "ANY_VERSION",
    "Request",
    "children",
    "commit_nothing",
    "create",
    "delete",
    "exists",
    "get",
    "get_acl",
    "refusal_of",
    "set_acl",
    "set_at",
    "sync",
    "transaction",
]

Request: TypeAlias = Callable[[KazooClient], Any]
"""Submits one request to kazoo and returns its completion."""

ANY_VERSION: Final = -1


def get(path: str) -> Request:
    """Return (data, stat), or NoNodeError, as the connected server knows it. Send a `sync` first for the latest."""
    return lambda client: client.get_async(path)


def exists(path: str) -> Request:
    """Return the stat, or None."""
    return lambda client: client.exists_async(path)


def children(path: str, on_change: Callable[[Any], None] | None = None) -> Request:
    """Return the names of the children, or NoNodeError. `on_change` is called once, in kazoo's thread."""
    return lambda client: client.get_children_async(path, watch=on_change)


def sync(path: str) -> Request:
    """Let the connected server catch up with the leader before it serves the requests that follow."""
    return lambda client: client.sync_async(path)


def create(path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> Request:
    """Return the path, NodeExistsError, or NoNodeError if the parent is missing.

    With `sequence`, ZooKeeper appends digits to the path, and the result is the whole path.
    """
    return lambda client: client.create_async(path, data, ephemeral=ephemeral, sequence=sequence)


def get_acl(path: str) -> Request:
    """Return (access control list, stat), NoNodeError, or NoAuthError if the list forbids it."""
    return lambda client: client.get_acls_async(path)


def set_acl(path: str, entries: Sequence[ACL]) -> Request:
    """Return the stat, NoNodeError, or NoAuthError if the node's list does not let this session change it."""
    return lambda client: client.set_acls_async(path, list(entries))


def set_at(path: str, data: bytes, version: int) -> Request:
    """Return the stat, BadVersionError or NoNodeError."""
    return lambda client: client.set_async(path, data, version)


def delete(path: str, version: int = ANY_VERSION) -> Request:
    """Return True, NoNodeError or NotEmptyError; with a version also BadVersionError."""
    return lambda client: client.delete_async(path, version)


def transaction(fill: Callable[[TransactionRequest], object]) -> Request:
    """Commit the operations that `fill` adds, all or none; return their results in order (see `refusal_of`)."""

    def submit(client: KazooClient) -> Any:
        operations = client.transaction()
        fill(operations)
        return operations.commit_async()

    return submit


def commit_nothing(path: str = "/") -> Request:
    """Commit a transaction that only checks whether there is a node at `path`.

    Once it is answered, refused or not, a majority of the servers has it. The connected server has then applied all
    that was committed before, so the requests that follow see it. A `sync` is not enough: a leader answers it alone,
    even if the other servers already follow another leader.
    """
    return transaction(lambda operations: operations.check(path, ANY_VERSION))


def refusal_of(results: Sequence[Any] | ZookeeperError) -> ZookeeperError | None:
    """Return the error that rolled a transaction back, or None if it was committed."""
    if isinstance(results, ZookeeperError):
        return results
    errors = [result for result in results if isinstance(result, ZookeeperError)]
    for error in errors:
        if not isinstance(error, RolledBackError | RuntimeInconsistency):
            return error
    return errors[0] if errors else None
