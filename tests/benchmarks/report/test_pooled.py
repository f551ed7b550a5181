"""Prove that who is ahead at all sizes is told, by how sure that is, for both sides alike."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from hedwig.benchmarks.load.workloads import Workload
from hedwig.benchmarks.report.findings.findings import Finding, Outcome, findings
from hedwig.benchmarks.report.findings.pooled import Pooled, pooled, pooled_leads, pooled_table
from hedwig.benchmarks.runs.results import Measurement
from tests.benchmarks.support.known_times import CONTRARY, LONGER, OF_ROUNDS, Tails, timed

SIZES = (10_000, 100_000, 1_000_000)
OUT_OF_MEMORY = "zookeeper-1 ended: java.lang.OutOfMemoryError: Java heap space"


def _measurement(name: str, driver: str, topics: int, number: int, rate: float, **given: float) -> Measurement:
    workload = Workload(name=name, mix={"create": 1.0}, topics=topics, subscribers=1, in_flight=64)
    seconds = given.get("seconds", 2.0)
    return Measurement(
        workload=workload,
        driver=driver,
        on="synced",
        round=number,
        count=round(rate * seconds),
        seconds=seconds,
        generator_cores=given.get("client", 0.3),
        values={"servers_cpu_s": 0.5, "all_read_s": 1000 / max(rate, 1.0)},
    )


def _found(factors: Mapping[int, Sequence[float]], name: str = "subscribe", **given: float) -> list[Finding]:
    """Return findings of which HBase is so many times as fast in the rounds of each number of topics."""
    measured = []
    for topics, ratios in factors.items():
        for number, ratio in enumerate(ratios, 1):
            measured.append(_measurement(name, "zookeeper", topics, number, 1000.0, **given))
            measured.append(_measurement(name, "hbase", topics, number, 1000.0 * ratio, **given))
    return findings("hedwig-bench metadata", measured, "zookeeper", "hbase", cpus=8)


def _one(found: Sequence[Finding]) -> Pooled:
    (only,) = pooled(found)
    return only


@pytest.mark.parametrize(("factor", "side", "title"), [(1.5, "hbase", "HBase"), (1 / 1.5, "zookeeper", "ZooKeeper")])
def test_who_is_ahead_in_all_rounds_of_all_sizes_is_so_whatever_single_sizes_say(
    factor: float, side: str, title: str
) -> None:
    """The noise of two rounds hides at each size what six rounds show together."""
    found = _found(dict.fromkeys(SIZES, (factor * 1.2, factor / 1.2)))
    assert {each.outcome for each in found} == {Outcome.SAME}
    whole = _one(found)
    assert (whole.outcome, whole.ahead, whole.won, len(whole.ratios)) == (Outcome.BETTER, side, 6, 6)
    assert whole.chance == pytest.approx(2 / 2**6)
    said = pooled_leads([whole], "synced")
    told = f"Where {title} was ahead over all sizes (synced), in more rounds than chance explains: subscribe, 64 in "
    assert f"{told}flight (6 of 6 rounds, 1.50 ×)." in said
    assert sum(each.endswith("chance explains: nowhere.") for each in said) == 1
    (line,) = pooled_table("", [whole]).lines
    assert line[2:7] == [title, "6 of 6", "0.031", "mean 1.50 × (rounds 1.25 – 1.80)", "3"]


@pytest.mark.parametrize(
    ("factors", "chance"),
    [({10_000: (1.5, 1.5), 100_000: (1.5, 0.9), 1_000_000: (1.5, 1.5)}, 0.21875), ({10: (2, 2), 100: (2, 2)}, 0.125)],
)
def test_what_may_be_chance_is_no_verdict(factors: Mapping[int, Sequence[float]], chance: float) -> None:
    factors = {max(20, topics): ratios for topics, ratios in factors.items()}
    whole = _one(_found(factors))
    assert whole.chance == pytest.approx(chance)
    assert (whole.outcome, whole.ahead) == (Outcome.SAME, "hbase")
    assert pooled_table("", [whole]).lines[0][2] == "not told apart; HBase"
    assert all("nowhere" in said for said in pooled_leads([whole], "synced"))


# --------------------------------------------------------------------------------------------------------- percentiles

ALIKE: Tails = {side: {number: {ms: 20} for number in (1, 2, 3)} for side, ms in (("zookeeper", 10), ("hbase", 8))}
"""In all rounds, and so over all, HBase is better by what it is in the rounds of the others."""


def _at_a_rate(each: Measurement) -> Measurement:
    """Return a measurement of a load that offers 500 operations a second, whatever was done of them."""
    return replace(each, workload=replace(each.workload, rate_per_s=500.0))


def _offered(sizes: Mapping[int, Tails]) -> list[Finding]:
    """Return findings on loads that offer a rate, with known tails at each number of topics."""
    measured = []
    for topics, tails in sizes.items():
        for driver, rounds in tails.items():
            for number, tail in rounds.items():
                measured.append(timed(_at_a_rate(_measurement("subscribe", driver, topics, number, 500.0)), tail))
    return findings("hedwig-bench metadata", measured, "zookeeper", "hbase", cpus=8)


def test_percentiles_of_all_sizes_have_no_mean_but_rounds_won_and_a_range_of_sizes() -> None:
    whole = _one(_offered(dict(zip(SIZES, (ALIKE, LONGER, ALIKE), strict=True))))
    assert whole.factors == pytest.approx([OF_ROUNDS] * 9, rel=0.01)
    assert whole.of_sizes == pytest.approx([1.25, 12.5, 1.25], rel=0.01)
    assert (whole.outcome, whole.ahead) == (Outcome.BETTER, "hbase")
    (line,) = pooled_table("", [whole]).lines
    assert line[1:7] == ["response p99, ms", "HBase", "9 of 9", "0.0039", "1.25 to 12.50 × by size", "3"]
    assert pooled_leads([whole], "synced")[1] == (
        "Where HBase was ahead over all sizes (synced), in more rounds than chance explains: subscribe, 500/s offered "
        "(9 of 9 rounds, 1.25 to 12.50 × by size)."
    )


def test_where_most_sizes_do_not_say_what_the_rounds_do_nobody_was_ahead() -> None:
    whole = _one(_offered(dict(zip(SIZES, (CONTRARY, LONGER, CONTRARY), strict=True))))
    assert (whole.won, len(whole.ratios), whole.ahead) == (9, 9, "hbase")
    assert whole.of_sizes == pytest.approx([1 / 8, 12.5, 1 / 8], rel=0.01)
    assert whole.outcome is Outcome.MIXED
    (line,) = pooled_table("", [whole]).lines
    assert line[2:6] == ["rounds and all times disagree; HBase", "9 of 9", "0.0039", "0.12 to 12.50 × by size"]
    assert all("nowhere" in said for said in pooled_leads([whole], "synced"))
    most = _one(_offered(dict(zip(SIZES, (ALIKE, LONGER, CONTRARY), strict=True))))
    assert most.outcome is Outcome.BETTER


def test_where_some_sizes_are_compared_by_a_percentile_there_is_no_mean_either() -> None:
    rates = [
        _at_a_rate(_measurement("subscribe", driver, 3_000_000, number, rate))
        for driver, rate in (("zookeeper", 125.0), ("hbase", 250.0))
        for number in (1, 2, 3)
    ]
    behind = findings("hedwig-bench metadata", rates, "zookeeper", "hbase", cpus=8)
    whole = _one([*_offered(dict.fromkeys(SIZES, LONGER)), *behind])
    (line,) = pooled_table("", [whole]).lines
    assert line[1] == "response p99, ms or operations/s"
    assert line[5] == "2.00 to 12.50 × by size"


def test_equal_rounds_are_for_nobody() -> None:
    whole = _one(_found(dict.fromkeys(SIZES, (1.0, 1.0))))
    assert (whole.outcome, whole.ahead, whole.chance) == (Outcome.SAME, None, 1.0)


def test_whose_client_was_at_its_limit_at_most_sizes_was_not_behind_by_its_store() -> None:
    def found(limited: Sequence[int]) -> list[Finding]:
        parts = [_found({topics: (2.0,) * 6}, client=0.95 if topics in limited else 0.3) for topics in SIZES]
        return [each for part in parts for each in part]

    assert _one(found(SIZES[:2])).outcome is Outcome.BETTER  # Six rounds are left, and enough.
    whole = _one(found(SIZES))
    assert (whole.outcome, whole.ahead) == (Outcome.LIMITED, "hbase")
    (line,) = pooled_table("", [whole]).lines
    assert line[-1] == "ZooKeeper: the client may be the limit at 10,000 × 1, 100,000 × 1, 1,000,000 × 1"
    assert any(
        "but its rival's client, or the machine, was or may have been" in each for each in pooled_leads([whole], "")
    )


def test_rounds_of_less_than_a_second_count_together_and_are_told() -> None:
    whole = _one(_found(dict.fromkeys(SIZES, (1.5, 1.5)), seconds=0.6))
    assert whole.outcome is Outcome.BETTER
    assert pooled_table("", [whole]).lines[0][-1] == "the shortest round lasted 0.6 s"
    assert _one(_found(dict.fromkeys(SIZES, (1.5, 1.5)), seconds=0.1)).outcome is Outcome.SHORT


def test_what_is_done_once_at_each_size_is_said_to_be_that() -> None:
    fills = dict.fromkeys((*SIZES, 3000000), (0.5,))
    found = _found(fills, "fill")
    lost = [each for each in found if each.workload.topics != 3_000_000]
    wall = _measurement("fill", "zookeeper", 3_000_000, 1, 0.0)
    wall.wall = OUT_OF_MEMORY
    beside = _measurement("fill", "hbase", 3_000_000, 1, 500.0)
    lost += findings("hedwig-bench metadata", [wall, beside], "zookeeper", "hbase", cpus=8)
    whole = _one(lost)
    assert (whole.outcome, whole.is_same_at_all_sizes) == (Outcome.UNKNOWN, True)
    assert pooled_leads([whole], "synced")[1] == (
        "Where ZooKeeper was ahead at every size that both have, with one figure for each and so without a spread "
        "(synced): fill (3 sizes, 2.00 to 2.00 ×; without 3,000,000 × 1, where there was a wall)."
    )
    (line,) = pooled_table("", [whole]).lines
    assert (line[2], line[-1]) == ("ZooKeeper, one figure a size", "without 3,000,000 × 1: a wall")


def test_seconds_of_restarts_are_better_the_fewer() -> None:
    whole = _one(_found(dict.fromkeys(SIZES, (0.25,)), "restart"))
    assert (whole.ahead, whole.won) == ("zookeeper", 3)


def test_sizes_at_which_operations_failed_are_left_out_and_named() -> None:
    found = _found(dict.fromkeys(SIZES, (1.5, 1.5)))
    failing = _measurement("subscribe", "hbase", 3_000_000, 1, 9000.0)
    failing.errors = Counter({"MetadataUnavailableError": 9000})
    both = [_measurement("subscribe", "zookeeper", 3_000_000, 1, 1000.0), failing]
    whole = _one([*found, *findings("hedwig-bench metadata", both, "zookeeper", "hbase", cpus=8)])
    assert len(whole.findings) == 3
    assert pooled_table("", [whole]).lines[0][-1] == "without 3,000,000 × 1: operations failed"


def test_of_a_single_size_there_is_nothing_to_pool() -> None:
    assert pooled(_found({10_000: (1.5, 1.5)})) == []
    assert pooled_leads([], "unsynced") == []
