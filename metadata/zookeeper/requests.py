"""The requests that this backend makes of ZooKeeper, ready for `Bridge.send`."""

from collections.abc import Mapping, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import RolledBackError, RuntimeInconsistency, ZookeeperError

from hedwig.zookeeper import Request

__all__ = [
    "children",
    "commit_nothing",
    "create",
    "create_all",
    "create_with_parent",
    "delete",
    "delete_guarded",
    "exists",
    "get",
    "multi_refusal",
    "set_at",
    "set_guarded",
    "sync",
]


def get(path: str) -> Request:
    """Return (data, stat), or NoNodeError."""
    return lambda client: client.get_async(path)


def exists(path: str) -> Request:
    """Return the stat, or None."""
    return lambda client: client.exists_async(path)


def children(path: str) -> Request:
    """Return the names of the children, or NoNodeError."""
    return lambda client: client.get_children_async(path)


def sync(path: str) -> Request:
    """Let the server that we talk to catch up with the leader, before the requests that follow are served."""
    return lambda client: client.sync_async(path)


def commit_nothing(path: str) -> Request:
    """Have the ensemble commit a transaction that changes nothing: it only asks whether there is a node at `path`.

    Answered like other transactions, by then the server that we talk to has applied all that was committed before.
    """

    def submit(client: KazooClient) -> Any:
        transaction = client.transaction()
        transaction.check(path, -1)
        return transaction.commit_async()

    return submit


def delete(path: str) -> Request:
    """Delete whatever is at `path`: True, NoNodeError, or NotEmptyError."""
    return lambda client: client.delete_async(path)


def create(path: str, data: bytes = b"", mark: tuple[str, bytes] | None = None) -> Request:
    """Create a node; with `mark`, a (path, data), set that node's data in the same transaction."""

    def submit(client: KazooClient) -> Any:
        transaction = client.transaction()
        transaction.create(path, data)
        if mark is not None:
            transaction.set_data(*mark)
        return transaction.commit_async()

    return submit


def create_with_parent(path: str, data: bytes, mark: tuple[str, bytes]) -> Request:
    """Create a node and its parent, whose path and data are `mark`, in one transaction.

    The parent is made empty first and set then, so its data version is that of any parent of one child.
    """

    def submit(client: KazooClient) -> Any:
        transaction = client.transaction()
        transaction.create(mark[0])
        transaction.create(path, data)
        transaction.set_data(*mark)
        return transaction.commit_async()

    return submit


def create_all(nodes: Sequence[tuple[str, bytes]], marks: Mapping[str, bytes]) -> Request:
    """Create `nodes`, each a (path, data), and set the data of others, by path, in one transaction."""

    def submit(client: KazooClient) -> Any:
        transaction = client.transaction()
        for node in nodes:
            transaction.create(*node)
        for mark in marks.items():
            transaction.set_data(*mark)
        return transaction.commit_async()

    return submit


def set_at(path: str, data: bytes, version: int) -> Request:
    """Set a node's data if it is at `version`, answered like the other writes."""

    def submit(client: KazooClient) -> Any:
        transaction = client.transaction()
        transaction.set_data(path, data, version)
        return transaction.commit_async()

    return submit


def set_guarded(path: str, data: bytes, version: int, parent: str, guard: int) -> Request:
    """Set a node's data if it is at `version` and its parent at `guard`."""

    def submit(client: KazooClient) -> Any:
        transaction = client.transaction()
        transaction.check(parent, guard)
        transaction.set_data(path, data, version)
        return transaction.commit_async()

    return submit


def delete_guarded(parent: str, mark: bytes, guard: int, nodes: Sequence[tuple[str, int]]) -> Request:
    """Delete `nodes`, each a (path, version), and set their parent's data to `mark`, if it is at `guard`."""

    def submit(client: KazooClient) -> Any:
        transaction = client.transaction()
        transaction.set_data(parent, mark, guard)
        for node in nodes:
            transaction.delete(*node)
        return transaction.commit_async()

    return submit


def multi_refusal(results: Sequence[Any] | ZookeeperError) -> ZookeeperError | None:
    """Return the error that rolled a transaction back, or None if it was done."""
    if isinstance(results, ZookeeperError):
        return results
    errors = [result for result in results if isinstance(result, ZookeeperError)]
    for error in errors:
        if not isinstance(error, RolledBackError | RuntimeInconsistency):
            return error
    return errors[0] if errors else None
