"""The hubs of a deployment, read from their nodes."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kazoo.exceptions import NoNodeError

from hedwig.clock import Clock, Deadline, SystemClock
from hedwig.errors import InvalidArgumentError
from hedwig.hub.liveness.asking import answer, ask, read
from hedwig.hub.liveness.live_hub import Endpoint, LiveHub, decode_load
from hedwig.hub.liveness.paths import HubPaths
from hedwig.model import HubInfo
from hedwig.zookeeper import Bridge, children, commit_nothing, get

__all__ = ["attach_endpoints", "read_all", "read_endpoints", "read_hosts", "read_hubs"]


async def read_hubs(
    bridge: Bridge, prefix: str, *, clock: Clock | None = None, timeout_s: float = 10.0
) -> tuple[LiveHub, ...]:
    """Return the hubs that are alive now under `prefix`, sorted by address, with their admin endpoints.

    It is for programs that are no hubs, and registers nothing. Raises: ServiceDownError - ZooKeeper does not answer.
    """
    return await read_all(bridge, HubPaths(prefix), Deadline.after(clock or SystemClock(), timeout_s))


async def read_all(bridge: Bridge, paths: HubPaths, deadline: Deadline) -> tuple[LiveHub, ...]:
    """Return the hubs that are alive now, with what their endpoint nodes say. Raises: ServiceDownError."""
    # Callers take a hub that is not listed for dead, so the list must be current.
    await read(bridge, deadline, f"list the hubs under {paths.hosts}", commit_nothing())
    hosts = await read_hosts(bridge, paths, deadline)
    endpoints = {epoch: endpoint for _, endpoint, epoch in await read_endpoints(bridge, paths, deadline)}
    if any(hub.info.epoch not in endpoints for hub in hosts):
        # Either it has no such node, as a hub of the original, or it was closed meanwhile.
        left = {hub.info.epoch for hub in await read_hosts(bridge, paths, deadline)}
        hosts = tuple(hub for hub in hosts if hub.info.epoch in endpoints or hub.info.epoch in left)
    return attach_endpoints(hosts, endpoints)


def attach_endpoints(hosts: tuple[LiveHub, ...], endpoints: Mapping[int, Endpoint]) -> tuple[LiveHub, ...]:
    """Return hubs with what their endpoint nodes say, which are given by epoch."""
    return tuple(_with_endpoint(hub, endpoints.get(hub.info.epoch)) for hub in hosts)


def _with_endpoint(hub: LiveHub, endpoint: Endpoint | None) -> LiveHub:
    if endpoint is None:
        return hub
    return replace(
        hub, admin=endpoint.admin, reads_shared_logs=endpoint.reads_shared_logs, listeners=endpoint.listeners
    )


async def read_hosts(
    bridge: Bridge, paths: HubPaths, deadline: Deadline, on_change: Callable[[Any], None] | None = None
) -> tuple[LiveHub, ...]:
    """Return the hubs whose host nodes the connected server knows. Raises: ServiceDownError.

    `on_change` is called, in a thread of kazoo, when a hub has registered, ended, or begun to leave since.
    """
    what = f"list the hubs under {paths.hosts}"
    listed = [children(paths.hosts, on_change)]
    if on_change is not None:
        listed.append(children(paths.endpoints, on_change))  # A hub that leaves shows there.
    names, *others = await ask(bridge, deadline, what, *listed)
    for each in (names, *others):
        answer(what, each, NoNodeError)
    if isinstance(names, NoNodeError) or not names:
        return ()
    names.sort()
    nodes = await ask(bridge, deadline, what, *(get(paths.host(name)) for name in names))
    hubs = []
    for name, result in zip(names, nodes, strict=True):
        if isinstance(answer(what, result, NoNodeError), NoNodeError):
            continue
        data, stat = result
        try:
            info = HubInfo.at(name, epoch=stat.czxid)
        except InvalidArgumentError:
            continue  # It is not the node of a hub, so no client can be redirected there.
        hubs.append(LiveHub(info, decode_load(data)))
    return tuple(hubs)


async def read_endpoints(
    bridge: Bridge, paths: HubPaths, deadline: Deadline, address: str | None = None
) -> list[tuple[str, Endpoint, int]]:
    """Return the endpoint nodes, or those of `address`: name, content, czxid. Raises: ServiceDownError.

    The czxid is that of the host node made in the same transaction.
    """
    what = f"list {paths.endpoints}"
    names = await read(bridge, deadline, what, children(paths.endpoints), NoNodeError)
    if isinstance(names, NoNodeError):
        return []
    wanted = [name for name in names if address is None or paths.is_endpoint_of(name, address)]
    if not wanted:
        return []
    nodes = await ask(bridge, deadline, what, *(get(paths.endpoint(name)) for name in wanted))
    return [
        (name, Endpoint.decode(result[0]), result[1].czxid)
        for name, result in zip(wanted, nodes, strict=True)
        if not isinstance(answer(what, result, NoNodeError), NoNodeError)
    ]
