"""The page of an audit, for people."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hedwig.pipeline.audit.audit import AuditFigures
from hedwig.pipeline.audit.page import Chart, Lines, Page, Section, bars, html

__all__ = ["audit_html"]

_BARS: Final = 20


def audit_html(figures: AuditFigures, facts: Sequence[tuple[str, str]]) -> str:
    """Return the page; `facts` say what was audited."""
    counts = [(name, f"{number:,}") for name, number in figures.rows.items()]
    sections = [_findings(figures), *_hubs(figures), _backlogs(figures), _fan_outs(figures)]
    return html(Page(title="Audit of Hedwig's metadata", facts=[*facts, *counts], sections=sections))


def _findings(figures: AuditFigures) -> Section:
    total = sum(figures.findings.values())
    says = [f"{total:,} findings." if total else "No findings of the kinds that were looked for."]
    says += [f"Not looked for: {kind}; {why}." for kind, why in figures.unchecked.items()]
    chart = bars(figures.findings, says="Findings of each kind, on a logarithmic scale", axis="findings", is_log=True)
    tables = []
    if figures.examples:
        names = ("kind", "topic", "subscriber", "what")
        lines = [[str(row[name] if row[name] is not None else "") for name in names] for row in figures.examples]
        tables.append(Lines(title="The first of each kind; all are in the folder findings", columns=names, lines=lines))
    return Section(title="Findings", says=says, charts=[chart], tables=tables)


def _hubs(figures: AuditFigures) -> list[Section]:
    if not figures.hubs:
        return []
    hubs = figures.hubs[:_BARS]
    dead = [hub["hub"] for hub in hubs if hub["is_alive"] is False]
    if figures.skew is None:
        says = ["None of them owns a topic."]
    else:
        says = [f"The largest has {figures.skew:.2f} times the mean of all that are named."]
    if dead:
        says.append("Hubs in orange are not alive: the next hub that a client asks takes over their topics.")
    chart = bars(
        {hub["hub"]: hub["topics"] for hub in hubs}, says="Topics that each hub owns", axis="topics", marked=dead
    )
    return [
        Section(title="Ownership", says=says, charts=[chart], tables=[_table("Hubs, most topics first", figures.hubs)])
    ]


def _backlogs(figures: AuditFigures) -> Section:
    says = [
        "The backlog of a topic is what its slowest subscriber has not consumed. Beside it is the sum of all lags.",
        f"{figures.open_topics:,} topics have an open last ledger, so their records do not say where they end. For "
        f"{figures.answered_topics:,} of them the ledger said where, a moment after the records were read. "
        "Their hubs may have written more since, so the figures of these topics are lower bounds.",
        *(f"{each['ledgers']:,} ledgers gave no answer: {each['why']}." for each in figures.unanswered),
    ]
    if figures.open_topics and not figures.is_asked:
        says.append("Ledgers were not asked; --data DIR or --bookkeeper URL says where they are.")
    charts = [
        _spread(figures, "messages that a subscription lags", "subscriptions"),
        _spread(figures, "messages of its backlog", "topics"),
    ]
    tables = [_table("Largest backlogs", figures.backlogs), _table("Subscriptions that lag most", figures.lags)]
    return Section(title="Lag and backlog", says=says, charts=charts, tables=tables)


def _fan_outs(figures: AuditFigures) -> Section:
    charts = [
        _spread(figures, "subscriptions of a topic", "topics"),
        _spread(figures, "ledgers of a topic", "topics"),
    ]
    return Section(title="Fan-out", charts=charts, tables=[_table("Most subscriptions", figures.fan_outs)])


def _spread(figures: AuditFigures, what: str, of: str) -> Chart:
    classes = {_class_text(least): rows for least, rows in figures.spread[what]}
    return bars(
        classes, says=f"How many {of} there are for each number of {what}, on a logarithmic scale", axis=of, is_log=True
    )


def _class_text(least: int) -> str:
    return str(least) if least < 2 else f"{least:,} – {2 * least - 1:,}"


def _table(title: str, rows: Sequence[Mapping[str, Any]]) -> Lines:
    columns = list(rows[0]) if rows else ["nothing"]
    return Lines(title=title, columns=[name.replace("_", " ") for name in columns], lines=[_cells(row) for row in rows])


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [_cell(value) for value in row.values()]


def _cell(value: Any) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.3g}"
        case _:
            return str(value)
