"""How an operation finds the hubs of a cluster: it reads what they announce in ZooKeeper."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hedwig.clock import Deadline, SystemClock
from hedwig.errors import ConfigurationError, OperationError, ServiceDownError
from hedwig.exit_codes import ExitCode
from hedwig.extras import needed
from hedwig.metadata.contract.url import zookeeper_address
from hedwig.operations.deployment.deployment import Deployment
from hedwig.outcomes import NotAppliedError

if TYPE_CHECKING:
    from hedwig.hub.liveness import LiveHub
    from hedwig.zookeeper import Bridge

__all__ = [
    "cluster_session",
    "find_hub",
    "parse_cluster_url",
    "pick_hub",
    "read_cluster",
    "read_hubs_of",
    "read_registered_cluster",
    "unavailable",
]


def read_cluster(deployment: Deployment) -> "tuple[LiveHub, ...]":
    """Return the hubs that are alive, sorted by address.

    Raises: OperationError - ZooKeeper does not answer; ConfigurationError - the URL is invalid, or an extra is missing.
    """
    url = deployment.cluster_url
    try:
        return asyncio.run(read_hubs_of(url, deployment.timeout_s, deployment.stores_file))
    except (NotAppliedError, ServiceDownError) as exc:
        raise unavailable(deployment.command, url, exc) from exc


def read_registered_cluster(deployment: Deployment) -> "tuple[LiveHub, ...]":
    """Do the same for a cluster that must have had a hub: then no living hub means that all are down.

    Raises: as `read_cluster`; OperationError, NOT_FOUND - no hub was ever registered there.
    """
    hubs = read_cluster(deployment)
    if hubs:
        return hubs
    url = deployment.cluster_url
    try:
        was_used = asyncio.run(_was_used(url, deployment.timeout_s, deployment.stores_file))
    except (NotAppliedError, ServiceDownError) as exc:
        raise unavailable(deployment.command, url, exc) from exc
    if was_used:
        return hubs
    raise OperationError(
        f"no hub was ever registered at {url}: give --cluster to the letter as the hubs have it in cluster.zookeeper",
        ExitCode.NOT_FOUND,
    )


async def _was_used(url: str, timeout_s: float, stores_file: str) -> bool:
    """Say whether a hub was ever registered. The first one makes the parent node of all, which stays."""
    async with cluster_session(url, timeout_s, stores_file) as (bridge, prefix):
        from hedwig.hub.liveness.asking import read
        from hedwig.hub.liveness.paths import HubPaths
        from hedwig.zookeeper import exists

        node = HubPaths(prefix).hosts
        deadline = Deadline.after(SystemClock(), timeout_s)
        return await read(bridge, deadline, f"look for {node}", exists(node)) is not None


def unavailable(command: str, url: str, error: Exception) -> OperationError:
    """Return the error that the ZooKeeper of a cluster did not answer, or did not let the user in."""
    from hedwig.hub.liveness.asking import NotLetInError

    is_up = isinstance(error, NotLetInError)
    advice = "give --stores-file FILE with one that it lets in" if is_up else "see that ZooKeeper is up there"
    return OperationError(f"{command} failed on the cluster {url}: {error}; {advice}", ExitCode.UNAVAILABLE)


def find_hub(deployment: Deployment, name: str) -> "LiveHub":
    """Return the living hub that clients reach at `name`, as `pick_hub` does. Raises as `read_cluster`."""
    return pick_hub(deployment, read_cluster(deployment), name)


def pick_hub(deployment: Deployment, live: "Sequence[LiveHub]", name: str) -> "LiveHub":
    """Return the hub of `live` that clients reach at `name`: host:port, host:port:sslport, or a host with one hub.

    Raises: OperationError - there is none, or there are several.
    """
    for hub in live:
        if name in (hub.info.address, f"{hub.info.host}:{hub.info.port}"):
            return hub
    on_host = [hub for hub in live if hub.info.host == name]
    if len(on_host) == 1:
        return on_host[0]
    if on_host:
        names = ", ".join(sorted(hub.info.name for hub in on_host))
        raise OperationError(
            f"{deployment.command}: {len(on_host)} hubs are alive on {name}: give one of {names}", ExitCode.USAGE
        )
    raise OperationError(
        f"there is no hub {name!r} alive in {deployment.cluster_url}; list the hubs with: hedwig-admin hub list",
        ExitCode.NOT_FOUND,
    )


async def read_hubs_of(url: str, timeout_s: float, stores_file: str) -> "tuple[LiveHub, ...]":
    """Return the hubs that are alive in the cluster at `url`, sorted by address.

    Raises: NotAppliedError, ServiceDownError - ZooKeeper does not answer; ConfigurationError - as `read_cluster`.
    """
    async with cluster_session(url, timeout_s, stores_file) as (bridge, prefix):
        from hedwig.hub.liveness import read_hubs

        return await read_hubs(bridge, prefix, timeout_s=timeout_s)


@asynccontextmanager
async def cluster_session(url: str, timeout_s: float, stores_file: str) -> "AsyncGenerator[tuple[Bridge, str]]":
    """Open a session with the ZooKeeper of the cluster at `url`; yield it with the prefix of the hubs' nodes.

    Raises: NotAppliedError - it does not answer; ConfigurationError - as `read_cluster`, or the stores file cannot be
        used.
    """
    hosts, prefix = parse_cluster_url(url)
    with needed("zookeeper", "the hubs of a cluster are found with"):
        import hedwig.hub.liveness  # noqa: F401 (which lists the hubs, and needs as much as this does)
        from hedwig.store_access import StoreAccess
        from hedwig.zookeeper import Bridge, BridgeOptions
    access = StoreAccess.read(stores_file).zookeeper
    bridge = Bridge(hosts, BridgeOptions(connect_timeout_s=timeout_s, access=access))
    try:
        await bridge.connect()
        yield bridge, prefix
    finally:
        await bridge.close()


def parse_cluster_url(url: str) -> tuple[str, str]:
    """Return hosts and prefix of a cluster. Raises ConfigurationError."""
    try:
        return zookeeper_address(url)
    except ConfigurationError as exc:
        text = f"the cluster is {url!r}; it must be like zookeeper://host:2181/hedwig/REGION"
        raise ConfigurationError(text) from exc
