"""What a process of the benchmark says to the one that started it, and hears from it: lines of JSON."""

import asyncio
import json
import os
import select
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from hedwig.benchmarks.load.descriptors import raise_descriptor_limit

__all__ = ["converse", "end_with_listener", "hear", "hear_later", "say"]


def converse(carry_out: Callable[[Mapping[str, Any]], Coroutine[Any, Any, None]]) -> None:
    """Have `carry_out` do what the first line says, on the fastest event loop there is.

    Whatever it fails with is told to the process that started this one, and ends this one with status 1.
    """
    raise_descriptor_limit()
    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ImportError:
        factory = None
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(carry_out(hear()))
    except Exception as exc:
        say({"error": f"{type(exc).__name__}: {exc}"})
        sys.exit(1)


def end_with_listener() -> None:
    """End this process, whatever it is doing, once the one that started it has gone: that may have been killed.

    Else a fill goes on for as long as it takes, beside whatever is measured next.
    """
    threading.Thread(target=_end_with_listener, name="listener", daemon=True).start()


def _end_with_listener() -> None:
    poll = select.poll()
    # What can be read is for others to read. That nobody can write any more is always told.
    poll.register(sys.stdin.fileno(), 0)
    poll.poll()
    os._exit(1)


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
