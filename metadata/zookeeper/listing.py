"""Listing topics: a walk over the tree of topic nodes, in order, many requests ahead of the reader.

A node's children come in one reply, so the names of one node per level are held at the least. Beyond these the walk
runs ahead of its reader as far as two bounds allow: the requests in flight, and the names that they are expected to
bring, judged by the widest node met so far at the same depth. A tree of millions of leaves keeps many requests in
flight, a tree of a few enormous nodes reads them one by one.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from kazoo.exceptions import NoNodeError

from hedwig.clock import Deadline
from hedwig.model import Topic
from hedwig.zookeeper import Bridge
from metadata.backend import StoreOptions
from metadata.zookeeper.names import RECORD_NAMES, Places, deepest_above, sort_key, topic_of
from metadata.zookeeper.requests import children, exists
from metadata.zookeeper.sight import answer, reading

__all__ = ["Listing"]

_AHEAD_MAX: Final = 256
_NAMES_AHEAD_MAX: Final = 65_536

Components: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Range:
    """Which part of the tree is wanted: names that start with `prefix`, and sort after `start`."""

    prefix: bytes = b""
    start: bytes | None = None

    def wants(self, components: Components, topic: Topic) -> bool:
        return topic.startswith(self.prefix) and (self.start is None or _key(components) > self.start)

    def shortcut(self, components: Components) -> Components | None:
        """Return the node to visit instead of one that only leads to what is wanted; None if that leads nowhere."""
        topic = topic_of(components)
        if topic is None or not self.prefix.startswith(topic + b"/"):
            return components
        deepest = deepest_above(self.prefix)
        return None if deepest is None else tuple(deepest)

    def wants_below(self, components: Components) -> bool:
        """Say whether a node or any node below it can be wanted."""
        if self.start is not None:
            key = _key(components)
            if key < self.start and not self.start.startswith(key + b"\0"):
                return False
        topic = topic_of(components)
        if topic is None:
            return False
        return topic.startswith(self.prefix) or self.prefix.startswith(topic + b"/")


@dataclass(frozen=True, slots=True)
class _Children:
    """What one node was found to hold: the names of the nodes below it that matter, in order, and its records."""

    names: list[str]
    records: int


@dataclass(slots=True)
class _Visit:
    """A node whose children are being asked for, or have come."""

    components: Components
    task: "asyncio.Task[_Children]"
    expected: int
    unfolded: bool = False


@dataclass(slots=True)
class _Run:
    """Neighbours that were not asked for yet."""

    parent: Components
    names: deque[str] = field(default_factory=deque)


_Fetch: TypeAlias = Callable[[Components], Coroutine[Any, Any, _Children]]


class Listing:
    """Lists the topics whose node has a child `record_name`; for "subscribers", one that has children itself."""

    def __init__(self, bridge: Bridge, places: Places, options: StoreOptions, record_name: str) -> None:
        self._bridge = bridge
        self._places = places
        self._options = options
        self._record_name = record_name
        self._what = f"listing the topics under {places.topics}"

    async def topics(self, prefix: bytes | None, start_after: Topic | None) -> AsyncIterator[Topic]:
        """Iterate over the topics in the order of `sort_key`."""
        wanted = _Range(prefix or b"", None if start_after is None else sort_key(start_after))
        async with aclosing(self._walk(wanted)) as nodes:
            async for components, _ in nodes:
                topic = topic_of(components)
                if topic is not None and wanted.wants(components, topic):
                    yield topic

    async def count(self) -> int:
        """Return how many records the topics have together."""
        async with aclosing(self._walk(_Range())) as nodes:
            return sum([records async for _, records in nodes])

    async def _walk(self, wanted: _Range) -> AsyncGenerator[tuple[Components, int], None]:
        """Iterate over the nodes that have a record, each with the number of its records."""
        walk = _Walk(self._fetch, wanted, min(_AHEAD_MAX, self._options.in_flight_max))
        try:
            while (visit := walk.next_visit()) is not None:
                found = await visit.task
                walk.leave(visit, found)
                if found.records and visit.components:
                    yield visit.components, found.records
        finally:
            await walk.stop()

    async def _fetch(self, components: Components) -> _Children:
        path = "/".join((self._places.topics, *components))
        counted = self._record_name == "subscribers"
        requests = [children(path), exists(f"{path}/subscribers")] if counted else [children(path)]

        async def attempt(deadline: Deadline) -> _Children:
            names, *stats = await self._bridge.send(deadline, *requests)
            if isinstance(answer(names, NoNodeError), NoNodeError):
                return _Children([], 0)
            if counted:
                stat = answer(stats[0])
                records = 0 if stat is None else stat.numChildren
            else:
                records = int(self._record_name in names)
            return _Children(sorted(name for name in names if name not in RECORD_NAMES), records)

        return await reading(self._options, self._what, attempt)


class _Walk:
    """What lies ahead of the reader, in order: visits, and runs of names not visited yet."""

    def __init__(self, fetch: _Fetch, wanted: _Range, ahead_max: int) -> None:
        self._fetch = fetch
        self._wanted = wanted
        self._ahead_max = ahead_max
        self._ahead: list[_Visit | _Run] = []
        self._visits = 0
        self._names_ahead = 0
        self._width: dict[int, int] = {}
        self._ahead.append(self._visit(()))

    def next_visit(self) -> _Visit | None:
        """Return the node that is next in order, and keep as many as the bounds allow under way behind it."""
        if self._visits <= self._ahead_max // 2:
            self._look_ahead()
        if not self._ahead:
            return None
        visit = self._ahead.pop(0)
        assert isinstance(visit, _Visit), "looking ahead leaves a visit in front"
        return visit

    def leave(self, visit: _Visit, found: _Children) -> None:
        """Put what is below a finished visit in front, unless looking ahead has done so."""
        self._visits -= 1
        self._names_ahead -= visit.expected
        if not visit.unfolded:
            self._note_width(visit, found)
            self._ahead[:0] = self._run(visit, found)
        if not self._ahead or isinstance(self._ahead[0], _Run):
            self._look_ahead()

    async def stop(self) -> None:
        """Drop everything that is still under way."""
        tasks = [item.task for item in self._ahead if isinstance(item, _Visit)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _look_ahead(self) -> None:
        position = 0
        while position < len(self._ahead) and (self._visits < self._ahead_max or position == 0):
            item = self._ahead[position]
            if isinstance(item, _Visit):
                position += 1
                if item.task.done() and not item.unfolded:
                    self._ahead[position:position] = self._unfold(item)
            elif components := self._next_components(item):
                if position > 0 and not self._has_room(components):
                    return
                item.names.popleft()
                self._ahead.insert(position, self._visit(components))
                position += 1
            else:
                del self._ahead[position]

    def _next_components(self, run: _Run) -> Components | None:
        """Return what to visit for the first name of a run that is of interest, which then is its first."""
        while run.names:
            components = (*run.parent, run.names[0])
            if self._wanted.wants_below(components):
                visited = self._wanted.shortcut(components)
                if visited is not None:
                    return visited
            run.names.popleft()
        return None

    def _has_room(self, components: Components) -> bool:
        return self._names_ahead + self._expected(components) <= _NAMES_AHEAD_MAX

    def _expected(self, components: Components) -> int:
        # Nothing known of the depth yet: one at a time.
        return self._width.get(len(components), _NAMES_AHEAD_MAX)

    def _visit(self, components: Components) -> _Visit:
        expected = self._expected(components)
        self._visits += 1
        self._names_ahead += expected
        return _Visit(components, asyncio.create_task(self._fetch(components)), expected)

    def _unfold(self, visit: _Visit) -> list[_Run]:
        """Put what is below a visit that the reader has not reached behind it."""
        if visit.task.cancelled() or visit.task.exception() is not None:
            return []  # The reader will meet the error.
        visit.unfolded = True
        found = visit.task.result()
        self._note_width(visit, found)
        self._names_ahead += len(found.names) + 1 - visit.expected
        visit.expected = len(found.names) + 1
        return self._run(visit, found)

    def _run(self, visit: _Visit, found: _Children) -> list[_Run]:
        return [_Run(visit.components, deque(found.names))] if found.names else []

    def _note_width(self, visit: _Visit, found: _Children) -> None:
        depth = len(visit.components)
        self._width[depth] = max(self._width.get(depth, 1), len(found.names) + 1)


def _key(components: Components) -> bytes:
    return "\0".join(components).encode()
