"""Prove that hubs side by side are compared within a round, and that tables of embedded hubs did not change."""

from hedwig.benchmarks.load.workloads import Workload
from hedwig.benchmarks.report.tables import markdown
from hedwig.benchmarks.runs.results import Measurement, Result
from tests.benchmarks.runs.test_results import ENVIRONMENT
from tests.benchmarks.support.known_target import KnownTarget, measured


def _measurement(on: str, driver: str, number: int, delay_s: float, *, topics: int = 2) -> Measurement:
    workload = Workload(name="publish", topics=topics, in_flight=4, seconds=2.0, warmup_s=0.0)
    done = Measurement(workload=workload, driver=driver, on=on, round=number)
    done.take(measured(workload, KnownTarget(delay_s)), is_delivery=False)
    return done


def _text(*measurements: Measurement) -> str:
    started = "2026-01-01 00:00:00 UTC"
    result = Result(program="hedwig-bench hub", started=started, environment=ENVIRONMENT, terms={})
    result.measurements = list(measurements)
    return markdown(result)


def _rows(text: str, title: str) -> list[list[str]]:
    _, _, after = text.partition(f"**{title}**\n\n")
    lines = after.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_our_hub_is_held_against_the_original_and_its_own_ledger_client_of_the_same_round() -> None:
    """Our hub does 400/s and 200/s, the original 80/s in both rounds, the ledger client 800/s and 200/s."""
    text = _text(
        _measurement("cluster-4.3", "raw", 1, 0.010),
        _measurement("cluster-4.3", "raw", 2, 0.020),
        _measurement("original", "raw", 1, 0.050),
        _measurement("original", "raw", 2, 0.050),
        _measurement("cluster-4.3", "ledgers", 1, 0.005),
        _measurement("cluster-4.3", "ledgers", 2, 0.020),
    )
    (line,) = _rows(text, "our hub ÷ the original")
    assert line[2:4] == ["raw", "cluster-4.3"]
    assert line[4] == "3.54 (2.50 – 5.00)"
    assert line[5] == "0.20 (0.20 – 0.40)"
    (line,) = _rows(text, "our hub ÷ the ledger client alone")
    assert line[4] == "0.71 (0.50 – 1.00)"


def test_other_loads_other_bookies_and_walls_are_not_compared() -> None:
    wall = _measurement("original", "raw", 1, 0.040)
    wall.wall = "the original hub does not start"
    text = _text(
        _measurement("cluster-4.3", "raw", 1, 0.010),
        wall,
        _measurement("original", "raw", 1, 0.040, topics=4),
        _measurement("cluster", "ledgers", 1, 0.005),
    )
    assert "÷" not in text
    assert "the original hub does not start" in text


def test_where_a_hub_ran_is_told_only_if_not_all_are_embedded() -> None:
    embedded = _text(_measurement("embedded", "raw", 1, 0.010))
    assert "| measured | driver |" in embedded
    assert "bookies" not in embedded
    assert "| measured | on | driver |" in _text(_measurement("cluster", "raw", 1, 0.010))


def test_what_was_measured_before_there_was_a_choice_was_embedded() -> None:
    values = _measurement("cluster", "raw", 1, 0.010).to_json()
    assert Measurement.from_json(values).on == "cluster"
    del values["on"]
    assert Measurement.from_json(values).on == "embedded"
