"""Numbers as people write them: sizes such as `64 MiB`, durations such as `10 min`, counts such as `10M`; or plain."""

import math
import re
from collections.abc import Mapping
from typing import Final

__all__ = ["duration_s", "show_duration", "show_size", "size_bytes", "whole_number"]

_SIZES: Final[Mapping[str, int]] = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "kB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "TB": 1000**4,
}
_DURATIONS: Final[Mapping[str, float]] = {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86_400}
_QUANTITY: Final = re.compile(r"\s*([+-]?[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)\s*")


def size_bytes(text: str) -> int:
    """Return the size in `text` in bytes. Raises: ValueError - it is no size (the error says what was expected)."""
    number, factor = _parse(text, _SIZES, "a size like 65536 or 64 MiB", default="B")
    size = number * factor
    if size != int(size):
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return int(size)


def duration_s(text: str) -> float:
    """Return the time in `text` in seconds. Raises: ValueError - it is no time (the error says what was expected)."""
    number, factor = _parse(text, _DURATIONS, "a time like 90 or 10 min", default="s")
    # Divide for ms, which is exact. 0.001 is not a binary fraction, so 9 * 0.001 would not be 0.009.
    return number / 1000 if factor == _DURATIONS["ms"] else float(number * factor)


def whole_number(text: str) -> int:
    """Return the whole number in `text`: 1000000, 500k or 10M. Raises: ValueError - it is none."""
    scale = {"k": 1_000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    try:
        return int(text[:-1] if scale > 1 else text) * scale
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number such as 1000, 500k or 10M") from None


def _parse(text: str, units: Mapping[str, float], expected: str, *, default: str) -> tuple[float, float]:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not {expected}")
    digits, unit = match.groups()
    factor = {name.lower(): factor for name, factor in units.items()}.get((unit or default).lower())
    if factor is None:
        raise ValueError(f"{text!r} has the unit {unit!r}; units are {', '.join(units)}")
    # Whole numbers stay exact, however large.
    number = int(digits) if re.fullmatch(r"[+-]?[0-9_]+", digits) else float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is not {expected}")
    return number, factor


def show_size(size: int) -> str:
    """Return a size as a whole number of the largest binary unit possible, such as `64 MiB`, or as plain bytes."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size and size % _SIZES[unit] == 0:
            return f"{size // _SIZES[unit]} {unit}"
    return str(size)


def show_duration(seconds: float) -> str:
    """Return a time as a whole number of the largest unit possible, but in seconds below two minutes."""
    for unit in ("d", "h", "min"):
        if seconds >= 2 * _DURATIONS["min"] and seconds % _DURATIONS[unit] == 0:
            return f"{seconds / _DURATIONS[unit]:.0f} {unit}"
    return f"{_plain(seconds)} s" if seconds >= 1 or not seconds else f"{_plain(seconds * 1000)} ms"


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)
