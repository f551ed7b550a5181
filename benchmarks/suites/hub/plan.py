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
    places: Sequence[str]
    preset: str
    given: Mapping[str, Any]
    settings: Sequence[str]
    processes: int
    seed: int
    directory: Path
    progress: Callable[[str], None]
    note_flags: NoteFlags

    def sized(self, sizes: Any) -> Any:
        """Return `sizes` with the given sizes that it has in their place. A rate of 0 alone means no offered rate."""
        known = {each.name for each in fields(sizes)}
        changed = {name: value for name, value in self.given.items() if value is not None and name in known}
        found = replace(sizes, **changed)
        return found if not found.rates or any(found.rates) else replace(found, rates=())


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
        raise BenchmarkError(f"nothing to measure: on stores there are the drivers {', '.join(_STORED_DRIVERS)}")
    hubs = StoredHubs(
        directory=asked.directory,
        backends=asked.places,
        sizes=sizes,
        settings=asked.settings,
        processes=asked.processes,
        progress=asked.progress,
        note_flags=asked.note_flags,
    )
    stack.enter_context(hubs)
    planned = list(stored_cases(asked.measurements or STORED_MEASUREMENTS, drivers, sizes, asked.seed, asked.places))
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
    sizes, places = asked.sized(SIZES[asked.preset]), asked.places
    drivers = asked.drivers or (tuple(USUAL_DRIVERS) if places == (EMBEDDED,) else ("raw", "java", LEDGERS))
    planned = list(cases(asked.measurements or MEASUREMENTS, drivers, sizes, asked.seed, places))
    if not planned:
        raise BenchmarkError(f"nothing to measure: no driver of {', '.join(drivers)} does that on {places[0]}")
    servers = None
    if any(each != EMBEDDED for each in places):
        servers = HubServers(
            places,
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
        places=servers,
        warm_s=sizes.warm_s,
        note_flags=asked.note_flags,
    )
    return HubPlan(planned, runs.measure, sizes.rounds, _terms(asked, address, sizes, servers, drivers))


def _terms(
    asked: Asked, address: str | None, sizes: Sizes, places: HubServers | None, drivers: Sequence[str]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if places is not None:
        found |= places.terms(drivers)
        found["warm-up"] = f"{sizes.warm_s:g} s"
    elif address is None:
        found |= {
            "hubs": 1,
            "replicas": "none",
            "acknowledged": "once it is synced to the hub's disk",
            "metadata": "SQLite, synced",
        }
    else:
        found |= {"hub": f"at {address}, which keeps messages as it was told elsewhere"}
    if ZNODES in drivers:
        found[ZNODES] = ZNODES_SAID
    return found | _common_terms(asked, sizes.rounds) | {"Java client": "1 GiB of heap, one connection"}


def _common_terms(asked: Asked, rounds: int) -> dict[str, Any]:
    return {
        "hub options": list(asked.settings),
        "rounds": rounds,
        "generator processes": asked.processes,
        "seed": asked.seed,
        "closed loops": "time counts from when a request is sent, so a stall delays what follows without showing in it",
    }
