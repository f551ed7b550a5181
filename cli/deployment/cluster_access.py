"""How a command finds the hubs of a cluster: by what they announce in ZooKeeper."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hedwig.cli.arguments.option_group import option_group
from hedwig.cli.errors import CommandError, ExitCode
from hedwig.cli.settings.setting_options import cluster_setting_options
from hedwig.cli.settings.settings import Settings, current_settings
from hedwig.errors import ConfigurationError, ServiceDownError
from hedwig.metadata.contract.url import zookeeper_place
from hedwig.outcomes import NotAppliedError

if TYPE_CHECKING:
    from hedwig.hub.liveness import LiveHub

__all__ = [
    "ClusterAccess",
    "cluster_options",
    "cluster_place",
    "find_hub",
    "pick_hub",
    "read_cluster",
    "read_hubs_of",
]

_SCHEME = "zookeeper"


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Where the hubs are registered, as it was given; None: where the metadata are, if that is a ZooKeeper."""

    given: str | None

    @classmethod
    def of(cls, settings: Settings) -> "ClusterAccess":
        """Make it of what was chosen."""
        given = settings.chosen("cluster").value
        return cls(None if given is None else str(given))

    def url(self, settings: Settings) -> str:
        """Return the URL. Raises ConfigurationError if none was given, or it cannot be one."""
        url = self.given or str(settings.chosen("metadata").value or "")
        if not self.given and not url.startswith(f"{_SCHEME}:"):
            raise ConfigurationError(
                "no cluster was named; give --cluster zookeeper://host:2181/hedwig/REGION, as its hubs are given in "
                "cluster.zookeeper"
            )
        return url


def cluster_options() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options of a command about the hubs of a cluster; it gets them as `cluster`."""
    return option_group("cluster", cluster_setting_options(), (), lambda _: ClusterAccess.of(current_settings()))


def read_cluster(settings: Settings, cluster: ClusterAccess) -> "tuple[LiveHub, ...]":
    """Return the hubs that are alive, by address.

    Raises: CommandError - ZooKeeper does not answer; ConfigurationError - the URL is none, or an extra is missing.
    """
    url = cluster.url(settings)
    try:
        return asyncio.run(read_hubs_of(url, settings.operation_timeout_s()))
    except (NotAppliedError, ServiceDownError) as exc:
        said = f"{settings.command} failed on the cluster {url}: {exc}; see that ZooKeeper is up there"
        raise CommandError(said, ExitCode.UNAVAILABLE) from exc


def find_hub(settings: Settings, cluster: ClusterAccess, name: str) -> "LiveHub":
    """Return the hub that clients reach at `name`, as `pick_hub`, of those that are alive. Raises as `read_cluster`."""
    return pick_hub(settings, cluster, read_cluster(settings, cluster), name)


def pick_hub(settings: Settings, cluster: ClusterAccess, live: "Sequence[LiveHub]", name: str) -> "LiveHub":
    """Return the hub of `live` that clients reach at `name`: host:port or host:port:sslport; host, if one is there.

    Raises: CommandError - there is none, or there are several.
    """
    for hub in live:
        if name in (hub.info.address, f"{hub.info.host}:{hub.info.port}"):
            return hub
    on_host = [hub for hub in live if hub.info.host == name]
    if len(on_host) == 1:
        return on_host[0]
    if on_host:
        names = ", ".join(sorted(hub.info.name for hub in on_host))
        raise CommandError(
            f"{settings.command}: {len(on_host)} hubs are alive on {name}: give one of {names}", ExitCode.USAGE
        )
    raise CommandError(
        f"there is no hub {name!r} alive in {cluster.url(settings)}; see who is with: hedwig-admin hub list",
        ExitCode.NOT_FOUND,
    )


async def read_hubs_of(url: str, timeout_s: float) -> "tuple[LiveHub, ...]":
    """Return the hubs that are alive in the cluster at `url`, by address.

    Raises: NotAppliedError, ServiceDownError - ZooKeeper does not answer; ConfigurationError - as `read_cluster`.
    """
    hosts, prefix = cluster_place(url)
    try:
        from hedwig.hub.liveness import read_hubs
        from hedwig.zookeeper import Bridge, BridgeOptions
    except ImportError as exc:
        raise ConfigurationError(
            f"the hubs of a cluster are found with {exc.name}; in the checkout of hedwig: pip install '.[zookeeper]'"
        ) from exc
    bridge = Bridge(hosts, BridgeOptions(connect_timeout_s=timeout_s))
    try:
        await bridge.connect()
        return await read_hubs(bridge, prefix, timeout_s=timeout_s)
    finally:
        await bridge.close()


def cluster_place(url: str) -> tuple[str, str]:
    """Return hosts and prefix of a cluster. Raises ConfigurationError."""
    try:
        return zookeeper_place(url)
    except ConfigurationError as exc:
        text = f"the cluster is {url!r}; it must be like zookeeper://host:2181/hedwig/REGION"
        raise ConfigurationError(text) from exc
