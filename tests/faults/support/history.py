"""Histories of calls on versioned records, and the search for an order that explains one.

A record is a register: it holds the number of the write that made its content, or nothing. Every write has a number of
its own, so the number of a write stands for its version. A history is linearizable if each call can have one moment
between its start and its end, so that every call does what it reports in the order of these moments. A call whose
caller could not learn the outcome stays open: its moment may be at any time after its start, or never.

Source: Wing and Gong's search as Lowe improved it (cache of visited configurations), as in the checker Porcupine. Keys
are independent, so each is searched alone.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

__all__ = ["ABSENT", "Call", "Delete", "Done", "Outcome", "Put", "Read", "Saw", "Unknown", "explain", "unexplained"]

ABSENT: Final = None
"""The state of a register that holds nothing."""

State: TypeAlias = int | None


@dataclass(frozen=True, slots=True)
class Read:
    """Look at the register."""


@dataclass(frozen=True, slots=True)
class Put:
    """Store `number` if the register holds `expected` (ABSENT: nothing)."""

    number: int
    expected: State


@dataclass(frozen=True, slots=True)
class Delete:
    """Empty the register if it holds `expected`."""

    expected: int


@dataclass(frozen=True, slots=True)
class Done:
    """The write was applied, and acknowledged to its caller."""


@dataclass(frozen=True, slots=True)
class Saw:
    """A read, or the refusal of a write, that found the register to hold `state`."""

    state: State


@dataclass(frozen=True, slots=True)
class Unknown:
    """The caller could not learn whether the write was applied."""


Operation: TypeAlias = Read | Put | Delete
Outcome: TypeAlias = Done | Saw | Unknown


@dataclass(frozen=True, slots=True)
class Call:
    """One call: its process and key, when it began and ended on a clock common to all, and its outcome.

    A history leaves out calls that surely had no effect and saw nothing (not sent, or failed reads). The end of a call
    with an unknown outcome is when its caller gave up; it bounds nothing.
    """

    client: str
    key: Hashable
    start: int
    end: int
    operation: Operation
    outcome: Outcome


def unexplained(calls: Iterable[Call]) -> list[list[Call]]:
    """Return the calls of every key whose history no order explains; empty if there is an order for each key."""
    by_key: defaultdict[Hashable, list[Call]] = defaultdict(list)
    for call in calls:
        by_key[call.key].append(call)
    return [sorted(part, key=lambda call: call.start) for part in by_key.values() if explain(part) is None]


def explain(calls: Sequence[Call]) -> list[Call] | None:
    """Return calls of one key in an order that explains them all, or None if there is none.

    The order leaves out open calls that it does not need: they took effect later, or never.
    """
    return _Search(calls).run()


class _Event:
    """The start or the end of a call, in a list; the search takes calls out and puts them back."""

    __slots__ = ("after", "before", "bit", "call", "end")

    def __init__(self, call: Call | None, bit: int = 0, end: "_Event | None" = None) -> None:
        self.call = call
        self.bit = bit
        self.end = end
        self.before: _Event | None = None
        self.after: _Event | None = None

    def unlink(self) -> None:
        assert self.before is not None
        self.before.after = self.after
        if self.after is not None:
            self.after.before = self.before

    def relink(self) -> None:
        assert self.before is not None
        self.before.after = self
        if self.after is not None:
            self.after.before = self


class _Search:
    def __init__(self, calls: Sequence[Call]) -> None:
        self._unplaced = sum(not isinstance(call.outcome, Unknown) for call in calls)
        self._head = _Event(None)
        # At the same moment a start comes before an end: calls that touch count as concurrent.
        moments: list[tuple[int, int, _Event]] = []
        for number, call in enumerate(calls):
            is_open = isinstance(call.outcome, Unknown)
            end = None if is_open else _Event(None)
            moments.append((call.start, 0, _Event(call, 1 << number, end)))
            if end is not None:
                moments.append((call.end, 1, end))
        last = self._head
        for _, _, event in sorted(moments, key=lambda moment: moment[:2]):
            last.after, event.before = event, last
            last = event

    def run(self) -> list[Call] | None:
        state: State = ABSENT
        placed = 0
        tried: set[tuple[int, State]] = set()
        way: list[tuple[_Event, State]] = []
        left = self._unplaced
        event = self._head.after
        while left:
            if event is not None and event.call is not None:
                possible, then = _step(state, event.call)
                configuration = (placed | event.bit, then)
                if not possible or configuration in tried:
                    event = event.after
                    continue
                tried.add(configuration)
                way.append((event, state))
                placed, state = configuration
                left -= event.end is not None
                event.unlink()
                if event.end is not None:
                    event.end.unlink()
                event = self._head.after
                continue
            # The search met the end of an unplaced call, or of the history: the last step was wrong.
            if not way:
                return None
            event, state = way.pop()
            if event.end is not None:
                event.end.relink()
            event.relink()
            placed &= ~event.bit
            left += event.end is not None
            event = event.after
        return [event.call for event, _ in way if event.call is not None]


def _step(state: State, call: Call) -> tuple[bool, State]:
    """Say whether `call` can have had its outcome on `state`, and return the state afterwards."""
    operation, outcome = call.operation, call.outcome
    if isinstance(outcome, Saw):
        refused = isinstance(operation, Read) or state != operation.expected
        return refused and outcome.state == state, state
    if isinstance(operation, Read):
        return False, state
    return state == operation.expected, operation.number if isinstance(operation, Put) else ABSENT
