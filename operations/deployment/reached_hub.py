"""The one hub that a command is about, asked at its admin endpoint. It is of a cluster, or standalone.

A hub of a cluster announces its address in ZooKeeper. A standalone hub does not. Its store has its address, and its
admin endpoint is expected at the same host, unless the user names it.
"""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode
from hedwig.metadata import open_metadata
from hedwig.model import HubInfo
from hedwig.operations.deployment.admin_endpoint import AdminClient
from hedwig.operations.deployment.cluster import pick_hub, read_cluster
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.topic_owner import ADMIN_PORT

if TYPE_CHECKING:
    from hedwig.hub.liveness import LiveHub

__all__ = ["ReachedHub", "hubs_of_cluster", "reach_hub", "reach_live_hub", "read_standalone_hub"]


@dataclass(frozen=True, slots=True)
class ReachedHub:
    """A hub that answers at its admin endpoint. `announced` is its record in the cluster, None for a standalone hub."""

    info: HubInfo
    endpoint: AdminClient
    health: dict[str, Any]
    announced: "LiveHub | None" = None

    @property
    def name(self) -> str:
        """Return host:port, by which clients reach it."""
        return self.info.name


def reach_hub(deployment: Deployment, name: str | None) -> ReachedHub:
    """Return the hub that clients reach at `name`, or the only hub if `name` is None.

    Raises: OperationError - there is no such hub, it does not answer, or another one does; there is a cluster, and
        no name; what the store and the cluster raise.
    """
    live = hubs_of_cluster(deployment)
    if live is None:
        return _reach_standalone(deployment, name)
    if name is None:
        raise OperationError(
            f"{deployment.command}: which hub of the cluster? Give HUB, host:port; hedwig-admin hub list has them",
            ExitCode.USAGE,
        )
    return reach_live_hub(deployment, pick_hub(deployment, live, name))


def hubs_of_cluster(deployment: Deployment) -> "tuple[LiveHub, ...] | None":
    """Return the hubs that are alive in the cluster; None if there is no cluster, but at most a standalone hub.

    A store in ZooKeeper counts as its own cluster, but may serve a standalone hub. It counts as no cluster while no hub
    is registered there and the store has a standalone hub. Raises as `read_cluster`, and what the store raises.
    """
    if deployment.cluster_url_if_known is None:
        return None
    live = read_cluster(deployment)
    if not live and deployment.cluster is None and asyncio.run(_registered(deployment)) is not None:
        return None
    return live


def reach_live_hub(deployment: Deployment, hub: "LiveHub") -> ReachedHub:
    """Return a hub of the cluster. Raises OperationError if it has no admin endpoint, or another hub answers."""
    address = deployment.admin or hub.admin
    if address is None:
        raise OperationError(
            f"{deployment.command} failed on hub {hub.info.name}: it announces no admin endpoint; it is an "
            "original hub, or runs with admin_port = -1"
        )
    endpoint, health = _asked(deployment, hub.info.name, address)
    if health.get("address") != hub.info.address:
        raise _is_another(deployment, hub.info.name, address, health)
    return ReachedHub(hub.info, endpoint, health, hub)


async def read_standalone_hub(deployment: Deployment) -> HubInfo:
    """Return the standalone hub on record. Raises OperationError if the store has none; what the store raises."""
    hub = await _registered(deployment)
    if hub is None:
        raise OperationError(
            f"{deployment.command} failed: no hub is known, and {deployment.url_to_show} has none. Name a cluster "
            "with --cluster URL, the admin endpoint of a standalone hub with --admin HOST:PORT, or its store with "
            "--metadata",
            ExitCode.NOT_FOUND,
        )
    return hub


def _reach_standalone(deployment: Deployment, name: str | None) -> ReachedHub:
    admin = deployment.admin
    if admin is not None:
        endpoint, health = _asked(deployment, name or f"at {admin}", admin)
        info = HubInfo.at(str(health.get("address")), epoch=int(health.get("epoch", 0)))
        if name is not None and not _is_called(info, name):
            raise _is_another(deployment, name, admin, health)
        return ReachedHub(info, endpoint, health)
    known = asyncio.run(read_standalone_hub(deployment))
    if name is not None and not _is_called(known, name):
        raise OperationError(
            f"{deployment.command} failed: the only hub that {deployment.url_to_show} knows is {known.name}, and not "
            f"{name!r}. Name a cluster with --cluster URL, or the hub's admin endpoint with --admin HOST:PORT",
            ExitCode.NOT_FOUND,
        )
    address = f"{known.host}:{ADMIN_PORT}"
    endpoint, health = _asked(deployment, known.name, address)
    if health.get("address") != known.address:
        raise _is_another(deployment, known.name, address, health)
    return ReachedHub(HubInfo.at(known.address, epoch=int(health.get("epoch", 0))), endpoint, health)


async def _registered(deployment: Deployment) -> HubInfo | None:
    async with await open_metadata(deployment.url, deployment.options_to_look()) as store:
        hub = await store.standalone_hub()
    return None if hub is None else HubInfo.at(hub.address, epoch=hub.starts)


def _asked(deployment: Deployment, name: str, address: str) -> tuple[AdminClient, dict[str, Any]]:
    endpoint = deployment.admin_client(name, address)
    return endpoint, endpoint.health()


def _is_called(info: HubInfo, name: str) -> bool:
    return name in (info.address, info.name, info.host)


def _is_another(deployment: Deployment, name: str, address: str, health: dict[str, Any]) -> OperationError:
    return OperationError(
        f"{deployment.command} failed on hub {name}: what answers at {address} is hub {health.get('address')}; name a "
        "way to the right one with --admin HOST:PORT"
    )
