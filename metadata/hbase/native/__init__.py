"""HBase's own RPC, from this process directly to the region servers."""

from typing import Final

from hedwig.errors import ConfigurationError
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.contract.url import MetadataUrl
from hedwig.metadata.hbase.backend import HBaseFactory
from hedwig.metadata.hbase.durability import DURABILITY, Durability
from hedwig.metadata.hbase.native.cluster.batching import GATHERING, Gathering
from hedwig.metadata.hbase.native.cluster.links import Links, Route
from hedwig.metadata.hbase.native.cluster.registry import Registry, RpcRegistry, ZooKeeperRegistry
from hedwig.metadata.hbase.native.driver import NativeDriver
from hedwig.metadata.hbase.native.wire.identity import USER, Identity
from hedwig.store_access import StoreAccess

__all__ = ["FACTORY", "NativeDriver", "connect"]

_ZOOKEEPER_PORT: Final = 2181
_MASTER_PORT: Final = 16000
_PARENT: Final = "/hbase"


async def connect(
    url: MetadataUrl,
    options: StoreOptions,
    route: Route = lambda server: server,
    gathering: Gathering = GATHERING,
) -> NativeDriver:
    """Return a driver for the cluster that a URL names. `route` gives the address at which it reaches a server.

    Raises: ConfigurationError - the URL or the stores file cannot work, or the cluster is too old;
        MetadataUnavailableError - the cluster does not answer within the operation timeout.
    """
    registry = url.parameters.get("registry", "zookeeper")
    known = {"registry", "znode"} if registry == "zookeeper" else {"registry"}
    url.check_parameters(frozenset({*known, DURABILITY, USER}))
    durability = Durability.of(url)
    if registry not in ("zookeeper", "rpc"):
        raise ConfigurationError(f"{url.text!r}: the parameter registry is zookeeper or rpc, not {registry!r}")
    endpoints = url.endpoints(_ZOOKEEPER_PORT if registry == "zookeeper" else _MASTER_PORT)
    parent = url.parameters.get("znode", _PARENT)
    if not parent.startswith("/"):
        raise ConfigurationError(f"{url.text!r}: the parameter znode is a path in ZooKeeper, such as {_PARENT}")

    access = StoreAccess.read(options.stores_file)

    def make_registry(links: Links) -> Registry:
        if registry == "rpc":
            return RpcRegistry(links, endpoints, options.clock)
        return ZooKeeperRegistry(endpoints, parent, options.clock, access.zookeeper)

    advice = f"make it with: hedwig-admin metadata format --metadata '{url.text}'"
    driver = NativeDriver(
        make_registry,
        options,
        advice=advice,
        identity=Identity.of(url, access.hbase),
        durability=durability,
        route=route,
        gathering=gathering,
    )
    try:
        await driver.check_version()
    except BaseException:
        await driver.close()
        raise
    return driver


FACTORY: Final = HBaseFactory(connect)
