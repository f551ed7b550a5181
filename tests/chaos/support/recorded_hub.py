"""A hub as `hedwig-hub` runs it, with additions: a record of its calls on ownership, detours, a stopped clock.

    python -m tests.chaos.support.recorded_hub ARGUMENTS_OF_HEDWIG_HUB

Environment: CHAOS_RECORDS is a directory, where each registration of a hub gets a file of its own; CHAOS_ROUTES is a
JSON object of ports of region servers and bookies, each with the host:port where this hub reaches it instead. With
CHAOS_STOPPED_CLOCK the hub counts its lease by a stopped clock, so it never stops serving by itself.
"""

import itertools
import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final
from unittest.mock import patch

import hedwig.hub.cluster
import hedwig.hub.hub
from hedwig.hub.ledgers.bookkeeper.bookies.zookeeper_registry import ZookeeperRegistry
from hedwig.hub.liveness import LivenessOptions
from hedwig.hub.main import main
from hedwig.metadata import (
    Managers,
    MetadataStore,
    MetadataUrl,
    StoreOptions,
    TopicOwnershipManager,
    WriteLease,
    open_metadata,
)
from hedwig.metadata.hbase import HBaseFactory
from hedwig.metadata.hbase.native import connect
from hedwig.metadata.hbase.native.wire.regions import Server
from tests.faults.linearizability.support.recorder import RecordedOwnership

__all__ = ["RECORDS", "ROUTES", "STOPPED_CLOCK", "process_name"]

RECORDS: Final = "CHAOS_RECORDS"
ROUTES: Final = "CHAOS_ROUTES"
STOPPED_CLOCK: Final = "CHAOS_STOPPED_CLOCK"


def process_name(pid: int) -> str:
    """Return the name of a hub's process in the records."""
    return f"hub-{pid}"


def _read_routes() -> dict[int, tuple[str, int]]:
    routes = {}
    for port, way in json.loads(os.environ.get(ROUTES, "{}")).items():
        host, _, at = way.rpartition(":")
        routes[int(port)] = host, int(at)
    return routes


_routes: Final = _read_routes()
_resolve: Final = ZookeeperRegistry.resolve


async def _open_recorded(url: str, options: StoreOptions) -> MetadataStore:
    parsed = MetadataUrl.parse(url)
    if _routes and parsed.scheme == "hbase":
        known = {port: Server(*way) for port, way in _routes.items()}
        factory = HBaseFactory(
            lambda url, options: connect(url, options, lambda server: known.get(server.port, server))
        )
        store = MetadataStore(parsed, await factory.open(parsed, options), options)
    else:
        store = await open_metadata(url, options)
    process = process_name(os.getpid())
    numbers = itertools.count()

    def recorded(manager: TopicOwnershipManager) -> RecordedOwnership:
        # The end of the process closes it.
        return RecordedOwnership(manager, process, Path(os.environ[RECORDS]) / f"{process}-{next(numbers)}.record")

    leased = store.leased

    def recorded_under(lease: WriteLease) -> Managers:
        managers = leased(lease)
        return replace(managers, ownership=recorded(managers.ownership))

    store.ownership = recorded(store.ownership)
    store.leased = recorded_under  # type: ignore[method-assign]  # it is an instance of its own
    return store


async def _resolve_routed(registry: ZookeeperRegistry, bookie: str) -> tuple[str, int]:
    host, port = await _resolve(registry, bookie)
    return _routes.get(port, (host, port))


if __name__ == "__main__":
    liveness = partial(LivenessOptions, boot_time_s=lambda: 0.0) if STOPPED_CLOCK in os.environ else LivenessOptions
    with (
        patch.object(hedwig.hub.cluster, "LivenessOptions", liveness),
        patch.object(hedwig.hub.hub, "open_metadata", _open_recorded),
        patch.object(ZookeeperRegistry, "resolve", _resolve_routed),
    ):
        main()
