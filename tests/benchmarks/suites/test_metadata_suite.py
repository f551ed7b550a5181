"""Prove the parts of a run of metadata workloads: files, stages, ladders, and the rest after an interruption."""

from dataclasses import replace
from pathlib import Path

import pytest

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.workloads import Among, Operation, Workload
from hedwig.benchmarks.runs.results import Measurement, Result
from hedwig.benchmarks.stores.dataset import FillTask
from hedwig.benchmarks.stores.servers import RESTARTED
from hedwig.benchmarks.suites.metadata.progress import Progress
from hedwig.benchmarks.suites.metadata.sizes import CLAIMING, FULL, QUICK, SMOKE, USUAL, MetadataSizes, Stage, stages
from hedwig.benchmarks.suites.metadata.workloads import ORDER, workload_files
from tests.support.checkout import CHECKOUT

FILES = workload_files()
UNSYNCED_ALONE = MetadataSizes(topics=(), unsynced_topics=(10_000, 100_000))


@pytest.mark.parametrize("name", FILES)
def test_each_workload_says_what_it_does(name: str) -> None:
    file = FILES[name]
    assert file.says
    planned = list(file.workloads(topics=100, subscribers=2, seconds=2.0, offered_seconds=4.0, warmup_s=0.5, seed=3))
    assert len(planned) == len(file.cases)
    for each in planned:
        assert (each.name, each.topics, each.subscribers, each.seed) == (name, 100, 2, 3)
        assert (each.seconds, each.warmup_s) == (4.0 if each.is_open_loop else 2.0, 0.5)
        assert Workload.from_json(each.to_json()) == each
    assert f"`{name}`" in (CHECKOUT / "docs" / "how-to" / "benchmarks.md").read_text()


def test_the_usual_workloads_have_both_loops_and_both_choices_of_keys() -> None:
    assert set(ORDER) <= set(FILES)
    usual = [
        each
        for name in ORDER
        for each in FILES[name].workloads(
            topics=100, subscribers=1, seconds=1.0, offered_seconds=1.0, warmup_s=0.0, seed=1
        )
    ]
    assert {each.is_open_loop for each in usual} == {True, False}
    assert {str(each.choice) for each in usual} == {"uniform", "zipf"}
    assert {each.in_flight // each.keys for each in usual if each.keys} == {1, 4, 16, 64}
    assert {each.wide for each in usual if each.wide} == {1, 100, 20_000}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("says = ", "TOMLDecodeError"),
        ('says = "x"\nmix = { claim = 1.0 }\n', "KeyError: 'cases'"),
        ('says = "x"\nmix = { claim = 1.0 }\nchoice = "zipf"\n[[cases]]\n', "unknown keys: choice"),
        ('says = "x"\nmix = { claim = 1.0 }\n[[cases]]\nrate = 5\n', "unknown keys: rate"),
        ('says = "x"\nmix = { grab = 1.0 }\n[[cases]]\n', "'grab' is not a valid Operation"),
        ('says = "x"\nmix = { claim = 1.0 }\n[[cases]]\nkeys = 5\n', "contended topics and no others need keys"),
        ('says = "x"\nmix = { claim = 1.0 }\ncases = []\n', "it has no cases"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(BenchmarkError, match=r"^the workload mine cannot be used: ") as caught:
        workload_files(tmp_path)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value).rstrip()


@pytest.mark.parametrize("sizes", [SMOKE, QUICK, USUAL, UNSYNCED_ALONE])
def test_a_ladder_climbs_and_its_claims_never_meet(sizes: MetadataSizes) -> None:
    planned = stages(FILES, ORDER, sizes, 1)
    synced = [stage for stage in planned if stage.durability == "synced"]
    assert [stage.subscribers for stage in synced] == list(sizes.subscribers if sizes.topics else ())
    assert len(planned) == len(synced) + bool(sizes.unsynced_topics)
    assert list(dict.fromkeys(stage.durability for stage in planned)) == sizes.durabilities
    for stage in planned:
        ladder = sizes.topics if stage.durability == "synced" else sizes.unsynced_topics
        assert [step.topics for step in stage.steps] == list(ladder)
        for step in stage.steps:
            is_end = step.topics in (ladder[0], ladder[-1])
            claiming = [each for each in step.workloads if each.among is Among.UNOWNED]
            free = step.topics // 2 - step.before // 2
            assert 0 < sizes.rounds * sum(each.operations for each in claiming) <= free
            assert any(each.keys for each in step.workloads) == (is_end and stage.subscribers == sizes.subscribers[0])
            for each in step.workloads:
                assert each.wide <= sizes.wide_max
                if each.is_open_loop and each.operations:
                    assert each.operations >= each.rate_per_s * each.seconds - 1e-6


def test_a_run_without_topics_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to measure: give --topics"):
        MetadataSizes(topics=(), unsynced_topics=())


@pytest.mark.parametrize("sizes", [QUICK, USUAL, FULL])
@pytest.mark.parametrize("names", [ORDER, ("claim", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d")])
def test_a_case_is_the_same_on_all_steps(sizes: MetadataSizes, names: tuple[str, ...]) -> None:
    """Along a ladder, cases that are compared differ only in the number of topics, and of topics to claim."""

    def along(workload: Workload) -> Workload:
        is_claiming = workload.among in CLAIMING and not workload.is_open_loop
        return replace(workload, topics=1, operations=1 if is_claiming else workload.operations)

    for stage in stages(FILES, names, sizes, 1):
        first, *others = ([along(each) for each in step.workloads if not each.keys] for step in stage.steps)
        assert all(workloads == first for workloads in others)


def test_a_step_claims_as_much_as_it_can_give_four_rounds() -> None:
    (stage, *_) = stages(FILES, ORDER, USUAL, 1)
    assert [step.claims for step in stage.steps] == [625, 5_625, 10_000]
    for step in stage.steps:
        assert max(each.operations for each in step.workloads if each.among in CLAIMING) == step.claims


def test_windows_of_the_usual_run_are_as_long_as_is_said() -> None:
    for stage in stages(FILES, ORDER, USUAL, 1):
        for each in (each for step in stage.steps for each in step.workloads):
            assert bool(each.warmup_share) == each.is_bounded, each.name
            if each.is_open_loop:
                assert (each.seconds, each.warmup_s) == (3.0, 0.5), each.name
            else:
                assert each.seconds - each.warmup_s == 2.0, each.name
            if each.name in ("claim", "subscribe", "unsubscribe") and each.is_open_loop:
                assert each.operations == each.rate_per_s * each.seconds, "no more are made than are deleted"


def test_the_loads_of_the_usual_run_leave_half_of_its_hour_and_a_half_for_filling() -> None:
    loads = [each for stage in stages(FILES, ORDER, USUAL, 1) for step in stage.steps for each in step.workloads]
    assert 2 * USUAL.rounds * sum(each.seconds + 1.0 for each in loads) <= 45 * 60


def test_a_fill_has_time_for_its_records() -> None:
    assert USUAL.fill_limit_s(1_000) == USUAL.fill_min_s
    assert FULL.fill_limit_s(80_500_000) == pytest.approx(80_500_000 / 3_000)
    assert FULL.fill_limit_s(80_500_000) > 7 * 3600
    assert replace(FULL, fill_max_s=60.0).fill_limit_s(80_500_000) == 60.0


def test_warm_ups_that_leave_nothing_are_refused() -> None:
    for changes in ({"seconds": 0.5}, {"offered_seconds": 0.5}):
        with pytest.raises(ValueError, match=r"a warm-up of 0\.5 s must be shorter than loads of 0\.5 s"):
            replace(USUAL, **changes)  # type: ignore[arg-type]


def test_a_mix_with_claims_has_as_many_as_there_are_topics_to_claim() -> None:
    for stage in stages(FILES, ("claim", "ycsb-d"), USUAL, 1):
        for step in stage.steps:
            for each in step.workloads:
                kinds = list(map(each.operation_chooser(), range(each.operations)))
                assert kinds.count(Operation.CLAIM) <= step.claims
                assert each.among is Among.UNOWNED or kinds.count(Operation.CLAIM) > step.claims / 2


def test_ladders_that_cannot_be_climbed_are_refused() -> None:
    for topics in ((100, 50), (100, 100), (10,)):
        with pytest.raises(ValueError, match="a ladder must rise from at least 20 topics"):
            replace(USUAL, topics=topics)
    with pytest.raises(ValueError, match="subscriptions of a topic must be at least 1"):
        replace(USUAL, subscribers=(0,))


# ------------------------------------------------------------------------------------------------------- progress


def _progress(stage: Stage, measured: list[Measurement]) -> Progress:
    result = Result(program="x", started="", environment={}, terms={}, measurements=measured)
    return Progress([stage], ["sqlite", "zookeeper"], SMOKE, 1, result)


def _all(stage: Stage, backend: str) -> list[Measurement]:
    measurements = []
    for step in stage.steps:
        workloads = [stage.fill(step, 1), *step.workloads]
        workloads += [stage.restart(step, 1)] if backend in RESTARTED else []
        for workload in workloads:
            measurements.append(Measurement(workload=workload, driver=backend, round=1, on=stage.durability))
    return measurements


def test_what_is_measured_is_not_measured_again_and_the_rest_is() -> None:
    (stage,) = stages(FILES, ORDER, SMOKE, 1)
    done = [*_all(stage, "sqlite"), *_all(stage, "zookeeper")]
    assert _progress(stage, []).is_missing(stage)
    assert not _progress(stage, done).is_missing(stage)
    assert _progress(stage, done).left({}, stage).startswith("100%")
    # A wall counts as a result.
    done[7].wall = "it ended"
    assert not _progress(stage, done).is_missing(stage)
    for index, each in enumerate(done):
        missing = _progress(stage, done[:index] + done[index + 1 :])
        assert missing.is_missing(stage)
        assert missing.measured(stage, each.driver, each.workload) is None
        of_step = [step for step in stage.steps if missing.is_missing(stage, step)]
        assert [step.topics for step in of_step] == [each.workload.topics]


def test_behind_a_wall_in_filling_nothing_is_missing() -> None:
    (stage,) = stages(FILES, ORDER, SMOKE, 1)
    first, last = stage.steps
    done = [
        *_all(stage, "sqlite"),
        *(each for each in _all(stage, "zookeeper") if each.workload.topics == first.topics),
    ]
    assert _progress(stage, done).is_missing(stage, last)
    wall = Measurement(workload=stage.fill(last, 1), driver="zookeeper", round=1, on="synced", wall="no memory is left")
    assert not _progress(stage, [*done, wall]).is_missing(stage)
    # A wall does not excuse missing cases before it.
    assert _progress(stage, [*done[:-1], wall]).is_missing(stage, first)


def _minutes_left(progress: Progress, stage: Stage) -> float:
    words = progress.left({}, stage)
    return float(words.split("about ")[1].split()[0])


def test_what_is_left_becomes_less_while_a_store_is_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    (stage,) = stages(FILES, ["read-owner"], replace(SMOKE, topics=(3_000_000, 6_000_000)), 1)
    clock = [0.0]
    monkeypatch.setattr("hedwig.benchmarks.suites.metadata.progress.time.monotonic", lambda: clock[0])
    progress = _progress(stage, [])
    records = FillTask(first=0, last=3_000_000, subscribers=stage.subscribers).records
    clock[0] += 45.0  # The servers start meanwhile.
    planned = _minutes_left(progress, stage)
    minutes = []
    for quarter in range(1, 5):
        progress.note_stored(stage, "zookeeper", records * quarter // 4)
        # As fast as planned.
        clock[0] += records / 4 / 9_000
        minutes.append(_minutes_left(progress, stage))
    quarters = [planned - records / 4 / 9_000 / 60 * quarter for quarter in range(1, 5)]
    assert minutes == pytest.approx(quarters, abs=1.0)


def test_a_run_that_is_gone_on_with_has_its_stores_to_fill_again() -> None:
    (stage,) = stages(FILES, ["read-owner"], replace(SMOKE, topics=(3_000_000, 6_000_000)), 1)
    *done, _ = _all(stage, "sqlite")
    fresh = _minutes_left(_progress(stage, []), stage)
    resumed = _minutes_left(_progress(stage, [*done, *_all(stage, "zookeeper")]), stage)
    # One of two stores has to be filled, for a single load.
    assert resumed == pytest.approx(fresh / 2, abs=2.0)


def test_what_a_backend_has_to_do_next_is_known() -> None:
    (stage,) = stages(FILES, ORDER, SMOKE, 1)
    first = stage.steps[0]
    done: list[Measurement] = []
    assert _progress(stage, done).first_left(stage, "sqlite") == (stage.fill(first, 1), 1)
    done = _all(stage, "sqlite")
    assert _progress(stage, done).first_left(stage, "sqlite") is None
    lost = done.pop(3)
    assert _progress(stage, done).first_left(stage, "sqlite") == (lost.workload, 1)
