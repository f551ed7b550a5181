"""Measure what clients that do not behave do to others.

    python -m hedwig.benchmarks.neighbours --dir DIRECTORY [NAME ...]

For each neighbour a fresh hub serves one good topic, to which a message is published at a fixed rate, newcomers that
connect and publish to new topics, and the neighbour, which runs in a process of its own. Latencies of the good topic
count from when a message should have been published to its answer and to its delivery; those of newcomers from before
they connect to their first answer. On a machine with few CPUs the neighbour's own work is part of what is measured.
"""

import argparse
import asyncio
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from hedwig.benchmarks.load.descriptors import raise_descriptor_limit
from hedwig.benchmarks.machine.environment import sync_rate
from hedwig.benchmarks.neighbours.admin_requests import endless_posts
from hedwig.benchmarks.neighbours.answers import deaf_askers
from hedwig.benchmarks.neighbours.clients import Neighbour
from hedwig.benchmarks.neighbours.connections import (
    handshakes,
    idle_connections,
    one_address,
    random_bytes,
    unfinished_frames,
)
from hedwig.benchmarks.neighbours.measuring import HEADINGS, measure
from hedwig.benchmarks.neighbours.requests import crowded_frames, fast_publishers, new_topics, readers_of_nothing
from hedwig.benchmarks.neighbours.subscribers import (
    readers_of_a_backlog,
    slow_subscribers,
    subscribers_that_never_consume,
)
from hedwig.benchmarks.neighbours.topics import consumes_of_nothing, names_of_nothing, thousands_of_new_topics

__all__ = ["main"]


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description="Measure a good topic beside bad neighbours.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(_NEIGHBOURS)}")
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="a folder on the hub's disk")
    parser.add_argument("--seconds", type=float, default=15.0, help="length of one measurement")
    parser.add_argument("--rate", type=float, default=50.0, help="messages a second on the good topic")
    parser.add_argument("--be", metavar="PORT", type=int, help="be the one neighbour named, at a hub on this port")
    arguments = parser.parse_args()
    raise_descriptor_limit()
    if unknown := set(arguments.names) - set(_NEIGHBOURS):
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    if arguments.be is not None:
        asyncio.run(_be(_NEIGHBOURS[arguments.names[0]], arguments.be))
        return
    directory = Path(tempfile.mkdtemp(prefix="hedwig-neighbours-", dir=arguments.dir))
    try:
        print(f"sync: {sync_rate(directory):,.0f} appends of 4 KiB a second\n")
        print(f"| {' | '.join(HEADINGS)} |")
        print("|---" * len(HEADINGS) + "|", flush=True)
        for name in arguments.names or _NEIGHBOURS:
            row = measure(
                name,
                directory / name,
                arguments.rate,
                arguments.seconds,
                newcomer_bytes=_LARGE_BYTES if name in _BESIDE_LARGE else _SMALL_BYTES,
                is_at_tls=name in _AT_TLS,
            )
            print(row, flush=True)
            shutil.rmtree(directory / name)
    finally:
        shutil.rmtree(directory)


async def _be(neighbour: Neighbour, port: int) -> None:
    await neighbour(port, lambda: print("ready", flush=True))


async def _nobody(_: int, ready: Callable[[], None]) -> None:
    ready()
    await asyncio.Event().wait()


_NEIGHBOURS: Final[dict[str, Neighbour]] = {
    "nobody": _nobody,
    "slow-subscribers": slow_subscribers,
    "never-consuming": subscribers_that_never_consume,
    "backlog-readers": readers_of_a_backlog,
    "idle-5000": idle_connections(5000),
    "idle-15000": idle_connections(15_000),
    "fast-publishers": fast_publishers,
    "new-topics": new_topics,
    "readers-of-nothing": readers_of_nothing,
    "deaf-askers": deaf_askers,
    "random-bytes": random_bytes,
    "endless-posts": endless_posts,
    "one-address-silent": one_address(16_500, "127.0.0.1", publishes=False),
    "one-address": one_address(16_500, "127.0.0.2", publishes=True),
    "no-handshakes": handshakes(19_980),
    "unfinished-frames": unfinished_frames(229),
    "crowded-frames": crowded_frames,
    "new-topics-10000": thousands_of_new_topics,
    "consumes-of-nothing": consumes_of_nothing,
    "names-of-nothing": names_of_nothing,
}
_AT_TLS: Final = frozenset({"no-handshakes"})
_BESIDE_LARGE: Final = frozenset({"unfinished-frames"})
"""The neighbours beside which newcomers publish messages of a megabyte."""
_LARGE_BYTES: Final = 1_000_000
_SMALL_BYTES: Final = 5


if __name__ == "__main__":
    main()
