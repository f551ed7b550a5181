"""The stages of a run of `hedwig-bench metadata`: each has fresh servers and a ladder of topic counts.

The usual run must end within an hour and a half on two processors. It has up to a million topics with one and with ten
subscriptions each, and the unsynced stage, on ZooKeeper and HBase, in two rounds. In minutes:

    fills     2.5 records a topic with one subscription, 11.5 with ten, so 14 M on each backend, 25,000 of them
              twice: ZooKeeper at 13,000/s 18, HBase at 9,000 to 10,000/s 23 to 26                           41 to 44
    servers   three starts, seven restarts of each backend, up to a minute each with many records             5 to 7
    loads     a step has 8 closed loops of 2.5 s, 5 with a number of operations, about 1.6 s, and 6 of 3 s that offer a
              rate: 46 s. Seven steps, two backends, two rounds                                                  21
    warm-up   the 6 closed loops with uniformly drawn keys for 1 s in each step, and what is beside them          2
              contended claims: four of 2.5 s, on three steps, on two backends, in two rounds                     2
    beside    580 loads, for each of which keys are read and made before and deleted behind, about 1 s           10

That is 81 to 86. The rest is for servers that are still at work after a fill. If one load becomes longer, another one
must become shorter. With 9 closed loops, and 4 s for loads that offer a rate, a run took more than an hour and a half.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from hedwig.benchmarks.load.workloads import FILL, RESTART, Among, Operation, Workload
from hedwig.benchmarks.stores.servers import SYNCED, UNSYNCED
from hedwig.benchmarks.suites.metadata.workloads import WorkloadFile

__all__ = ["CLAIMING", "FULL", "QUICK", "SMOKE", "USUAL", "MetadataSizes", "Stage", "Step", "stages"]

_TOPICS_MIN: Final = 20
_DRAWN_SHARE: Final = 0.75
CLAIMING: Final = frozenset({Among.UNOWNED, Among.LATEST})
"""Loads that claim topics without owner. Each step of a ladder has a limited number of those."""
_ROUNDS_FORESEEN: Final = 4
"""The number of rounds up to which a run can be resumed. Topics without owner are shared among them beforehand."""
_WARMUP_SHARE: Final = 0.2
"""The share of operations at the start that do not count, in a closed loop with a number of operations."""
_BOUNDED: Final = frozenset({Operation.CREATE_SUBSCRIPTION.value, Operation.DELETE_SUBSCRIPTION.value})
"""Operations that add records or remove them. Their number is limited, so that it is the same on each backend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSizes:
    """The sizes of a run.

    topics, subscribers: the ladder of topic counts, climbed on fresh servers once for each number of subscriptions a
        topic. It may be empty if `unsynced_topics` is not.
    unsynced_topics: a ladder with logs that are not forced to the disk, for the first of `subscribers`.
    seconds, offered_seconds: the length of a closed loop, and of a load that offers a rate. Each includes its warm-up
        of `warmup_s`.
    operations: the most operations of a load that creates or deletes subscriptions, and the most claims of a case.
    drawn: the number of keys whose versions are read before a load whose operations need one.
    wide_max: the most subscriptions of a topic.
    heap_mb: the heap of all virtual machines of a backend together.
    fill_min_s, fill_per_s_min, fill_max_s: filling is a wall after `fill_max_s`, if that is not 0. Otherwise it is a
        wall if it takes longer than `fill_min_s`, and longer than at `fill_per_s_min` records a second.
    """

    topics: Sequence[int] = (10_000, 100_000, 1_000_000)
    subscribers: Sequence[int] = (1, 10)
    unsynced_topics: Sequence[int] = (10_000,)
    seconds: float = 2.5
    offered_seconds: float = 3.0
    warmup_s: float = 0.5
    operations: int = 10_000
    drawn: int = 10_000
    wide_max: int = 20_000
    heap_mb: int = 4096
    fill_min_s: float = 1800.0
    fill_per_s_min: float = 3_000.0
    fill_max_s: float = 0.0
    rounds: int = 2

    def __post_init__(self) -> None:
        for ladder in (self.topics, self.unsynced_topics):
            if list(ladder) != sorted(set(ladder)) or any(count < _TOPICS_MIN for count in ladder):
                raise ValueError(f"a ladder must rise from at least {_TOPICS_MIN} topics, not {list(ladder)}")
        if not self.durabilities:
            raise ValueError("nothing to measure: give --topics or --unsynced-topics above 0")
        if not self.subscribers or min(self.subscribers) < 1 or len(set(self.subscribers)) < len(self.subscribers):
            raise ValueError(
                f"subscriptions of a topic must be at least 1, each number once, not {list(self.subscribers)}"
            )
        shortest_s = min(self.seconds, self.offered_seconds)
        if not self.warmup_s < shortest_s:
            raise ValueError(f"a warm-up of {self.warmup_s:g} s must be shorter than loads of {shortest_s:g} s")

    @property
    def durabilities(self) -> list[str]:
        """Return the durabilities of the stages, in their order."""
        return [name for name, ladder in ((SYNCED, self.topics), (UNSYNCED, self.unsynced_topics)) if ladder]

    @property
    def topics_max(self) -> int:
        """Return the most topics of any step."""
        return max((*self.topics, *self.unsynced_topics))

    def fill_limit_s(self, records: int) -> float:
        """Return the seconds after which a fill with `records` records is given up."""
        return self.fill_max_s or max(self.fill_min_s, records / self.fill_per_s_min)

    def to_json(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


USUAL: Final = MetadataSizes()
FULL: Final = MetadataSizes(topics=(10_000, 100_000, 1_000_000, 3_000_000, 10_000_000), heap_mb=6144)
QUICK: Final = MetadataSizes(
    topics=(1_000, 10_000),
    subscribers=(1,),
    unsynced_topics=(),
    seconds=0.6,
    offered_seconds=1.0,
    warmup_s=0.2,
    operations=500,
    drawn=1_000,
    wide_max=2_000,
    heap_mb=1024,
    fill_min_s=120.0,
    rounds=1,
)
SMOKE: Final = MetadataSizes(
    topics=(20, 60),
    subscribers=(2,),
    unsynced_topics=(),
    seconds=0.2,
    offered_seconds=0.2,
    warmup_s=0.05,
    operations=20,
    drawn=20,
    wide_max=30,
    heap_mb=1024,
    fill_min_s=60.0,
    rounds=1,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One number of topics, with the workloads that run once the store has that many.

    before: the number of topics of the step before. claims: the most topics that each case may claim.
    """

    topics: int
    before: int
    claims: int
    workloads: Sequence[Workload]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A ladder on fresh servers. `wide`: the store also has topics with each of these numbers of subscriptions."""

    durability: str
    subscribers: int
    wide: Sequence[int]
    steps: Sequence[Step]

    def fill(self, step: Step, seed: int) -> Workload:
        """Return the workload under which the result records the fill of a step."""
        return _named(FILL, Operation.CREATE, step.topics, self.subscribers, seed)

    def restart(self, step: Step, seed: int) -> Workload:
        """Return the workload under which the result records the restart after a step."""
        return _named(RESTART, Operation.READ_OWNER, step.topics, self.subscribers, seed)


def stages(files: Mapping[str, WorkloadFile], names: Sequence[str], sizes: MetadataSizes, seed: int) -> list[Stage]:
    """Return the stages of a run, in their order."""
    chosen = [files[name] for name in names]
    planned = []
    if sizes.topics:
        planned += [_stage(chosen, SYNCED, subscribers, sizes.topics, sizes, seed) for subscribers in sizes.subscribers]
    if sizes.unsynced_topics:
        planned.append(_stage(chosen, UNSYNCED, sizes.subscribers[0], sizes.unsynced_topics, sizes, seed))
    return planned


def _stage(
    files: Sequence[WorkloadFile],
    durability: str,
    subscribers: int,
    ladder: Sequence[int],
    sizes: MetadataSizes,
    seed: int,
) -> Stage:
    rungs = list(zip((0, *ladder), ladder, strict=False))
    claims_of = [_claims(files, before, topics, sizes) for before, topics in rungs]
    steps = []
    for (before, topics), claims in zip(rungs, claims_of, strict=True):
        is_end = topics in (ladder[0], ladder[-1]) and subscribers == sizes.subscribers[0]
        workloads = []
        for file in files:
            if is_end or not file.at_ends:
                workloads += list(_fitted(file, topics, subscribers, sizes, seed))
        # A rate is offered for the same time on all steps. A closed loop runs longer if there are more topics to claim.
        workloads = [
            _bounded(each, _claiming(each, min(claims_of) if each.is_open_loop else claims))
            if each.among in CLAIMING
            else each
            for each in workloads
        ]
        steps.append(Step(topics=topics, before=before, claims=claims, workloads=workloads))
    wide = sorted({each.wide for step in steps for each in step.workloads if each.wide})
    return Stage(durability=durability, subscribers=subscribers, wide=wide, steps=steps)


def _claims(files: Sequence[WorkloadFile], before: int, topics: int, sizes: MetadataSizes) -> int:
    """Return how many topics each case of a step may claim: its share of the step's new topics without owner."""
    cases = sum(len(file.cases) for file in files if file.among in CLAIMING)
    free = topics // 2 - before // 2
    return max(1, min(sizes.operations, free // max(1, cases * max(sizes.rounds, _ROUNDS_FORESEEN))))


def _fitted(file: WorkloadFile, topics: int, subscribers: int, sizes: MetadataSizes, seed: int) -> Iterator[Workload]:
    """Yield the cases of a workload, each once, at most `wide_max` wide. Leave out those with too many keys."""
    seen: list[Workload] = []
    for each in file.workloads(
        topics=topics,
        subscribers=subscribers,
        seconds=sizes.seconds,
        offered_seconds=sizes.offered_seconds,
        warmup_s=sizes.warmup_s,
        seed=seed,
    ):
        fitted = replace(each, wide=min(each.wide, sizes.wide_max))
        if operations := sizes.operations if _BOUNDED & set(fitted.mix) else fitted.operations:
            fitted = _bounded(fitted, operations)
        if fitted not in seen and fitted.keys <= topics // 2:
            seen.append(fitted)
            yield fitted


def _claiming(workload: Workload, claims: int) -> int:
    """Return the most operations of a workload that may claim `claims` topics.

    In a mix, claims are drawn at random, so the number has a margin.
    """
    share = workload.mix[Operation.CLAIM.value] / sum(workload.mix.values())
    return claims if share == 1 else max(1, int(_DRAWN_SHARE * claims / share))


def _bounded(workload: Workload, operations: int) -> Workload:
    """Return a workload of at most `operations` operations. One with a rate ends when its operations are used up."""
    if not workload.is_open_loop:
        return replace(workload, operations=operations, warmup_share=_WARMUP_SHARE)
    seconds = min(workload.seconds, operations / workload.rate_per_s)
    warmup_s = workload.warmup_s * seconds / workload.seconds
    operations = min(operations, math.ceil(workload.rate_per_s * seconds))
    return replace(workload, operations=operations, seconds=seconds, warmup_s=warmup_s)


def _named(name: str, operation: Operation, topics: int, subscribers: int, seed: int) -> Workload:
    return Workload(name=name, mix={operation.value: 1.0}, topics=topics, subscribers=subscribers, seed=seed)
