"""The writes of this backend, each one transaction. `refusal_of` reads from the answer whether it was refused."""

from collections.abc import Mapping, Sequence

from kazoo.client import TransactionRequest

from hedwig.zookeeper import Request, transaction

__all__ = ["create_all", "delete_guarded", "set_guarded"]


def create_all(nodes: Sequence[tuple[str, bytes]], marks: Mapping[str, bytes] | None = None) -> Request:
    """Create `nodes`, each a (path, data); then set the data of the nodes in `marks`, by path.

    A parent made here is created empty and then set. So its data version is that of any parent with one child.
    """

    def fill(operations: TransactionRequest) -> None:
        for node in nodes:
            operations.create(*node)
        for mark in (marks or {}).items():
            operations.set_data(*mark)

    return transaction(fill)


def set_guarded(path: str, data: bytes, version: int, guard: tuple[str, int] | None = None) -> Request:
    """Set a node's data if it is at `version`, and if the node that `guard` names is at the version given there."""

    def fill(operations: TransactionRequest) -> None:
        if guard is not None:
            operations.check(*guard)
        operations.set_data(path, data, version)

    return transaction(fill)


def delete_guarded(parent: str, mark: bytes, guard: int, nodes: Sequence[tuple[str, int]]) -> Request:
    """Delete `nodes`, each a (path, version), and set their parent's data to `mark`, if it is at `guard`."""

    def fill(operations: TransactionRequest) -> None:
        operations.set_data(parent, mark, guard)
        for node in nodes:
            operations.delete(*node)

    return transaction(fill)
