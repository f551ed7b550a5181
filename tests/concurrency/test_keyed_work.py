"""Prove that work is shared by key, and that its callers learn of its end."""

import asyncio
from functools import partial

import pytest

from hedwig.concurrency.keyed_work import KeyedWork


class _ClosedError(Exception):
    """The work was closed."""


async def test_callers_of_one_key_share_the_work_and_one_that_leaves_ends_it_for_nobody() -> None:
    work: KeyedWork[str, int] = KeyedWork(_ClosedError)
    begun: list[str] = []
    may_end = asyncio.Event()

    async def run(key: str) -> int:
        begun.append(key)
        await may_end.wait()
        return len(begun)

    waiting = [asyncio.ensure_future(work.join(key, partial(run, key))) for key in ("a", "a", "a", "b")]
    await asyncio.sleep(0.01)
    assert begun == ["a", "b"]
    waiting[0].cancel()
    may_end.set()
    assert await asyncio.gather(*waiting[1:]) == [2, 2, 2]
    with pytest.raises(asyncio.CancelledError):
        await waiting[0]
    assert await work.join("a", partial(run, "a")) == 3, "what is over is not shared any more"


async def test_an_error_goes_to_all_callers_and_the_next_one_begins_anew() -> None:
    work: KeyedWork[int, int] = KeyedWork(_ClosedError)
    calls = 0

    async def fail() -> int:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0)
        raise KeyError(calls)

    waiting = [asyncio.ensure_future(work.join(1, fail)) for _ in range(2)]
    for each in waiting:
        with pytest.raises(KeyError, match="1"):
            await each
    with pytest.raises(KeyError, match="2"):
        await work.join(1, fail)


async def test_who_waits_learns_that_it_was_closed() -> None:
    work: KeyedWork[int, int] = KeyedWork(_ClosedError)
    begun = asyncio.Event()
    is_cleaned_up = False

    async def run() -> int:
        nonlocal is_cleaned_up
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            is_cleaned_up = True
        return 0

    waiting = [asyncio.ensure_future(work.join(1, run)) for _ in range(2)]
    await begun.wait()
    waiting[1].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting[1]
    await work.aclose()
    assert is_cleaned_up
    with pytest.raises(_ClosedError):
        await waiting[0]
    with pytest.raises(_ClosedError):
        await work.join(1, run)
    await work.aclose()


async def test_what_is_over_is_not_shared_in_the_turn_in_which_it_ends() -> None:
    work: KeyedWork[str, int] = KeyedWork(_ClosedError)
    again: list[asyncio.Task[int]] = []

    async def two() -> int:
        return 2

    async def one() -> int:
        asyncio.get_running_loop().call_soon(lambda: again.append(work.begin("a", two)))
        return 1

    assert await work.begin("a", one) == 1
    assert await again[0] == 2
    assert await work.join("a", one) == 1
    await work.aclose()
