"""Prove that requests pass gates in turns, and that requests that return to a gate go before new ones."""

import asyncio

from hedwig.hub.connections.answer_gate import AnswerGate, AnswerTurns
from tests.hub.support.wire_client import eventually
from tests.support.endings import end_all


class _Line:
    """Requests at a gate, in the order in which they entered. Each stays inside until the test ends it."""

    def __init__(self, turns: AnswerTurns, *, has_room: bool = True) -> None:
        self.has_room = has_room
        self.gate = AnswerGate(turns, lambda size: self.has_room and size <= 1000)
        self.inside: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    def come(self, *names: str, again: bool = False) -> None:
        self.tasks += [asyncio.create_task(self._enter(name, again=again)) for name in names]

    async def _enter(self, name: str, *, again: bool) -> None:
        await self.gate.enter(again=again)
        self.inside.append(name)


async def test_gates_with_a_thousand_requests_hold_up_no_other() -> None:
    turns = AnswerTurns()
    crowds, modest = [_Line(turns) for _ in range(3)], _Line(turns)
    for crowd in crowds:
        crowd.come(*map(str, range(1000)))
    await eventually(lambda: bool(crowds[0].inside and crowds[1].inside), "the first are inside")
    modest.come("modest")
    await asyncio.sleep(0)
    assert not modest.inside
    for _ in range(4):
        crowds[0].gate.leave()
    await eventually(lambda: bool(modest.inside), "the modest one has had its turn")
    await end_all(task for line in (*crowds, modest) for task in line.tasks)


async def test_requests_with_large_answers_come_in_one_by_one_until_answers_are_small() -> None:
    line = _Line(AnswerTurns())
    line.come("a", "b", "c")
    await eventually(lambda: line.inside == ["a", "b", "c"], "all are inside")
    assert not line.gate.may_answer(5000)
    line.gate.leave()
    assert not line.gate.may_answer(5000)
    line.gate.leave()
    assert line.gate.may_answer(5000), "the last one inside always may"
    line.come("d", "e")
    line.come("b", "c", again=True)
    await asyncio.sleep(0)
    assert line.inside == ["a", "b", "c"]
    line.gate.leave()
    await eventually(lambda: len(line.inside) == 4, "one is inside")
    assert line.inside[3] in ("b", "c")
    for _ in range(10):
        line.gate.may_answer(10)
    line.gate.go_on()
    await eventually(lambda: len(line.inside) == 7, "all are inside")
    assert sorted(line.inside[3:5]) == ["b", "c"]
    await end_all(line.tasks)


async def test_nobody_comes_in_without_room_and_whoever_leaves_the_line_takes_no_turn() -> None:
    turns = AnswerTurns()
    line = _Line(turns, has_room=False)
    line.come("a", "b")
    await asyncio.sleep(0)
    line.tasks[0].cancel()
    await asyncio.sleep(0)
    assert not line.inside
    line.has_room = True
    line.gate.go_on()
    await eventually(lambda: line.inside == ["b"], "the one who stayed is inside")
    other = _Line(turns)
    other.come(*map(str, range(200)))
    third = _Line(turns)
    third.come(*map(str, range(200)))
    await eventually(lambda: len(other.inside) + len(third.inside) == 95, "all turns but one are theirs")
    await end_all([*line.tasks, *other.tasks, *third.tasks])
