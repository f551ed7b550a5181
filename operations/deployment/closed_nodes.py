"""Closes the nodes of a deployment in ZooKeeper, so that nobody without a login registers a hub or changes a record."""

from collections.abc import Callable, Mapping

from hedwig.clock import Deadline, SystemClock
from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode
from hedwig.operations.deployment.cluster import cluster_session, unavailable
from hedwig.operations.deployment.deployment import Deployment
from hedwig.outcomes import NotAppliedError, OutcomeUnknownError
from hedwig.store_access import StoreAccess, ZooKeeperAccess

__all__ = ["access_to_close", "close_nodes"]


def access_to_close(deployment: Deployment) -> ZooKeeperAccess:
    """Return what makes nodes closed.

    Raises: OperationError - the user named no ZooKeeper, or no logins; ConfigurationError - the stores file cannot be
        used.
    """
    if not _urls(deployment):
        raise OperationError(
            f"{deployment.command}: no ZooKeeper was named, and HBase closes its tables by grants of its own; name the "
            "hubs' ZooKeeper with --cluster URL",
            ExitCode.USAGE,
        )
    access = StoreAccess.read(deployment.stores_file).zookeeper
    if not access.logins or not access.closes_nodes:
        raise OperationError(
            f"{deployment.command}: nodes are closed to all but the zookeeper.logins of a stores file, whose "
            'zookeeper.new_nodes is "closed"; give --stores-file FILE',
            ExitCode.USAGE,
        )
    return access


async def close_nodes(deployment: Deployment, access: ZooKeeperAccess, advance: Callable[[int], None]) -> int:
    """Close all nodes of the hubs and of the metadata to those without a login; return how many were not.

    It also makes the nodes in which hubs register. `advance` is called with the number of nodes that each step looked
    at. It may be repeated, and hubs may run that have a login of the file.

    Raises: OperationError - ZooKeeper does not answer, or does not let us in; MetadataForbiddenError,
        MetadataUnavailableError - as `close_tree`.
    """
    return sum([await _close(deployment, url, access, advance) for url in _urls(deployment)])


async def _close(deployment: Deployment, url: str, access: ZooKeeperAccess, advance: Callable[[int], None]) -> int:
    try:
        async with cluster_session(url, deployment.timeout_s, deployment.stores_file) as (bridge, prefix):
            from hedwig.hub.liveness.paths import HubPaths
            from hedwig.zookeeper import acl_of, close_tree, create, exists

            clock = SystemClock()
            if url == _without_options(deployment.cluster_url_if_known):
                deadline, paths = Deadline.after(clock, deployment.timeout_s), HubPaths(prefix)
                # A node above that is there may not let us make it: what counts is whether hubs can register.
                *_, refusal, hosts = await bridge.send(deadline, *map(create, paths.above()), exists(paths.hosts))
                if hosts is None:
                    raise OperationError(
                        f"{deployment.command}: ZooKeeper does not let the logins of the stores file make "
                        f"{paths.hosts}: {type(refusal).__name__}"
                    )
            return await close_tree(bridge, prefix, acl_of(access), clock, deployment.timeout_s, advance)
    except (NotAppliedError, OutcomeUnknownError) as exc:
        raise unavailable(deployment.command, url, exc) from exc


def _urls(deployment: Deployment) -> Mapping[str, None]:
    """Return where the deployment has nodes, each once, in order."""
    metadata = deployment.metadata or ""
    known = (deployment.cluster_url_if_known, metadata if metadata.startswith("zookeeper:") else None)
    return dict.fromkeys(_without_options(url) for url in known if url)


def _without_options(url: str | None) -> str:
    """Return the URL of the same place. What a store may list at once, say, is no matter of nodes."""
    return (url or "").partition("?")[0]
