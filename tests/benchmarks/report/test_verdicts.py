"""Prove who is called better, who is not, and that the report says why."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from hedwig.benchmarks.report.charts.drawing import Palette
from hedwig.benchmarks.report.charts.growth import rates_of, stages_of
from hedwig.benchmarks.report.findings.findings import Finding, Outcome, findings
from hedwig.benchmarks.report.findings.metadata import metadata_sections
from hedwig.benchmarks.report.findings.verdicts import findings_table, leads, summary
from hedwig.benchmarks.report.page import Section
from hedwig.benchmarks.report.parts import report_page
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.runs.walls import wall_of, wall_words, walls_table
from hedwig.histograms import Histogram
from tests.benchmarks.support.known_times import (
    CONTRARY,
    CONTRARY_OVER_ALL,
    EVEN,
    LONGER,
    LONGER_OVER_ALL,
    OF_ROUNDS,
    Tails,
    timed,
)
from tests.benchmarks.support.recorded_results import three_backends, wall

PROGRAM = "hedwig-bench metadata"
ROUNDS = (1, 2, 3)
OUT_OF_MEMORY = "zookeeper-1 ended: java.lang.OutOfMemoryError: Java heap space"
OUT_OF_TIME = "the time for it was over"


def _case(name: str = "claim", *, is_open: bool = False, topics: int = 300) -> dict[str, list[Measurement]]:
    """Return the rounds of ZooKeeper and of HBase in one case, twice as fast on HBase."""
    found: dict[str, list[Measurement]] = {"zookeeper": [], "hbase": []}
    for each in three_backends().measurements:
        load = each.workload
        if each.driver in found and (load.name, load.is_open_loop, load.topics) == (name, is_open, topics):
            done = (1 + (each.driver == "hbase")) * (1000 + each.round)
            found[each.driver].append(
                replace(
                    each,
                    count=done,
                    seconds=1.0,
                    histograms={},
                    errors=Counter(),
                    generator_cores=0.3,
                    values=each.values | {"servers_cpu_s": 0.5},
                )
            )
    return found


def _found(case: dict[str, list[Measurement]], cpus: int | None = 8) -> list[Finding]:
    return findings(PROGRAM, [each for rounds in case.values() for each in rounds], "zookeeper", "hbase", cpus=cpus)


def _one(case: dict[str, list[Measurement]], cpus: int | None = 8) -> Finding:
    (found,) = _found(case, cpus)
    return found


def _notes(finding: Finding) -> str:
    (line,) = findings_table("", [finding]).lines
    return line[-1]


def _all(case: dict[str, list[Measurement]], side: str, change: Callable[[Measurement], Measurement]) -> None:
    case[side] = [change(each) for each in case[side]]


def test_what_nothing_speaks_against_is_better() -> None:
    finding = _one(_case())
    assert (finding.outcome, finding.better) == (Outcome.BETTER, "hbase")
    assert finding.factor == pytest.approx(2, rel=0.01)
    assert _notes(finding) == ""


# ------------------------------------------------------------------------------------------------------------ failures


@pytest.mark.parametrize("side", ["zookeeper", "hbase"])
@pytest.mark.parametrize(("failed", "outcome"), [(9, Outcome.BETTER), (60, Outcome.FAILED)])
def test_above_one_per_cent_of_failures_nobody_was_better(side: str, failed: int, outcome: Outcome) -> None:
    case = _case()
    _all(case, side, lambda each: replace(each, errors=Counter({"MetadataUnavailableError": failed})))
    finding = _one(case)
    assert finding.outcome is outcome
    assert (finding.better is None) == (outcome is Outcome.FAILED)
    assert f"{3 * failed} of " in _notes(finding)
    assert "operations failed: MetadataUnavailableError" in _notes(finding)
    if outcome is Outcome.FAILED:
        assert "1 since more than 1% of a side's operations failed" in summary([finding])
        assert findings_table("", [finding]).lines[0][4].startswith("operations failed; HBase 2.00 ×")


def _all_failed(each: Measurement) -> Measurement:
    return replace(each, count=0, errors=Counter({"A": 500, "B": 20, "C": 3, "D": 1}))


def test_where_all_failed_it_is_not_said_that_there_was_no_time() -> None:
    case = _case()
    _all(case, "zookeeper", _all_failed)
    assert wall_of(case["zookeeper"]) == "all failed: 1,500 × A, 60 × B, 9 × C"
    finding = _one(case)
    assert (finding.outcome, finding.better) == (Outcome.FAILED, None)
    assert leads([finding], "synced", ())[2:] == [
        "Where all that was asked of ZooKeeper failed, and not of HBase (synced): at 300 topics in claim, 64 in flight "
        "(all failed: 1,500 × A, 60 × B, 9 × C)."
    ]
    table = walls_table([each for rounds in case.values() for each in rounds])
    assert table is not None
    assert [line[2:] for line in table.lines] == [
        [str(number), "all failed", "all failed: 500 × A, 20 × B, 3 × C"] for number in ROUNDS
    ]
    (stage,) = stages_of([each for rounds in case.values() for each in rounds])
    (rates,) = rates_of(stage, Palette())
    assert [[each.kind for each in curve.walls] for curve in rates.curves] == [["all failed"], []]


def test_nothing_finished_without_a_failure_is_a_matter_of_time_and_no_victory() -> None:
    case = _case()
    _all(case, "zookeeper", lambda each: replace(each, count=0))
    assert wall_of(case["zookeeper"]) == "nothing was finished in time"
    assert _one(case).outcome is Outcome.OUR_LIMIT


def test_rounds_that_are_not_in_a_figure_are_named() -> None:
    case = _case()
    case["zookeeper"][1] = _all_failed(case["zookeeper"][1])
    assert "ZooKeeper: round 2 left out: all failed: 500 × A, 20 × B, 3 × C" in _notes(_one(case))


# --------------------------------------------------------------------------------------------------------------- walls


def test_a_wall_of_both_is_counted_apart_from_noise() -> None:
    case = _case()
    for side in case:
        _all(case, side, lambda each: wall(each, OUT_OF_MEMORY))
    finding = _one(case)
    assert (finding.outcome, finding.better) == (Outcome.BOTH_WALLS, None)
    assert "Without a winner: 1 since both met a wall." in summary([finding])
    assert "noise" not in summary([finding])


def test_the_time_that_a_run_gives_decides_nothing_and_tells_how_far_it_came() -> None:
    case = _case()
    _all(case, "zookeeper", lambda each: replace(each, count=600, offered=1000, seconds=30.0, wall=OUT_OF_TIME))
    finding = _one(case)
    assert (finding.outcome, finding.better) == (Outcome.OUR_LIMIT, None)
    assert finding.walls[0] == f"{OUT_OF_TIME}: 600 of 1,000 operations after 30.0 s"
    assert "when this run's own time for it was over, which decides nothing" in summary([finding])
    _all(case, "zookeeper", lambda each: replace(each, wall=OUT_OF_MEMORY))
    assert _one(case).better == "hbase"


# -------------------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize(
    ("client", "servers", "cpus", "limit"),
    [
        (0.79, 0.5, 2, None),
        (0.85, 0.5, 2, "the client may be the limit"),
        (0.30, 1.6, 2, "the machine was full"),
        (0.30, 1.6, 4, None),
        (0.85, 1.1, 2, "the client may be the limit and the machine was full"),
        (0.85, None, 2, "the client may be the limit"),
    ],
)
def test_who_was_held_back_by_the_client_was_not_worse(
    client: float, servers: float | None, cpus: int, limit: str | None
) -> None:
    case = _case()
    _all(case, "zookeeper", lambda each: _used(each, client, servers))
    finding = _one(case, cpus)
    shown = findings_table("", [finding]).lines[0]
    assert shown[7] == f"{client:.2f} / {'–' if servers is None else f'{servers:.2f}'}"
    assert finding.limit == limit
    if limit is None:
        assert (finding.outcome, finding.better) == (Outcome.BETTER, "hbase")
        return
    assert (finding.outcome, finding.better, finding.ahead) == (Outcome.LIMITED, None, "hbase")
    assert f"ZooKeeper: {limit}" in shown[-1]
    assert "HBase was better in none" in summary([finding])
    assert "Without a winner: 1 since one side was ahead, but the client of the other, or the machine, was" in summary(
        [finding]
    )
    assert leads([finding], "synced", {300})[2:] == [
        "Where its rival's client, or the machine, was at its own limit, HBase was ahead (synced): at 300 topics in "
        "claim, 64 in flight (2.00 ×)."
    ]


def _used(each: Measurement, client: float | None, servers: float | None) -> Measurement:
    values = {name: value for name, value in each.values.items() if name != "servers_cpu_s"}
    values |= {"servers_cpu_s": servers * each.seconds} if servers is not None else {}
    return replace(each, generator_cores=client, values=values)


@pytest.mark.parametrize(
    ("client", "servers", "shown"),
    [
        (0.3, None, "0.30 / –"),
        (None, 0.5, "– / 0.50"),
        (None, 0.0, "– / –"),  # What was not seen in a short load used to be 0.
    ],
)
def test_where_nobody_knows_what_the_client_used_nobody_was_better(
    client: float | None, servers: float | None, shown: str
) -> None:
    case = _case()
    case["zookeeper"][1] = _used(case["zookeeper"][1], client, servers)
    rest = [each for each in case["zookeeper"] if each.generator_cores and each.values.get("servers_cpu_s")]
    assert len(rest) == 2, "one round is enough"
    finding = _one(case)
    assert (finding.outcome, finding.better, finding.ahead) == (Outcome.UNCHECKED, None, "hbase")
    line = findings_table("", [finding]).lines[0]
    assert line[7] == shown
    assert line[4].startswith("not known whether the client was the limit; HBase 2.00 ×")
    assert "ZooKeeper: not known whether the client was the limit" in line[-1]
    assert "1 since one side was ahead, but it is not known whether the client of the other was" in summary([finding])


def test_of_an_embedded_store_the_client_is_the_store() -> None:
    case = _case()
    _all(case, "zookeeper", lambda each: replace(_used(each, 0.95, None), driver="sqlite"))
    (finding,) = findings(PROGRAM, [each for rounds in case.values() for each in rounds], "sqlite", "hbase", cpus=2)
    assert (finding.limit, finding.better) == (None, "hbase")


@pytest.mark.parametrize(("seconds", "outcome"), [(0.9, Outcome.SHORT), (1.0, Outcome.BETTER)])
def test_a_closed_loop_of_less_than_a_second_tells_nothing(seconds: float, outcome: Outcome) -> None:
    case = _case()
    case["hbase"][2] = replace(case["hbase"][2], seconds=seconds)
    finding = _one(case)
    assert finding.outcome is outcome
    if outcome is Outcome.SHORT:
        assert findings_table("", [finding]).lines[0][4].startswith("too short to tell; HBase 2.")
        assert "Without a winner: 1 since a round lasted less than 1 s, too short to tell." in summary([finding])


def test_who_was_ahead_may_have_had_a_busy_client() -> None:
    case = _case()
    _all(case, "hbase", lambda each: replace(each, generator_cores=0.95))
    assert _one(case).better == "hbase"


# ------------------------------------------------------------------------------------------------------- small samples


@pytest.mark.parametrize(("operations", "outcome"), [(9, Outcome.FEW), (10, Outcome.BETTER)])
def test_of_fewer_than_thirty_operations_nobody_was_better(operations: int, outcome: Outcome) -> None:
    case = _case()
    times = Histogram()
    times.record(1000, operations)
    _all(case, "zookeeper", lambda each: replace(each, histograms={"service": times, "response": times}))
    finding = _one(case)
    assert finding.outcome is outcome
    assert findings_table("", [finding]).lines[0][6].startswith(f"{3 * operations} / 6,012 in 3 rounds")
    if outcome is Outcome.FEW:
        assert "Without a winner: 1 since there were fewer than 30 operations." in summary([finding])


@pytest.mark.parametrize(
    ("operations", "judged_by"), [(999, "response p90, ms"), (1000, "response p99, ms"), (10_000, "response p99, ms")]
)
def test_a_percentile_is_judged_by_only_where_ten_times_lie_beyond_it(operations: int, judged_by: str) -> None:
    case = _case("read-owner", is_open=True)
    for side, us in (("zookeeper", 4000), ("hbase", 1000)):

        def timed(each: Measurement, us: int = us) -> Measurement:
            times = Histogram()
            times.record(us + each.round, operations)
            done = round(each.workload.rate_per_s)
            return replace(each, count=done, histograms={"service": times, "response": times})

        _all(case, side, timed)
    finding = _one(case)
    assert finding.figures is not None
    assert finding.figures[0].name == judged_by
    assert finding.better == "hbase"
    assert finding.factor == pytest.approx(4, rel=0.01)


# --------------------------------------------------------------------------------------------------------- percentiles


def _tailed(tails: Tails) -> dict[str, list[Measurement]]:
    """Return reads at an offered rate, with known tails in the rounds that have one."""
    case = _case("read-owner", is_open=True)
    return {
        side: [timed(each, tails[side][each.round]) for each in rounds if each.round in tails[side]]
        for side, rounds in case.items()
    }


def test_the_factor_of_a_percentile_is_that_of_all_times_together_and_no_mean_of_the_rounds() -> None:
    finding = _one(_tailed(LONGER))
    assert finding.figures is not None
    assert finding.figures[0].name == "response p99, ms"
    assert [figure.value for figure in finding.figures] == pytest.approx([100, 8], rel=0.01)
    assert finding.factor == pytest.approx(LONGER_OVER_ALL, rel=0.01)
    assert finding.factor == pytest.approx(finding.figures[0].value / finding.figures[1].value)
    assert finding.ratios == pytest.approx([OF_ROUNDS] * 3, rel=0.01)
    assert (finding.outcome, finding.better) == (Outcome.BETTER, "hbase")


def test_a_percentiles_factor_is_told_with_those_of_its_rounds_in_sentences_as_in_tables() -> None:
    finding = _one(_tailed(LONGER))
    line = findings_table("", [finding]).lines[0]
    assert line[4] == "HBase 12.50 × over all (rounds 1.25 – 1.25)"
    assert line[5] == (
        "95 %, of the rounds: 1.25 – 1.25; the interval is beyond 1; all times together lie outside the interval"
    )
    assert leads([finding], "synced", ()) == [
        "Where ZooKeeper is better by the rounds of one size alone (synced): nowhere, at 300 topics.",
        "Where HBase is better by the rounds of one size alone (synced): at 300 topics in read-owner, 1,000/s offered "
        "(12.50 × over all, 1.25 – 1.25 within the rounds).",
    ]


@pytest.mark.parametrize(
    ("tails", "factor", "told"),
    [
        (CONTRARY, CONTRARY_OVER_ALL, "ZooKeeper 8.00 × over all (rounds 0.80 – 0.80)"),
        (EVEN, 10 / 9.9, "HBase 1.01 × over all (rounds 1.25 – 1.25)"),
    ],
)
def test_where_all_times_together_do_not_say_what_the_rounds_do_nobody_was_better(
    tails: Tails, factor: float, told: str
) -> None:
    finding = _one(_tailed(tails))
    assert finding.ratios == pytest.approx([OF_ROUNDS] * 3, rel=0.01)
    assert finding.factor == pytest.approx(factor, rel=0.01)
    assert (finding.outcome, finding.better) == (Outcome.MIXED, None)
    assert findings_table("", [finding]).lines[0][4] == f"rounds and all times disagree; {told}"
    assert "1 since the rounds favour a side, and all their times together do not." in summary([finding])
    assert all("nowhere, at 300 topics" in said for said in leads([finding], "synced", {300}))


def test_a_percentile_may_lie_beyond_all_its_rounds_and_is_noise_if_they_are() -> None:
    """One per cent of all times is what is slow on the second side, and a little less on the first."""
    finding = _one(_tailed({"zookeeper": {1: {10: 12}, 2: {10: 7}}, "hbase": {1: {12: 12}, 2: {12: 9}}}))
    assert finding.figures is not None
    assert [figure.value for figure in finding.figures] == pytest.approx([1, 12], rel=0.01)
    assert finding.ratios == pytest.approx([10 / 12, 1], rel=0.01)
    assert finding.factor == pytest.approx(1 / 12, rel=0.01)
    told = "ZooKeeper 12.01 × over all (rounds 1.00 – 1.20)"
    assert findings_table("", [finding]).lines[0][4] == f"not told apart; {told}"


def test_times_of_rounds_that_one_side_has_alone_are_in_no_percentile() -> None:
    case = _tailed({"zookeeper": {1: {10: 20}, 3: {10: 20}}, "hbase": {1: {8: 20}, 2: {900: 900}, 3: {8: 20}}})
    finding = _one(case)
    assert finding.figures is not None
    assert [figure.value for figure in finding.figures] == pytest.approx([10, 8], rel=0.01)
    assert finding.factor == pytest.approx(OF_ROUNDS, rel=0.01)
    assert finding.operations == (2000, 2000)
    assert "HBase: round 2 left out: the other side has nothing beside it" in _notes(finding)


def test_rounds_that_neither_side_has_beside_the_others_are_compared_all_the_same() -> None:
    finding = _one(_tailed({"zookeeper": {1: {10: 20}, 2: {10: 20}}, "hbase": {3: {8: 20}}}))
    assert finding.factor == pytest.approx(OF_ROUNDS, rel=0.01)
    assert (finding.ratios, finding.rounds, finding.outcome) == ((), (2, 1), Outcome.UNKNOWN)
    assert findings_table("", [finding]).lines[0][4] == "noise unknown; HBase 1.25 ×"


def test_rounds_that_one_side_has_alone_are_not_in_the_factor() -> None:
    case = _case()
    case["zookeeper"][1] = _all_failed(case["zookeeper"][1])
    case["hbase"][1] = replace(case["hbase"][1], count=10**6)
    finding = _one(case)
    assert finding.factor == pytest.approx(2, rel=0.01)
    assert len(finding.ratios) == 2


# ------------------------------------------------------------------------------------------------------ the whole page


def _sections(change: Callable[[Measurement], Measurement | None]) -> dict[str, Section]:
    result = three_backends()
    result.environment["cpus"] = result.environment["cpus_usable"] = 8
    chosen = [each for each in result.measurements if each.driver in ("zookeeper", "hbase")]
    result.measurements = [new for each in chosen if (new := change(each)) is not None]
    return {section.title: section for section in metadata_sections(result)}


def _steady(each: Measurement) -> Measurement | None:
    """Keep filling and claims, these twice as fast on HBase with 300 topics, and on ZooKeeper with 3,000."""
    if each.workload.name == "fill":
        return each
    if each.workload.name != "claim":
        return None
    is_fast = (each.driver == "hbase") == (each.workload.topics == 300)
    values = each.values | {"servers_cpu_s": 0.5}
    done = (1 + is_fast) * (1000 + each.round)
    return replace(each, count=done, seconds=1.0, histograms={}, generator_cores=0.3, values=values)


def test_the_page_begins_with_where_each_side_is_better() -> None:
    words = "synced, 1 subscription a topic"
    found = _sections(_steady)
    assert list(found)[:2] == ["In short", "Who was better"]
    case = "claim, 64 in flight (2.00 ×)"
    better = "is better by the rounds of one size alone"
    says = found["Who was better"].says
    first = next(place for place, said in enumerate(says) if "of one size alone" in said)
    assert list(says[first : first + 2]) == [
        f"Where ZooKeeper {better} ({words}): at 300 topics nowhere – at 3,000 topics in {case}.",
        f"Where HBase {better} ({words}): at 300 topics in {case} – at 3,000 topics nowhere.",
    ]
    (table,) = found["What the names mean"].tables
    assert [line[0] for line in table.lines] == ["claim"]
    assert "a topic" in table.lines[0][1]


def test_a_wall_at_the_largest_step_does_not_hide_what_both_have_below_it() -> None:
    def lost(each: Measurement) -> Measurement | None:
        if each.driver == "zookeeper" and each.workload.topics == 3000:
            return replace(each, wall=OUT_OF_MEMORY) if each.workload.name == "fill" else None
        return _steady(each)

    found = _sections(lost)
    section = found["Who was better"]
    assert [table.title.rpartition(", ")[2] for table in section.tables] == ["3,000 topics", "300 topics"]
    assert any("300 topics. Of 2 cases" in said for said in section.says)
    assert any("3,000 topics. Of 1 case " in said for said in section.says)
    assert (
        "synced, 1 subscription a topic: ZooKeeper could not be filled with 3,000 topics (memory: "
        f"{OUT_OF_MEMORY}). It has no cases there." in found["In short"].says
    )
    assert "Who was better with fewer topics" not in found


def test_the_page_says_once_that_some_verdicts_are_wrong() -> None:
    result = three_backends()
    result.measurements = [each for each in result.measurements if each.workload.name == "claim"]
    page = report_page([("x", result)])
    facts = [value for section in page.sections for _, value in section.facts]
    said = " ".join([*page.says, *(each for section in page.sections for each in section.says), *facts])
    assert said.count("of 100 such verdicts about five are wrong by chance") == 1
    assert "leave no doubt" not in said


def test_a_wall_says_how_far_it_came_in_records_where_a_store_is_filled() -> None:
    (fill,) = (
        each
        for each in three_backends().measurements
        if (each.driver, each.workload.name, each.workload.topics) == ("hbase", "fill", 300)
    )
    lost = replace(fill, count=500, offered=750, seconds=60.0, wall=OUT_OF_TIME)
    assert wall_words(lost) == f"{OUT_OF_TIME}: 500 of 750 records after 60.0 s"
