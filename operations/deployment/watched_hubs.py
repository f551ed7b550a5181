"""Which hubs are watched: those of a cluster as they come and go, or the standalone hub of a store."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, TypeAlias

from hedwig.errors import ConfigurationError, InvalidArgumentError, OperationError, ServiceDownError
from hedwig.model import HubInfo
from hedwig.operations.deployment.admin_endpoint import AdminEndpoint
from hedwig.operations.deployment.cluster import cluster_session, unavailable
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.hub_survey import WatchedHub
from hedwig.operations.deployment.reached_hub import read_standalone_hub
from hedwig.operations.deployment.topic_owner import ADMIN_PORT
from hedwig.outcomes import NotAppliedError

__all__ = ["watched_hubs"]

_PATIENCE_S: Final = 2.0
"""How long ZooKeeper has to say who is there, once it was connected: whoever watches waits for it."""

_NAME_S: Final = 0.5
"""How long a hub has to say who it is, before each look until it has."""

_Find: TypeAlias = Callable[[], Awaitable[Sequence[WatchedHub]]]


@asynccontextmanager
async def watched_hubs(deployment: Deployment) -> AsyncIterator[_Find]:
    """Give what finds the hubs: those of the cluster, if one is known, else the one at `admin`, else the store's.

    It raises OperationError while ZooKeeper does not answer. Raises: OperationError - there is no hub to be watched;
        ConfigurationError - a URL is none, or an extra is missing; MetadataError - the store cannot be asked.
    """
    try:
        url = deployment.cluster_url
    except ConfigurationError:
        admin = deployment.admin
        found = await _standalone(deployment) if admin is None else WatchedHub(admin, admin)

        async def the_same() -> Sequence[WatchedHub]:
            nonlocal found
            if found.name == admin:
                found = await asyncio.to_thread(_named, deployment, admin)
            return [found]

        yield the_same
        return
    async with _cluster_hubs(deployment, url) as find:
        yield find


@asynccontextmanager
async def _cluster_hubs(deployment: Deployment, url: str) -> AsyncIterator[_Find]:
    timeout_s = deployment.timeout_s
    async with AsyncExitStack() as stack:
        try:
            bridge, prefix = await stack.enter_async_context(cluster_session(url, timeout_s))
        except NotAppliedError as exc:
            raise unavailable(deployment.command, url, exc) from exc
        from hedwig.hub.liveness import read_hubs

        async def find() -> Sequence[WatchedHub]:
            try:
                live = await read_hubs(bridge, prefix, timeout_s=min(timeout_s, _PATIENCE_S))
            except (NotAppliedError, ServiceDownError) as exc:
                raise unavailable(deployment.command, url, exc) from exc
            return [WatchedHub(f"{hub.info.host}:{hub.info.port}", hub.admin, hub.is_draining) for hub in live]

        yield find


def _named(deployment: Deployment, admin: str) -> WatchedHub:
    """Return the hub whose admin endpoint is given, by where clients reach it; that is not known until it says so."""
    within_s = min(deployment.timeout_s, _NAME_S)
    try:
        address = AdminEndpoint(deployment.command, admin, admin, within_s).get("/health")["address"]
        return WatchedHub(HubInfo.at(address).name, admin)
    except (OperationError, InvalidArgumentError, KeyError, TypeError, ValueError):
        return WatchedHub(admin, admin)  # That it does not answer, or is no hub, is said of it as of any.


async def _standalone(deployment: Deployment) -> WatchedHub:
    hub = await read_standalone_hub(deployment)
    return WatchedHub(hub.name, f"{hub.host}:{ADMIN_PORT}")
