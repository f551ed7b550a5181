"""The gates for requests whose answers may be much larger than the requests.

The answer to a SUBSCRIBE of thirty bytes has all the preferences of the subscription, up to half a megabyte. A client
that sends thousands and reads nothing would make the hub hold all those answers. Behind the gate of its channel, the
requests wait instead.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

__all__ = ["AnswerGate", "AnswerTurns"]

_INSIDE_MAX: Final = 48
_INSIDE_ALL_GATES_MAX: Final = 96
"""Each request inside may have read half a megabyte, which is not counted elsewhere until the answer."""
_SMALL_BYTES: Final = 4096
"""Answers up to this size are always sent; a second try would not be worth it."""


class AnswerTurns:
    """Bounds the requests inside all gates together; gates have turns, one request each."""

    __slots__ = ("_free", "_gates")

    def __init__(self) -> None:
        self._free = _INSIDE_ALL_GATES_MAX
        self._gates: deque[AnswerGate] = deque()
        """The gates where a request waits for a turn, each once."""

    def take(self) -> bool:
        """Take a turn at once, if one is free and no gate waits; return whether it was taken."""
        if self._gates or not self._free:
            return False
        self._free -= 1
        return True

    def give_back(self) -> None:
        self._free += 1
        self.go_on()

    def wait(self, gate: "AnswerGate") -> None:
        """Queue `gate`, which lets one request in when its turn comes."""
        if not gate.is_in_line:
            gate.is_in_line = True
            self._gates.append(gate)

    def go_on(self) -> None:
        """Let in waiting requests while there is room."""
        while self._free and self._gates:
            gate = self._gates.popleft()
            gate.is_in_line = False
            if gate.let_one_in():
                self._free -= 1
                gate.line_up()


class AnswerGate:
    """Bounds the requests of a channel inside at once, and lets them in in the order of arrival.

    `has_room_for` says whether the client has read enough that the hub may make answers of a given number of bytes.
    """

    __slots__ = ("_expected", "_has_room_for", "_inside", "_turns", "_waiting", "is_in_line")

    def __init__(self, turns: AnswerTurns, has_room_for: Callable[[int], bool]) -> None:
        self._turns = turns
        self._has_room_for = has_room_for
        self._inside = 0
        self._expected = 0
        """The expected size of an answer, estimated from recent answers."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.is_in_line = False

    async def enter(self, *, again: bool = False) -> None:
        """Wait for room; with `again`, before all others. Call `leave` after the answer."""
        if not self._waiting and self._has_room() and self._turns.take():
            self._inside += 1
            return
        waiting = asyncio.get_running_loop().create_future()
        if again:
            self._waiting.appendleft(waiting)
        else:
            self._waiting.append(waiting)
        self.go_on()
        try:
            await waiting
        except BaseException:
            if waiting.done() and not waiting.cancelled():
                self.leave()  # It was let in and cancelled at the same moment.
            raise

    def leave(self) -> None:
        """Record that one request is over."""
        self._inside -= 1
        self.line_up()
        self._turns.give_back()

    def may_answer(self, size: int) -> bool:
        """Say whether a request inside may be answered with `size` bytes now; if not, it must enter again.

        The gate lets a request in only with room for an answer of the expected size, so this rarely happens twice. The
        last request inside may always be answered, so at least one makes progress.
        """
        self._expected = max(size, self._expected // 2)
        return size <= _SMALL_BYTES or self._inside <= 1 or self._has_room_for(size)

    def go_on(self) -> None:
        """Let in waiting requests while there is room."""
        self.line_up()
        self._turns.go_on()

    def line_up(self) -> None:
        """Queue for a turn, if a request waits and there is room for it."""
        if self._waiting and self._has_room():
            self._turns.wait(self)

    def let_one_in(self) -> bool:
        """Let in the first request that still waits, if there is room; return whether one was let in."""
        while self._waiting and self._has_room():
            waiting = self._waiting.popleft()
            if not waiting.done():
                self._inside += 1
                waiting.set_result(None)
                return True
        return False

    def _has_room(self) -> bool:
        expected = (self._inside + 1) * self._expected if self._inside else 0
        return self._inside < _INSIDE_MAX and self._has_room_for(expected)
