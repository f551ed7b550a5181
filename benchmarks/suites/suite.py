"""What a benchmark is: the options of its command, what a run of it carries out, and how its results are shown."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from hedwig.benchmarks.charts.sections import Section, Table
from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.machine.jvm_flags import note_flags
from hedwig.benchmarks.runs.figures import OwnFigures, no_figures
from hedwig.benchmarks.runs.results import Measurement, Result
from hedwig.benchmarks.runs.resumption import resumed
from hedwig.benchmarks.runs.runs import carry_out

__all__ = ["CasePlan", "Plan", "Prepare", "Run", "Suite"]


@dataclass(slots=True, kw_only=True)
class Run:
    """A run that is prepared. What servers store goes into `directory`; `stack` ends servers with the run."""

    directory: Path
    stack: ExitStack
    result: Result | None = None

    def note_flags(self, where: str, flags: Mapping[str, list[str]]) -> None:
        """Note the flags of virtual machines in the result, for which servers are started."""
        assert self.result is not None, "servers whose flags are noted are started for cases only"
        note_flags(self.result.environment, where, flags)


class Plan(Protocol):
    """What a run carries out, with servers that are there, or are started for each case.

    terms: what holds for all of its numbers.
    """

    @property
    def terms(self) -> Mapping[str, Any]: ...

    def carry_out(self, result: Result, path: Path) -> None:
        """Measure what the result does not have yet, and write it to its file after each case."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePlan:
    """A Plan of cases, carried out one after the other in each round; `named` says in a line what one is.

    is_turned: every other round goes in the opposite order.
    """

    terms: Mapping[str, Any]
    cases: Sequence[Case]
    measure: Callable[[Case, int], Measurement]
    named: Callable[[Case], str]
    rounds: int
    is_turned: bool = True

    def carry_out(self, result: Result, path: Path) -> None:
        """Measure all cases that the result does not have."""
        carry_out(self.cases, self.measure, self.rounds, result, path, named=self.named, is_turned=self.is_turned)


Prepare: TypeAlias = Callable[[Run], Plan]
"""Starts what all cases need. Raises: BenchmarkError, DevError, HedwigError, ValueError - why it cannot be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A benchmark: the command `hedwig-bench NAME`.

    options: a function with the command's options, by click's decorators, and its help. It checks what is asked for,
        starts nothing, and returns what prepares the run.
    tables, charts: how its results are shown. figures: what of some rounds is compared, if not rates and times.
    file_option: names what a run is kept in. has_directory: that is a directory, and a run goes on there.
    gone_on: returns the run that goes on, by the new one, the one before, and that option. Raises BenchmarkError: they
        cannot be one run.
    """

    name: str
    example: str
    options: Callable[..., Prepare]
    tables: Callable[[Sequence[Measurement]], list[Table]]
    charts: Callable[[Result], list[Section]]
    figures: OwnFigures = field(default=no_figures)
    file_option: str = "--result"
    has_directory: bool = False
    gone_on: Callable[[Result, Result, str], Result] = field(default=resumed)

    @property
    def program(self) -> str:
        """Return what results call it."""
        return f"hedwig-bench {self.name}"
