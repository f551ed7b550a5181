"""A report of some results. Each part has its terms above and its tables below; results that fit share a part."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hedwig.benchmarks.charts.sections import Chart, Section
from hedwig.benchmarks.report.compare.terms import term_differences
from hedwig.benchmarks.report.page import Page
from hedwig.benchmarks.report.terms import details, facts
from hedwig.benchmarks.runs.results import Result
from hedwig.benchmarks.suites.registry import suite_of

__all__ = ["report_page"]

_HOW: Final = (
    ("64 in flight", "a closed loop: an operation begins when another has ended, as fast as it goes"),
    ("500/s offered", "a load that does not wait; times count from when an operation should have begun"),
    (
        "A ratio",
        "of rates, the geometric mean of the rounds' ratios; of percentiles, that of all times together",
    ),
    ("Its interval", "holds the ratio of the rounds in 95 of 100 such cases; one that holds 1 is within the noise"),
)


def report_page(results: Sequence[tuple[str, Result]]) -> Page:
    """Return the report of named results. Raises BenchmarkError - a result is of an unknown program."""
    parts = _together(results)
    sections: list[Section] = []
    for names, result in parts:
        sections += _part(names, result, is_only=len(parts) == 1)
    sections.insert(1, Section(title="How to read it", facts=_HOW))
    programs = dict.fromkeys(result.program for _, result in parts)
    return Page(title=f"What was measured: {', '.join(programs)}", sections=_named_apart(sections))


def _part(names: str, result: Result, *, is_only: bool) -> list[Section]:
    suite = suite_of(result.program)
    terms = "Equal terms: what holds for every number below" if is_only else f"{result.program}: {names}"
    tables = [each for each in suite.tables(result.measurements) if each.lines]
    sections = [
        Section(title=terms, facts=facts(names, result)),
        *suite.charts(result),
        Section(title="All figures", tables=tables, is_folded=True),
        *details(result),
    ]
    return [section for section in sections if section.facts or section.charts or section.tables]


def _together(results: Sequence[tuple[str, Result]]) -> list[tuple[str, Result]]:
    """Return the results, merged where one continues another.

    Merged results hold for the same terms and have no case in common. Two runs of one case are to be compared, not
    mixed.
    """
    combined: list[tuple[str, Result]] = []
    for name, result in results:
        for index, (names, other) in enumerate(combined):
            if _fit(other, result):
                merged = replace(
                    other,
                    measurements=[*other.measurements, *result.measurements],
                    is_complete=other.is_complete and result.is_complete,
                )
                combined[index] = (f"{names} and {name}", merged)
                break
        else:
            combined.append((name, result))
    return combined


def _fit(first: Result, second: Result) -> bool:
    if any(difference.forbids for difference in term_differences(first, second)):
        return False
    if first.terms.get("label") != second.terms.get("label"):
        return False  # The part says how its numbers came about, once for all.
    return not _cases(first) & _cases(second)


def _cases(result: Result) -> set[str]:
    return {
        json.dumps([each.on, each.driver, each.workload.to_json() | {"seed": None}], sort_keys=True)
        for each in result.measurements
    }


def _named_apart(sections: Sequence[Section]) -> list[Section]:
    """Return the sections with charts renamed so that no two share a name, since each chart becomes a file."""
    used: dict[str, int] = {}
    renamed = []
    for section in sections:
        charts: list[Chart] = []
        for chart in section.charts:
            used[chart.name] = used.get(chart.name, 0) + 1
            charts.append(replace(chart, name=f"{chart.name}-{used[chart.name]}") if used[chart.name] > 1 else chart)
        renamed.append(replace(section, charts=charts))
    return renamed
