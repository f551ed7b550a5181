"""What a process of the benchmark says to the one that started it, and hears from it: lines of JSON."""

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["hear", "hear_later", "say"]


def hear() -> Mapping[str, Any]:
    """Return the next line. Raises EOFError - the process that started this one has gone."""
    line = sys.stdin.readline()
    if not line:
        raise EOFError("the process that started this one has gone")
    heard: Mapping[str, Any] = json.loads(line)
    return heard


async def hear_later() -> Mapping[str, Any]:
    """Return the next line, and let others go on until it comes."""
    return await asyncio.to_thread(hear)


def say(values: Mapping[str, Any]) -> None:
    """Write a line."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()
