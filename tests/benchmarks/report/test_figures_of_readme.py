"""Prove that each figure in the README's table, and beside its charts, comes from a result that is kept in git."""

from collections.abc import Sequence
from statistics import mean, median

import pytest

from hedwig.benchmarks.runs.results import Measurement, Result
from hedwig.benchmarks.suites.hub.charts import FIRST_PUBLISHES, TOPIC_BYTES, ZOOKEEPER_WRITES
from tests.support.checkout import CHECKOUT

RESULTS = CHECKOUT / "benchmarks" / "results"
MILLION = 1_000_000
RECORDS = 11_500_000
IN_FLIGHT = 64
ROUNDS = 2
DRIVERS = ("zookeeper", "hbase")


@pytest.fixture(scope="module")
def metadata() -> Sequence[Measurement]:
    kept = Result.read(RESULTS / "metadata-1m" / "result.json.xz").measurements
    return [measurement for measurement in kept if measurement.on == "synced"]


def _row(start: str) -> list[str]:
    lines = (CHECKOUT / "README.md").read_text(encoding="utf-8").splitlines()
    (row,) = (line for line in lines if line.startswith(f"| {start}"))
    return [cell.strip() for cell in row.strip("|").split("|")][1:]


def _of(kept: Sequence[Measurement], name: str, driver: str, topics: int, subscribers: int) -> list[Measurement]:
    wanted = (name, driver, topics, subscribers)
    return [
        each
        for each in kept
        if (each.workload.name, each.driver, each.workload.topics, each.workload.subscribers) == wanted
    ]


def test_fill_of_a_million_topics(metadata: Sequence[Measurement]) -> None:
    (full,), (loaded,) = (_of(metadata, "fill", driver, MILLION, 10) for driver in DRIVERS)
    # Both fills began with the records of 100,000 topics.
    before = RECORDS // 10
    assert loaded.count == RECORDS - before
    assert full.errors
    assert not loaded.errors
    assert _row("11.5 million records") == [
        f"heap full at {(before + full.count) / MILLION:.1f} million",
        f"all loaded, {round(loaded.count / loaded.seconds, -2):,.0f} records/s",
    ]


@pytest.mark.parametrize(("start", "name"), [("reading owners", "read-owner"), ("taking topics over", "take-over")])
def test_rates_at_a_million_topics(metadata: Sequence[Measurement], start: str, name: str) -> None:
    def rate(driver: str, topics: int) -> float:
        kept = _of(metadata, name, driver, topics, 1)
        rounds = [each for each in kept if each.workload.in_flight == IN_FLIGHT and each.workload.choice == "uniform"]
        assert len(rounds) == ROUNDS
        return mean(each.count / each.seconds for each in rounds)

    ratios = [rate(driver, MILLION) / rate(driver, MILLION // 100) for driver in DRIVERS]
    assert [cell.split()[0] for cell in _row(start)] == [f"{ratio:.2f}" for ratio in ratios]


def test_killed_hub() -> None:
    kept = Result.read(RESULTS / "takeover-among-a-million.json.xz").measurements
    storms = [each for driver in DRIVERS for each in kept if (each.on, each.workload.topics) == (driver, MILLION)]
    assert _row("a hub is killed") == [f"{storm.values['all_served_s']:.0f} s" for storm in storms]


def test_active_topics() -> None:
    """The table is on the page of the benchmarks, below the chart that the README has too."""
    kept = Result.read(RESULTS / "hub-active-topics.json.xz").measurements
    page = (CHECKOUT / "docs" / "explanation" / "benchmarks.md").read_text(encoding="utf-8")
    sides = {(each.workload.topics, each.on): each for each in kept}
    for topics in (1, 50, 100, 10_000, 100_000, MILLION):
        both = [sides.get((topics, on)) for on in ("cluster-shared", "cluster")]
        cells = [
            "; ".join("–" if each is None else f"{each.rate_per_s:,.0f}" for each in both),
            _pair(both, FIRST_PUBLISHES, "{:,.0f}") if topics > 1 else "–",
            _pair(both, ZOOKEEPER_WRITES, "{:,.0f}"),
            _pair(both, TOPIC_BYTES, "{:.1f} KB", 1000) if topics > 100 else "–",
        ]
        assert f"| {topics:,} | {' | '.join(cells)} |" in page


def test_one_log_beside_other_hubs() -> None:
    """The table is on the page of the benchmarks, as the ratios below it."""
    kept = Result.read(RESULTS / "hub-shared-log-beside-the-original.json.xz").measurements
    page = (CHECKOUT / "docs" / "explanation" / "benchmarks.md").read_text(encoding="utf-8")
    of_original, of_embedded = [], []
    for driver, said in (("raw", "raw"), ("java", "Java")):
        for topics in (50, 10_000):

            def rate(on: str, driver: str = driver, topics: int = topics) -> float:
                wanted = (on, driver, topics)
                rounds = [each for each in kept if (each.on, each.driver, each.workload.topics) == wanted]
                assert len(rounds) == ROUNDS
                return mean(each.rate_per_s for each in rounds)

            rates = [rate(on) for on in ("embedded", "cluster-shared", "cluster", "original")]
            alone = f"{rate('cluster', 'ledgers'):,.0f} " if driver == "raw" else ""
            assert f"| {said}, {topics:,} | {' | '.join(f'{each:,.0f}' for each in rates)} | {alone}|" in page
            embedded, shared, _, original = rates
            of_original.append(shared / original)
            of_embedded.append(shared / embedded)
    assert f"{min(of_original):.1f} to {max(of_original):.1f} times the publishes of the original" in page
    assert f"{min(of_embedded):.2f} to {max(of_embedded):.2f} of those of the embedded hub" in page


def test_one_log_keeps_its_rate() -> None:
    kept = Result.read(RESULTS / "hub-shared-log-50-and-100000-topics.json.xz").measurements
    few, many = (median(each.rate_per_s for each in kept if each.workload.topics == topics) for topics in (50, 100_000))
    page = (CHECKOUT / "docs" / "explanation" / "benchmarks.md").read_text(encoding="utf-8")
    assert f"the rate at 100,000 topics was {many / few:.2f}" in " ".join(page.split())


def _pair(both: Sequence[Measurement | None], name: str, said: str, unit: int = 1) -> str:
    return "; ".join("–" if each is None else said.format(each.values[name] / unit) for each in both)
