"""The hubs to watch: those of a cluster, which may change, or the standalone hub of a store."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, TypeAlias

from hedwig.errors import ConfigurationError, InvalidArgumentError, OperationError, ServiceDownError
from hedwig.model import HubInfo
from hedwig.operations.deployment.cluster import cluster_session, unavailable
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.hub_survey import WatchedHub
from hedwig.operations.deployment.reached_hub import read_standalone_hub
from hedwig.operations.deployment.topic_owner import ADMIN_PORT
from hedwig.outcomes import NotAppliedError

__all__ = ["watched_hubs"]

_PATIENCE_S: Final = 2.0
"""How long ZooKeeper has to list the hubs, once connected. The user waits for it."""

_NAME_S: Final = 0.5
"""How long a hub has to say who it is. It is asked before each look until it answers."""

_Find: TypeAlias = Callable[[], Awaitable[Sequence[WatchedHub]]]


@asynccontextmanager
async def watched_hubs(deployment: Deployment) -> AsyncIterator[_Find]:
    """Yield a function that finds the hubs: those of the cluster if known, else the one at `admin`, else the store's.

    That function raises OperationError while ZooKeeper does not answer. Raises: OperationError - there is no hub to
        watch; ConfigurationError - a URL is invalid, or an extra is missing; MetadataError - the store does not answer.
    """
    try:
        url = deployment.cluster_url
    except ConfigurationError:
        admin = deployment.admin
        hub = await _standalone(deployment) if admin is None else WatchedHub(admin, admin)

        async def the_same() -> Sequence[WatchedHub]:
            nonlocal hub
            if hub.name == admin:
                hub = await asyncio.to_thread(_named, deployment, admin)
            return [hub]

        yield the_same
        return
    async with _cluster_hubs(deployment, url) as find:
        yield find


@asynccontextmanager
async def _cluster_hubs(deployment: Deployment, url: str) -> AsyncIterator[_Find]:
    timeout_s = deployment.timeout_s
    async with AsyncExitStack() as stack:
        try:
            session = cluster_session(url, timeout_s, deployment.stores_file)
            bridge, prefix = await stack.enter_async_context(session)
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
    """Return the hub at the given admin endpoint, by its address for clients. That is not known until it answers."""
    within_s = min(deployment.timeout_s, _NAME_S)
    try:
        address = deployment.admin_client(admin, admin, within_s).health()["address"]
        return WatchedHub(HubInfo.at(address).name, admin)
    except (OperationError, InvalidArgumentError, KeyError, TypeError, ValueError):
        return WatchedHub(admin, admin)  # The survey reports a hub that does not answer, or is no hub, as any other.


async def _standalone(deployment: Deployment) -> WatchedHub:
    hub = await read_standalone_hub(deployment)
    return WatchedHub(hub.name, f"{hub.host}:{ADMIN_PORT}")
