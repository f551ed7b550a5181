"""Deleting a tree of nodes of any size, from its leaves up, many at once."""

from dataclasses import dataclass
from typing import Any, Final

from kazoo.exceptions import NoNodeError, NotEmptyError

from hedwig.clock import Deadline
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.zookeeper.writes.guarded_read import answer, reading
from hedwig.zookeeper import Bridge, Request, children, delete

__all__ = ["delete_tree"]

_AT_ONCE: Final = 256


@dataclass(slots=True)
class _Node:
    path: str
    listed: bool = False


async def delete_tree(bridge: Bridge, options: StoreOptions, root: str) -> None:
    """Delete `root` and everything below it. Nodes created there meanwhile may survive, or be deleted too.

    Try to delete every node. Those that turn out to have children go back on a stack below their children. ZooKeeper
    works in the order sent, so a parent right behind the last of its children goes in the same batch.

    Raises: MetadataUnavailableError - ZooKeeper stopped answering; part of the tree is gone then.
    """

    async def ask(*requests: Request) -> list[Any]:
        async def attempt(deadline: Deadline) -> list[Any]:
            return await bridge.send(deadline, *requests)

        return await reading(options, f"deleting {root}", attempt)

    stack = [_Node(root)]
    while stack:
        batch = [stack.pop() for _ in range(min(_AT_ONCE, len(stack)))]
        replies = await ask(*(delete(node.path) for node in batch))
        full = [node for node, reply in zip(batch, replies, strict=True) if _has_children(reply)]
        # A listed node waits for a child that has children itself, except the first of `full`: its children are new.
        unlisted = [node for index, node in enumerate(full) if index == 0 or not node.listed]
        listings = await ask(*(children(node.path) for node in unlisted)) if unlisted else []
        below = {node.path: listing for node, listing in zip(unlisted, listings, strict=True)}
        for node in reversed(full):
            stack.append(node)
            names = below.get(node.path, [])
            if not isinstance(answer(names, NoNodeError), NoNodeError):
                stack.extend(_Node(f"{node.path}/{name}") for name in names)
                node.listed = True


def _has_children(reply: Any) -> bool:
    return isinstance(answer(reply, NoNodeError, NotEmptyError), NotEmptyError)
