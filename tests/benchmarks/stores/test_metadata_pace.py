"""Prove that a fill of hours needs little memory to be recorded, and reports its progress."""

from itertools import pairwise

import pytest

from hedwig.benchmarks.load.recording import Summary
from hedwig.benchmarks.stores.dataset import FillTask
from hedwig.benchmarks.stores.fill import fill_aloud
from hedwig.benchmarks.stores.fill_rate import FillRate, Seconds
from hedwig.benchmarks.suites.metadata.lines import filling
from tests.benchmarks.support.known_store import KnownStore
from tests.support.virtual_time import VirtualTime

HOURS_S = 10_000


def test_seconds_beyond_so_many_are_added_up_and_lose_nothing() -> None:
    seconds = Seconds(seconds_max=100)
    for second in range(HOURS_S):
        seconds.note(second, 3, 1_000 * (1 + second % 7))
        assert len(seconds.series) <= 100
    width = HOURS_S // len(seconds.series) + 1
    numbers = list(seconds.series)
    (step,) = {after - before for before, after in pairwise(numbers)}
    assert step == 128 >= width
    assert sum(each.finished for each in seconds.series.values()) == 3 * HOURS_S
    assert sum(each.response.count for each in seconds.series.values()) == HOURS_S
    first = seconds.series[0]
    assert (first.finished, first.response.count) == (3 * step, step)
    # A mean of histograms would lose the slowest time.
    assert first.response.max_us == pytest.approx(7_000, rel=0.01)


def test_seconds_in_which_everything_failed_are_bounded_too() -> None:
    """Their width follows from the duration of the fill, so that samples of the same time fit to them."""
    seconds = Seconds(seconds_max=100)
    for second in range(HOURS_S):
        seconds.note_failed(second)
        if second % 1_000 == 0:
            seconds.note(second, 3, 1_000)
        assert len(seconds.series) <= 100
    assert seconds.width == 128
    assert all(number % seconds.width == 0 for number in seconds.series)
    assert sum(each.failed for each in seconds.series.values()) == HOURS_S
    assert sum(each.finished for each in seconds.series.values()) == 3 * HOURS_S // 1_000
    rare = Seconds(seconds_max=100)
    for second in range(0, HOURS_S, 1_000):
        rare.note(second, 3, 1_000)
    assert rare.width == 128


def test_the_usual_fill_keeps_its_seconds() -> None:
    seconds = Seconds()
    for second in range(30 * 60):
        seconds.note(second, 1, 1_000)
    assert list(seconds.series) == list(range(30 * 60))


def test_a_standstill_is_told_from_the_last_two_minutes() -> None:
    pace = FillRate()
    for second in range(300):
        pace.note(second, 100)
    assert pace.standstill(299) is None
    assert pace.per_s(300) == pytest.approx(100.0)
    for second in range(300, 420):
        pace.note(second, 9)
        assert (pace.standstill(second) is None) == (second < 419), (
            "a tenth is made until then, as good seconds are in it"
        )
    assert pace.standstill(420) == ("it came to a standstill: 9 records/s in the last 120 s, and 100/s before that")
    assert pace.per_s(420) == pytest.approx(9.0)
    assert pace.count == 300 * 100 + 120 * 9


def test_a_third_of_what_was_made_before_is_the_end_only_with_a_full_heap() -> None:
    pace = FillRate()
    for second in range(300):
        pace.note(second, 100)
    assert not pace.is_slow(299)
    for second in range(300, 420):
        pace.note(second, 30)
    assert pace.is_slow(420)
    assert pace.standstill(420) is None
    pace.has_full_heap = True
    assert pace.standstill(420) == "its heap is full: 30 records/s in the last 120 s, and 100/s before that"


def test_nothing_is_a_standstill_before_there_is_as_much_before_it() -> None:
    pace = FillRate()
    for second in range(100):
        pace.note(second, 100)
    assert pace.standstill(239) is None
    assert pace.standstill(240) is not None


def test_a_fill_tells_every_ten_seconds_how_far_it_is() -> None:
    clock = VirtualTime()
    reported: list[tuple[float, dict[str, float]]] = []
    began = clock.seconds
    task = FillTask(first=0, last=8_000, subscribers=1)

    async def run() -> None:
        def tell(progress: dict[str, float]) -> None:
            reported.append((clock.seconds - began, progress))

        _, why = await fill_aloud(KnownStore(0.1, 1.0), task, tell, now_ns=clock.now_ns)
        assert why is None

    clock.run(run())
    # Six batches of 128 topics take three seconds, so 63 batches take 33.
    assert [seconds for seconds, _ in reported] == pytest.approx([10.0, 20.0, 30.0], abs=0.1)
    assert [progress["of"] for _, progress in reported] == [task.records] * 3
    made = [progress["records"] for _, progress in reported]
    assert 0 < made[0] < made[1] < made[2] < task.records
    for seconds, progress in reported:
        assert progress["per_s"] == pytest.approx(progress["records"] / seconds, rel=0.01)


@pytest.mark.parametrize(
    "is_full",
    [pytest.param(True, id="full heap"), pytest.param(False, id="room left", marks=pytest.mark.full)],
)
def test_a_slow_fill_looks_for_a_full_heap_and_ends_there(is_full: bool) -> None:
    """From 300 s on the fill makes a quarter of what it made before."""
    clock = VirtualTime()
    looks: list[float] = []
    store = KnownStore(0.1, 1.0, stalls=[(300.0 + 40.0 * number, 330.0 + 40.0 * number) for number in range(100)])
    store.delays.began = began = clock.seconds

    async def has_full_heap() -> bool:
        looks.append(clock.seconds - began)
        return is_full and len(looks) > 1

    async def run() -> tuple[Summary, str | None]:
        task = FillTask(first=0, last=100_000, subscribers=1, seconds_max=5_000.0)
        return await fill_aloud(store, task, lambda _: None, has_full_heap=has_full_heap, now_ns=clock.now_ns)

    summary, why = clock.run(run())
    assert looks[0] > 300.0
    assert all(later - earlier >= 60.0 for earlier, later in pairwise(looks))
    if is_full:
        assert len(looks) == 2
        assert why is not None
        assert why.startswith("its heap is full: ")
        assert summary.seconds < looks[1] + 60.0
        assert summary.missed
    else:
        assert why is None
        assert not summary.missed


def test_how_far_a_fill_is_reads_well() -> None:
    progress = {"records": 3_200_000, "of": 11_522_000, "per_s": 9_012.4}
    assert filling(progress) == "3,200,000 of 11,522,000 records, 9,012/s, about 15 min more"
    assert filling(progress | {"per_s": 0.0}) == "3,200,000 of 11,522,000 records, 0/s, nothing lately"
