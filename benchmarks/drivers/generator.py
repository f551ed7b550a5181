"""A generator process: runs one share of a workload, apart from the process that measures.

It exchanges lines of JSON with the process that started it. It reads a plan, writes that it is ready, reads when to
begin, and writes its summary. If it fails, it writes a line with `error` instead.
"""

import gc
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from hedwig.benchmarks.drivers.hub.client_target import ClientTarget
from hedwig.benchmarks.drivers.hub.connections_target import hold_connections
from hedwig.benchmarks.drivers.hub.ledger_target import LedgerTarget
from hedwig.benchmarks.drivers.hub.raw_target import RawTarget
from hedwig.benchmarks.drivers.records.record_drivers import DRIVERS as RECORD_DRIVERS
from hedwig.benchmarks.drivers.records.record_session import serve_workloads
from hedwig.benchmarks.load.json_lines import converse, hear_later, say
from hedwig.benchmarks.load.load import Load, Target
from hedwig.benchmarks.load.workloads import Workload

__all__ = ["main"]


def _znode_messages(workload: Workload, host: str, port: int, *, share: int, shares: int) -> Target:
    from hedwig.benchmarks.drivers.hub.znode_messages import ZnodeMessages

    return ZnodeMessages(workload, host, port, share=share, shares=shares)


_TARGETS: Final[Mapping[str, Callable[..., Target]]] = {
    "raw": RawTarget,
    "client": ClientTarget,
    "client-once": partial(ClientTarget, publish_once=True),
    "znodes": _znode_messages,
}


def main() -> None:
    """Read a plan from standard input, and run it."""
    converse(_carry_out)


async def _carry_out(plan: Mapping[str, Any]) -> None:
    if plan["driver"] in RECORD_DRIVERS:
        await serve_workloads(plan, say, hear_later)
        return
    host, _, port = plan["address"].rpartition(":")
    if plan["driver"] == "connections":
        await hold_connections(host, int(port), plan["connections"], lambda: say({"ready": True}), hear_later)
        say({"summary": None})
        return
    workload = Workload.from_json(plan["workload"])
    share, shares = plan["share"], plan["shares"]
    target: Target
    if plan["driver"] == "ledgers":
        target = LedgerTarget(workload, plan["ledgers"], share=share, shares=shares)
    else:
        target = _TARGETS[plan["driver"]](workload, host, int(port), share=share, shares=shares)
    load = Load(workload, target, share=share, shares=shares, drain_s=plan["drain_s"])
    await target.open(load)
    gc.collect()
    gc.freeze()
    if plan["driver"] == "raw":
        gc.disable()  # The load makes no cycles, so a collection would only add a pause of the generator.
    say({"ready": True})
    recording = await load.run((await hear_later())["start_ns"])
    gc.enable()
    await target.close()
    say({"summary": recording.summarize().to_json()})


if __name__ == "__main__":
    main()
