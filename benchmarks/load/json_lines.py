"""Lines of JSON, which a process of the benchmark exchanges with the process that started it."""

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
    """Run `carry_out` with the first line, on the fastest event loop available.

    If it fails, report the error to the process that started this one, and exit with status 1.
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
    """End this process at once when the process that started it has gone; that one may have been killed.

    Otherwise a fill would continue to its end, beside the next measurement.
    """
    threading.Thread(target=_end_with_listener, name="listener", daemon=True).start()


def _end_with_listener() -> None:
    poll = select.poll()
    # Other code reads the input, so register for no events: poll always reports that the writer has closed the pipe.
    poll.register(sys.stdin.fileno(), 0)
    poll.poll()
    os._exit(1)


def hear() -> Mapping[str, Any]:
    """Return the next line. Raises EOFError - the parent process has ended."""
    line = sys.stdin.readline()
    if not line:
        raise EOFError("the parent process has ended")
    heard: Mapping[str, Any] = json.loads(line)
    return heard


async def hear_later() -> Mapping[str, Any]:
    """Return the next line, without blocking the event loop until it comes."""
    return await asyncio.to_thread(hear)


def say(values: Mapping[str, Any]) -> None:
    """Write a line."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()
