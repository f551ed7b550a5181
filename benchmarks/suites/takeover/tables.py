"""The tables of `hedwig-bench takeover`: how long topics were not served, how other topics suffered, and the cost."""

from collections.abc import Sequence
from typing import Final

from hedwig.benchmarks.charts.sections import TextTable
from hedwig.benchmarks.runs.cells import median, median_value, percentiles
from hedwig.benchmarks.runs.figures import Figure, less, percentile_figures
from hedwig.benchmarks.runs.results import Measurement, alike
from hedwig.benchmarks.runs.rounds import merged
from hedwig.benchmarks.suites.takeover.record import PHASES

__all__ = ["takeover_figures", "takeover_tables"]

_AWAY: Final = ("topics", "asked for", "seconds: first / p50 / p99 / last", "of rounds: last")
_FELT: Final = ("publishes to topics of", "phase", "publishes", "ms: p50 / p99 / p99.9 / max")
_COST: Final = (
    "phase",
    "claims/s",
    "HBase calls/s",
    "HBase row actions/s",
    "ZooKeeper requests/s",
    "processors: region server / ZooKeeper / bookies / other hubs / client",
    "failed attempts",
)
_PEAK: Final = "peak"
_COUNTERS: Final = ("claims", "hbase", "hbase_rows", "zookeeper")
_ROLES: Final = ("regionserver", "zookeeper", "bookie", "hubs", "client")


def takeover_tables(measurements: Sequence[Measurement]) -> list[TextTable]:
    """Return the tables of each storm. A storm that met a wall says so."""
    tables: list[TextTable] = []
    groups = alike(measurements)
    for rounds in groups:
        good = [each for each in rounds if each.count]
        own: list[TextTable] = [_away(good), _felt(good), _cost(good)] if good else []
        if walls := [[f"{each.round}", each.wall] for each in rounds if each.wall is not None]:
            own.append(TextTable("what went wrong", ("round", "why"), walls))
        of = f"{rounds[0].on}, {rounds[0].workload.topics:,} topics: " if len(groups) > 1 else ""
        tables += [table._replace(title=f"{of}{table.title}") for table in own]
    return tables


def _away(good: Sequence[Measurement]) -> TextTable:
    lines = []
    used = median(good, lambda each: each.values["used_of_killed"] + each.values["asked_of_killed"], "{:,.0f}")
    for what, name, count in (("served again", "served", used), ("delivered to again", "delivered", "")):
        histogram = merged(good, name)
        if histogram.count:
            lasts = [each.histograms[name].max_us / 1e6 for each in good if each.histograms[name].count]
            shown = (*(histogram.percentile_us(percentile) for percentile in (0, 50, 99)), histogram.max_us)
            lines.append(
                [
                    what,
                    count or f"{histogram.count / len(good):,.0f}",
                    " / ".join(f"{us / 1e6:.2f}" for us in shown),
                    f"{min(lasts):.2f} – {max(lasts):.2f}" if len(lasts) > 1 else "1 round",
                ]
            )
    if owned := [each for each in good if "all_owned_s" in each.values]:
        seconds = [each.values["all_owned_s"] for each in owned]
        lines.append(
            [
                "owned again, asked for or not",
                median(owned, lambda each: each.values["owned_by_killed"], "{:,.0f}"),
                f"– / – / – / {max(seconds):.2f}",
                f"{min(seconds):.2f} – {max(seconds):.2f}" if len(seconds) > 1 else "1 round",
            ]
        )
    timeout = median(good, lambda each: each.values["session_timeout_s"], "{:g}")
    return TextTable(f"topics of the killed hub, session timeout {timeout} s", _AWAY, lines)


def _felt(good: Sequence[Measurement]) -> TextTable:
    lines = []
    for whose, name in (("the other hubs", "others"), ("the killed hub", "own")):
        for phase in PHASES:
            histogram = merged(good, f"{name}_{phase}")
            if histogram.count:
                lines.append([whose, phase, f"{histogram.count:,}", percentiles(histogram)])
    return TextTable("what publishers felt: times from when a message should have been published", _FELT, lines)


def _cost(good: Sequence[Measurement]) -> TextTable:
    lines: list[list[str]] = []
    for phase in (*PHASES, _PEAK):
        rates = [median_value(good, f"{counter}_per_s_{phase}", "{:,.0f}") for counter in _COUNTERS]
        if phase == _PEAK:
            lines.append(["peak, during", *rates, "–", "–"])
        else:
            used = (median_value(good, f"{role}_cores_{phase}", "{:.2f}") for role in _ROLES)
            lines.append([phase, *rates, " / ".join(used), _failures(good, phase)])
    return TextTable("what it cost the stores", _COST, lines)


def _failures(good: Sequence[Measurement], phase: str) -> str:
    prefix = f"errors_{phase}_"
    names = sorted({name for each in good for name in each.values if name.startswith(prefix)})
    if not names:
        return "0"
    return ", ".join(f"{sum(each.values.get(name, 0) for each in good):,.0f} {name[len(prefix) :]}" for name in names)


def takeover_figures(measured: Sequence[Measurement]) -> list[Figure]:
    """Return how long topics were not served, and the response times of their publishers."""
    shown = [less("s until all topics were served", measured, lambda each: each.values["all_served_s"], "{:,.2f}")]
    for name, what in (("served", "served again"), ("delivered", "delivered to again"), ("own_during", "publish")):
        shown += percentile_figures(measured, name, what=what, form="{:,.0f}")
    return shown
