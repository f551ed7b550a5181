"""Which hubs are watched: those of a cluster as they come and go, or the standalone hub of a store."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

from hedwig.cli.deployment.admin_endpoint import AdminEndpoint
from hedwig.cli.deployment.cluster_access import ClusterAccess, cluster_place
from hedwig.cli.deployment.hub_survey import WatchedHub
from hedwig.cli.deployment.reached_hub import read_standalone_hub
from hedwig.cli.deployment.topic_owner import ADMIN_PORT
from hedwig.cli.errors import CommandError, ExitCode
from hedwig.cli.settings.settings import Settings
from hedwig.errors import ConfigurationError, InvalidArgumentError, ServiceDownError
from hedwig.model import HubInfo
from hedwig.outcomes import NotAppliedError

__all__ = ["watched_hubs"]

_PATIENCE_S: Final = 2.0
"""How long ZooKeeper has to say who is there, once it was connected: whoever watches waits for it."""

_NAME_S: Final = 0.5
"""How long a hub has to say who it is, before each look until it has."""

_Find: TypeAlias = Callable[[], Awaitable[Sequence[WatchedHub]]]


@asynccontextmanager
async def watched_hubs(settings: Settings, cluster: ClusterAccess, admin: str | None) -> AsyncIterator[_Find]:
    """Give what finds the hubs: those of the cluster, if one is known, else the one at `admin`, else the store's.

    It raises CommandError while ZooKeeper does not answer. Raises: CommandError - there is no hub to be watched;
        ConfigurationError - a URL is none, or an extra is missing; MetadataError - the store cannot be asked.
    """
    try:
        url = cluster.url(settings)
    except ConfigurationError:
        found = await _standalone(settings) if admin is None else WatchedHub(admin, admin)

        async def the_same() -> Sequence[WatchedHub]:
            nonlocal found
            if found.name == admin:
                found = await asyncio.to_thread(_named, settings, admin)
            return [found]

        yield the_same
        return
    async with _cluster_hubs(settings, url) as find:
        yield find


@asynccontextmanager
async def _cluster_hubs(settings: Settings, url: str) -> AsyncIterator[_Find]:
    hosts, prefix = cluster_place(url)
    try:
        from hedwig.hub.liveness import read_hubs
        from hedwig.zookeeper import Bridge, BridgeOptions
    except ImportError as exc:
        raise ConfigurationError(
            f"the hubs of a cluster are found with {exc.name}; in the checkout of hedwig: pip install '.[zookeeper]'"
        ) from exc
    timeout_s = settings.operation_timeout_s()
    bridge = Bridge(hosts, BridgeOptions(connect_timeout_s=timeout_s))

    def unavailable(error: Exception) -> CommandError:
        said = f"{settings.command} failed on the cluster {url}: {error}; see that ZooKeeper is up there"
        return CommandError(said, ExitCode.UNAVAILABLE)

    async def find() -> Sequence[WatchedHub]:
        try:
            live = await read_hubs(bridge, prefix, timeout_s=min(timeout_s, _PATIENCE_S))
        except (NotAppliedError, ServiceDownError) as exc:
            raise unavailable(exc) from exc
        return [WatchedHub(f"{hub.info.host}:{hub.info.port}", hub.admin, hub.is_draining) for hub in live]

    try:
        try:
            await bridge.connect()
        except NotAppliedError as exc:
            raise unavailable(exc) from exc
        yield find
    finally:
        await bridge.close()


def _named(settings: Settings, admin: str) -> WatchedHub:
    """Return the hub whose admin endpoint is given, by where clients reach it; that is not known until it says so."""
    within_s = min(settings.operation_timeout_s(), _NAME_S)
    try:
        address = AdminEndpoint(settings.command, admin, admin, within_s).get("/health")["address"]
        return WatchedHub(HubInfo.at(address).name, admin)
    except (CommandError, InvalidArgumentError, KeyError, TypeError, ValueError):
        return WatchedHub(admin, admin)  # That it does not answer, or is no hub, is said of it as of any.


async def _standalone(settings: Settings) -> WatchedHub:
    hub = await read_standalone_hub(settings)
    return WatchedHub(hub.name, f"{hub.host}:{ADMIN_PORT}")
