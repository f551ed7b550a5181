"""Questions to ZooKeeper, and what it means that one is not answered: that something cannot be told."""

from collections.abc import Callable
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import ZookeeperError

from hedwig.clock import Deadline
from hedwig.errors import ServiceDownError
from hedwig.outcomes import AbortedError, NotAppliedError, OutcomeUnknownError
from hedwig.zookeeper import Bridge, Request

__all__ = ["answer", "ask", "children", "commit", "create", "exists", "get", "read"]

_ANY_VERSION: Final = -1


async def ask(bridge: Bridge, deadline: Deadline, what: str, *requests: Request) -> list[Any]:
    """Return the results of requests sent together; an error answer is its exception.

    Raises: ServiceDownError - one was not answered; the text begins with `what`, which cannot be done.
    """
    try:
        return await bridge.send(deadline, *requests)
    except (NotAppliedError, OutcomeUnknownError, AbortedError) as exc:
        raise ServiceDownError(f"cannot {what}: {exc}") from exc


def answer(what: str, result: Any, *expected: type[ZookeeperError]) -> Any:
    """Return a result, or an error that was to be expected. Raises ServiceDownError for any other error."""
    if isinstance(result, ZookeeperError) and not isinstance(result, expected):
        raise ServiceDownError(f"cannot {what}: ZooKeeper answers {type(result).__name__} {result}".rstrip())
    return result


async def read(bridge: Bridge, deadline: Deadline, what: str, request: Request, *expected: type[ZookeeperError]) -> Any:
    """Return the answer to one request, or an error that was to be expected. Raises ServiceDownError."""
    (result,) = await ask(bridge, deadline, what, request)
    return answer(what, result, *expected)


def get(path: str) -> Request:
    """Return (data, stat), or NoNodeError."""
    return lambda client: client.get_async(path)


def exists(path: str) -> Request:
    """Return the stat, or None."""
    return lambda client: client.exists_async(path)


def children(path: str, on_change: Callable[[Any], None] | None = None) -> Request:
    """Return the names of the children, or NoNodeError. `on_change` is called once, in a thread of kazoo's."""
    return lambda client: client.get_children_async(path, watch=on_change)


def create(path: str) -> Request:
    """Return the path, NodeExistsError, or NoNodeError if the parent is missing."""
    return lambda client: client.create_async(path, b"")


def commit() -> Request:
    """Commit a transaction that changes nothing, so that the requests that follow see all that was committed before.

    A `sync` does not do: a leader answers it without asking anybody, also when the others follow another one already.
    Refused or not, a transaction is answered once a majority of the servers has it. Only an error in place of its
    results says that it was not.
    """

    def submit(client: KazooClient) -> Any:
        transaction = client.transaction()
        transaction.check("/", _ANY_VERSION)
        return transaction.commit_async()

    return submit
