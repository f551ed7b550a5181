"""Patterns of topic names, as options give them: `*` matches any bytes, `?` one byte or character."""

import fnmatch
import re
from collections.abc import Callable, Sequence

__all__ = ["topic_matcher"]


def topic_matcher(patterns: Sequence[str]) -> Callable[[bytes], bool]:
    """Return a function that says whether the name of a topic matches one of `patterns`."""
    if not patterns:
        return _never
    match = re.compile("|".join(map(fnmatch.translate, patterns))).match
    return lambda topic: match(topic.decode("utf-8", "surrogateescape")) is not None


def _never(_topic: bytes) -> bool:
    return False
