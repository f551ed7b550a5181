"""Sizes, durations and counts in words, as people read them. The output formats for programs keep plain numbers."""

from typing import Final

__all__ = ["counted", "duration_text", "elapsed_text", "in_words", "size_text"]

_SIZE_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")
_KIB: Final = 1024


def in_words(field: str, value: int | float) -> str | None:
    """Return the value in words if the name of the field is that of a size or a duration; else None.

    Rates (`_per_s`) do not count as durations. Nor do milliseconds (`_ms`), which are measured to be compared.
    """
    if field == "bytes" or field.endswith("_bytes"):
        return size_text(value)
    if field == "seconds" or (field.endswith("_s") and not field.endswith("per_s")):
        return duration_text(value)
    return None


def size_text(size: float) -> str:
    """Return `72 B`, `1.2 GiB`."""
    if abs(size) < _KIB:
        return f"{size:g} B"
    power = 0
    while power < len(_SIZE_UNITS) and abs(size) >= _KIB - 0.05:
        size /= _KIB
        power += 1
    return f"{size:.1f} {_SIZE_UNITS[power - 1]}"


def duration_text(seconds: float) -> str:
    """Return `0.25 s`, `34 s`, `3 min`, `2 h 5 min`, `4 d 3 h`."""
    if 0 < seconds < 9.95:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def elapsed_text(seconds: float) -> str:
    """Return an elapsed time to the second, such as `1 min 5 s`, so that an operator sees it change."""
    whole = round(seconds)
    if whole < 60:
        return duration_text(seconds)
    parts = (whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s")
    first = next(index for index, (count, _) in enumerate(parts) if count)
    return " ".join(f"{count} {unit}" for count, unit in parts[first:])


def counted(number: int, noun: str) -> str:
    """Return `1 ledger`, `2 ledgers`, `21,841 subscriptions`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
