"""Results: the measurements of a run, written to a file and read again."""

import errno
import json
import lzma
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.cases import EMBEDDED
from hedwig.benchmarks.load.recording import Summary
from hedwig.benchmarks.load.workloads import Workload
from hedwig.benchmarks.runs.offered_load import is_kept_up, queue_growth
from hedwig.histograms import Histogram

__all__ = [
    "FILLED_ANEW",
    "LEFT_BEHIND",
    "WARM_UP",
    "Measurement",
    "Result",
    "alike",
    "failure_words",
    "file_of_run",
    "is_measured",
]

_FORMAT: Final = 1
_OF_A_RUN: Final = "result.json"
"""The name of the result file in the directory of a run."""
_COMPRESSED: Final = ".xz"
"""The suffix of compressed files, such as the results that are kept for good."""
_REPEATED: Final = frozenset({"fill", "takeover"})
"""Workloads that repeat failures until they succeed: the failures that they count are attempts, not operations."""
FILLED_ANEW: Final = "filled anew"
LEFT_BEHIND: Final = "left behind"
WARM_UP: Final = "warm-up"
_NOTED: Final = (WARM_UP, FILLED_ANEW, LEFT_BEHIND)
"""Names in `reported` whose values are sentences that a reader of the numbers must know."""
_KINDS_MAX: Final = 3
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_THROUGHOUT: Final = "under_way_throughout"
_SERVED_SHARE: Final = 0.8
"""Share of the callers; if a file lacks the number without answer, an estimate of fewer served callers is reported."""
_LONG_SHARE: Final = 0.25
"""Share of a window; with longer times than that, the number of callers without answer is not estimated."""
_BUSY: Final = 0.9
"""Share of a processor; a generator that uses more may itself be the limit."""


@dataclass(slots=True, kw_only=True)
class Measurement:
    """One workload on one driver, once.

    count: what the measurement counts in `seconds`: operations, records of a fill, or receptions of deliveries.
    on: the kind of hub and stores that it ran on.
    reported: figures in the driver's own words, if it gives no histogram; and notes.
    values: single figures, such as bytes for each topic.
    hub_cores, generator_cores: processors kept busy, on average.
    series: by second after the start: finished, failed, refused, deliveries, response, hub and generator. Files of
        older versions have only the total of refusals.
    wall: why it could not be measured; all other fields are then what was seen until that moment.
    started, started_s: when it began, its preparation included: by the clock, in UTC, and in seconds since the command
        that measured it began. None in files of older versions.
    """

    workload: Workload
    driver: str
    round: int
    on: str = EMBEDDED
    count: int = 0
    seconds: float = 0.0
    offered: int = 0
    missed: int = 0
    unexpected_deliveries: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    histograms: dict[str, Histogram] = field(default_factory=dict)
    reported: dict[str, Any] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    hub_cores: float | None = None
    hub_written_bytes_per_s: float | None = None
    hub_rss_bytes_max: int | None = None
    generator_cores: float | None = None
    generator_processes: int = 1
    series: dict[int, dict[str, Any]] = field(default_factory=dict)
    wall: str | None = None
    started: str | None = None
    started_s: float | None = None

    @property
    def rate_per_s(self) -> float:
        return self.count / self.seconds if self.seconds > 0 else 0.0

    @property
    def operations_per_s(self) -> float:
        """Return the rate of operations, even if `count` is of receptions."""
        return self.values.get("operations_per_s", self.rate_per_s)

    @property
    def is_offered_load_reached(self) -> bool | None:
        """Say whether a fixed rate was kept up without a growing queue; None in a closed loop, which offers no rate."""
        if not self.workload.is_open_loop:
            return None
        if self.missed or self.wall is not None:
            return False
        if not is_kept_up(self.workload, self.operations_per_s, self.seconds, self.histograms.get("response")):
            return False
        return queue_growth(self.workload, self.series) is None

    @property
    def operations(self) -> int:
        """Return how many operations of the window were done; for a fill, how many batches."""
        service = self.histograms.get("service")
        return self.count if service is None else service.count

    @property
    def callers_without_answer(self) -> int:
        """Return how many callers of a closed loop were waiting for one answer all through the window.

        Files of older versions lack this number, and the times that these callers waited. For them it is estimated by
        Little's law. The callers with answers that were waiting at a time are the answers per second, times the mean
        duration. If some operations took a large part of the window, the estimate says nothing, since the last of them
        had no others beside them. The result is then 0.
        """
        workload, service = self.workload, self.histograms.get("service")
        if workload.is_open_loop:
            return 0
        if _THROUGHOUT in self.values:
            return int(self.values[_THROUGHOUT])
        if service is None or workload.is_bounded or self.are_failures_repeated or not self.operations:
            return 0
        if service.max_us > _LONG_SHARE * self.seconds * 1e6:
            return 0
        served = self.operations_per_s * service.mean_us / 1e6
        return round(workload.in_flight - served) if served < _SERVED_SHARE * workload.in_flight else 0

    @property
    def lacks_waits(self) -> bool:
        """Say whether the times are only those of some callers, while others waited, as in files of older versions."""
        return _THROUGHOUT not in self.values and self.callers_without_answer > 0

    @property
    def failed(self) -> int:
        """Return how many operations failed, even if a later attempt succeeded."""
        return sum(self.errors.values())

    @property
    def are_failures_repeated(self) -> bool:
        """Say whether failures were repeated until they succeeded, so that the times include them already."""
        return self.workload.name in _REPEATED

    def notes(self) -> list[str]:
        """Return the sentences that a reader of the numbers must know."""
        notes: list[str] = []
        if self.wall is not None:
            notes.append(self.wall)
        notes += [str(self.reported[name]) for name in _NOTED if name in self.reported]
        if (failures := failure_words([self])) is not None:
            notes.append(failures)
        if self.is_offered_load_reached is False:
            notes.append(f"offered load not reached: {self._not_reached()}")
        elif self.missed:
            notes.append(f"{self.missed:,} of {self.offered:,} operations did not begin in time")
        if waiting := self.callers_without_answer:
            words = f"{waiting:,} of {self.workload.in_flight:,} callers had no answer in all of the window"
            notes.append(f"about {words}, and are not in the times" if self.lacks_waits else words)
        if self.unexpected_deliveries:
            notes.append(f"{self.unexpected_deliveries:,} deliveries too many")
        if (self.generator_cores or 0.0) > _BUSY * self.generator_processes and self.driver != "java":
            notes.append(f"the generator was busy: {self.generator_cores:.2f} processors")
        return notes

    def _not_reached(self) -> str:
        growth = queue_growth(self.workload, self.series)
        if growth is None or self.missed or self.wall is not None:
            return f"{self.operations_per_s:,.0f} of {self.workload.rate_per_s:,.0f}/s"
        return f"its queue grew, and the median response with it from {growth[0]:,.1f} to {growth[1]:,.1f} ms"

    def take(self, summary: Summary, *, is_delivery: bool) -> None:
        """Add the summary of the generators."""
        self.seconds = summary.seconds
        self.count = summary.deliveries if is_delivery else summary.count
        if is_delivery and summary.seconds > 0:
            self.values["operations_per_s"] = summary.count / summary.seconds
        self.offered, self.missed = summary.offered, summary.missed
        self.unexpected_deliveries = summary.unexpected_deliveries
        self.errors = summary.errors
        self.values[_THROUGHOUT] = summary.throughout
        self.histograms = {"service": summary.service, "response": summary.response}
        if summary.delivery.count:
            self.histograms["delivery"] = summary.delivery
        for number, second in summary.series.items():
            self.series.setdefault(number, {}).update(second.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        return plain | {
            "workload": self.workload.to_json(),
            "on": self.on,
            "started": self.started,
            "started_s": self.started_s,
            "errors": dict(self.errors),
            "histograms": {name: histogram.encode() for name, histogram in self.histograms.items()},
            "series": {str(number): second for number, second in sorted(self.series.items())},
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_json` made."""
        return cls(
            workload=Workload.from_json(values["workload"]),
            on=values.get("on", EMBEDDED),
            started=values.get("started"),
            started_s=values.get("started_s"),
            errors=Counter(values["errors"]),
            histograms={name: Histogram.decode(text) for name, text in values["histograms"].items()},
            series={int(number): second for number, second in values["series"].items()},
            **{name: values[name] for name in _PLAIN},
        )


_PLAIN: Final = (
    "driver",
    "round",
    "count",
    "seconds",
    "offered",
    "missed",
    "unexpected_deliveries",
    "reported",
    "values",
    "hub_cores",
    "hub_written_bytes_per_s",
    "hub_rss_bytes_max",
    "generator_cores",
    "generator_processes",
    "wall",
)


@dataclass(slots=True, kw_only=True)
class Result:
    """All measurements of one run, with the terms that they have in common."""

    program: str
    started: str
    environment: dict[str, Any]
    terms: dict[str, Any]
    measurements: list[Measurement] = field(default_factory=list)
    is_complete: bool = False

    def write(self, path: Path) -> None:
        """Write the whole file or none of it; compress it if its name ends in `.xz`.

        Raises: BenchmarkError - it cannot be written, as on a full disk; the file that was there before is intact.
        """
        content = (json.dumps(self.to_json(), indent=1) + "\n").encode()
        if path.suffix == _COMPRESSED:
            content = lzma.compress(content)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_whole(path, content)
        except OSError as exc:
            why = exc.strerror or type(exc).__name__
            raise BenchmarkError(f"cannot write the result {path}: {why}; {_way_out(path, exc)}") from exc

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "format": _FORMAT,
            "program": self.program,
            "started": self.started,
            "is_complete": self.is_complete,
            "terms": self.terms,
            "environment": self.environment,
            "measurements": [measurement.to_json() for measurement in self.measurements],
        }

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file, or that of a run's directory, compressed or not.

        Raises: BenchmarkError - it is not there, or is not a result of a known version.
        """
        if path.is_dir():
            path = file_of_run(path)
        try:
            content = path.read_bytes()
            values = json.loads(lzma.decompress(content) if path.suffix == _COMPRESSED else content)
            if values["format"] != _FORMAT:
                raise BenchmarkError(f"{path} has the format {values['format']}; this program reads {_FORMAT}")
            return cls(
                program=values["program"],
                started=values["started"],
                environment=values["environment"],
                terms=values["terms"],
                measurements=[Measurement.from_json(each) for each in values["measurements"]],
                is_complete=values["is_complete"],
            )
        except (OSError, ValueError, KeyError, TypeError, lzma.LZMAError) as exc:
            raise BenchmarkError(f"cannot read {path} as a result: {type(exc).__name__}: {exc}") from exc


def file_of_run(directory: Path) -> Path:
    """Return the file of a run's result in its directory: the compressed one, if that alone is there."""
    plain, compressed = directory / _OF_A_RUN, directory / f"{_OF_A_RUN}{_COMPRESSED}"
    return compressed if compressed.exists() and not plain.exists() else plain


def _write_whole(path: Path, content: bytes) -> None:
    if path.exists() and not path.is_file():
        path.write_bytes(content)  # A device or a pipe must not become a file.
        return
    partial = path.with_name(f"{path.name}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError:
        with suppress(OSError):
            partial.unlink()  # On a full disk half a result only takes up space.
        raise


def _way_out(path: Path, error: OSError) -> str:
    """Return what the user can do about a file that cannot be written, and which file the run can be resumed from."""
    advice = "make room on its disk" if error.errno in _FULL else "see that it can be written"
    if not path.is_file():
        return f"{advice}, and begin again"
    return f"{advice}; the earlier result is whole: continue it with --resume, or --run"


def alike(measurements: Sequence[Measurement]) -> list[list[Measurement]]:
    """Return groups of measurements that differ only in their round, in the order of their first ones."""
    groups: dict[str, list[Measurement]] = {}
    for measurement in measurements:
        groups.setdefault(_kind_of(measurement), []).append(measurement)
    return list(groups.values())


def failure_words(rounds: Sequence[Measurement]) -> str | None:
    """Return how many operations of some rounds failed, and their errors, the most frequent first; None without any."""
    errors: Counter[str] = sum((each.errors for each in rounds), Counter())
    failed, operations = sum(errors.values()), sum(each.operations for each in rounds)
    if not failed:
        return None
    most = errors.most_common(_KINDS_MAX)
    if not operations:
        return f"all failed: {', '.join(f'{count:,} × {kind}' for kind, count in most)}"
    kinds = ", ".join(kind for kind, _ in most)
    if rounds[0].are_failures_repeated:
        return f"{failed:,} attempts failed: {kinds}"
    return f"{failed:,} of {operations + failed:,} operations failed: {kinds}"


def is_measured(measurements: Sequence[Measurement], other: Measurement) -> bool:
    """Say whether one of the measurements equals `other` in case and round, and met no wall."""
    kind = _kind_of(other)
    return any(each.round == other.round and each.wall is None and _kind_of(each) == kind for each in measurements)


def _kind_of(measurement: Measurement) -> str:
    workload = measurement.workload.to_json() | {"seed": None}
    return json.dumps([measurement.on, measurement.driver, workload], sort_keys=True)
