"""The page about benchmark results over their runs, for people."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from hedwig.pipeline.audit.page import Chart, Lines, Page, Section, curves, html

__all__ = ["bench_html"]

_SIDES_MAX = 7


def bench_html(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the page; `rows` are those of `medians`."""
    by_subject: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_subject[row["program"], row["workload"]].append(row)
    sections = [_section(f"{program}: {workload}", of) for (program, workload), of in sorted(by_subject.items())]
    runs = len({row["file"] for row in rows})
    return html(Page(title="Benchmark results over their runs", facts=[("runs", str(runs))], sections=sections))


def _section(title: str, rows: Sequence[Mapping[str, Any]]) -> Section:
    columns = (
        *("started", "file", "driver", "place", "topics", "in_flight", "details"),
        *("rounds", "rate_per_s", "p50_ms", "p99_ms", "peak_bytes"),
    )
    lines = [[_cell(row[name]) for name in columns] for row in rows]
    words = [name.replace("_", " ") for name in columns]
    what = "Rounds taken together: median rates, percentiles of all response times"
    return Section(title=title, charts=_charts(rows), tables=[Lines(title=what, columns=words, lines=lines)])


def _charts(rows: Sequence[Mapping[str, Any]]) -> list[Chart]:
    """Return a picture of the rates over the runs, if there are several runs of the same."""
    sides: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for row in rows:
        if row["rate_per_s"] is not None:
            side = f"{row['driver']}, {row['place']}, {row['topics']:,} topics, {row['in_flight']} in flight"
            side = f"{side}, {row['details']}" if row["details"] else side
            sides[side].append((row["started"][:16], row["rate_per_s"]))
    over_runs = {side: points for side, points in sides.items() if len(points) > 1}
    if not over_runs:
        return []
    most = sorted(over_runs, key=lambda side: -len(over_runs[side]))[:_SIDES_MAX]
    says = "Rate of each side over the runs"
    if len(over_runs) > len(most):
        says += f"; the {len(most)} that were measured most often, of {len(over_runs)}"
    return [curves({side: over_runs[side] for side in most}, says=says, axis="operations a second")]


def _cell(value: Any) -> str:
    match value:
        case None:
            return "–"
        case float():
            return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
        case int():
            return f"{value:,}"
        case _:
            return str(value)
