"""A benchmark suite: the options of its command, what a run of it does, and how its results are shown."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from hedwig.benchmarks.charts.sections import Section, TextTable
from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.machine.jvm_flags import note_flags
from hedwig.benchmarks.runs.figures import OwnFigures, no_figures
from hedwig.benchmarks.runs.results import Measurement, Result
from hedwig.benchmarks.runs.resumption import resumed
from hedwig.benchmarks.runs.runs import carry_out

__all__ = ["CasePlan", "Plan", "Prepare", "Run", "Suite"]


@dataclass(slots=True, kw_only=True)
class Run:
    """A run that is being prepared. Servers keep their data in `directory`; `stack` ends them with the run."""

    directory: Path
    stack: ExitStack
    result: Result | None = None

    def note_flags(self, where: str, flags: Mapping[str, list[str]]) -> None:
        """Record the flags of the servers' virtual machines in the result, under the name `where`."""
        assert self.result is not None, "servers whose flags are noted are started for cases only"
        note_flags(self.result.environment, where, flags)


class Plan(Protocol):
    """What a run does. Its servers run already, or are started for each case.

    terms: the conditions that hold for all of its numbers.
    """

    @property
    def terms(self) -> Mapping[str, Any]: ...

    def carry_out(self, result: Result, path: Path) -> None:
        """Measure what the result does not have yet, and write the result to its file after each case."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePlan:
    """A Plan of cases, measured one after the other in each round; `named` returns a line that names a case.

    is_turned: every other round runs in the opposite order.
    """

    terms: Mapping[str, Any]
    cases: Sequence[Case]
    measure: Callable[[Case, int], Measurement]
    named: Callable[[Case], str]
    rounds: int
    is_turned: bool = True

    def carry_out(self, result: Result, path: Path) -> None:
        """Measure all cases that the result does not have yet."""
        carry_out(self.cases, self.measure, self.rounds, result, path, named=self.named, is_turned=self.is_turned)


Prepare: TypeAlias = Callable[[Run], Plan]
"""Starts what all cases need. Raises: BenchmarkError, DevError, HedwigError, ValueError - it cannot be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A benchmark: the command `hedwig-bench NAME`.

    options: a function that has the command's options as click's decorators, and its help as docstring.
        It checks what the user asked for, starts nothing, and returns the function that prepares the run.
        The command itself takes `label`, `as_json`, `path`, `data` and `resume`, as `suites/options.py` has them; the
        first two are needed.
    tables, charts: how its results are shown.
    figures: the figures to compare, if those are not rates and times.
    file_option: the option that names the file or the directory of a run.
    has_directory: a run is kept in a directory, and is resumed there.
    gone_on: returns the resumed run, given the new result, the earlier one and `file_option`.
        It raises BenchmarkError if they cannot be one run.
    """

    name: str
    example: str
    options: Callable[..., Prepare]
    tables: Callable[[Sequence[Measurement]], list[TextTable]]
    charts: Callable[[Result], list[Section]]
    figures: OwnFigures = field(default=no_figures)
    file_option: str = "--result"
    has_directory: bool = False
    gone_on: Callable[[Result, Result, str], Result] = field(default=resumed)

    @property
    def program(self) -> str:
        """Return the name that results give it."""
        return f"hedwig-bench {self.name}"
