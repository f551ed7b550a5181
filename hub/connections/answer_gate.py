"""The gates through which requests go whose answers may be much larger than they are.

A SUBSCRIBE of thirty bytes is answered with all the preferences of the subscription, up to half a megabyte. A client
that sends thousands and reads nothing would have the hub keep all those answers; behind its gate they wait as requests.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

__all__ = ["AnswerGate", "AnswerTurns"]

_INSIDE_MAX: Final = 48
_INSIDE_ALL_GATES_MAX: Final = 96
"""Each of them may have read half a megabyte, which nothing else counts until it is answered."""
_SMALL_BYTES: Final = 4096
"""An answer that is worth no second try."""


class AnswerTurns:
    """Lets so many requests in at once through all gates together; gates have turns, one request each."""

    __slots__ = ("_free", "_gates")

    def __init__(self) -> None:
        self._free = _INSIDE_ALL_GATES_MAX
        self._gates: deque[AnswerGate] = deque()
        """Those where somebody waits for a turn, each once."""

    def take(self) -> bool:
        """Take a turn at once, if nobody waits for one."""
        if self._gates or not self._free:
            return False
        self._free -= 1
        return True

    def give_back(self) -> None:
        self._free += 1
        self.go_on()

    def wait(self, gate: "AnswerGate") -> None:
        """Have `gate` let one in when it is its turn."""
        if not gate.is_in_line:
            gate.is_in_line = True
            self._gates.append(gate)

    def go_on(self) -> None:
        """Let in whoever waits, as far as there is room."""
        while self._free and self._gates:
            gate = self._gates.popleft()
            gate.is_in_line = False
            if gate.let_one_in():
                self._free -= 1
                gate.line_up()


class AnswerGate:
    """Lets so many requests of a channel in at once, in the order in which they came.

    `has_room` says whether its client has taken so much that answers of a number of bytes may be made.
    """

    __slots__ = ("_expected", "_has_room_for", "_inside", "_turns", "_waiting", "is_in_line")

    def __init__(self, turns: AnswerTurns, has_room_for: Callable[[int], bool]) -> None:
        self._turns = turns
        self._has_room_for = has_room_for
        self._inside = 0
        self._expected = 0
        """How large an answer may well be, since others have been."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.is_in_line = False

    async def enter(self, *, again: bool = False) -> None:
        """Wait for room, `again` in front of all others; call `leave` after the answer."""
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
                self.leave()  # It was let in, and left in the same moment.
            raise

    def leave(self) -> None:
        """Make room."""
        self._inside -= 1
        self.line_up()
        self._turns.give_back()

    def may_answer(self, size: int) -> bool:
        """Say whether a request inside may be answered with so many bytes now; else it has to enter again.

        It is let in only with room for what others have got, so it hardly happens twice. The last one inside always may
        be answered, so one of them is.
        """
        self._expected = max(size, self._expected // 2)
        return size <= _SMALL_BYTES or self._inside <= 1 or self._has_room_for(size)

    def go_on(self) -> None:
        """Let in whoever waits, as far as there is room."""
        self.line_up()
        self._turns.go_on()

    def line_up(self) -> None:
        """Wait for a turn, if somebody waits who may have one."""
        if self._waiting and self._has_room():
            self._turns.wait(self)

    def let_one_in(self) -> bool:
        """Let the first one in who still waits, if there is room; return whether anybody was let in."""
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
