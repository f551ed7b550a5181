"""Prove that rounds which differ only by noise are called equal, and that others are called different."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedwig.benchmarks.runs.compare_rounds import (
    LEAST,
    Relation,
    bound_words,
    differ,
    differ_in_rounds,
    middle,
    over_all,
)

RATES = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=9)


def _equal_rounds(first: list[float], second: list[float]) -> tuple[list[float], list[float]]:
    """Return the rounds that both sides have."""
    shared = min(len(first), len(second))
    return first[:shared], second[:shared]


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ([100, 101, 99], [150, 152, 149], Relation.MORE),
        ([150, 152, 149], [100, 101, 99], Relation.LESS),
        ([100, 140, 80], [110, 90, 130], Relation.NOISE),
        ([100, 130], [150, 110], Relation.NOISE),
        ([100, 101], [400, 404], Relation.MORE),
        ([100, 100], [100, 100], Relation.NOISE),
        ([100, 100], [200, 200], Relation.MORE),
        ([100], [200], Relation.UNKNOWN),
        ([100, 101, 99], [500], Relation.UNKNOWN),
        ([0, 0], [100, 100], Relation.UNKNOWN),
    ],
)
def test_known_rounds_have_known_verdicts(first: list[float], second: list[float], verdict: Relation) -> None:
    assert differ(first, second).verdict == verdict


def test_the_interval_is_that_of_a_textbook() -> None:
    """Two rounds a side, a tenth apart in their logarithms: t is 4.303 with two degrees of freedom."""
    low, high = math.exp(-0.05), math.exp(0.05)
    difference = differ([low, high], [2 * low, 2 * high])
    width = 4.303 * math.sqrt(2 * 0.005 / 2)
    assert difference.ratio == pytest.approx(2)
    assert difference.low == pytest.approx(2 * math.exp(-width), rel=1e-6)
    assert difference.high == pytest.approx(2 * math.exp(width), rel=1e-6)


def test_a_steady_difference_below_what_clocks_tell_is_noise() -> None:
    difference = differ([100.0, 100.0, 100.0], [100.0 * (1 + LEAST / 2)] * 3)
    assert (difference.verdict, difference.how) == (Relation.NOISE, "less than 2% apart")


def test_one_round_says_why_nothing_is_known() -> None:
    assert differ([100], [200]).how == "1 round"
    assert differ([100], [200, 200]).how == "1 round on one side"
    assert differ([100], [200]).ratio == 2


@given(RATES, RATES)
def test_the_other_way_round_is_the_opposite(first: list[float], second: list[float]) -> None:
    there, back = differ(first, second), differ(second, first)
    assert there.ratio is not None
    assert back.ratio == pytest.approx(1 / there.ratio)
    if there.low is not None and there.high is not None:
        assert there.low <= there.ratio * (1 + 1e-9)
        assert there.ratio <= there.high * (1 + 1e-9)
        assert back.low == pytest.approx(1 / there.high)
    turned = {Relation.MORE: Relation.LESS, Relation.LESS: Relation.MORE}
    if abs(there.ratio - 1) > 2 * LEAST:
        assert back.verdict == turned.get(there.verdict, there.verdict)


@given(RATES, RATES, st.floats(0.01, 1000))
def test_units_do_not_matter(first: list[float], second: list[float], unit: float) -> None:
    plain = differ(first, second)
    scaled = differ([unit * value for value in first], [unit * value for value in second])
    assert scaled.ratio == pytest.approx(plain.ratio)
    if plain.low is not None and abs(math.log(plain.low)) > 1e-6 and plain.high is not None:
        assert scaled.low == pytest.approx(plain.low, rel=1e-6)
        assert scaled.high == pytest.approx(plain.high, rel=1e-6)


@pytest.mark.parametrize(("rounds", "others"), [(2, 2), (3, 3), (2, 5), (9, 9)])
@pytest.mark.parametrize(("noise", "others_noise"), [(0.05, 0.05), (0.3, 0.3), (0.3, 0.01)])
def test_equal_sides_are_called_different_once_in_twenty_at_most(
    rounds: int, others: int, noise: float, others_noise: float
) -> None:
    generator = random.Random(f"{rounds} {others} {noise} {others_noise}")
    tries, wrong = 1000, 0
    for _ in range(tries):
        first = [math.exp(generator.gauss(0, noise)) for _ in range(rounds)]
        second = [math.exp(generator.gauss(0, others_noise)) for _ in range(others)]
        wrong += differ(first, second).verdict in (Relation.MORE, Relation.LESS)
    assert wrong / tries < 0.05 + 3 * math.sqrt(0.05 * 0.95 / tries)


def test_noise_that_both_sides_of_a_round_share_hides_nothing() -> None:
    """The second side is always 1.5 times as fast, though the speed of the machine changes threefold between rounds."""
    first, second = [100.0, 300.0, 180.0, 120.0], [151.0, 448.0, 272.0, 179.0]
    assert differ(first, second).verdict is Relation.NOISE
    difference = differ_in_rounds(first, second)
    assert difference is not None
    assert difference.verdict is Relation.MORE
    assert difference.ratio == pytest.approx(1.5, abs=0.01)


@pytest.mark.parametrize(
    ("first", "second"), [([100], [200]), ([1, 1], [2, 2]), ([1, 1, 1], [2, 2]), ([0, 1, 1], [2, 2, 2])]
)
def test_too_few_rounds_side_by_side_say_nothing(first: list[float], second: list[float]) -> None:
    assert differ_in_rounds(first, second) is None


@pytest.mark.parametrize("rounds", [3, 5, 9])
def test_equal_sides_round_by_round_are_called_different_once_in_twenty_at_most(rounds: int) -> None:
    generator = random.Random(rounds)
    tries, wrong = 1000, 0
    for _ in range(tries):
        machine = [generator.gauss(0, 0.5) for _ in range(rounds)]
        first = [math.exp(speed + generator.gauss(0, 0.1)) for speed in machine]
        second = [math.exp(speed + generator.gauss(0, 0.1)) for speed in machine]
        difference = differ_in_rounds(first, second)
        wrong += difference is not None and difference.verdict in (Relation.MORE, Relation.LESS)
    assert wrong / tries < 0.05 + 3 * math.sqrt(0.05 * 0.95 / tries)


@pytest.mark.parametrize(("rounds", "factor", "detected_min"), [(3, 2.0, 0.9), (5, 1.3, 0.9), (9, 1.2, 0.9)])
def test_a_difference_beyond_the_noise_is_found(rounds: int, factor: float, detected_min: float) -> None:
    """With a noise of 8 % from round to round."""
    generator = random.Random(rounds)
    tries, detected = 400, 0
    for _ in range(tries):
        first = [math.exp(generator.gauss(0, 0.08)) for _ in range(rounds)]
        second = [factor * math.exp(generator.gauss(0, 0.08)) for _ in range(rounds)]
        detected += differ(first, second).verdict is Relation.MORE
    assert detected / tries > detected_min


@given(RATES, RATES)
def test_a_factor_lies_within_those_of_its_rounds(first: list[float], second: list[float]) -> None:
    first, second = _equal_rounds(first, second)
    ratios = [other / one for one, other in zip(first, second, strict=True)]
    for difference in (differ(first, second), differ_in_rounds(first, second)):
        if difference is not None:
            assert difference.ratio is not None
            assert min(ratios) * (1 - 1e-9) <= difference.ratio <= max(ratios) * (1 + 1e-9)


# -------------------------------------------------------------------------------------------------------- percentiles


@pytest.mark.parametrize(
    ("first", "second", "ratio", "verdict", "words"),
    [
        ([10, 10, 10], [8, 8, 8], 0.8, Relation.LESS, "the interval is beyond 1"),
        ([10, 10, 10], [8, 8, 8], 0.08, Relation.LESS, "the interval is beyond 1; all times together lie outside the"),
        ([8, 8, 8], [10, 10, 10], 12.5, Relation.MORE, "the interval is beyond 1; all times together lie outside the"),
        ([10, 10, 10], [8, 8, 8], 8, Relation.MIXED, "but all times together do not say so"),
        ([8, 8, 8], [10, 10, 10], 1 / 8, Relation.MIXED, "but all times together do not say so"),
        ([10, 10, 10], [8, 8, 8], 1 - LEAST / 2, Relation.MIXED, "but all times together do not say so"),
        ([8, 8, 8], [10, 10, 10], 1 + LEAST / 2, Relation.MIXED, "but all times together do not say so"),
        ([100, 140, 80], [110, 90, 130], 1.1, Relation.NOISE, "the interval holds 1"),
        ([100, 140, 80], [110, 90, 130], 3, Relation.NOISE, "the interval holds 1; all times together lie outside the"),
        ([100], [200], 2, Relation.UNKNOWN, "1 round"),
    ],
)
def test_of_a_percentile_all_times_together_are_told_and_must_say_what_the_rounds_do(
    first: list[float], second: list[float], ratio: float, verdict: Relation, words: str
) -> None:
    of_rounds = differ(first, second)
    difference = over_all(of_rounds, ratio)
    assert (difference.ratio, difference.verdict) == (ratio, verdict)
    assert words in difference.how
    assert ("outside" in words) == ("outside" in difference.how)
    assert (difference.of_rounds, difference.low, difference.high) == (
        of_rounds.of_rounds,
        of_rounds.low,
        of_rounds.high,
    )


@given(RATES, RATES, st.floats(0.001, 1000))
def test_all_times_together_make_no_difference_that_rounds_do_not_show(
    first: list[float], second: list[float], ratio: float
) -> None:
    of_rounds = differ(first, second)
    difference = over_all(of_rounds, ratio)
    assert difference.ratio == ratio
    assert difference.of_rounds == of_rounds.ratio
    assert difference.verdict in (of_rounds.verdict, Relation.MIXED)
    if difference.verdict is Relation.MIXED:
        assert of_rounds.verdict in (Relation.MORE, Relation.LESS)
    if difference.verdict in (Relation.MORE, Relation.LESS):
        assert (ratio > 1) == (difference.verdict is Relation.MORE)


def test_a_percentile_of_nothing_is_told_by_no_ratio() -> None:
    assert over_all(differ([0, 1], [1, 1]), 2).ratio is None


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=9))
def test_the_middle_is_one_of_its_values_or_between_them(values: list[float]) -> None:
    assert min(values) <= middle(values) <= max(values)


def test_the_middle_of_twice_and_half_as_much_is_as_much() -> None:
    assert middle([0.5, 2.0]) == pytest.approx(1)
    assert middle([0.05, 56.27]) == pytest.approx(1.68, abs=0.01)


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [(1.0, "1.00"), (1.004, "1.004"), (0.9996, "0.9996"), (1.95, "1.95"), (0.001, "0"), (4e6, "over 1,000")],
)
def test_an_end_of_an_interval_stands_on_its_side_of_1(ratio: float, shown: str) -> None:
    assert bound_words(ratio) == shown
