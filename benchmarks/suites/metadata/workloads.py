"""The workloads of `hedwig-bench metadata`: files in benchmarks/workloads, each named by what it does.

A file says what is done (`mix`), to which topics (`among`), a description (`says`), and its `cases`. Each case has its
load, and may have its own choice of keys, or a maximum number of operations. `at_ends` is for workloads that should
not depend on the number of topics: they run only on the smallest and the largest step.
"""

import importlib.resources
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final, Self

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.workloads import Among, Choice, Workload

__all__ = ["ORDER", "WorkloadFile", "workload_files"]

ORDER: Final = (
    "claim",
    "take-over",
    "read-owner",
    "consume",
    "subscribe",
    "unsubscribe",
    "read-subscriptions",
    "list-page",
    "recreate",
    "contended-claims",
)
"""The workloads that a run measures by default, in their order."""

_OF_FILES: Final = {"says", "among", "mix", "at_ends", "cases"}
_OF_CASES: Final = {"in_flight", "rate_per_s", "operations", "choice", "keys", "wide"}
_SUFFIX: Final = ".toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFile:
    """The content of one file. `cases` hold what differs from case to case."""

    name: str
    says: str
    mix: Mapping[str, float]
    among: Among = Among.ALL
    at_ends: bool = False
    cases: tuple[Mapping[str, Any], ...] = field(default=())

    @classmethod
    def parse(cls, name: str, text: str) -> Self:
        """Read a file. Raises BenchmarkError - it is not TOML, or not a workload."""
        try:
            values = tomllib.loads(text)
            _known(values, _OF_FILES)
            for case in values["cases"]:
                _known(case, _OF_CASES)
            file = cls(
                name=name,
                says=values["says"],
                mix=values["mix"],
                among=Among(values.get("among", Among.ALL)),
                at_ends=values.get("at_ends", False),
                cases=tuple(values["cases"]),
            )
            smallest = file.workloads(topics=1, subscribers=1, seconds=1.0, offered_seconds=1.0, warmup_s=0.0, seed=1)
            if not list(smallest):
                raise ValueError("it has no cases")
        except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as exc:
            raise BenchmarkError(f"the workload {name} cannot be used: {type(exc).__name__}: {exc}") from exc
        return file

    def workloads(
        self,
        *,
        topics: int,
        subscribers: int,
        seconds: float,
        offered_seconds: float,
        warmup_s: float,
        seed: int,
    ) -> Iterator[Workload]:
        """Yield the cases, with `topics` topics that have `subscribers` subscriptions each.

        Args: seconds - the length of a closed loop; offered_seconds - the length of a load that offers a rate.
        """
        for case in self.cases:
            yield Workload(
                name=self.name,
                mix=self.mix,
                topics=topics,
                subscribers=subscribers,
                among=self.among,
                seconds=offered_seconds if case.get("rate_per_s") else seconds,
                warmup_s=warmup_s,
                seed=seed,
                **{**case, "choice": Choice(case.get("choice", Choice.UNIFORM))},
            )


def workload_files(directory: Path | None = None) -> dict[str, WorkloadFile]:
    """Return the workloads of a folder, or those of this package, by name. Raises BenchmarkError - one is damaged."""
    folder: Traversable = directory or importlib.resources.files("hedwig.benchmarks").joinpath("workloads")
    paths = sorted((each for each in folder.iterdir() if each.name.endswith(_SUFFIX)), key=lambda each: each.name)
    files = [WorkloadFile.parse(each.name.removesuffix(_SUFFIX), each.read_text()) for each in paths]
    return {file.name: file for file in files}


def _known(values: Mapping[str, Any], names: set[str]) -> None:
    if unknown := set(values) - names:
        raise ValueError(f"unknown keys: {', '.join(sorted(unknown))}; choose from {', '.join(sorted(names))}")
