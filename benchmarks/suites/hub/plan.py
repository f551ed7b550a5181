"""The plan of a run of `hedwig-bench hub`, made from its options: the cases, the object that runs them, the terms."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from hedwig.benchmarks.drivers.drivers import LEDGERS, USUAL_DRIVERS, ZNODES
from hedwig.benchmarks.drivers.hub.znode_paths import ZNODES_SAID
from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.cases import EMBEDDED, Case
from hedwig.benchmarks.machine.jvm_flags import NoteFlags
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.suites.hub.cases import HubCases
from hedwig.benchmarks.suites.hub.servers import HubServers
from hedwig.benchmarks.suites.hub.sizes import FULL, MEASUREMENTS, QUICK, SMOKE, USUAL, Sizes, cases
from hedwig.benchmarks.suites.hub.stored_cases import StoredHubs
from hedwig.benchmarks.suites.hub.stored_sizes import STORED_MEASUREMENTS, STORED_SIZES, stored_cases
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums

__all__ = ["SIZES", "Asked", "HubPlan", "hub_plan", "stored_plan"]

SIZES: Final[Mapping[str, Sizes]] = {"smoke": SMOKE, "quick": QUICK, "usual": USUAL, "full": FULL}
_STORED_DRIVERS: Final = ("raw", "client")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user asked for. `given`: sizes by name; None where the preset's size holds."""

    measurements: Sequence[str]
    drivers: Sequence[str]
    on: Sequence[str]
    preset: str
    given: Mapping[str, Any]
    settings: Sequence[str]
    processes: int
    seed: int
    directory: Path
    progress: Callable[[str], None]
    note_flags: NoteFlags

    def sized(self, sizes: Any) -> Any:
        """Return a copy of `sizes` with the sizes that the user gave. A rate of 0 alone means no offered rate."""
        known = {each.name for each in fields(sizes)}
        changed = {name: value for name, value in self.given.items() if value is not None and name in known}
        resized = replace(sizes, **changed)
        return resized if not resized.rates or any(resized.rates) else replace(resized, rates=())


@dataclass(frozen=True, slots=True)
class HubPlan:
    """The cases that run in each round, and the terms that hold for all of them."""

    cases: Sequence[Case]
    measure: Callable[[Case, int], Measurement]
    rounds: int
    terms: Mapping[str, Any]


def stored_plan(asked: Asked, stack: ExitStack) -> HubPlan:
    """Plan hubs over stores with many topics.

    Raises: BenchmarkError - no given driver works on stores; ValueError - a size cannot be used.
    """
    sizes = asked.sized(STORED_SIZES[asked.preset])
    drivers = [driver for driver in asked.drivers or ("raw",) if driver in _STORED_DRIVERS]
    if not drivers:
        raise BenchmarkError(f"nothing to measure: on stores only these drivers run: {', '.join(_STORED_DRIVERS)}")
    hubs = StoredHubs(
        directory=asked.directory,
        backends=asked.on,
        sizes=sizes,
        settings=asked.settings,
        processes=asked.processes,
        progress=asked.progress,
        note_flags=asked.note_flags,
    )
    stack.enter_context(hubs)
    planned = list(stored_cases(asked.measurements or STORED_MEASUREMENTS, drivers, sizes, asked.seed, asked.on))
    terms = hubs.terms() | _common_terms(asked, sizes.rounds)
    return HubPlan(planned, hubs.measure, sizes.rounds, terms)


def hub_plan(
    asked: Asked,
    stack: ExitStack,
    *,
    address: str | None,
    pid: int | None,
    metadata: str,
    quorums: Quorums,
    journal: str,
) -> HubPlan:
    """Plan embedded hubs, hubs on bookies, or a hub that runs already.

    Raises: BenchmarkError - no given driver can do what the user asked for.
    """
    sizes, on = asked.sized(SIZES[asked.preset]), asked.on
    drivers = asked.drivers or (tuple(USUAL_DRIVERS) if on == (EMBEDDED,) else ("raw", "java", LEDGERS))
    planned = list(cases(asked.measurements or MEASUREMENTS, drivers, sizes, asked.seed, on))
    if not planned:
        raise BenchmarkError(f"nothing to measure: none of {', '.join(drivers)} can run that on {on[0]}")
    servers = None
    if any(each != EMBEDDED for each in on):
        servers = HubServers(
            on,
            asked.directory / "servers",
            metadata=metadata,
            quorums=quorums,
            journal=journal,
            progress=asked.progress,
        )
        stack.enter_context(servers)
    runs = HubCases(
        directory=asked.directory,
        settings=asked.settings,
        address=address,
        pid=pid,
        processes=asked.processes,
        servers=servers,
        warm_s=sizes.warm_s,
        note_flags=asked.note_flags,
    )
    return HubPlan(planned, runs.measure, sizes.rounds, _terms(asked, address, sizes, servers, drivers))


def _terms(
    asked: Asked, address: str | None, sizes: Sizes, servers: HubServers | None, drivers: Sequence[str]
) -> dict[str, Any]:
    terms: dict[str, Any] = {}
    if servers is not None:
        terms |= servers.terms(drivers)
        terms["warm-up"] = f"{sizes.warm_s:g} s"
    elif address is None:
        terms |= {
            "hubs": 1,
            "replicas": "none",
            "acknowledged": "once it is synced to the hub's disk",
            "metadata": "SQLite, synced",
        }
    else:
        terms |= {"hub": f"at {address}, which keeps messages as it was told elsewhere"}
    if ZNODES in drivers:
        terms[ZNODES] = ZNODES_SAID
    return terms | _common_terms(asked, sizes.rounds) | {"Java client": "1 GiB of heap, one connection"}


def _common_terms(asked: Asked, rounds: int) -> dict[str, Any]:
    return {
        "hub options": list(asked.settings),
        "rounds": rounds,
        "generator processes": asked.processes,
        "seed": asked.seed,
        "closed loops": "time counts from when a request is sent, so a stall delays what follows without showing in it",
    }
