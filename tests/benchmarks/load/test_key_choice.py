"""Prove that loads use all topics, that each load and round draws others, and that all backends get the same."""

from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest

from hedwig.benchmarks.load.key_choice import AHEAD
from hedwig.benchmarks.load.workloads import Among, Choice, Workload

MANY = 10_000_000
ASKED = 1_000


def _workload(**changes: object) -> Workload:
    given: dict[str, object] = {"name": "read-owner", "topics": MANY, "in_flight": 64, "choice": Choice.UNIFORM}
    return Workload(**given | changes)  # type: ignore[arg-type]


def _first(workload: Workload, round_number: int = 1) -> list[int]:
    return list(map(workload.topic_chooser(round_number), range(ASKED)))


def test_a_long_load_reaches_ever_more_topics() -> None:
    asked = 3 * AHEAD
    topics = list(map(_workload().topic_chooser(1), range(asked)))
    # Of ten million topics, drawn with replacement, about two in a hundred are drawn twice.
    assert len(set(topics)) > 0.97 * asked
    assert min(topics) < MANY // 1000
    assert max(topics) > MANY - MANY // 1000
    assert topics[:AHEAD] != topics[AHEAD : 2 * AHEAD]


def test_all_topics_are_as_likely() -> None:
    drawn = Counter(map(_workload(topics=50).topic_chooser(1), range(3 * AHEAD)))
    expected = 3 * AHEAD / 50
    assert set(drawn) == set(range(50))
    assert all(count == pytest.approx(expected, rel=0.06) for count in drawn.values())


def test_no_load_and_no_round_goes_where_another_one_went() -> None:
    workload = _workload(topics=1_000_000)
    loads = [
        _first(workload, 1),
        _first(workload, 2),
        _first(replace(workload, name="take-over"), 1),
        _first(replace(workload, in_flight=16), 1),
        _first(replace(workload, rate_per_s=500.0), 1),
        _first(replace(workload, seed=2), 1),
    ]
    for one, other in combinations(loads, 2):
        assert len(set(one) & set(other)) < 10, "by chance it is one in a thousand"


def test_what_a_round_draws_does_not_depend_on_who_asks_or_for_what_first() -> None:
    workload = _workload()
    in_order = list(map(workload.topic_chooser(2), range(2 * AHEAD)))
    other = Workload.from_json(workload.to_json()).topic_chooser(2)
    positions = [2 * AHEAD - 1, 0, AHEAD, AHEAD - 1]
    assert [other(position) for position in positions] == [in_order[position] for position in positions]
    # Another duration or number of operations does not change the choice.
    assert _first(replace(workload, seconds=20.0, operations=50), 2) == in_order[:ASKED]


def test_popular_topics_are_the_same_in_all_loads_and_rounds_in_another_order() -> None:
    workload = _workload(topics=1_000, choice=Choice.ZIPF)
    loads = [
        list(map(each.topic_chooser(number), range(AHEAD + ASKED)))
        for each in (workload, replace(workload, name="take-over"))
        for number in (1, 2)
    ]
    whole = sum(1 / rank**0.99 for rank in range(1, 1_001))
    for topics in loads:
        drawn = Counter(topics)
        for rank in (1, 2, 10):
            assert drawn[rank - 1] / len(topics) == pytest.approx(1 / rank**0.99 / whole, rel=0.1)
    for one, other in combinations(loads, 2):
        assert one[:ASKED] != other[:ASKED]


@pytest.mark.parametrize("among", [Among.OWNED, Among.LATEST])
def test_popular_topics_with_an_owner_are_drawn_from_those(among: Among) -> None:
    """If they were drawn from all and folded onto every other one, the first would be as popular as two together."""
    workload = _workload(topics=1_001, choice=Choice.ZIPF, among=among)
    drawn = Counter(map(workload.topic_chooser(1), range(AHEAD)))
    assert max(drawn) <= 500, "there are 501 of them"
    whole = sum(1 / rank**0.99 for rank in range(1, 502))
    for rank in (1, 2, 10):
        assert drawn[rank - 1] / AHEAD == pytest.approx(1 / rank**0.99 / whole, rel=0.1)


def test_turns_are_the_same_in_all_loads_and_rounds() -> None:
    """All loads take samples from one order, so that different loads can have topics of their own."""
    workload = _workload(topics=ASKED, choice=Choice.TURNS)
    assert _first(workload, 1) == _first(replace(workload, name="take-over", in_flight=1), 2)
    assert sorted(_first(workload)) == list(range(ASKED))
