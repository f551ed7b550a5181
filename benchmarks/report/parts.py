"""A report of some results: each part with its terms above and its tables below, those that fit each other together."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from hedwig.benchmarks.report.compare.terms import term_differences
from hedwig.benchmarks.report.findings.metadata import metadata_sections
from hedwig.benchmarks.report.findings.others import bar_sections, cas_sections, listing_sections, takeover_sections
from hedwig.benchmarks.report.page import Chart, Page, Section, Table
from hedwig.benchmarks.report.tables import tables_of
from hedwig.benchmarks.report.terms import details, facts
from hedwig.benchmarks.runs.results import Result
from hedwig.benchmarks.runs.words import driver_title
from hedwig.benchmarks.suites.cas.tables import PROGRAM as CAS
from hedwig.benchmarks.suites.commands.listing_tables import PROGRAM as LISTING
from hedwig.benchmarks.suites.metadata.tables import PROGRAM as METADATA
from hedwig.benchmarks.suites.takeover.tables import PROGRAM as TAKEOVER

__all__ = ["report_page"]

_SECTIONS: Final[dict[str, Callable[[Result], list[Section]]]] = {
    CAS: cas_sections,
    LISTING: listing_sections,
    METADATA: metadata_sections,
    TAKEOVER: takeover_sections,
}
_HOW: Final = (
    (
        "64 in flight",
        "a closed loop: an operation begins when another has ended, as fast as it goes",
    ),
    (
        "500/s offered",
        "a load that does not wait; times count from when an operation should have begun",
    ),
    (
        "Better",
        "the 95 % interval of the ratio, from the rounds of this run, does not hold 1; of 100 such verdicts about five "
        "are wrong by chance",
    ),
    (
        "Nobody is called better",
        "by fewer than 30 operations, a closed loop of less than a second, or a 99th percentile of fewer than 1,000 "
        "times in a round; where more than 1 % of a side's operations failed; where the client or the machine may have "
        "held the slower side back, or nobody knows whether it did",
    ),
    ("A factor", "the geometric mean of the rounds' factors, where it is not one of a percentile"),
    (
        "A factor of a percentile",
        "“over all”, by all rounds' times together, as the figures beside it are; its rounds may lie elsewhere, and "
        "say only how sure it is. Where a side is better in the rounds and not over all, by 2 % at least, nobody is "
        "called better",
    ),
    (
        "Ahead over all sizes",
        "in more rounds than chance has it once in twenty (the sign test), in percentiles also over all at more sizes "
        "than not. Rounds of one run have servers and an hour in common: another run may say otherwise of what is "
        "near. Percentiles have no mean there, but a range “by size”: the least and the greatest factor of a size, "
        "which is below 1 where that side was behind",
    ),
)


def report_page(results: Sequence[tuple[str, Result]]) -> Page:
    """Return the report of named results."""
    parts = _together(results)
    sections: list[Section] = []
    for names, result in parts:
        sections += _part(names, result, is_only=len(parts) == 1)
    # Behind what the first part has in short, if it has that, and its terms.
    first = 2 if sections and parts[0][1].program == METADATA else 1
    sections.insert(first, Section(title="How to read it", facts=_HOW))
    return Page(title=_title([result for _, result in parts]), says=[], sections=_named_apart(sections))


def _part(names: str, result: Result, *, is_only: bool) -> list[Section]:
    terms = "Equal terms: what holds for every number below" if is_only else f"{result.program}: {names}"
    found = _SECTIONS.get(result.program, bar_sections)(result)
    # What a part comes to in short has no numbers of a case yet, and may stand above the terms.
    found.insert(1 if result.program == METADATA else 0, Section(title=terms, facts=facts(names, result)))
    tables = [Table(title=name, columns=columns, lines=lines) for name, columns, lines in tables_of(result) if lines]
    if tables:
        found.append(Section(title="All figures", tables=tables, is_folded=True))
    again = details(result)
    return [*found, again] if again is not None else found


def _together(results: Sequence[tuple[str, Result]]) -> list[tuple[str, Result]]:
    """Return the results, those on metadata that go on where another one left off as one with it.

    They must hold for the same terms, and have no case in common: two runs of one case are to be compared, not mixed.
    """
    found: list[tuple[str, Result]] = []
    for name, result in results:
        for index, (names, other) in enumerate(found):
            if result.program == METADATA and _fit(other, result):
                merged = replace(
                    other,
                    measurements=[*other.measurements, *result.measurements],
                    is_complete=other.is_complete and result.is_complete,
                )
                found[index] = (f"{names} and {name}", merged)
                break
        else:
            found.append((name, result))
    return found


def _fit(first: Result, second: Result) -> bool:
    if any(difference.forbids for difference in term_differences(first, second)):
        return False
    return not _cases(first) & _cases(second)


def _cases(result: Result) -> set[str]:
    return {
        json.dumps([each.on, each.driver, each.workload.to_json() | {"seed": None}], sort_keys=True)
        for each in result.measurements
    }


def _title(results: Sequence[Result]) -> str:
    programs = list(dict.fromkeys(result.program for result in results))
    if programs == [METADATA]:
        backends = dict.fromkeys(driver_title(each.driver) for result in results for each in result.measurements)
        return f"Metadata as topics grow: {', '.join(backends)}"
    return f"What was measured: {', '.join(programs)}"


def _named_apart(sections: Sequence[Section]) -> list[Section]:
    """Return sections of which no two charts have the same name, since each becomes a file."""
    used: dict[str, int] = {}
    found = []
    for section in sections:
        charts: list[Chart] = []
        for chart in section.charts:
            used[chart.name] = used.get(chart.name, 0) + 1
            charts.append(replace(chart, name=f"{chart.name}-{used[chart.name]}") if used[chart.name] > 1 else chart)
        found.append(replace(section, charts=charts))
    return found
