"""Each lookup corrects the known locations of rows, one lookup at a time, and nothing else does."""

import asyncio
from contextlib import suppress

import pytest

from hedwig.clock import Deadline, SystemClock
from hedwig.metadata.hbase.native.cluster.locations import Locations
from hedwig.metadata.hbase.native.wire.regions import NowhereError, Region, Server
from hedwig.outcomes import AbortedError, NotAppliedError
from tests.faults.support.waiting import until

ONE, TWO = Server("one", 1), Server("two", 1)


def region(start: bytes, end: bytes, server: Server = ONE) -> Region:
    return Region(b"t," + start + b",1.hash.", "t", start, end, server)


class Map:
    """A directory with the regions that a test sets. It counts the requests for them."""

    def __init__(self, *regions: Region) -> None:
        self.open = list(regions)
        self.pages = self.looks = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.answers = True

    def describe(self) -> str:
        return "a map"

    async def regions(self, table: str) -> list[Region]:
        self.pages += 1
        await self._ready()
        return list(self.open)

    async def region(self, table: str, row: bytes) -> Region | None:
        self.looks += 1
        await self._ready()
        if not self.open:
            return None
        for one in self.open:
            if one.holds(row):
                return one
        raise NowhereError(table)

    async def _ready(self) -> None:
        await self.gate.wait()
        if not self.answers:
            raise NotAppliedError("no answer")


def soon() -> Deadline:
    return Deadline.after(SystemClock(), 10.0)


class RestingClock(SystemClock):
    """The system's clock, which counts how often somebody slept by it."""

    def __init__(self) -> None:
        self.rests = 0

    async def sleep(self, seconds: float) -> None:
        self.rests += 1
        await super().sleep(seconds)


async def known(*regions: Region, clock: SystemClock | None = None) -> tuple[Locations, Map]:
    directory = Map(*regions)
    locations = Locations("t", directory, clock or SystemClock())
    await locations.look_up(b"a", soon())
    return locations, directory


async def test_the_first_look_brings_the_whole_table() -> None:
    locations, directory = await known(region(b"", b"m"), region(b"m", b"t", TWO), region(b"t", b""))
    for row, start in [(b"a", b""), (b"lzz", b""), (b"m", b"m"), (b"s\xff", b"m"), (b"t", b"t"), (b"\xff", b"t")]:
        located = locations.find(row)
        assert located is not None
        assert located.start == start
    assert (directory.pages, directory.looks) == (1, 0)


async def test_a_split_is_learnt_daughter_by_daughter() -> None:
    locations, directory = await known(region(b"", b"m"), region(b"m", b""))
    parent = locations.find(b"x")
    assert parent is not None
    directory.open[1:] = [region(b"m", b"t", TWO), region(b"t", b"", TWO)]
    locations.forget(parent)
    assert locations.find(b"x") is None
    await locations.look_up(b"x", soon())
    located = locations.find(b"x")
    assert located is not None
    assert (located.start, located.server) == (b"t", TWO)
    assert locations.find(b"n") is None, "nothing is known of the other daughter"
    assert locations.find(b"a") is not None, "the rest of the table stays"
    assert directory.pages == 1


async def test_a_merged_region_takes_the_place_of_its_parents() -> None:
    locations, directory = await known(region(b"", b"f"), region(b"f", b"m"), region(b"m", b""))
    directory.open[:2] = [region(b"", b"m", TWO)]
    left = locations.find(b"a")
    assert left is not None
    locations.forget(left)
    await locations.look_up(b"a", soon())
    assert locations.find(b"g") is locations.find(b"a"), "the other parent is gone too"


async def test_a_late_failure_does_not_drop_what_was_learnt_since() -> None:
    locations, directory = await known(region(b"", b""))
    old = locations.find(b"a")
    assert old is not None
    locations.forget(old)
    directory.open = [region(b"", b"", TWO)]
    await locations.look_up(b"a", soon())
    locations.forget(old)
    located = locations.find(b"a")
    assert located is not None
    assert located.server == TWO


async def test_a_hint_moves_a_region_without_a_look() -> None:
    locations, directory = await known(region(b"", b"m"), region(b"m", b""))
    moved = locations.find(b"x")
    assert moved is not None
    locations.move(moved, TWO)
    located = locations.find(b"x")
    assert located is not None
    assert (located.name, located.server) == (moved.name, TWO)
    assert (directory.pages, directory.looks) == (1, 0)


async def test_a_lost_server_takes_its_regions_with_it() -> None:
    locations, _ = await known(region(b"", b"m"), region(b"m", b"", TWO))
    locations.forget_server(ONE)
    assert locations.find(b"a") is None
    assert locations.find(b"x") is not None


async def test_many_lost_regions_are_read_together() -> None:
    starts = [b"%02d" % number for number in range(50)]
    regions = [region(start, end) for start, end in zip(starts, [*starts[1:], b""], strict=True)]
    directory = Map(*regions)
    locations = Locations("t", directory, SystemClock())
    await locations.look_up(b"00", soon())
    locations.forget_server(ONE)
    for start in starts:
        if locations.find(start) is None:
            await locations.look_up(start, soon())
    assert all(locations.find(start) is not None for start in starts)
    assert directory.looks <= 8
    assert directory.pages == 2


async def test_whoever_comes_during_a_look_shares_it() -> None:
    directory = Map(region(b"", b""))
    locations = Locations("t", directory, SystemClock())
    directory.gate.clear()
    looks = [asyncio.ensure_future(locations.look_up(b"%d" % number, soon())) for number in range(20)]
    await asyncio.sleep(0)
    directory.gate.set()
    await asyncio.gather(*looks)
    assert directory.pages + directory.looks == 1


async def test_a_row_that_moves_is_no_trouble_for_the_others() -> None:
    locations, directory = await known(region(b"", b"m"), region(b"m", b""))
    locations.forget_server(ONE)
    directory.open = directory.open[:1]
    directory.gate.clear()
    moving = asyncio.ensure_future(locations.look_up(b"x", soon()))
    await asyncio.sleep(0)
    other = asyncio.ensure_future(locations.look_up(b"a", soon()))
    await asyncio.sleep(0)
    directory.gate.set()
    with pytest.raises(NotAppliedError, match="open nowhere"):
        await moving
    await other
    assert locations.find(b"a") is not None


async def test_all_who_wait_hear_of_a_directory_that_does_not_answer() -> None:
    """Otherwise each caller would ask the directory once more, and wake all others with every answer."""
    locations, directory = await known(region(b"", b"m"), region(b"m", b""))
    locations.forget_server(ONE)
    directory.answers = False
    directory.gate.clear()
    looks = [asyncio.ensure_future(locations.look_up(b"%d" % number, soon())) for number in range(500)]
    await asyncio.sleep(0)
    directory.gate.set()
    failures = await asyncio.gather(*looks, return_exceptions=True)
    assert {str(failure) for failure in failures} == {"no answer"}
    assert (directory.pages, directory.looks) == (1, 1)


async def test_a_directory_that_does_not_answer_is_asked_less_and_less_often_until_it_does() -> None:
    clock = RestingClock()
    locations, directory = await known(region(b"", b"m"), region(b"m", b""), clock=clock)
    locations.forget_server(ONE)
    directory.answers = False

    async def persistent() -> None:
        while locations.find(b"a") is None:
            with suppress(NotAppliedError):
                await locations.look_up(b"a", soon())

    began = asyncio.get_running_loop().time()
    callers = [asyncio.ensure_future(persistent()) for _ in range(50)]
    await until(lambda: directory.pages + directory.looks >= 8, "it is asked again and again")
    # The lookups come after 10, 20, 40, 80 and 160 ms, and then every quarter of a second. Nothing makes them sooner.
    assert asyncio.get_running_loop().time() - began >= 0.5
    asked = directory.pages + directory.looks
    directory.answers = True
    await asyncio.gather(*callers)
    assert directory.pages + directory.looks <= asked + 2
    # Once the directory has answered, callers no longer wait.
    locations.forget_server(ONE)
    rests = clock.rests
    await locations.look_up(b"a", soon())
    assert clock.rests == rests > 0


async def test_rows_that_are_nowhere_are_looked_for_together() -> None:
    """A scan of the whole table finds every row, whichever caller began it."""
    starts = [b"%03d" % number for number in range(300)]
    regions = [region(start, end) for start, end in zip(starts, [*starts[1:], b""], strict=True)]
    locations, directory = await known(*regions)
    locations.forget_server(ONE)
    directory.open = directory.open[:1]
    looks = [asyncio.ensure_future(locations.look_up(start, soon())) for start in starts[1:]]
    async with asyncio.timeout(10):
        outcomes = await asyncio.gather(*looks, return_exceptions=True)
    # For a region that is open nowhere, a caller gets NowhereError, or the scan leaves its location unknown.
    assert {type(outcome) for outcome in outcomes} == {type(None), NowhereError}
    assert locations.find(starts[0]) is not None
    assert (directory.looks, directory.pages) == (1, 2)


async def test_rows_that_stay_nowhere_are_asked_for_less_and_less_often_until_they_are_somewhere() -> None:
    """Otherwise the server of hbase:meta would answer questions of all callers while it should open regions."""
    clock = RestingClock()
    locations, directory = await known(region(b"", b"m"), region(b"m", b"t"), region(b"t", b""), clock=clock)
    locations.forget_server(ONE)
    directory.open = directory.open[:1]

    async def persistent(row: bytes) -> None:
        while locations.find(row) is None:
            with suppress(NowhereError):
                await locations.look_up(row, soon())

    began = asyncio.get_running_loop().time()
    callers = [asyncio.ensure_future(persistent(row)) for row in [b"x"] * 50 + [b"o"] * 50]
    await until(lambda: directory.pages + directory.looks >= 8, "they are asked for again and again")
    assert asyncio.get_running_loop().time() - began >= 0.5
    asked = directory.pages + directory.looks
    directory.open = [region(b"", b"m"), region(b"m", b"t", TWO), region(b"t", b"", TWO)]
    await asyncio.gather(*callers)
    assert directory.pages + directory.looks <= asked + 2
    # Once all are found, callers no longer wait.
    locations.forget_server(TWO)
    rests = clock.rests
    await locations.look_up(b"x", soon())
    assert clock.rests == rests > 0


async def test_many_rows_that_nobody_knows_are_found_one_after_the_other() -> None:
    starts = [b"%d" % number for number in range(6)]
    regions = [region(start, end) for start, end in zip(starts, [*starts[1:], b""], strict=True)]
    locations, directory = await known(*regions)
    locations.forget_server(ONE)
    directory.gate.clear()
    looks = [asyncio.ensure_future(locations.look_up(start, soon())) for start in starts]
    await asyncio.sleep(0)
    directory.gate.set()
    async with asyncio.timeout(10):
        await asyncio.gather(*looks)
    assert all(locations.find(start) is not None for start in starts)
    assert directory.looks == len(starts)


async def test_a_missing_table_is_told_from_a_missing_region() -> None:
    directory = Map()
    locations = Locations("t", directory, SystemClock())
    await locations.look_up(b"a", soon())
    assert locations.is_missing
    directory.open = [region(b"", b"")]
    await locations.look_up(b"a", soon())
    assert not locations.is_missing


async def test_a_look_that_takes_too_long_goes_on_for_the_others() -> None:
    directory = Map(region(b"", b""))
    locations = Locations("t", directory, SystemClock())
    directory.gate.clear()
    with pytest.raises(NotAppliedError):
        await locations.look_up(b"a", Deadline.after(SystemClock(), 0.01))
    patient = asyncio.ensure_future(locations.look_up(b"a", soon()))
    await asyncio.sleep(0)
    directory.gate.set()
    await patient
    assert directory.pages == 1


async def test_closing_ends_a_look() -> None:
    directory = Map(region(b"", b""))
    locations = Locations("t", directory, SystemClock())
    directory.gate.clear()
    look = asyncio.ensure_future(locations.look_up(b"a", soon()))
    await asyncio.sleep(0)
    await locations.close()
    with pytest.raises(AbortedError):
        await look
    with pytest.raises(AbortedError):
        await locations.look_up(b"a", soon())
