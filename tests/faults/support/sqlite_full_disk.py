"""A process whose files may not grow beyond a limit: `python -m tests.faults.support.sqlite_full_disk URL LIMIT`.

It writes records until the store reports an error, lifts the limit, and writes on. It prints the outcomes as JSON: for
each topic `done` with its version, or the class and text of the error.
"""

import asyncio
import json
import resource
import signal
import sys
from typing import Any, Final

from hedwig.errors import HedwigError
from hedwig.metadata import StoreOptions, open_metadata
from hedwig.metadata.testing.doors import CALLS
from hedwig.versions import NEW

__all__ = ["fill"]

_TOPICS_MAX: Final = 20_000
_ERRORS_ENOUGH: Final = 20
_AFTERWARDS: Final = 50
_AT_ONCE: Final = 8


async def fill(url: str, limit: int) -> dict[str, Any]:
    """Write until an error and beyond; return the outcome of each topic."""
    door = CALLS[0]
    outcomes: dict[str, Any] = {}

    async def write(number: int) -> None:
        topic = f"topic-{number}"
        try:
            version = await door.write(store, door.key(topic.encode()), door.value(number), NEW)
        except HedwigError as exc:
            outcomes[topic] = {"error": type(exc).__name__, "text": str(exc), "happened": exc.happened}
        else:
            outcomes[topic] = {"version": str(version)}

    async with await open_metadata(url, StoreOptions(operation_timeout_s=20.0)) as store:
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
        number = 0
        while number < _TOPICS_MAX and sum("error" in fact for fact in outcomes.values()) < _ERRORS_ENOUGH:
            await asyncio.gather(*(write(number + index) for index in range(_AT_ONCE)))
            number += _AT_ONCE
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        refused_at = number
        for later in range(refused_at, refused_at + _AFTERWARDS):
            await write(later)
    return {"told": outcomes, "refused_at": refused_at}


if __name__ == "__main__":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    print(json.dumps(asyncio.run(fill(sys.argv[1], int(sys.argv[2])))))
