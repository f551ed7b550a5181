"""Requests to ZooKeeper. A request without an answer raises ServiceDownError, since its question stays open."""

from typing import Any

from kazoo.exceptions import NoAuthError, ZookeeperError

from hedwig.clock import Deadline
from hedwig.errors import ServiceDownError
from hedwig.outcomes import AbortedError, NotAppliedError, OutcomeUnknownError
from hedwig.zookeeper import Bridge, Request

__all__ = ["NotLetInError", "answer", "ask", "read"]


class NotLetInError(ServiceDownError):
    """ZooKeeper answers, and does not let this session do it."""


async def ask(bridge: Bridge, deadline: Deadline, what: str, *requests: Request) -> list[Any]:
    """Return the results of requests sent together; the result of an error answer is its exception.

    `what` names the action that cannot be done if this fails. It begins the error text.

    Raises: ServiceDownError - ZooKeeper did not answer one of them.
    """
    try:
        return await bridge.send(deadline, *requests)
    except (NotAppliedError, OutcomeUnknownError, AbortedError) as exc:
        raise ServiceDownError(f"cannot {what}: {exc}") from exc


def answer(what: str, result: Any, *expected: type[ZookeeperError]) -> Any:
    """Return a result, or an expected error. Raises: ServiceDownError - the result is any other error."""
    if isinstance(result, NoAuthError):
        raise NotLetInError(f"cannot {what}: the node's access control list lets no login of the stores file do it")
    if isinstance(result, ZookeeperError) and not isinstance(result, expected):
        raise ServiceDownError(f"cannot {what}: ZooKeeper answers {type(result).__name__} {result}".rstrip())
    return result


async def read(bridge: Bridge, deadline: Deadline, what: str, request: Request, *expected: type[ZookeeperError]) -> Any:
    """Return the answer to one request, or an expected error. Raises: ServiceDownError."""
    (result,) = await ask(bridge, deadline, what, request)
    return answer(what, result, *expected)
