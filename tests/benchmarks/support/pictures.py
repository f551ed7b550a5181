"""Measures the pictures of a report."""

from collections.abc import Sequence
from io import BytesIO

from PIL import Image

from hedwig.benchmarks.charts.sections import Chart

__all__ = ["BLUE", "GREEN", "ORANGE", "picture", "share"]

BLUE, ORANGE, GREEN = (0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0x00, 0x9E, 0x73)


def picture(chart: Chart) -> Image.Image:
    return Image.open(BytesIO(chart.png))


def share(image: Image.Image, colour: Sequence[int]) -> float:
    """Return the share of a picture that is nearly of this colour."""
    counts = image.convert("RGB").getcolors(image.width * image.height)
    assert counts is not None
    total = 0
    for count, shown in counts:
        assert isinstance(shown, tuple)
        total += count if all(abs(shown[part] - colour[part]) < 12 for part in range(3)) else 0
    return total / (image.width * image.height)
