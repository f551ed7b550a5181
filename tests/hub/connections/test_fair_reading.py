"""Channels take turns to begin the requests that were read: none for long, and none before the others."""

import asyncio
import itertools
from collections.abc import Callable

from hedwig.hub.connections.fair_reading import FairReading
from tests.hub.support.wire_client import eventually


class _Clock:
    """A clock that moves with the work of the test."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody sleeps here")


class _Reader:
    """A channel with requests that take 1/2048 s each by default."""

    def __init__(self, name: str, requests: int, clock: _Clock, begun: list[str], each_s: float = 2**-11) -> None:
        self.had_s = 0.0
        self.left = requests
        self.is_done = asyncio.Event()
        self._each_s = each_s
        self._name = name
        self._clock = clock
        self._begun = begun

    def begin_next(self) -> bool:
        self._clock.now += self._each_s
        self._begun.append(self._name)
        self.left -= 1
        if not self.left:
            self.is_done.set()
        return self.left > 0


def _ticks(ticks: list[int], begun: list[str], is_over: Callable[[], bool]) -> None:
    """Record in each turn of the loop how many requests have begun."""
    ticks.append(len(begun))
    if not is_over():
        asyncio.get_running_loop().call_soon(_ticks, ticks, begun, is_over)


async def test_few_requests_are_begun_at_once() -> None:
    clock, begun = _Clock(), list[str]()
    reading = FairReading(clock, clock.monotonic)
    for name in "abc":
        assert reading.begin(_Reader(name, 10, clock, begun))
    assert begun == ["a"] * 10 + ["b"] * 10 + ["c"] * 10


async def test_many_requests_leave_the_loop_to_others_and_begin_in_turn() -> None:
    clock, begun = _Clock(), list[str]()
    reading = FairReading(clock, clock.monotonic)
    readers = [_Reader(name, 100, clock, begun) for name in "abc"]
    assert not any(reading.begin(reader) for reader in readers)
    assert begun == ["a"] * 41, "one turn is 20 ms"
    assert not reading.begin(_Reader("z", 1, clock, begun)), "those that wait are first"
    ticks: list[int] = []
    _ticks(ticks, begun, lambda: len(begun) == 301)
    await eventually(lambda: len(begun) == 301, "all of them are begun")
    assert "".join(begun[41:60]) == "aaabbbccczaaabbbccc", "a share is 1 ms"
    assert max(after - before for before, after in itertools.pairwise(ticks)) <= 41 + 3
    assert reading.begin(_Reader("y", 1, clock, begun)), "nobody waits any more"


async def test_who_asks_for_little_is_next() -> None:
    """This holds even if it returns again and again. Each request of the others takes longer than all of its own."""
    clock, begun = _Clock(), list[str]()
    reading = FairReading(clock, clock.monotonic)
    for name in "abcdefgh":
        assert not reading.begin(_Reader(name, 200, clock, begun, 0.01))
    small = _Reader("z", 3, clock, begun)
    for _ in range(10):
        small.left = 3
        before = len(begun)
        assert not reading.begin(small)
        async with asyncio.timeout(20):
            await small.is_done.wait()
        small.is_done.clear()
        assert begun[before:].index("z") <= 8, "each of the others may have begun one"
    assert "".join(begun).count("zzz") == 10


async def test_a_reader_that_fails_does_not_hold_up_the_others() -> None:
    clock, begun = _Clock(), list[str]()
    reading = FairReading(clock, clock.monotonic)
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))

    class _Failing(_Reader):
        def begin_next(self) -> bool:
            raise RuntimeError("a defect")

    assert not reading.begin(_Reader("a", 100, clock, begun))
    assert not reading.begin(_Failing("b", 1, clock, begun))
    assert not reading.begin(_Reader("c", 100, clock, begun))
    await eventually(lambda: len(begun) == 200, "the others are begun")
    assert [str(failure) for failure in failures] == ["a defect"]
