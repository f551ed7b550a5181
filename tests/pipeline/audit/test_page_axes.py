"""Prove that the axes of a page's pictures have whole numbers, each once, also if there is nothing to draw."""

from collections.abc import Callable
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from hedwig.pipeline.audit import page


def _labels(monkeypatch: pytest.MonkeyPatch, draw: Callable[[], object], axis: str) -> list[str]:
    """Return the labels along an axis of the picture that `draw` makes."""
    figure = Figure()
    canvas = FigureCanvasAgg(figure)
    monkeypatch.setattr(page, "_drawn", lambda drawing, *_: drawing(figure.subplots()))
    draw()
    canvas.draw()  # type: ignore[no-untyped-call]
    (axes,) = figure.axes
    drawn: Any = getattr(axes, axis)
    low, high = drawn.get_view_interval()
    return [tick.label1.get_text() for tick in drawn.get_major_ticks() if low <= tick.get_loc() <= high]


@pytest.mark.parametrize("is_log", [False, True])
@pytest.mark.parametrize("most", [0, 1, 3, 1_000])
def test_bars_start_at_nothing_and_count_in_whole_numbers(
    monkeypatch: pytest.MonkeyPatch, most: int, is_log: bool
) -> None:
    labels = _labels(
        monkeypatch, lambda: page.bars({"a": 0, "b": most}, says="", axis="topics", is_log=is_log), "xaxis"
    )
    assert labels[0] == "0"
    assert len(set(labels)) == len(labels) > 1
