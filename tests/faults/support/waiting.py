"""Waiting for a condition, with a deadline."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

__all__ = ["TIMEOUT_S", "until", "until_blocking"]

TIMEOUT_S: Final = 60.0
_PAUSE_S: Final = 0.01


async def until(condition: Callable[[], object], what: str, timeout_s: float = TIMEOUT_S) -> None:
    """Wait until `condition` returns a true value. Raises AssertionError if it is late; `what` names the condition."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {timeout_s:g} s"
        await asyncio.sleep(_PAUSE_S)


def until_blocking(condition: Callable[[], object], what: str, timeout_s: float = TIMEOUT_S) -> None:
    """Wait as `until` does, outside an event loop."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {timeout_s:g} s"
        time.sleep(_PAUSE_S)
