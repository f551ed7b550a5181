"""The facts above all numbers of a report: durability, heaps, machine, versions, commit and seed of each result."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hedwig.benchmarks.charts.sections import Section, TextTable
from hedwig.benchmarks.runs.results import Result
from hedwig.benchmarks.runs.resumption import later_words

__all__ = ["details", "facts"]

_GIB: Final = 1 << 30
_STAGES: Final = ("synced", "unsynced")
_APART: Final = frozenset({*_STAGES, "workloads", "sizes", "seed", "rounds", "label"})
_SHORT: Final = 12
_REACHED: Final = " is reached: "


def facts(names: str, result: Result) -> list[tuple[str, str]]:
    """Return the facts that hold for all numbers of a result, each with its name."""
    machine = result.environment
    rows = [("Result", f"{names}: {result.program}, started {result.started}")]
    if not result.is_complete:
        rows.append(("Not finished", "the run was ended early; what it had measured by then is here"))
    if label := result.terms.get("label"):
        rows.append(("Label", str(label)))
    rows += _durabilities(result.terms)
    rows += [(_title(name), _word(value)) for name, value in result.terms.items() if name not in _APART]
    gib = machine["memory_bytes"] / _GIB
    rows.append(
        (
            "Machine",
            f"{machine['cpus']} processors ({machine['cpu']}), {gib:.0f} GiB, {machine['disk_syncs_per_s']:,.0f} "
            f"synced appends of 4 KiB a second; {machine['kernel']}; load average {machine['load_average']:.1f} before",
        )
    )
    libraries = ", ".join(f"{name} {version}" for name, version in machine["libraries"].items())
    rows.append(
        (
            "Versions",
            f"{machine['python']}, SQLite {machine['sqlite']}, Java: {machine['java'] or 'none'}; {libraries}",
        )
    )
    dirty = " with changes" if machine["is_dirty"] else ""
    rows.append(("Commit", f"{(machine['commit'] or 'none')[:_SHORT]}{dirty}{later_words(machine)}"))
    rounds = result.terms.get("rounds", result.terms.get("sizes", {}).get("rounds"))
    rows.append(("Seed", f"{result.terms.get('seed', 'none')}; rounds: {rounds if rounds is not None else 'unknown'}"))
    return rows


def details(result: Result) -> list[Section]:
    """Return what a reader needs to repeat a run: what each workload does, sizes, the virtual machines' flags."""
    tables = [
        TextTable(title, columns, lines)
        for title, columns, lines in (
            ("Workloads", ("name", "one operation"), list(_pairs(result.terms.get("workloads")))),
            ("Sizes", ("name", "value"), list(_pairs(result.terms.get("sizes")))),
            (
                "Flags of the virtual machines",
                ("of", "flags; of two that contradict, the last one counts"),
                list(_flags(result.environment.get("jvm_flags"))),
            ),
        )
        if lines
    ]
    return [Section(title="To repeat it: workloads, sizes, flags", tables=tables, is_folded=True)]


def _durabilities(terms: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what an acknowledged write has survived in each kind of stage, and what else holds for that stage.

    How a backend is reached takes many words, so it has a line of its own. A clause that one kind of stage has shown
    is not repeated for the next.
    """
    rows: list[tuple[str, str]] = []
    shown: set[str] = set()
    for name in (name for name in _STAGES if name in terms):
        clauses = [clause for clause in str(terms[name]).split("; ") if clause not in shown]
        shown.update(clauses)
        own = [clause for clause in clauses if _REACHED not in clause]
        rest = "; all else as above" if rows else ""
        rows.append((f"Durability and heaps, {name}", "; ".join(own) + rest))
        for clause in clauses:
            backend, reached, how = clause.partition(_REACHED)
            if reached:
                rows.append((f"How {backend} is reached", how))
    return rows


def _pairs(values: Any) -> Iterator[list[str]]:
    if isinstance(values, Mapping):
        for name, value in values.items():
            yield [str(name), _word(value)]


def _flags(values: Any) -> Iterator[list[str]]:
    if isinstance(values, Mapping):
        for durability, servers in values.items():
            for server, flags in servers.items():
                yield [f"{durability}: {server}", " ".join(flags)]


def _title(name: str) -> str:
    return name[:1].upper() + name[1:]


def _word(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_word(each)}" for name, each in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(_word, value)) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
