"""How a command finds the hubs of a cluster: by what they announce in ZooKeeper."""

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from cli.errors import CommandError, ExitCode
from cli.option_group import option_group
from cli.settings import Settings
from hedwig.errors import ConfigurationError, ServiceDownError
from hedwig.outcomes import NotAppliedError
from metadata import MetadataUrl

if TYPE_CHECKING:
    from hub.liveness import LiveHub

__all__ = ["ClusterAccess", "cluster_options", "find_hub", "read_cluster"]

_SCHEME = "zookeeper"
_PORT = 2181


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Where the hubs are registered, as it was given; None: where the metadata are, if that is a ZooKeeper."""

    given: str | None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> "ClusterAccess":
        """Make it of the parsed options and the environment."""
        return cls(params["cluster"] or os.environ.get("HEDWIG_CLUSTER") or None)

    def url(self, settings: Settings) -> str:
        """Return the URL. Raises ConfigurationError if none was given, or it cannot be one."""
        url = self.given or settings.metadata or os.environ.get("HEDWIG_METADATA") or ""
        if not self.given and not url.startswith(f"{_SCHEME}:"):
            raise ConfigurationError(
                "no cluster was named; give --cluster zookeeper://host:2181/hedwig/REGION, as its hubs are given in "
                "cluster.zookeeper"
            )
        return url


def cluster_options() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options of a command about the hubs of a cluster; it gets them as `cluster`."""
    options = (
        click.option(
            "--cluster",
            metavar="URL",
            help="Where the hubs are registered, their option cluster.zookeeper: zookeeper://host:port/hedwig/REGION."
            "  [env: HEDWIG_CLUSTER; default: the metadata store, if it is a ZooKeeper]",
        ),
    )
    return option_group("cluster", options, ("cluster",), ClusterAccess.of)


def read_cluster(settings: Settings, cluster: ClusterAccess) -> "tuple[LiveHub, ...]":
    """Return the hubs that are alive, by address.

    Raises: CommandError - ZooKeeper does not answer; ConfigurationError - the URL is none, or an extra is missing.
    """
    url = cluster.url(settings)
    hosts, prefix = _place(url)
    try:
        return asyncio.run(_read(hosts, prefix, settings.operation_timeout_s()))
    except (NotAppliedError, ServiceDownError) as exc:
        said = f"{settings.command} failed on the cluster {url}: {exc}; see that ZooKeeper is up there"
        raise CommandError(said, ExitCode.UNAVAILABLE) from exc


def find_hub(settings: Settings, cluster: ClusterAccess, name: str) -> "LiveHub":
    """Return the hub that clients reach at `name`, host:port or host:port:sslport. Raises as `read_cluster`.

    Raises: CommandError - no such hub is alive.
    """
    for hub in read_cluster(settings, cluster):
        if name in (hub.info.address, f"{hub.info.host}:{hub.info.port}"):
            return hub
    raise CommandError(
        f"there is no hub {name!r} alive in {cluster.url(settings)}; see who is with: hedwig-admin hub list",
        ExitCode.NOT_FOUND,
    )


async def _read(hosts: str, prefix: str, timeout_s: float) -> "tuple[LiveHub, ...]":
    try:
        from hedwig.zookeeper import Bridge, BridgeOptions
        from hub.liveness import read_hubs
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


def _place(url: str) -> tuple[str, str]:
    """Return hosts and prefix. Raises ConfigurationError."""
    wrong = ConfigurationError(f"the cluster is {url!r}; it must be like zookeeper://host:2181/hedwig/REGION")
    try:
        parsed = MetadataUrl.parse(url)
        hosts = ",".join(f"{host}:{port}" for host, port in parsed.endpoints(_PORT))
    except ConfigurationError as exc:
        raise wrong from exc
    if parsed.scheme != _SCHEME or parsed.parameters or not parsed.path.strip("/"):
        raise wrong
    return hosts, parsed.path.rstrip("/")
