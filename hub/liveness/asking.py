"""Questions to ZooKeeper, and what it means that one is not answered: that something cannot be told."""

from typing import Any

from kazoo.exceptions import ZookeeperError

from hedwig.clock import Deadline
from hedwig.errors import ServiceDownError
from hedwig.outcomes import AbortedError, NotAppliedError, OutcomeUnknownError
from hedwig.zookeeper import Bridge, Request

__all__ = ["answer", "ask", "read"]


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
