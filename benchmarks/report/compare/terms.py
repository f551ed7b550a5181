"""The terms that two results must share before their numbers may be compared."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hedwig.benchmarks.runs.results import Result

__all__ = ["TermDifference", "term_differences"]

_GIB: Final = 1 << 30
_NOTED: Final = frozenset({"label", "rounds", "seed", "closed loops", "generator processes", "workloads"})
"""Terms that may differ. The comparison accounts for rounds. The others change what was done, not on what."""
_NOTED_SIZES: Final = frozenset(
    {
        *("topics", "subscribers", "unsynced_topics", "rounds", "operations"),
        *("seconds", "offered_seconds", "warmup_s", "fill_min_s", "fill_per_s_min", "fill_max_s"),
    }
)
_SYNC_RATES: Final = 2.0
"""The factor by which one disk may be faster than the other before the comparison mentions it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TermDifference:
    """A term that differs between the sides. `forbids`: a ratio of the sides would measure this difference too."""

    name: str
    first: str
    second: str
    forbids: bool

    def __str__(self) -> str:
        return f"{self.name}: {self.first} | {self.second}"


def term_differences(first: Result, second: Result) -> list[TermDifference]:
    """Return what differs between two results apart from their measurements. What forbids a comparison comes first."""
    differences = [*_of_program(first, second), *_of_terms(first.terms, second.terms), *_of_machine(first, second)]
    return sorted(differences, key=lambda each: not each.forbids)


def _of_program(first: Result, second: Result) -> Iterator[TermDifference]:
    yield from _differing("program", first.program, second.program, forbids=True)
    yield from _differing("is complete", first.is_complete, second.is_complete, forbids=False)


def _of_terms(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[TermDifference]:
    for name in dict.fromkeys((*first, *second)):
        mine, other = first.get(name), second.get(name)
        if name == "workloads" and isinstance(mine, Mapping) and isinstance(other, Mapping):
            for workload in mine.keys() & other.keys():
                yield from _differing(f"the workload {workload}", mine[workload], other[workload], forbids=True)
        elif name == "sizes" and isinstance(mine, Mapping) and isinstance(other, Mapping):
            for size in dict.fromkeys((*mine, *other)):
                yield from _differing(size, mine.get(size), other.get(size), forbids=size not in _NOTED_SIZES)
        elif name in ("synced", "unsynced"):
            yield from _of_stage(name, mine, other)
        else:
            yield from _differing(name, mine, other, forbids=name not in _NOTED)


def _of_stage(name: str, first: str | None, second: str | None) -> Iterator[TermDifference]:
    """Compare the terms of stages of one durability: a sentence for all servers, and one for each server that ran."""
    if first is None or second is None:
        # No case of such a stage is compared, so the difference forbids nothing.
        yield from _differing(f"{name} stages", first is not None, second is not None, forbids=False)
        return
    mine, other = _sentences(first), _sentences(second)
    for what in dict.fromkeys((*mine, *other)):
        both = what in mine and what in other
        label = f"{name}, {what}" if what else name
        yield from _differing(label, mine.get(what), other.get(what), forbids=both)


def _sentences(said: str) -> dict[str, str]:
    """Return the sentences of a term by the server that they begin with. The empty name has those for all servers."""
    by_server: dict[str, str] = {}
    for sentence in said.split("; "):
        name, colon, rest = sentence.partition(": ")
        key = name.split(" ")[0] if colon else ""
        by_server[key] = (
            f"{by_server[key]}; {sentence}" if key in by_server else (f"{name}: {rest}" if colon else sentence)
        )
    return by_server


def _of_machine(first: Result, second: Result) -> Iterator[TermDifference]:
    mine, other = first.environment, second.environment
    for name in ("cpu", "cpus", "cpus_usable"):
        yield from _differing(name, mine.get(name), other.get(name), forbids=True)
    memory = [f"{environment['memory_bytes'] / _GIB:.0f} GiB" for environment in (mine, other)]
    yield from _differing("memory", *memory, forbids=True)
    for name in ("kernel", "python", "java", "sqlite", "commit", "is_dirty"):
        yield from _differing(name, mine.get(name), other.get(name), forbids=False)
    libraries = mine.get("libraries", {}), other.get("libraries", {})
    for name in dict.fromkeys((*libraries[0], *libraries[1])):
        yield from _differing(name, libraries[0].get(name), libraries[1].get(name), forbids=False)
    rates = [environment["disk_syncs_per_s"] for environment in (mine, other)]
    if max(rates) > _SYNC_RATES * min(rates):
        shown = [f"{rate:,.0f}/s" for rate in rates]
        yield from _differing("synced appends of the disk", *shown, forbids=False)


def _differing(name: str, first: Any, second: Any, *, forbids: bool) -> Iterator[TermDifference]:
    if first != second:
        yield TermDifference(name=name, first=_word(first), second=_word(second), forbids=forbids)


def _word(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_word, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)
