"""Prove that each figure in the README's table comes from a result that is kept in git."""

from collections.abc import Sequence
from statistics import mean

import pytest

from hedwig.benchmarks.runs.results import Measurement, Result
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


def test_killed_server(metadata: Sequence[Measurement]) -> None:
    def restart(driver: str, subscribers: int) -> str:
        (measured,) = _of(metadata, "restart", driver, MILLION, subscribers)
        return f"{measured.values['all_read_s']:.0f} s"

    zookeeper, hbase = (restart(driver, 1) for driver in DRIVERS)
    assert _row("the server is killed") == [zookeeper, f"{hbase}; ten subscriptions: {restart('hbase', 10)}"]
