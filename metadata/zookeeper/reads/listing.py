"""Listing topics: a walk over the tree of topic nodes, in order, some hundred nodes at a time.

A node's children come in one reply, so the walk holds at least the names of one node per level. `child_names` says how
much memory they take, and which nodes are not asked. Beyond these, the walk fetches the nodes below a few hundred
neighbours level by level, as long as they are few. So a walk over millions of leaves keeps many requests in flight, and
a few enormous nodes are read one by one. The walk asks first how many names a reply will bring, so the bound holds
exactly.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.zookeeper.reads.child_names import ChildNames, count_children, read_children
from hedwig.metadata.zookeeper.records.paths import RECORD_NAMES, Paths, deepest_above, sort_key, topic_of
from hedwig.model import Topic
from hedwig.zookeeper import Bridge

__all__ = ["Listing"]

_NEIGHBOURS_MAX: Final = 256
_BATCHES_AHEAD: Final = 2
_NAMES_AHEAD_MAX: Final = 32_768
"""The most names held below a batch of neighbours. A node with more children than fit is read in its turn."""
_SUBSCRIBERS: Final = "subscribers"

Components: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Range:
    """The part of the tree that is wanted: names that start with `prefix`, and sort after `start`."""

    prefix: bytes = b""
    start: bytes | None = None

    def wants(self, components: Components, topic: Topic) -> bool:
        return topic.startswith(self.prefix) and (self.start is None or _key(components) > self.start)

    def first_below(self, components: Components) -> bytes:
        """Return a name before which no child of a node is wanted.

        If `start` is below the node, this is the next component of `start`. A child that sorts before it sorts before
        `start`, with all nodes below that child.
        """
        above = _key(components) + b"\0" if components else b""
        if self.start is None or not self.start.startswith(above):
            return b""
        return self.start[len(above) :].partition(b"\0")[0]

    def node_for(self, components: Components) -> Components | None:
        """Return the node to visit for this one: itself, a deeper one if it only leads there, None for neither."""
        topic = topic_of(components)
        if topic is None:
            return None
        if self.start is not None:
            key = _key(components)
            if key < self.start and not self.start.startswith(key + b"\0"):
                return None
        if topic.startswith(self.prefix):
            return components
        if not self.prefix.startswith(topic + b"/"):
            return None
        deepest = deepest_above(self.prefix)
        return None if deepest is None else tuple(deepest)


@dataclass(slots=True)
class _Node:
    """A node and what was found there: how many records of each name, and the nodes below.

    `below` is None if the nodes below were not fetched, since they are too many to hold beside those of the neighbours.
    """

    components: Components
    records: dict[str, int]
    below: "list[_Node] | None"


class Listing:
    """Lists the topics whose node has one of the children `record_names`; "subscribers" if that has children itself."""

    def __init__(self, bridge: Bridge, paths: Paths, options: StoreOptions, record_names: Collection[str]) -> None:
        self._bridge = bridge
        self._paths = paths
        self._options = options
        self._record_names = frozenset(record_names)
        self._what = f"listing the topics under {paths.topics}"

    async def topics(self, prefix: bytes | None, start_after: Topic | None) -> AsyncGenerator[Topic, None]:
        """Iterate over the topics in the order of `sort_key`. Raises TooManyNamesError, MetadataUnavailableError."""
        wanted = _Range(prefix or b"", None if start_after is None else sort_key(start_after))
        async with aclosing(self._walk(wanted, is_counting=False)) as nodes:
            async for node in nodes:
                topic = topic_of(node.components)
                if topic is not None and wanted.wants(node.components, topic):
                    yield topic

    async def counted_topics(
        self, prefix: bytes | None, start_after: Topic | None
    ) -> AsyncGenerator[tuple[Topic, Mapping[str, int]], None]:
        """Iterate over the same topics, each with how many records of each name it has."""
        wanted = _Range(prefix or b"", None if start_after is None else sort_key(start_after))
        async with aclosing(self._walk(wanted, is_counting=True)) as nodes:
            async for node in nodes:
                topic = topic_of(node.components)
                if topic is not None and wanted.wants(node.components, topic):
                    yield topic, node.records

    async def count(self, advance: Callable[[int], None] | None = None) -> Mapping[str, int]:
        """Return how many records the topics have together, by record name; `advance` receives the number per topic."""
        counts: Counter[str] = Counter(dict.fromkeys(self._record_names, 0))
        async with aclosing(self._walk(_Range(), is_counting=True)) as nodes:
            async for node in nodes:
                counts.update(node.records)
                if advance is not None:
                    advance(sum(node.records.values()))
        return counts

    def _walk(self, wanted: _Range, *, is_counting: bool) -> AsyncGenerator[_Node, None]:
        """Iterate over the nodes that have a record."""
        walk = _Walk(self._bridge, self._paths, self._options, self._record_names, wanted, self._what)
        walk.is_counting = is_counting
        return walk.below(())


class _Walk:
    """One walk over the tree."""

    is_counting = False
    """Whether to count the subscriptions of a topic that has another record too."""

    def __init__(
        self,
        bridge: Bridge,
        paths: Paths,
        options: StoreOptions,
        record_names: Collection[str],
        wanted: _Range,
        what: str,
    ) -> None:
        self._bridge = bridge
        self._paths = paths
        self._options = options
        self._record_names = record_names
        self._wanted = wanted
        self._what = what
        self._neighbours = min(_NEIGHBOURS_MAX, options.in_flight_max)

    async def below(self, components: Components) -> AsyncGenerator[_Node, None]:
        """Iterate over the nodes below one that have a record, in order; fetch the next ones meanwhile."""
        (number,) = await self._count([components])
        (names,) = await self._names([components], [number])
        nodes = self._nodes_to_visit(components, names)
        ahead: deque[asyncio.Task[list[_Node]]] = deque()
        try:
            while True:
                while len(ahead) < _BATCHES_AHEAD and (batch := list(islice(nodes, self._neighbours))):
                    ahead.append(asyncio.create_task(self._fetch(batch)))
                if not ahead:
                    return
                # Unlike awaiting the task, asyncio.wait leaves it in `ahead`, to be cancelled there if this is.
                await asyncio.wait([ahead[0]])
                for node in _in_order(ahead.popleft().result()):
                    if node.records:
                        yield node
                    if node.below is None:
                        async with aclosing(self.below(node.components)) as further:
                            async for each in further:
                                yield each
        finally:
            for task in ahead:
                task.cancel()
            await asyncio.gather(*ahead, return_exceptions=True)

    def _nodes_to_visit(self, parent: Components, names: ChildNames) -> Iterator[Components]:
        # To read one page of many, the walk must not look at each name before it.
        for name in names.since(self._wanted.first_below(parent)):
            if name not in RECORD_NAMES and (components := self._wanted.node_for((*parent, name))) is not None:
                yield components

    async def _fetch(self, nodes: Sequence[Components]) -> list[_Node]:
        """Return neighbours with the nodes below them, as far as these are few."""
        first = level = [_Node(components, {}, []) for components in nodes]
        room = _NAMES_AHEAD_MAX
        while level:
            numbers = await self._count([node.components for node in level])
            small = []
            for node, number in zip(level, numbers, strict=True):
                if number > room:
                    # Its own records are found here; the walk visits its other children in its turn.
                    node.below = None
                    continue
                room -= number
                small.append((node, number))
            listed = await self._names([node.components for node, _ in small], [number for _, number in small])
            subscribed = []
            for (node, _), names in zip(small, listed, strict=True):
                assert node.below is not None, "only the others are left for later"
                here = []
                for name in names:
                    if name in RECORD_NAMES:
                        here.append(name)
                    elif (components := self._wanted.node_for((*node.components, name))) is not None:
                        node.below.append(_Node(components, {}, []))
                if self._note(node, here):
                    subscribed.append(node)
            await self._note_large([node for node in level if node.below is None])
            await self._note_subscriptions(subscribed)
            level = [node for parent, _ in small for node in parent.below or ()]
        return first

    def _note(self, node: _Node, names: Sequence[str]) -> bool:
        """Set the records of a node from the names of its children; return whether to ask for subscriptions."""
        node.records = {name: 1 for name in names if name in self._record_names and name != _SUBSCRIBERS}
        if _SUBSCRIBERS not in names or _SUBSCRIBERS not in self._record_names:
            return False
        return self.is_counting or not node.records

    async def _note_large(self, nodes: Sequence[_Node]) -> None:
        """Set the records of nodes with too many children to list now, by asking for each record by its name."""
        names = sorted(self._record_names)
        counts = await self._present([(*node.components, name) for node in nodes for name in names])
        for index, node in enumerate(nodes):
            there = counts[index * len(names) : (index + 1) * len(names)]
            has = {name: number for name, number in zip(names, there, strict=True) if number is not None}
            subscriptions = has.pop(_SUBSCRIBERS, 0)
            node.records = dict.fromkeys(has, 1) | ({_SUBSCRIBERS: subscriptions} if subscriptions else {})

    async def _note_subscriptions(self, nodes: Sequence[_Node]) -> None:
        numbers = await self._count([(*node.components, _SUBSCRIBERS) for node in nodes])
        for node, number in zip(nodes, numbers, strict=True):
            if number:
                node.records[_SUBSCRIBERS] = number

    async def _count(self, nodes: Sequence[Components]) -> list[int]:
        return [number or 0 for number in await self._present(nodes)]

    async def _present(self, nodes: Sequence[Components]) -> list[int | None]:
        """Return how many children nodes have, None for absent ones; ask for `_NEIGHBOURS_MAX` at a time."""
        counts: list[int | None] = []
        for start in range(0, len(nodes), _NEIGHBOURS_MAX):
            part = [self._path(components) for components in nodes[start : start + _NEIGHBOURS_MAX]]
            counts += await count_children(self._bridge, self._options, part, self._what)
        return counts

    async def _names(self, nodes: Sequence[Components], numbers: Sequence[int]) -> list[ChildNames]:
        names: list[ChildNames] = []
        for start in range(0, len(nodes), _NEIGHBOURS_MAX):
            end = start + _NEIGHBOURS_MAX
            part = [self._path(components) for components in nodes[start:end]]
            names += await read_children(self._bridge, self._options, part, numbers[start:end], self._what)
        return names

    def _path(self, components: Components) -> str:
        return "/".join((self._paths.topics, *components))


def _in_order(nodes: Sequence[_Node]) -> Iterator[_Node]:
    """Iterate over nodes and what was fetched below them, each before those below it."""
    ahead = [iter(nodes)]
    while ahead:
        node = next(ahead[-1], None)
        if node is None:
            ahead.pop()
        else:
            yield node
            if node.below:
                ahead.append(iter(node.below))


def _key(components: Components) -> bytes:
    return "\0".join(components).encode()
