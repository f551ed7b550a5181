"""Closing a tree of nodes of any size to those without a login, from its root down, many at once."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from kazoo.exceptions import NoAuthError, NoNodeError, ZookeeperError
from kazoo.security import ACL

from hedwig.clock import Clock, Deadline
from hedwig.errors import MetadataForbiddenError, MetadataUnavailableError
from hedwig.zookeeper.bridge import Bridge
from hedwig.zookeeper.requests import Request, children, get_acl, set_acl

__all__ = ["close_tree"]

_AT_ONCE: Final = 256


async def close_tree(
    bridge: Bridge,
    root: str,
    entries: list[ACL],
    clock: Clock,
    timeout_s: float,
    advance: Callable[[int], None],
) -> int:
    """Give `root` and all nodes below it the access control list `entries`; return how many had another.

    A node is closed before its children are listed. So whoever has no login makes none that stays unseen. `advance` is
    called with the number of nodes that each step looked at. Call this again after an error: it only sets what differs.

    Raises: MetadataForbiddenError - a node belongs to others; MetadataUnavailableError, NotAppliedError,
        OutcomeUnknownError, AbortedError - ZooKeeper did not do all of it.
    """

    async def ask(requests: Iterable[Request]) -> list[Any]:
        return await bridge.send(Deadline.after(clock, timeout_s), *requests)

    changed, stack = 0, [root]
    while stack:
        batch = [stack.pop() for _ in range(min(_AT_ONCE, len(stack)))]
        lists = await ask(map(get_acl, batch))
        there = [path for path, found in zip(batch, lists, strict=True) if not _is_gone(path, found)]
        other = [
            path
            for path, found in zip(batch, lists, strict=True)
            if not _is_gone(path, found) and set(found[0]) != set(entries)
        ]
        if other:
            stats = await ask(set_acl(path, entries) for path in other)
            changed += sum(not _is_gone(path, stat) for path, stat in zip(other, stats, strict=True))
        names = await ask(map(children, there)) if there else []
        for path, found in zip(there, names, strict=True):
            if not _is_gone(path, found):
                stack.extend(f"{path}/{name}" for name in found)
        advance(len(batch))
    return changed


def _is_gone(path: str, reply: Any) -> bool:
    """Say whether a reply is that there is no such node. Raises as `close_tree` for another error."""
    if isinstance(reply, NoAuthError):
        raise MetadataForbiddenError(
            f"the access control list of {path} lets no login of the stores file change it; have its owner delete it, "
            "or add the owner's login to the file"
        )
    if isinstance(reply, ZookeeperError) and not isinstance(reply, NoNodeError):
        raise MetadataUnavailableError(f"ZooKeeper answers {type(reply).__name__} for {path}")
    return isinstance(reply, NoNodeError)
