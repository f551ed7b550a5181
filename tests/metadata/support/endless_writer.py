"""A program that writes until it is interrupted, and names every write that was acknowledged: `endless_writer URL`."""

import asyncio
import itertools
import os
import sys

from hedwig.metadata import open_metadata
from hedwig.metadata.testing import samples
from hedwig.model import Topic
from hedwig.versions import NEW

__all__: list[str] = []

WRITERS = 8


async def main(url: str) -> None:
    numbers = itertools.count()

    async def write_on() -> None:
        for number in numbers:
            version = await store.ownership.write(Topic(b"topic-%d" % number), samples.hub(number), NEW)
            # Write the line and its end in one call, so that Ctrl-C cannot come between them.
            os.write(sys.stdout.fileno(), f"{number} {version}\n".encode())

    async with await open_metadata(url) as store, asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(write_on())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
