"""Prove that the tables of `hedwig-bench cas` compare every driver with the Java client of the same round."""

from hedwig.benchmarks.load.workloads import Workload
from hedwig.benchmarks.report.tables import markdown
from hedwig.benchmarks.runs.results import Measurement, Result
from hedwig.benchmarks.suites.cas.tables import cas_tables
from tests.benchmarks.runs.test_results import ENVIRONMENT
from tests.benchmarks.support.known_target import KnownTarget, measured


def _measurement(
    driver: str,
    number: int,
    delay_s: float,
    cpu_s: float,
    *,
    operation: str = "update",
    refusals: float = 0,
    in_flight: int = 4,
) -> Measurement:
    """Return a round of 2 s that used `cpu_s` of processor time."""
    workload = Workload(name=operation, mix={operation: 1.0}, topics=2, in_flight=in_flight, seconds=2.0, warmup_s=0.0)
    done = Measurement(workload=workload, driver=driver, round=number)
    done.take(measured(workload, KnownTarget(delay_s)), is_delivery=False)
    done.values |= {"client_cpu_s": cpu_s, "servers_cpu_s": 2 * cpu_s, "refusals": refusals}
    return done


def _lines(*measurements: Measurement) -> list[dict[str, str]]:
    (_, columns, lines), *_ = cas_tables(measurements)
    return [dict(zip(columns, line, strict=True)) for line in lines]


def test_ratios_are_those_within_a_round() -> None:
    """Java does 400/s, then 200/s. The driver does 200/s in both rounds: ratios 0.5 and 1."""
    java, native = _lines(
        _measurement("java", 1, 0.010, 0.8),
        _measurement("java", 2, 0.020, 0.4),
        _measurement("native", 1, 0.020, 0.2),
        _measurement("native", 2, 0.020, 0.2),
    )
    assert (java["median"], java["of rounds"], java["× java"]) == ("300/s", "200 – 400", "–")
    assert native["median"] == "200/s"
    assert native["× java"] == "0.71 (0.50 – 1.00)"
    # Java: 800 operations in 0.8 s and 400 in 0.4 s, 1,000 a core second. The driver: 400 in 0.2 s, 2,000.
    assert (java["per client core"], native["per client core"]) == ("1,000/s", "2,000/s")
    assert native["× java, per core"] == "2.00 (2.00 – 2.00)"
    assert (native["client CPU µs"], native["servers' CPU µs"]) == ("500", "1,000")
    assert native["p50 × java"] == "2.00 (1.00 – 2.00)"
    assert native["ms: p50 / p99 / p99.9 / max"].startswith("20.0 / ")


def test_contention_shows_what_was_applied_and_what_was_wasted() -> None:
    """400 applied and 1,200 refused: a quarter applied, three retries each. 2,400 of 3,200 calls were wasted."""
    (line,) = _lines(_measurement("native", 1, 0.020, 0.2, operation="contended-update", refusals=1200))
    assert line["writers per key, of 64"] == "2"
    assert (line["applied"], line["retries each"], line["wasted"]) == ("25.0%", "3.00", "75.0%")
    assert line["× java"] == "–"


def test_accidental_refusals_are_noted() -> None:
    (line,) = _lines(_measurement("native", 1, 0.020, 0.2, refusals=1200))
    assert line["notes"] == "1,200 refused and tried again"


def test_a_driver_that_could_not_be_measured_has_a_line_with_the_reason() -> None:
    wall = Measurement(
        workload=_measurement("java", 1, 0.02, 0.1).workload, driver="happybase", round=1, wall="no package"
    )
    lines = _lines(_measurement("java", 1, 0.020, 0.1), wall)
    assert [line["driver"] for line in lines] == ["java", "happybase"]
    assert (lines[1]["median"], lines[1]["× java"], lines[1]["notes"]) == ("–", "–", "no package")


def test_each_operation_has_a_table_of_its_own() -> None:
    result = Result(
        program="hedwig-bench cas",
        started="2026-01-01 00:00:00 UTC",
        environment=dict(ENVIRONMENT),
        terms={"seed": 1},
        measurements=[_measurement("java", 1, 0.02, 0.1), _measurement("java", 1, 0.02, 0.1, operation="read")],
    )
    text = markdown(result)
    assert text.index("**update**") < text.index("**read**")
    assert "in short" not in text, "there is nothing to compare Java with"
    assert text.count("| in flight | driver | median |") == 2


def test_the_ratios_in_short_compare_the_best_of_each_round() -> None:
    """Round 1: native 50/s alone, 400/s with eight; the gateway 100/s and 100/s. Round 2: 200/s against 100/s."""
    measurements = [
        _measurement("native", 1, 0.020, 0.1, in_flight=1),
        _measurement("native", 1, 0.020, 0.1, in_flight=8),
        _measurement("gateway", 1, 0.010, 0.1, in_flight=1),
        _measurement("gateway", 1, 0.080, 0.1, in_flight=8),
        _measurement("java", 1, 0.040, 0.1, in_flight=1),
        _measurement("native", 2, 0.040, 0.1, in_flight=8),
        _measurement("gateway", 2, 0.080, 0.1, in_flight=8),
    ]
    title, columns, lines = cas_tables(measurements)[-1]
    assert (title, columns) == ("update, in short", ("what", "ratio"))
    assert [tuple(line) for line in lines] == [
        ("the native driver's best rate ÷ the gateway driver's best", "2.83 (2.00 – 4.00)"),
        ("the native driver's best rate ÷ the Java client's best", "16.00"),
        ("operations for each second of the client's processor, native ÷ java, 1 in flight", "2.00"),
        ("median time of one caller, native ÷ java", "0.50"),
    ]
