"""Resuming a run that was ended: only on the same machine. All other differences are recorded in the result."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.runs.results import Result

__all__ = ["later_words", "note_resumption", "resumed"]

_GIB: Final = 1 << 30
_MEMORY_SHARE: Final = 0.02
"""Kernels reserve a little memory for themselves, and not always the same amount."""
_MACHINE: Final = {
    "cpu": "processor",
    "cpus": "processors",
    "cpus_usable": "processors that may be used",
    "kernel": "kernel",
}
_VERSIONS: Final = ("commit", "is_dirty", "python", "java", "sqlite", "libraries")
_RESUMED: Final = "resumed_with"
_SHORT: Final = 12


def resumed(result: Result, before: Result, other: str) -> Result:
    """Return the result of the earlier run to go on with; it drops measurements that met a wall, to repeat them.

    Args: other - the option by which the user may begin another run.
    Raises: BenchmarkError - they cannot be one run.
    """
    if before.program != result.program or before.terms != result.terms:
        raise BenchmarkError(f"the earlier run had other terms: give the same options, or another {other}")
    note_resumption(before, result.environment, other)
    before.measurements = [each for each in before.measurements if each.wall is None]
    before.is_complete = False
    return before


def note_resumption(before: Result, environment: Mapping[str, Any], other: str) -> None:
    """Record in a result that a run goes on in this environment.

    Args: other - what the user may give to begin another run.
    Raises: BenchmarkError - the run began on another machine, whose figures would stand beside those of this one.
    """
    if differences := list(_machine_differences(before.environment, environment)):
        raise BenchmarkError(
            f"the earlier run began on another machine: {'; '.join(differences)}: resume it there, or give "
            f"another {other}"
        )
    versions = {name: environment[name] for name in _VERSIONS if name in environment}
    resumed: list[dict[str, Any]] = before.environment.setdefault(_RESUMED, [])
    # Uncommitted changes may differ each time, also on the same commit.
    is_other = versions.get("is_dirty") or _differs(before.environment, versions)
    if is_other and all(_differs(each, versions) for each in resumed):
        resumed.append(versions)


def later_words(environment: Mapping[str, Any]) -> str:
    """Return the other versions that a run was resumed with, or nothing; it ends a line on what the run began with."""
    # An older version recorded only the commits.
    versions = [f"at {commit[:_SHORT]}" for commit in environment.get("resumed_on", []) if commit]
    versions += ["; ".join(_later(environment, each)) for each in environment.get(_RESUMED, [])]
    return "".join(f", gone on with {words}" for words in versions)


def _later(environment: Mapping[str, Any], later: Mapping[str, Any]) -> Iterator[str]:
    if later["is_dirty"] or environment["is_dirty"] or later["commit"] != environment["commit"]:
        yield f"at {(later['commit'] or 'none')[:_SHORT]}{' with changes' if later['is_dirty'] else ''}"
    for name in ("python", "java", "sqlite"):
        if later.get(name) != environment.get(name):
            yield f"on {name} {later.get(name) or 'none'}"
    libraries, others = environment.get("libraries", {}), later.get("libraries", {})
    for name in sorted({*libraries, *others}):
        if libraries.get(name) != others.get(name):
            yield f"with {name} {others.get(name, 'missing')}"


def _machine_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name, title in _MACHINE.items():
        if name in before and name in now and before[name] != now[name]:
            yield f"{title} {before[name]} then, {now[name]} here"
    if "memory_bytes" in before and "memory_bytes" in now:
        then, here = before["memory_bytes"], now["memory_bytes"]
        if abs(then - here) > _MEMORY_SHARE * then:
            yield f"memory {then / _GIB:.1f} GiB then, {here / _GIB:.1f} here"


def _differs(environment: Mapping[str, Any], versions: Mapping[str, Any]) -> bool:
    return any(name in environment and environment[name] != value for name, value in versions.items())
