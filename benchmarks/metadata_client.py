"""The client of `hedwig-bench metadata`: a process that holds one store open, as a hub does, and does as it is told.

It speaks lines of JSON as benchmarks.generator does. It reads where the store is, says `ready`, and then reads what to
do: `fill` it, carry a `workload` out, or `probe` whether topics can be read; a line with none of these is the end.
"""

import asyncio
import gc
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from benchmarks.conversation import converse, hear_later, say
from benchmarks.load import Load
from benchmarks.metadata_fill import fill
from benchmarks.metadata_ground import FillTask, Ground, Managers, owned
from benchmarks.metadata_target import MetadataTarget
from benchmarks.workloads import Workload
from hedwig.errors import HedwigError
from metadata.backend import StoreOptions
from metadata.store import MetadataStore, open_metadata

__all__ = ["main", "probe", "serve"]

_PROBE_PAUSE_S: Final = 0.02
_PROBE_ATTEMPT_S: Final = 2.0


def main() -> None:
    """Read a plan from standard input, and do what follows."""
    # What fails is told to who measures; what libraries say of it besides would stand in the middle of the progress.
    logging.getLogger().addHandler(logging.NullHandler())
    converse(serve)


async def serve(plan: Mapping[str, Any]) -> None:
    """Open the store of a plan, and do what is read until a line asks for nothing."""
    async with await open_metadata(plan["url"], StoreOptions(gather=True)) as store:
        say({"ready": True})
        while True:
            match await hear_later():
                case {"fill": task}:
                    summary, why = await fill(store, FillTask.from_json(task))
                    say({"filled": {"summary": summary.to_json(), "why": why}})
                case {"workload": workload, "ground": ground, "round": number, "drain_s": drain_s}:
                    await _carry_out(store, Workload.from_json(workload), Ground.from_json(ground), number, drain_s)
                case {"probe": topics, "ground": ground, "seconds_max": seconds_max}:
                    say({"probed": await probe(store, Ground.from_json(ground), topics, seconds_max)})
                case _:
                    break
    say({"ended": True})


async def _carry_out(store: MetadataStore, workload: Workload, ground: Ground, number: int, drain_s: float) -> None:
    target = MetadataTarget(workload, store, ground, round_number=number)
    load = Load(workload, target, round_number=number, drain_s=drain_s)
    await target.open(load)
    gc.collect()  # Garbage of the load before is not this one's.
    say({"ready": True})
    recording = await load.run((await hear_later())["start_ns"])
    await target.close()
    say({"summary": recording.summarize().to_json()})
    await target.tidy()
    say({"tidied": True})


async def probe(
    store: Managers,
    ground: Ground,
    topics: Sequence[int],
    seconds_max: float,
    *,
    now_ns: Callable[[], int] = time.monotonic_ns,
) -> Mapping[str, int | None]:
    """Ask for the owners of topics until each was read once.

    Returns: the monotonic times at which the first and the last of them was; None: not within `seconds_max`.
    """
    times_ns: list[int] = []

    async def ask(number: int) -> None:
        while True:
            try:
                async with asyncio.timeout(_PROBE_ATTEMPT_S):
                    found = await store.ownership.read_owner_info(ground.topic(owned(number)))
            except (HedwigError, TimeoutError):
                found = None
            if found is not None:
                times_ns.append(now_ns())
                return
            await asyncio.sleep(_PROBE_PAUSE_S)

    asking = [asyncio.create_task(ask(number)) for number in topics]
    _, late = await asyncio.wait(asking, timeout=seconds_max)
    for task in late:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    return {"first_ns": min(times_ns, default=None), "all_ns": None if late else max(times_ns)}


if __name__ == "__main__":
    main()
