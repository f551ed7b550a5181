"""The cases of `hedwig-bench hub --on zookeeper --on hbase`: the same hub over stores with more and more topics."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.load.workloads import FILL, Choice, Operation, Workload

__all__ = [
    "FAIL_OVER",
    "STORED_MEASUREMENTS",
    "STORED_SIZES",
    "STORES",
    "StoredSizes",
    "stored_cases",
    "warming",
]

STORES: Final = ("zookeeper", "hbase")
"""Our hub, standalone, with its messages on its own disk, and its metadata in a store with many topics."""
OWN: Final = "own"
FIRST: Final = "publish-first"
WARM: Final = "publish-warm"
FAIL_OVER: Final = "fail-over"
STORED_MEASUREMENTS: Final = (OWN, FIRST, WARM, FAIL_OVER)
_PARTS: Final = 4
_SLICES: Final = _PARTS + 1
"""Disjoint samples of a store's topics, so that no case uses topics of another. The last sample is for warm-ups."""
_WARMING: Final = 100
_LIMIT_S: Final = 1800.0
"""The time limit of a load. Operations that have not begun by then count as missed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSizes:
    """The sizes of a run.

    topics: the ladder. Each step has servers and stores of its own, filled with that number of topics.
    sample: the number of distinct topics that each case uses, at most a fifth of those in the store.
    rates: first publishes a second, offered beside the closed loop.
    seconds, warmup_s: the length of publishes to warm topics. All other cases have a number of operations.
    heap_mb: the heap of all virtual machines of a store together.
    fill_max_s: filling that takes longer is a wall.
    """

    topics: Sequence[int] = (10_000, 100_000, 1_000_000)
    sample: int = 10_000
    rates: Sequence[float] = (200.0,)
    in_flight: int = 100
    in_flight_open: int = 10_000
    message_bytes: Sequence[int] = (100,)
    seconds: float = 12.0
    warmup_s: float = 2.0
    heap_mb: int = 4096
    fill_max_s: float = 3600.0
    rounds: int = 1

    def __post_init__(self) -> None:
        if min(self.topics) < _SLICES:
            raise ValueError(f"a store needs {_SLICES} topics at least, since cases do not share any")

    def to_json(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


STORED_SIZES: Final[Mapping[str, StoredSizes]] = {
    "smoke": StoredSizes(
        topics=(100,), sample=20, rates=(50.0,), in_flight=10, seconds=1.0, warmup_s=0.25, heap_mb=1024, fill_max_s=60.0
    ),
    "quick": StoredSizes(
        topics=(2_000,), sample=500, rates=(100.0,), seconds=4.0, warmup_s=1.0, heap_mb=1024, fill_max_s=120.0
    ),
    "usual": StoredSizes(),
    "full": StoredSizes(topics=(10_000, 100_000, 1_000_000, 3_000_000), heap_mb=6144, fill_max_s=7200.0),
}


def warming(workload: Workload) -> Workload:
    """Return the load that warms a case up: the same in a closed loop, on topics that no other case uses.

    It has a quarter of a sample.
    """
    part, size = workload.first // workload.sample, max(1, workload.sample // _PARTS)
    return replace(
        workload,
        first=_PARTS * workload.sample + part * size,
        sample=size,
        operations=size,
        rate_per_s=0.0,
        in_flight=_WARMING,
        seconds=_LIMIT_S,
    )


def stored_cases(
    measurements: Sequence[str], drivers: Sequence[str], sizes: StoredSizes, seed: int, on: Sequence[str]
) -> Iterator[Case]:
    """Yield the cases of one round, step by step. Cases to compare follow each other."""
    for topics in sizes.topics:
        for backend in on:
            yield Case(_fill(topics, seed), "raw", backend)
        for workload in _workloads(measurements, topics, sizes, seed):
            for driver in drivers:
                for backend in on:
                    yield Case(workload, driver, backend)


def _workloads(measurements: Sequence[str], topics: int, sizes: StoredSizes, seed: int) -> Iterator[Workload]:
    sample = min(sizes.sample, topics // _SLICES)

    def once(name: str, part: int, operation: Operation, in_flight: int = sizes.in_flight) -> Workload:
        return Workload(
            name=name,
            mix={operation.value: 1.0},
            topics=topics,
            sample=sample,
            first=part * sample,
            operations=sample,
            in_flight=in_flight,
            message_bytes=sizes.message_bytes[0],
            seconds=_LIMIT_S,
            choice=Choice.TURNS,
            seed=seed,
        )

    if OWN in measurements:
        yield once(OWN, 0, Operation.OWN)
    if FIRST in measurements:
        yield once(FIRST, 1, Operation.PUBLISH)
        for rate in sizes.rates:
            # As many operations as in the closed loop, at the offered rate.
            offered = once(FIRST, 2, Operation.PUBLISH, sizes.in_flight_open)
            yield replace(offered, rate_per_s=rate, seconds=sample / rate, warmup_s=0.0)
    if WARM in measurements:
        warm = once(WARM, 3, Operation.PUBLISH)
        yield replace(warm, operations=0, seconds=sizes.seconds, warmup_s=sizes.warmup_s)
    if FAIL_OVER in measurements:
        # All topics at once, as from clients that have lost their hub.
        yield once(FAIL_OVER, 3, Operation.PUBLISH, sample)


def _fill(topics: int, seed: int) -> Workload:
    return Workload(name=FILL, mix={Operation.CREATE.value: 1.0}, topics=topics, subscribers=1, seed=seed)
