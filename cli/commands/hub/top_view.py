"""What `top` draws, within the size of the terminal: the sum of all hubs, a line for each hub, and the keys."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hedwig.human_units import counted
from hedwig.operations.deployment.hub_survey import HubReading, TopicReading

__all__ = ["SORT_KEYS", "TopOrder", "TopView"]

SORT_KEYS: Final[Mapping[str, str]] = {
    "hub": "hub",
    "topics": "topics",
    "subscriptions": "attached_subscriptions",
    "publishes": "publishes_per_s",
    "deliveries": "deliveries_per_s",
    "lag": "attached_lag_messages",
    "conflicts": "conflicts_per_s",
}
"""The columns by which hubs can be sorted, and their fields in a reading. The first letter is the key to press."""

_COLUMNS: Final = (
    ("TOPICS", "topics"),
    ("SUBS", "attached_subscriptions"),
    ("PUB/S", "publishes_per_s"),
    ("DELIV/S", "deliveries_per_s"),
    ("LAG", "attached_lag_messages"),
    ("CAS-/S", "conflicts_per_s"),
)
_UNITS: Final = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))
_KEYS: Final = "q quit  r reverse  sort: [h]ub [t]opics [s]ubs [p]ub [d]eliv [l]ag [c]onflicts"
_FIXED_LINES: Final = 6
"""Lines that show no hub: title, trouble, names of columns, sum, what is left out, keys."""


@dataclass(frozen=True, slots=True)
class TopOrder:
    """How hubs are sorted. Names ascend and numbers descend, unless `is_reversed`."""

    key: str = "hub"
    is_reversed: bool = False

    def sorted(self, readings: Sequence[HubReading]) -> list[HubReading]:
        """Return the readings in this order. Unknown values come last."""
        field = SORT_KEYS[self.key]
        if field == "hub":
            return sorted(readings, key=lambda reading: _name_key(reading.hub), reverse=self.is_reversed)
        known = [reading for reading in readings if getattr(reading, field) is not None]
        unknown = [reading for reading in readings if getattr(reading, field) is None]
        return sorted(known, key=attrgetter(field), reverse=not self.is_reversed) + unknown


@dataclass(frozen=True, slots=True)
class TopView:
    """One picture: the readings, the order of their hubs, an error, and the busiest topics if the user wants them."""

    readings: Sequence[HubReading]
    order: TopOrder
    trouble: str | None
    every_s: float
    topics: Sequence[TopicReading] = ()

    def render(self, width: int, height: int) -> RenderableType:
        """Return the picture for a terminal of `width` columns and `height` lines."""
        title = Text(
            f"hedwig-admin top  {time.strftime('%H:%M:%S')}  {counted(len(self.readings), 'hub')}, every "
            f"{self.every_s:g} s, by {self.order.key}{' reversed' if self.order.is_reversed else ''}",
            style="bold",
        )
        lines: list[RenderableType] = [title, Text(self.trouble or self._hindrance(), style="red")]
        topics = self.topics[: max(0, height - _FIXED_LINES - 3)]
        room = max(1, height - _FIXED_LINES - (len(topics) + 1 if topics else 0))
        shown = self.order.sorted(self.readings)[:room]
        lines.append(self._table(shown, width))
        left_out = len(self.readings) - len(shown)
        lines.append(Text(f"and {counted(left_out, 'more hub')}" if left_out else ""))
        if topics:
            lines.append(self._topics_table(topics, width))
        lines.append(Text(_KEYS, style="dim"))
        for line in lines:
            if isinstance(line, Text):
                line.no_wrap = True
                line.truncate(width, overflow="ellipsis")
        return Group(*lines)

    def _hindrance(self) -> str:
        """Return the trouble of the first hub that has any."""
        for reading in self.readings:
            if reading.why:
                # A line of the terminal has no room to name the hub twice.
                return reading.why if reading.hub in reading.why else f"{reading.hub}: {reading.why}"
        return ""

    def _table(self, shown: Sequence[HubReading], width: int) -> Table:
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, width=width, header_style="reverse")
        table.add_column("HUB", no_wrap=True, overflow="ellipsis", ratio=1)
        table.add_column("STATE", no_wrap=True)
        for title, _ in _COLUMNS:
            table.add_column(title, no_wrap=True, justify="right")
        table.add_row("all", "", *(_number(self._sum(field)) for _, field in _COLUMNS), style="bold")
        for reading in shown:
            is_well = reading.state in ("serving", "original")
            numbers = (_number(getattr(reading, field)) for _, field in _COLUMNS)
            table.add_row(Text(reading.hub), reading.state, *numbers, style="" if is_well else "yellow")
        return table

    def _topics_table(self, topics: Sequence[TopicReading], width: int) -> Table:
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, width=width, header_style="reverse")
        table.add_column("TOPIC", no_wrap=True, overflow="ellipsis", ratio=1)
        table.add_column("HUB", no_wrap=True)
        for title in ("SUBS", "PUB/S", "LAG"):
            table.add_column(title, no_wrap=True, justify="right")
        for each in topics:
            numbers = (each.attached, each.publishes_per_s, each.attached_lag_messages)
            table.add_row(Text(each.topic), Text(each.hub), *(_number(number) for number in numbers))
        return table

    def _sum(self, field: str) -> float | None:
        numbers = [getattr(reading, field) for reading in self.readings]
        known = [number for number in numbers if number is not None]
        return sum(known) if known else None


def _number(value: float | None) -> str:
    """Return a number in at most seven characters."""
    if value is None:
        return "-"
    for unit, letter in _UNITS:
        if value >= unit:
            return f"{value / unit:.1f}{letter}"
    if isinstance(value, int) or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}"


def _name_key(hub: str) -> tuple[str, int]:
    host, _, port = hub.rpartition(":")
    return host, int(port) if port.isdecimal() else 0
