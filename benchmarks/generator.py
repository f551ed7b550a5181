"""A generator process: carries one share of a workload out, away from the process that measures.

It speaks lines of JSON with the process that started it: reads a plan, says that it is ready, reads when to begin, and
says what came out. A line with `error` takes the place of either.
"""

import asyncio
import gc
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from benchmarks.client_target import ClientTarget
from benchmarks.connections_target import hold_connections
from benchmarks.descriptors import raise_descriptor_limit
from benchmarks.ledger_target import LedgerTarget
from benchmarks.load import Load, Target
from benchmarks.raw_target import RawTarget
from benchmarks.record_clients import DRIVERS as RECORD_DRIVERS
from benchmarks.record_session import serve_workloads
from benchmarks.workloads import Workload

__all__ = ["main"]

_TARGETS: Final[Mapping[str, Callable[..., Target]]] = {"raw": RawTarget, "client": ClientTarget}


def main() -> None:
    """Read a plan from standard input, and carry it out."""
    raise_descriptor_limit()
    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ImportError:
        factory = None
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(_carry_out(_read()))
    except Exception as exc:
        # Whatever it is, the process that started this one is to tell it.
        _write({"error": f"{type(exc).__name__}: {exc}"})
        sys.exit(1)


async def _carry_out(plan: Mapping[str, Any]) -> None:
    if plan["driver"] in RECORD_DRIVERS:
        await serve_workloads(plan, _write, _read_later)
        return
    host, _, port = plan["address"].rpartition(":")
    if plan["driver"] == "connections":
        await hold_connections(host, int(port), plan["connections"], lambda: _write({"ready": True}), _read_later)
        _write({"summary": None})
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
        gc.disable()  # It makes no cycles, so a collection would only be a pause of ours.
    _write({"ready": True})
    recording = await load.run((await _read_later())["start_ns"])
    gc.enable()
    await target.close()
    _write({"summary": recording.summarize().to_json()})


async def _read_later() -> Mapping[str, Any]:
    return await asyncio.to_thread(_read)


def _read() -> Mapping[str, Any]:
    line = sys.stdin.readline()
    if not line:
        raise EOFError("the process that started this one has gone")
    plan: Mapping[str, Any] = json.loads(line)
    return plan


def _write(values: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
