"""The search for an order that explains the operations on one key.

The search places operations one after another. The next one is any unplaced operation that started before the first end
of an unplaced operation. If none of these is possible, the search takes back the last one placed. A set of placed
operations and the state that they led to are a configuration. None is tried twice, since it would fail again.

Two things differ from the sources. A set of placed operations is the number of the first one missing, and bits for the
few placed beyond it. So a configuration stays small however long the history is. Operations with unknown outcomes need
not be placed at all, so they are tried last. A configuration that failed with some of them used up fails with more of
them too, so that is not tried either.

Source: Wing and Gong, Testing and Verifying Concurrent Objects (1993); Lowe, Testing for Linearizability (2017);
Porcupine, of Anish Athalye, uses the same algorithm.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from tests.faults.linearizability.support.limits import Budget
from tests.faults.linearizability.support.model import REFUSED, Model
from tests.faults.linearizability.support.operations import UNKNOWN, Operation, Unanswered

__all__ = ["Blocked", "Explained", "SearchResult", "Undecided", "search"]

AnyOperation: TypeAlias = Operation[Any, Any]
AnyModel: TypeAlias = Model[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class Explained:
    """An order explains the operations. Those with unknown outcomes that it does not need are left out."""

    order: tuple[AnyOperation, ...]
    configurations: int


@dataclass(frozen=True, slots=True)
class Blocked:
    """No order explains the operations.

    `order` explains all operations that had ended before `blocked` did, and leads to `state`. No such order has a place
    for `blocked`. `waiting` are the other operations that had started by then and are not in `order`.
    """

    order: tuple[AnyOperation, ...]
    state: Any
    blocked: AnyOperation
    waiting: tuple[AnyOperation, ...]
    configurations: int


@dataclass(frozen=True, slots=True)
class Undecided:
    """The search reached its limits before an answer."""

    configurations: int


SearchResult: TypeAlias = Explained | Blocked | Undecided


def search(operations: Sequence[AnyOperation], model: AnyModel, budget: Budget) -> SearchResult:
    """Look for an order that explains the operations on one key."""
    return _Search(operations, model.prepared(operations), budget).run()


class _Event:
    """The start or the end of an answered operation, in a list; the search takes both out and puts them back."""

    __slots__ = ("after", "before", "end", "is_end", "number", "operation", "position")

    def __init__(self, operation: AnyOperation, is_end: bool, number: int, end: "_Event | None" = None) -> None:
        self.operation = operation
        self.is_end = is_end
        self.number = number
        self.end = end
        self.position = 0
        self.before: _Event = self
        self.after: _Event = self

    def take_out(self) -> None:
        assert self.end is not None
        for event in (self, self.end):
            event.before.after = event.after
            event.after.before = event.before

    def put_back(self) -> None:
        assert self.end is not None
        for event in (self.end, self):
            event.before.after = event
            event.after.before = event


class _Placed(NamedTuple):
    """One placed operation, with the position of the search before it. `unanswered` is None for an answered one."""

    previous: "_Placed | None"
    depth: int
    operation: AnyOperation
    event: _Event
    unanswered: int | None
    state: Any
    missing: int
    beyond: int
    used: int


_NONE_USED: Final = (0,)


class _Search:
    def __init__(self, operations: Sequence[AnyOperation], model: AnyModel, budget: Budget) -> None:
        self._model = model
        self._budget = budget
        # At the same moment a start comes before an end: operations that touch count as concurrent.
        answered = [one for one in operations if not isinstance(one.output, Unanswered)]
        answered.sort(key=lambda one: one.start)
        self._unplaced = len(answered)
        moments: list[tuple[int, int, _Event | AnyOperation]] = []
        for number, one in enumerate(answered):
            end = _Event(one, True, number)
            moments += [(one.start, 0, _Event(one, False, number, end)), (one.end, 1, end)]
        moments += [(one.start, 0, one) for one in operations if one.output is UNKNOWN]
        moments.sort(key=lambda moment: moment[:2])
        self._unanswered: list[tuple[int, AnyOperation]] = []
        # A ring: the head stands before the first event and after the last.
        self._head = last = _Event(_NOBODY, True, -1)
        for position, (_, _, event) in enumerate(moments):
            if isinstance(event, Operation):
                self._unanswered.append((position, event))
                continue
            event.position = position
            last.after, event.before = event, last
            last = event
        last.after, self._head.before = self._head, last
        self._tried: dict[tuple[int, int, Any], tuple[int, ...]] = {}

    def run(self) -> SearchResult:
        step, effect, head, unanswered = self._model.step, self._model.effect, self._head, self._unanswered
        state = self._model.initial
        missing = beyond = used = 0
        left = self._unplaced
        way: _Placed | None = None
        furthest: tuple[int, int] = (-1, -1)
        blocked: tuple[_Placed | None, Any, _Event] = (None, state, head)
        event, number = head.after, 0
        while left:
            placed: _Placed | None = None
            # Number 0 with an event that is no end: among the answered ones.
            while not event.is_end:
                after = step(state, event.operation.input, event.operation.output)
                if after is not REFUSED:
                    then_missing, then_beyond = _with(missing, beyond, event.number)
                    if self._is_untried(then_missing, then_beyond, after, used):
                        depth = way.depth + 1 if way else 1
                        placed = _Placed(way, depth, event.operation, event, None, state, missing, beyond, used)
                        missing, beyond, left = then_missing, then_beyond, left - 1
                        event.take_out()
                        break
                event = event.after
            else:
                while number < len(unanswered) and unanswered[number][0] < event.position:
                    if not used >> number & 1:
                        operation = unanswered[number][1]
                        after = effect(state, operation.input)
                        if after is not REFUSED and self._is_untried(missing, beyond, after, used | 1 << number):
                            depth = way.depth + 1 if way else 1
                            placed = _Placed(way, depth, operation, event, number, state, missing, beyond, used)
                            used |= 1 << number
                            break
                    number += 1
            if placed is not None:
                way, state = placed, after
                event, number = head.after, 0
                if self._budget.is_spent(len(self._tried)):
                    return Undecided(len(self._tried))
                continue
            reached = (event.position, way.depth if way else 0)
            if reached > furthest:
                furthest, blocked = reached, (way, state, event)
            if way is None:
                return self._blocked(*blocked)
            state, missing, beyond, used = way.state, way.missing, way.beyond, way.used
            if way.unanswered is None:
                way.event.put_back()
                left += 1
                event, number = way.event.after, 0
            else:
                event, number = way.event, way.unanswered + 1
            way = way.previous
        return Explained(tuple(one.operation for one in _along(way)), len(self._tried))

    def _is_untried(self, missing: int, beyond: int, state: Any, used: int) -> bool:
        """Record a configuration; say whether neither it nor one with fewer unknown outcomes used up was tried."""
        configuration = (missing, beyond, state)
        before = self._tried.get(configuration)
        if before is None:
            self._tried[configuration] = (used,) if used else _NONE_USED
            return True
        if any(fewer & used == fewer for fewer in before):
            return False
        self._tried[configuration] = (*before, used)
        return True

    def _blocked(self, way: _Placed | None, state: Any, end: _Event) -> Blocked:
        placed = _along(way)
        there = {id(one.operation) for one in placed} | {id(end.operation)}
        started = [(position, one) for position, one in self._unanswered if position < end.position]
        event = self._head.after
        while event.position < end.position and event is not self._head:
            if not event.is_end:
                started.append((event.position, event.operation))
            event = event.after
        started.sort(key=lambda one: one[0])
        return Blocked(
            tuple(one.operation for one in placed),
            state,
            end.operation,
            tuple(one for _, one in started if id(one) not in there),
            len(self._tried),
        )


_NOBODY: Final[AnyOperation] = Operation(process="", key=None, start=0, end=0, input=None, output=None)


def _with(missing: int, beyond: int, number: int) -> tuple[int, int]:
    """Return a set of placed operations with one more: the first one missing, and bits for those beyond it."""
    beyond |= 1 << number - missing
    while beyond & 1:
        beyond >>= 1
        missing += 1
    return missing, beyond


def _along(way: _Placed | None) -> list[_Placed]:
    placed = []
    while way is not None:
        placed.append(way)
        way = way.previous
    return placed[::-1]
