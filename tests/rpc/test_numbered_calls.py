"""Calls over one connection: matched in any order, given up each in its own time, or with the connection."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from hedwig.rpc import Bounds
from tests.rpc.support.numbers import END, Caller, Peer, connected

BOUNDS = Bounds(calls_max=100, bytes_max=1 << 20, silence_s=0.2, first_number=1, numbers_end=1 << 31)
PATIENT = Bounds(calls_max=100, bytes_max=1 << 20, silence_s=60.0, first_number=1, numbers_end=1 << 31)
FEW_NUMBERS = Bounds(calls_max=100, bytes_max=1 << 20, silence_s=60.0, first_number=5, numbers_end=9)


@pytest.fixture
async def ends(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Caller, Peer]]:
    async with connected(getattr(request, "param", PATIENT)) as both:
        yield both


async def test_answers_find_their_calls_in_any_order(ends: tuple[Caller, Peer]) -> None:
    caller, peer = ends
    asked = [asyncio.create_task(caller.ask()) for _ in range(20)]
    numbers = [await peer.next() for _ in asked]
    assert numbers == list(range(1, 21))
    for number in reversed(numbers):
        peer.answer(number, 100 + number)
    assert await asyncio.gather(*asked) == [100 + number for number in numbers]
    assert caller.calls_in_flight == 0


async def test_each_call_is_given_up_in_its_own_time(ends: tuple[Caller, Peer]) -> None:
    caller, peer = ends
    came: list[tuple[str, int | str]] = []
    for name, timeout_s in (("long", 30.0), ("short", 0.3), ("shorter", 0.1)):
        caller.call(lambda answer, name=name: came.append((name, answer)), timeout_s)  # type: ignore[misc]
    last = await caller.ask(0.4)
    assert (last, came) == ("left: expired", [("shorter", "left: expired"), ("short", "left: expired")])
    late = [await peer.next() for _ in range(4)]
    for number in reversed(late):
        peer.answer(number, 7)
    again = asyncio.create_task(caller.ask())
    peer.answer(await peer.next(), 8)
    assert await again == 8
    assert came[2:] == [("long", 7)]
    assert caller.strays == [4, 3, 2], "what comes too late is dropped"


@pytest.mark.parametrize("ends", [BOUNDS], indirect=True)
async def test_a_peer_that_says_nothing_loses_the_connection(ends: tuple[Caller, Peer]) -> None:
    caller, _ = ends
    others = [asyncio.create_task(caller.ask()) for _ in range(3)]
    assert await caller.ask(0.3) == "left: expired"
    assert set(await asyncio.gather(*others)) == {"left: the server has been silent for too long"}


async def test_what_never_left_is_told_from_what_did(ends: tuple[Caller, Peer]) -> None:
    caller, peer = ends
    came: dict[int, int | str] = {}
    first = caller.call(lambda answer: came.update({1: answer}))
    assert await peer.next() == first
    caller.pause_writing()
    caller.call(lambda answer: came.update({2: answer}), 0.05)
    caller.call(lambda answer: came.update({3: answer}))
    forgotten = caller.call(lambda answer: came.update({4: answer}))
    caller.forget(forgotten)
    await caller.ask(0.1)
    assert came == {2: "kept: expired"}
    caller.resume_writing()
    assert await peer.next() == first + 2, "what was given up before it left stays"
    caller.call(lambda answer: came.update({5: answer}))
    caller.close()
    assert caller.calls_in_flight == 0
    assert set(came) == {2}, "nobody hears from within"
    await asyncio.sleep(0)
    assert came == {
        2: "kept: expired",
        1: "left: closed here",
        3: "left: closed here",
        5: "kept: closed here",
    }


async def test_the_end_of_the_connection_is_heard_by_all(ends: tuple[Caller, Peer]) -> None:
    caller, peer = ends
    asked = [asyncio.create_task(caller.ask()) for _ in range(5)]
    for _ in asked:
        await peer.next()
    peer.writer.close()
    assert set(await asyncio.gather(*asked)) == {"left: the connection ended (closed by the server)"}


async def test_bytes_that_are_no_answer_end_the_connection(ends: tuple[Caller, Peer]) -> None:
    caller, peer = ends
    asked = asyncio.create_task(caller.ask())
    peer.answer(await peer.next(), END)
    assert await asked == "left: that is no value"


@pytest.mark.parametrize("ends", [FEW_NUMBERS], indirect=True)
async def test_numbers_begin_anew_and_leave_out_those_in_flight(ends: tuple[Caller, Peer]) -> None:
    caller, peer = ends
    kept = asyncio.create_task(caller.ask())
    assert await peer.next() == 5
    numbers = []
    for _ in range(6):
        asked = asyncio.create_task(caller.ask())
        numbers.append(await peer.next())
        peer.answer(numbers[-1], 1)
        await asked
    assert numbers == [6, 7, 8, 6, 7, 8]
    peer.answer(5, 2)
    assert await kept == 2


async def test_what_is_sent_in_one_turn_leaves_in_one_write(
    ends: tuple[Caller, Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, peer = ends
    flushed: list[int] = []
    flush = caller.flush

    def counted() -> None:
        flushed.append(1)
        flush()

    monkeypatch.setattr(caller, "flush", counted)
    asked = [asyncio.create_task(caller.ask()) for _ in range(50)]
    for _ in asked:
        peer.answer(await peer.next(), 3)
    await asyncio.gather(*asked)
    assert len(flushed) == 1
