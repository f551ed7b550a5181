"""Prove in which order the ladder of a stage is climbed, and what happens to a backend that meets a wall."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from hedwig.benchmarks.load.workloads import FILL, RESTART, Choice, Workload
from hedwig.benchmarks.runs.results import LEFT_BEHIND, Measurement, Result
from hedwig.benchmarks.runs.start_times import StartTimes
from hedwig.benchmarks.stores.cases import MetadataCases
from hedwig.benchmarks.stores.dataset import Dataset, FillTask
from hedwig.benchmarks.stores.servers import StoreServers
from hedwig.benchmarks.suites.metadata.ladder import Ladder
from hedwig.benchmarks.suites.metadata.progress import Progress
from hedwig.benchmarks.suites.metadata.sizes import SMOKE, stages
from hedwig.benchmarks.suites.metadata.workloads import workload_files
from hedwig.cli.dev import DevError

BACKENDS = ("zookeeper", "hbase")
(STAGE,) = stages(workload_files(), ["read-owner", "consume"], replace(SMOKE, topics=(20, 40, 60)), 1)
FIRST = STAGE.steps[0]
LOOPS = [
    each for each in FIRST.workloads if not (each.is_open_loop or each.operations) and each.choice is Choice.UNIFORM
]
"""These warm up. Loops on popular keys would only repeat them."""


@dataclass(slots=True)
class _Cases:
    """Servers and clients that record their calls. `walls`: the reason of a failure, by call."""

    walls: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    unmendable: frozenset[str] = frozenset()
    calls: list[str] = field(default_factory=list)
    dead: set[str] = field(default_factory=set)

    def idle(self, backend: str) -> list[int]:
        return [1]

    def ended(self, backend: str) -> list[str]:
        return [f"{backend}-1 ended"] if backend in self.dead else []

    def mend(self, backend: str) -> None:
        if backend in self.unmendable:
            raise DevError("it does not come up")
        self.dead.discard(backend)

    def end(self, backend: str) -> None:
        self.calls.append(f"end {backend}")

    def settle(self, *, beside: str | None = None) -> dict[str, float]:
        self.calls.append("settle" if beside is None else f"settle beside {beside}")
        return {"settling_s": 1.0}

    def fill(
        self, backend: str, workload: Workload, task: FillTask, *, on_progress: Callable[[Mapping[str, float]], None]
    ) -> Measurement:
        on_progress({"records": task.records // 2, "of": task.records, "per_s": 10.0})
        measurement = self._done(f"fill {backend} {task.first} {task.last}", backend, workload, 1)
        measurement.values["from_topics"] = task.first
        return measurement

    def measure(self, backend: str, workload: Workload, dataset: Dataset, number: int) -> Measurement:
        what = f"{workload.name} {backend} {dataset.topics} round {number}"
        measurement = self._done(what, backend, workload, number)
        if what in self.left:
            measurement.reported[LEFT_BEHIND] = self.left[what]
        return measurement

    def restart(self, backend: str, workload: Workload, dataset: Dataset) -> Measurement:
        return self._done(f"restart {backend} {dataset.topics}", backend, workload, 1)

    def _done(self, what: str, backend: str, workload: Workload, number: int) -> Measurement:
        self.calls.append(what)
        if what in self.walls:
            self.dead.add(backend)
        return Measurement(
            workload=workload, driver=backend, round=number, count=1, seconds=1.0, wall=self.walls.get(what)
        )


def _climbed(
    cases: _Cases,
    before: Sequence[Measurement] = (),
    absent: Mapping[str, str] | None = None,
) -> tuple[list[Measurement], list[str]]:
    """Return the measurements, earlier ones included, and the printed lines."""
    result = Result(program="x", started="", environment={}, terms={}, measurements=list(before))
    measured: list[Measurement] = []
    said: list[str] = []
    climb = Ladder(
        stage=STAGE,
        backends=BACKENDS,
        sizes=SMOKE,
        seed=1,
        stores=cast(StoreServers, cases),
        cases=cast(MetadataCases, cases),
        progress=Progress([STAGE], BACKENDS, SMOKE, 1, result),
        times=StartTimes(),
        keep=measured.append,
        say=said.append,
        say_for_now=said.append,
    )
    for backend, why in (absent or {}).items():
        climb.give_up(backend, why)
    climb.carry_out()
    return measured, said


def _of(measurements: Sequence[Measurement], backend: str) -> list[Measurement]:
    return [each for each in measurements if each.driver == backend]


def _words(measurement: Measurement) -> tuple[Any, ...]:
    return measurement.workload.name, measurement.workload.topics, measurement.wall


def test_each_store_is_filled_beside_servers_at_rest() -> None:
    cases = _Cases()
    measured, _ = _climbed(cases)
    fills = [(index, words) for index, words in enumerate(cases.calls) if words.startswith("fill ")]
    order = [words.split()[1] for _, words in fills]
    assert order == ["zookeeper", "hbase", "hbase", "zookeeper", "zookeeper", "hbase"]
    for index, words in fills:
        assert cases.calls[index - 1] == f"settle beside {words.split()[1]}"
    assert all("settling_s" in each.values for each in measured if each.workload.name == FILL)
    started = [each.started_s for each in measured]
    assert None not in started
    assert started == sorted(started, key=lambda seconds: seconds or 0.0)
    assert all(each.started is not None and each.started.endswith("+00:00") for each in measured)


def test_a_step_has_as_many_measurements_as_it_has_cases() -> None:
    measured, said = _climbed(_Cases())
    for backend in BACKENDS:
        names = [each.workload.name for each in _of(measured, backend)]
        assert names.count(FILL) == names.count(RESTART) == len(STAGE.steps)
        assert len(names) == sum(2 + len(step.workloads) for step in STAGE.steps)
    assert not any(each.reported for each in measured)
    assert any("records, 10/s, about 0 min more" in line for line in said)


def test_a_backend_without_a_server_has_a_wall_and_the_other_all_its_cases() -> None:
    cases = _Cases()
    measured, _ = _climbed(cases, absent={"hbase": "it did not come up: no"})
    (wall,) = _of(measured, "hbase")
    assert _words(wall) == (FILL, 20, "it did not come up: no")
    assert (wall.on, wall.started is not None) == ("synced", True)
    assert len(_of(measured, "zookeeper")) == sum(2 + len(step.workloads) for step in STAGE.steps)
    assert cases.calls[0] == "end hbase"
    assert not any(words.startswith("fill hbase") for words in cases.calls)


def test_nobody_left_is_the_end_of_the_stage() -> None:
    cases = _Cases()
    measured, _ = _climbed(cases, absent=dict.fromkeys(BACKENDS, "no"))
    assert [_words(each) for each in measured] == [(FILL, 20, "no")] * 2
    assert cases.calls == ["end zookeeper", "end hbase"]


def test_a_wall_in_filling_ends_the_servers_of_that_backend() -> None:
    cases = _Cases(walls={"fill hbase 20 40": "no memory is left"})
    measured, said = _climbed(cases)
    assert _words(_of(measured, "hbase")[-1]) == (FILL, 40, "no memory is left")
    assert cases.calls[cases.calls.index("fill hbase 20 40") + 1] == "end hbase"
    assert "    hbase has no further cases on these servers: no memory is left" in said
    after = cases.calls[cases.calls.index("end hbase") + 1 :]
    assert after
    assert not any("hbase" in words for words in after)


def test_a_wall_in_the_warm_up_is_told_with_what_follows() -> None:
    cases = _Cases(
        walls={"read-owner hbase 20 round 0": "hbase-1 ended"}, left={"consume hbase 20 round 0": "3 are left"}
    )
    measured, said = _climbed(cases)
    _, first, *others = _of(measured, "hbase")
    assert first.wall is None
    trouble = {"read-owner": "hbase-1 ended", "consume": "3 are left"}
    assert first.notes() == [f"in the warm-up: {'; '.join(f'{each.name}: {trouble[each.name]}' for each in LOOPS)}"]
    assert not any(each.reported for each in (*others, *_of(measured, "zookeeper")))
    assert "    read-owner: hbase-1 ended" in said


def test_a_server_that_does_not_come_up_after_the_warm_up_is_a_wall() -> None:
    cases = _Cases(walls={"read-owner hbase 20 round 0": "hbase-1 ended"}, unmendable=frozenset({"hbase"}))
    measured, _ = _climbed(cases)
    fill, wall = _of(measured, "hbase")
    assert fill.wall is None
    why = "in the warm-up: read-owner: hbase-1 ended; it does not come up"
    assert _words(wall) == (FIRST.workloads[0].name, 20, why)
    assert wall.workload == FIRST.workloads[0]
    assert "end hbase" in cases.calls


def test_a_store_that_is_filled_again_says_from_where() -> None:
    """A run that continues behind its first step: only its second fill begins at nothing."""
    all_before, _ = _climbed(_Cases())
    before = [each for each in all_before if each.workload.topics == FIRST.topics]
    cases = _Cases()
    measured, _ = _climbed(cases, before)
    fills = [each for each in measured if each.workload.name == FILL]
    assert [(each.workload.topics, each.values["from_topics"]) for each in fills] == [(40, 0)] * 2 + [(60, 40)] * 2
    for each in fills:
        is_anew = each.workload.topics == 40
        notes_anew = ["made from 0 topics on, because the run was resumed"]
        assert each.notes() == (notes_anew if is_anew else [])


def test_a_store_that_cannot_be_filled_again_is_a_wall_of_what_it_had_to_do() -> None:
    all_before, _ = _climbed(_Cases())
    before = [each for each in all_before if each.workload.name == FILL]
    measured, _ = _climbed(_Cases(walls={"fill hbase 0 20": "no memory is left"}), before)
    (wall,) = _of(measured, "hbase")
    assert _words(wall) == (FIRST.workloads[0].name, 20, "filling its store again: no memory is left")


def test_what_was_lost_before_stays_so() -> None:
    all_before, _ = _climbed(_Cases(walls={"fill hbase 0 20": "no memory is left"}))
    before = [each for each in all_before if each.driver == "hbase"]
    cases = _Cases()
    measured, _ = _climbed(cases, before)
    assert _of(measured, "hbase") == []
    assert len(_of(measured, "zookeeper")) == sum(2 + len(step.workloads) for step in STAGE.steps)
    assert cases.calls.index("end hbase") < cases.calls.index("settle")
