"""Reading all subscriptions of a topic: the names in one reply, then their contents page by page."""

from collections.abc import AsyncIterator
from itertools import islice
from typing import Final

from hedwig.clock import Deadline
from hedwig.metadata.calls.attempts import ListingTime
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.zookeeper.reads.child_names import count_children, read_children
from hedwig.metadata.zookeeper.records.paths import subscriber_of
from hedwig.metadata.zookeeper.writes.guarded_read import NodeContent, answer, content_of, reading
from hedwig.model import SubscriberId
from hedwig.zookeeper import Bridge, exists, get

__all__ = ["scan_children"]

_READS_AT_ONCE: Final = 256
"""How many contents are asked for together; a page of records of the maximal size is 128 MiB."""


async def scan_children(
    bridge: Bridge, options: StoreOptions, parent: str, what: str
) -> AsyncIterator[tuple[SubscriberId, NodeContent, int | None]]:
    """Iterate over the children of `parent` in the order of their names: the subscriber, its node, and the guard.

    Every page reads the parent before its children, so the guard is never newer than what it guards. A child that
    vanishes before its page is read is left out. So is a child whose name no subscriber id maps to.
    """

    time = ListingTime(options)
    with time.waiting() as deadline:
        numbers = [number or 0 for number in await count_children(bridge, options, [parent], what, deadline)]
        (known,) = await read_children(bridge, options, [parent], numbers, what, deadline)
    names = iter(known)
    while page := list(islice(names, min(options.page_rows, _READS_AT_ONCE))):

        async def contents(deadline: Deadline, page: list[str] = page) -> tuple[int | None, list[NodeContent | None]]:
            stat, *nodes = await bridge.send(deadline, exists(parent), *(get(f"{parent}/{name}") for name in page))
            guard = None if answer(stat) is None else stat.version
            return guard, [content_of(node) for node in nodes]

        with time.waiting() as deadline:
            guard, nodes = await reading(options, what, contents, deadline)
        time.add(len(page))
        for name, content in zip(page, nodes, strict=True):
            subscriber = subscriber_of(name)
            if content is not None and subscriber is not None:
                yield subscriber, content, guard
