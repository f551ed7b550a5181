"""One client of records for several workloads in turn, in a generator process that keeps running.

So a client connects once and finds its regions once. Like a hub's, it is warm when it is measured.
"""

import gc
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from hedwig.benchmarks.drivers.records.record_drivers import open_client
from hedwig.benchmarks.drivers.records.record_target import RecordTarget
from hedwig.benchmarks.load.load import Load
from hedwig.benchmarks.load.workloads import Workload

__all__ = ["serve_workloads"]


async def serve_workloads(
    plan: Mapping[str, Any],
    write: Callable[[Mapping[str, Any]], None],
    read: Callable[[], Awaitable[Mapping[str, Any]]],
) -> None:
    """Open the client of a plan, then run each workload that is read, until a line has none."""
    client = await open_client(plan["driver"], plan["place"])
    try:
        write({"ready": True})
        while "workload" in (asked := await read()):
            workload = Workload.from_json(asked["workload"])
            target = RecordTarget(workload, client)
            load = Load(workload, target, drain_s=asked["drain_s"])
            await target.open(load)
            gc.collect()  # So that this load does not pay for the garbage of the one before.
            write({"ready": True})
            recording = await load.run((await read())["start_ns"])
            await target.close()
            write({"summary": recording.summarize().to_json()})
    finally:
        await client.close()
    write({"summary": None})
