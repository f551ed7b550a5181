"""The cases that a run of `hedwig-bench cas` measures, derived from a few sizes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hedwig.benchmarks.drivers.records.record_drivers import DRIVERS
from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.load.workloads import Operation, Workload

__all__ = ["OPERATIONS", "QUICK_CAS", "SMOKE_CAS", "USUAL_CAS", "CasSizes", "cas_cases", "warm_up", "writers_per_key"]

OPERATIONS: Final = tuple(
    operation.value
    for operation in (
        Operation.READ,
        Operation.CREATE,
        Operation.UPDATE,
        Operation.PARTIAL_UPDATE,
        Operation.CONTENDED_UPDATE,
    )
)
_WRITERS: Final = 64
_WARM_IN_FLIGHT: Final = 64
_WARM_RECORDS: Final = 200
_ONE_CELL: Final = "happybase"


@dataclass(frozen=True, slots=True, kw_only=True)
class CasSizes:
    """The sizes of a run.

    in_flight: operations in flight, except for contended updates. `in_flight_of` has other numbers for some operations.
    writers: writers per key of contended updates. Each number divides 64, the number of all writers.
    warm_s: for how many seconds each client runs each operation before the first round, not counted; 0: no warm-up.
    warm_operations: Java repeats the warm-up until it has done this many operations, since its virtual machine compiles
        code that runs often.
    """

    in_flight: Sequence[int] = (1, 16, 64, 256)
    in_flight_of: Mapping[str, Sequence[int]] = field(default_factory=dict)
    writers: Sequence[int] = (1, 2, 4, 8, 16, 32, 64)
    records: int = 10_000
    seconds: float = 2.0
    warmup_s: float = 0.5
    warm_s: float = 3.0
    warm_operations: int = 50_000
    rounds: int = 3

    def __post_init__(self) -> None:
        if any(writers < 1 or _WRITERS % writers for writers in self.writers):
            raise ValueError(f"writers per key must divide {_WRITERS}: 1, 2, 4 and so on, not {list(self.writers)}")


USUAL_CAS: Final = CasSizes(in_flight_of={"update": (1, 16, 64, 256, 1_000)})
QUICK_CAS: Final = CasSizes(
    in_flight_of=dict.fromkeys(("read", "create", "partial-update"), (64,)),
    writers=(1, 8, 64),
    records=1_000,
    seconds=0.6,
    warmup_s=0.15,
    warm_s=0.25,
    warm_operations=20_000,
    rounds=1,
)
SMOKE_CAS: Final = CasSizes(
    in_flight=(8,), writers=(64,), records=50, seconds=0.3, warmup_s=0.1, warm_s=0.0, warm_operations=0, rounds=1
)


def cas_cases(operations: Sequence[str], drivers: Sequence[str], sizes: CasSizes, seed: int) -> Iterator[Case]:
    """Yield the cases of one round. All drivers run a workload one after the other, so that they can be compared."""
    for operation in OPERATIONS:
        if operation in operations:
            for workload in _workloads(operation, sizes, seed):
                yield from (Case(workload, driver) for driver in drivers if can_do(driver, operation))


def can_do(driver: str, operation: str) -> bool:
    """Say whether a driver has an operation. happybase has no partial update: its condition and write share a cell."""
    assert driver in DRIVERS
    return not (driver == _ONE_CELL and operation == Operation.PARTIAL_UPDATE)


def writers_per_key(workload: Workload) -> int:
    """Return how many writers share a record."""
    return workload.in_flight // workload.topics


def warm_up(driver: str, operations: Sequence[str], sizes: CasSizes, seed: int) -> Iterator[Case]:
    """Yield the cases that warm a driver up: each operation for `warm_s` seconds."""
    for operation in operations:
        if sizes.warm_s and can_do(driver, operation):
            yield Case(_workload(operation, _WARM_IN_FLIGHT, _WARM_RECORDS, sizes.warm_s, 0.0, seed), driver)


def _workloads(operation: str, sizes: CasSizes, seed: int) -> Iterator[Workload]:
    if operation == Operation.CONTENDED_UPDATE:
        for writers in sizes.writers:
            yield _workload(operation, _WRITERS, _WRITERS // writers, sizes.seconds, sizes.warmup_s, seed)
        return
    for in_flight in sizes.in_flight_of.get(operation, sizes.in_flight):
        yield _workload(operation, in_flight, sizes.records, sizes.seconds, sizes.warmup_s, seed)


def _workload(operation: str, in_flight: int, records: int, seconds: float, warmup_s: float, seed: int) -> Workload:
    return Workload(
        name=operation,
        mix={operation: 1.0},
        topics=records,
        in_flight=in_flight,
        seconds=seconds,
        warmup_s=warmup_s,
        seed=seed,
    )
