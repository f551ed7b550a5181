"""A process of its own that uses a store: `python -m tests.faults.support.worker TASK LOG SETTINGS`, SETTINGS as JSON.

It opens the store and does its task. Where it must wait for others, it writes `ready` and waits for a line. It writes
facts to the file LOG, one JSON object a line. Each line goes to the system at once, so that the log outlives a kill -9
with all facts in it.
"""

import asyncio
import json
import os
import random
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

from hedwig.errors import BadVersionError
from hedwig.metadata import MetadataStore, StoreOptions, open_metadata
from hedwig.metadata.testing.doors import CALLS, Call
from hedwig.versions import NEW, Versioned
from tests.faults.linearizability.support.contender import contend_in_process
from tests.faults.support.numbers import number_of, shown

__all__ = ["CLAIMS", "WORKERS_MAX", "Log", "contend", "contend_for_ownership", "door_of", "keep_writing"]

WORKERS_MAX: Final = 100
CLAIMS: Final = CALLS[0]
_CLAIMS_IN_FLIGHT: Final = 4

Log = Callable[[dict[str, Any]], None]


async def contend(store: MetadataStore, settings: dict[str, Any], log: Log) -> None:
    """Increment one counter until `increments` were acknowledged, and claim all `topics`, in an order of its own.

    The number in the counter's record is the count times WORKERS_MAX plus the worker that wrote it.
    """
    worker: int = settings["worker"]
    for label, name in settings["counters"].items():
        door = next(call for call in CALLS if call.label == label)
        await _meet_others()
        await _increment(store, door, name.encode(), worker, settings["increments"], log)
    await _meet_others()
    await _claim(store, settings["topics"], worker, random.Random(f"{settings['seed']} {worker}"), log)


async def _increment(store: MetadataStore, door: Call, name: bytes, worker: int, times: int, log: Log) -> None:
    key = door.key(name)
    current = await door.read(store, key)
    done = refused = 0
    while done < times:
        count = 1 if current is None else number_of(current.value) // WORKERS_MAX + 1
        value = door.value(count * WORKERS_MAX + worker)
        try:
            version = await door.write(store, key, value, NEW if current is None else current.version)
        except BadVersionError as refusal:
            refused += 1
            current = shown(refusal)
            continue
        done += 1
        current = Versioned(value, version)
        log({"task": "increment", "kind": door.label, "count": count, "version": str(version)})
    log({"task": "refused", "kind": door.label, "times": refused})


async def _claim(store: MetadataStore, topics: Sequence[str], worker: int, source: random.Random, log: Log) -> None:
    mine = CLAIMS.value(worker)

    async def claim(topic: str) -> None:
        try:
            version = await CLAIMS.write(store, CLAIMS.key(topic.encode()), mine, NEW)
        except BadVersionError as refusal:
            owner = shown(refusal)
            log({"task": "told", "topic": topic, "owner": number_of(owner.value), "version": str(owner.version)})
        else:
            log({"task": "own", "topic": topic, "version": str(version)})

    await _for_each(source.sample(topics, len(topics)), claim, _CLAIMS_IN_FLIGHT)


async def keep_writing(store: MetadataStore, settings: dict[str, Any], log: Log) -> None:
    """Create records on `topics` and update each again and again, until killed.

    Each write is logged before it begins and after it was acknowledged. The number in a record counts its writes.
    """
    await _meet_others()

    async def write(topic: str) -> None:
        door = door_of(topic)
        key, version, number = door.key(topic.encode()), NEW, 0
        while True:
            number += 1
            log({"task": "begin", "topic": topic, "number": number})
            version = await door.write(store, key, door.value(number), version)
            log({"task": "done", "topic": topic, "number": number, "version": str(version)})

    await _for_each(settings["topics"], write, len(settings["topics"]))


def door_of(topic: str) -> Call:
    """Return the door through which `keep_writing` writes to `topic`."""
    return (CALLS[0], CALLS[2])[len(topic) % 2]


async def contend_for_ownership(store: MetadataStore, settings: dict[str, Any], log: Log) -> None:
    """Claim, take over and release topics, and record the calls in a file of their own; log nothing."""
    await _meet_others()
    await contend_in_process(store, settings)


async def _for_each(items: Sequence[str], work: Callable[[str], Awaitable[None]], at_once: int) -> None:
    waiting = iter(items)

    async def go() -> None:
        for item in waiting:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(go())


_TASKS: Final = {
    "contend": contend,
    "contend_for_ownership": contend_for_ownership,
    "keep_writing": keep_writing,
}


async def _meet_others() -> None:
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def _main(task: str, path: Path, settings: dict[str, Any]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    options = StoreOptions(operation_timeout_s=settings.get("timeout_s", 60.0))
    async with await open_metadata(settings["url"], options) as store:
        await _TASKS[task](store, settings, lambda fact: _write_line(descriptor, json.dumps(fact)))


def _write_line(descriptor: int, line: str) -> None:
    os.write(descriptor, f"{line}\n".encode())


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])))
