"""The cases of `hedwig-bench listing`: whole commands over whole stores. Each is checked by its output."""

import json
import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.load.workloads import Operation, Workload
from hedwig.benchmarks.runs.command_process import CommandRun, run_command
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.suites.listing.stores import NAME_MARK, FilledStore

__all__ = ["COMMANDS", "ListingRuns", "listing_cases"]

_PAGE: Final = 1000
_DRIVER: Final = "hedwig-admin"
_EXPORT: Final = "export.gz"


@dataclass(frozen=True, slots=True)
class _Command:
    """A command line of hedwig-admin.

    wanted: returns how many topics the command must report, by the number of topics in the store.
    reported: returns how many it did report, by its output file and its messages.
    """

    arguments: Sequence[str]
    wanted: Callable[[int], int]
    reported: Callable[[Path, str], int]


def _all(topics: int) -> int:
    return topics


def _names(output: Path, _said: str) -> int:
    """Count the names in a listing of any format."""
    if not output.stat().st_size:
        return 0
    with output.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        number = at = 0
        while (at := text.find(NAME_MARK, at) + 1) > 0:
            number += 1
        return number


def _counted(output: Path, _said: str) -> int:
    return int(next(row["count"] for row in json.loads(output.read_text())["records"] if row["kind"] == "persistence"))


def _checked(_output: Path, said: str) -> int:
    words = said.partition("checked ")[2].split()
    return int(words[0].replace(",", "")) if words else 0


def _exported(output: Path, _said: str) -> int:
    return int(json.loads(output.read_text())["topics"])


def _listing(form: str) -> _Command:
    return _Command(("topic", "list", "--all", "-o", form), _all, _names)


COMMANDS: Final[Mapping[str, _Command]] = {
    **{f"topic list --all -o {form}": _listing(form) for form in ("table", "ndjson", "json", "csv", "yaml")},
    "topic list --limit 1000": _Command(
        ("topic", "list", "--limit", str(_PAGE)), lambda topics: min(_PAGE, topics), _names
    ),
    "topic list --all --columns topic,version": _Command(
        ("topic", "list", "--all", "--columns", "topic,version", "-o", "ndjson"), _all, _names
    ),
    "metadata stats": _Command(("metadata", "stats", "-o", "json"), _all, _counted),
    "metadata check": _Command(("metadata", "check"), _all, _checked),
    "metadata export": _Command(("metadata", "export", _EXPORT, "--overwrite", "-o", "json"), _all, _exported),
}
"""The commands by name, in the order of the tables."""


def listing_cases(commands: Sequence[str], stores: Sequence[FilledStore]) -> Iterator[Case]:
    """Yield a case for each command on each store."""
    for store in stores:
        for name in commands:
            mix = {Operation.COMMAND.value: 1.0}
            workload = Workload(name=name, mix=mix, topics=store.topics, operations=1, in_flight=1)
            yield Case(workload, _DRIVER, store.name)


class ListingRuns:
    """Measures cases, one after the other; files go into `directory`."""

    def __init__(self, stores: Sequence[FilledStore], directory: Path, deadline_s: float) -> None:
        self._stores = {(store.name, store.topics): store for store in stores}
        self._directory = directory
        self._deadline_s = deadline_s

    def measure(self, case: Case, number: int) -> Measurement:
        """Run one command. A failure or a wrong report becomes the measurement's wall."""
        store = self._stores[case.on, case.workload.topics]
        command = COMMANDS[case.workload.name]
        measurement = Measurement(workload=case.workload, driver=case.driver, round=number)
        output = self._directory / "output"
        try:
            ran = run_command([*command.arguments, "--metadata", store.url], output, self._deadline_s)
        except BenchmarkError as exc:
            measurement.wall = str(exc)
            return measurement
        measurement.seconds = ran.seconds
        measurement.values = {"cpu_s": ran.cpu_s, "output_bytes": float(output.stat().st_size)}
        measurement.values["rss_bytes_max"] = float(ran.rss_bytes_max)
        measurement.wall = _wall(command, ran, output, store)
        if measurement.wall is None:
            measurement.count = command.wanted(store.topics)
        return measurement


def _wall(command: _Command, ran: CommandRun, output: Path, store: FilledStore) -> str | None:
    """Return what is wrong with a command's exit code or report, or None."""
    if ran.code != 0:
        last = ran.said.strip().splitlines()[-1:] or ["it said nothing"]
        return f"exit code {ran.code}: {last[0].replace(store.url, store.name)}"
    wanted, reported = command.wanted(store.topics), command.reported(output, ran.said)
    return None if reported == wanted else f"it reported {reported:,} topics of {wanted:,}"
