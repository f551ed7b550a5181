"""Prove that processes that contend for one record change it one after another: no update is lost or counts twice.

Properties: at most one acknowledging owner per topic; a version never repeats; an unknown outcome is never reported as
known, and without a fault there is none.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest

from hedwig.metadata.testing.clients import Clients
from hedwig.metadata.testing.doors import CALLS, Call
from hedwig.metadata.testing.subject import Subject
from tests.faults.support.numbers import number_of
from tests.faults.support.worker import CLAIMS, WORKERS_MAX
from tests.faults.support.workforce import set_off, workers
from tests.metadata.support.backends import KEPT_BACKENDS, BackendRow

THROUGH_THE_GATEWAY: Final[tuple[str, ...]] = ()

PROCESSES: Final = 8
TIMEOUT_S: Final = 270.0
FULL_TIMEOUT_S: Final = 1800.0


@dataclass(frozen=True, slots=True)
class Size:
    """The work of the processes: successful increments of a counter, by each process and backend; topics to claim."""

    label: str
    increments: Mapping[str, int]
    topics: int
    counters: tuple[Call, ...]
    timeout_s: float


_LABELS: Final = [row.label for row in KEPT_BACKENDS]
QUICK: Final = Size(
    "quick", {**dict.fromkeys(_LABELS, 40), "sqlite": 100}, topics=400, counters=CALLS[1:2], timeout_s=TIMEOUT_S
)
FULL: Final = Size("full", dict.fromkeys(_LABELS, 1000), topics=500, counters=CALLS[1:2], timeout_s=FULL_TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class Run:
    """The facts that the processes reported, one list for each process."""

    size: Size
    increments: int
    topics: list[str]
    counters: dict[str, str]
    reports: list[list[dict[str, Any]]]

    def of(self, worker: int, task: str, kind: str | None = None) -> list[dict[str, Any]]:
        return [fact for fact in self.reports[worker] if fact["task"] == task and kind in (None, fact.get("kind"))]

    def all_of(self, task: str, kind: str | None = None) -> list[dict[str, Any]]:
        return [fact for worker in range(PROCESSES) for fact in self.of(worker, task, kind)]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(QUICK, id="quick"),
        pytest.param(FULL, id="full", marks=[pytest.mark.full, pytest.mark.timeout(FULL_TIMEOUT_S + 60)]),
    ],
)
def run(
    request: pytest.FixtureRequest,
    backend: BackendRow,
    subject: Subject,
    seed: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> Run:
    """Run eight processes on one store; none may fail, not even with an uncertain outcome."""
    size: Size = request.param
    increments = size.increments[backend.label]
    topics = [f"claimed-{size.label}-{number}" for number in range(size.topics)]
    counters = {call.label: f"counter-{size.label}" for call in size.counters}
    shared = {"url": subject.url, "seed": seed, "topics": topics, "counters": counters, "increments": increments}
    print(f"the order of claims comes from seed {seed}")
    settings = [{**shared, "worker": number} for number in range(PROCESSES)]
    with workers("contend", settings, tmp_path_factory.mktemp("contention")) as crew:
        for _ in (*counters, "claims"):
            set_off(crew)
        for worker in crew:
            worker.finish(size.timeout_s)
        return Run(size, increments, topics, counters, [worker.facts() for worker in crew])


async def test_every_increment_of_eight_processes_counts_once(run: Run, subject: Subject, clients: Clients) -> None:
    """No update is lost: N acknowledged increments have taken the counter through 1 to N, each value once."""
    store = await clients.open(subject)
    probe = await clients.probe(subject)
    for door in run.size.counters:
        total = PROCESSES * run.increments
        for worker in range(PROCESSES):
            assert len(run.of(worker, "increment", door.label)) == run.increments
        steps = {fact["count"]: fact["version"] for fact in run.all_of("increment", door.label)}
        assert sorted(fact["count"] for fact in run.all_of("increment", door.label)) == list(range(1, total + 1))
        assert len(set(steps.values())) == total, "a version never repeats"
        key = door.key(run.counters[door.label].encode())
        last = await door.read(store, key)
        assert last is not None
        assert number_of(last.value) // WORKERS_MAX == total
        assert str(last.version) == steps[total]
        assert await probe.cells(door.kind, key)
        assert sum(fact["times"] for fact in run.all_of("refused", door.label)) >= PROCESSES, "nobody met anybody"


async def test_every_topic_gets_one_owner_and_seven_are_told_who(run: Run, subject: Subject, clients: Clients) -> None:
    """There is at most one acknowledged owner per topic, and every process that loses learns its name and version."""
    owners: dict[str, tuple[int, str]] = {}
    for worker in range(PROCESSES):
        for fact in run.of(worker, "own"):
            assert fact["topic"] not in owners, "two owners"
            owners[fact["topic"]] = (worker, fact["version"])
    assert sorted(owners) == sorted(run.topics)
    refusals = Counter(fact["topic"] for fact in run.all_of("told"))
    assert refusals == dict.fromkeys(run.topics, PROCESSES - 1)
    for fact in run.all_of("told"):
        assert (fact["owner"], fact["version"]) == owners[fact["topic"]]
    store = await clients.open(subject)
    probe = await clients.probe(subject)
    for topic in run.topics:
        record = await CLAIMS.read(store, CLAIMS.key(topic.encode()))
        assert record is not None
        assert (number_of(record.value), str(record.version)) == owners[topic]
    assert {topic.decode() for topic, _ in await probe.live(CLAIMS.kind)} >= set(run.topics)
    assert len({owner for owner, _ in owners.values()}) > 1, "one process had all to itself"
