"""Prove that histograms are exact to their digits, merge without loss, and survive their text."""

import random

import pytest
from hdrh.histogram import HdrHistogram

from hedwig.histograms import PERCENTILES, Histogram


def _of(times_us: list[int], digits: int = 3) -> Histogram:
    histogram = Histogram(digits)
    histogram.record_all(times_us)
    return histogram


def _times(count: int, seed: int = 1) -> list[int]:
    generator = random.Random(seed)
    return [1 + int(generator.lognormvariate(8, 1.5)) for _ in range(count)]


def _exact(times_us: list[int], percentile: float) -> int:
    return sorted(times_us)[max(0, round(percentile / 100 * len(times_us)) - 1)]


@pytest.mark.parametrize("percentile", PERCENTILES)
def test_percentiles_are_those_of_the_times(percentile: float) -> None:
    times = _times(20_000)
    assert _of(times).percentile_us(percentile) == pytest.approx(_exact(times, percentile), rel=0.002)


def test_count_mean_and_largest_time() -> None:
    times = _times(5_000)
    histogram = _of(times)
    assert histogram.count == len(times)
    assert histogram.mean_us == pytest.approx(sum(times) / len(times), rel=0.002)
    assert histogram.max_us == pytest.approx(max(times), rel=0.001)


@pytest.mark.parametrize("digits", [2, 3])
@pytest.mark.parametrize("times", [[0], [1, 1, 2], [2047, 2048, 4097], _times(1_000), [3_600_000_000]])
def test_mean_is_the_one_the_library_finds(times: list[int], digits: int) -> None:
    text = _of(times, digits).encode()
    assert Histogram.decode(text).mean_us == HdrHistogram.decode(text).get_mean_value()


def test_merging_is_the_same_as_recording_everything_in_one() -> None:
    parts = [_times(3_000, seed) for seed in range(4)]
    merged = Histogram.merged(_of(part) for part in parts)
    whole = _of([us for part in parts for us in part])
    assert merged.count == whole.count == 12_000
    assert merged.percentiles_us() == whole.percentiles_us()
    assert merged.max_us == whole.max_us


def test_merged_percentiles_are_no_average() -> None:
    """A fast and a slow half: the average of both 99th percentiles would be 50 ms."""
    merged = Histogram.merged([_of([1_000] * 900), _of([100_000] * 100)])
    assert merged.percentile_us(90) == pytest.approx(1_000, rel=0.001)
    assert merged.percentile_us(99) == pytest.approx(100_000, rel=0.001)


def test_merging_leaves_the_parts_as_they_are() -> None:
    part = _of([1_000] * 10)
    Histogram.merged([part, _of([5_000] * 10)])
    assert (part.count, part.max_us) == (10, _of([1_000]).max_us)


@pytest.mark.parametrize("digits", [2, 3])
@pytest.mark.parametrize("times", [[], [0], [1], [7, 7, 9], _times(1_000)], ids=["none", "zero", "one", "few", "many"])
def test_text_keeps_everything(times: list[int], digits: int) -> None:
    histogram = _of(times, digits)
    again = Histogram.decode(histogram.encode())
    assert again.count == histogram.count == len(times)
    assert again.percentiles_us() == histogram.percentiles_us()
    assert again.max_us == histogram.max_us
    again.add(histogram)
    assert again.count == 2 * len(times)


def test_nothing_recorded_is_zero_everywhere() -> None:
    empty = Histogram()
    assert (empty.count, empty.max_us, empty.mean_us) == (0, 0, 0)
    assert set(empty.percentiles_us().values()) == {0}
    empty.add(Histogram())
    assert empty.count == 0


def test_times_out_of_range_count_as_the_nearest() -> None:
    histogram = Histogram()
    histogram.record(-5)
    histogram.record(10_000_000_000)
    assert histogram.count == 2
    assert histogram.max_us == pytest.approx(3_600_000_000, rel=0.001)


@pytest.mark.parametrize("text", ["", "nothing", "aGVsbG8gd29ybGQ="])
def test_what_is_no_histogram_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not the text of a histogram"):
        Histogram.decode(text)
