"""HBase through its Thrift2 gateway, for clusters that cannot be reached otherwise."""

from typing import Final

from hedwig.errors import ConfigurationError
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.contract.url import MetadataUrl
from hedwig.metadata.hbase.backend import HBaseFactory
from hedwig.metadata.hbase.durability import DURABILITY, Durability
from hedwig.metadata.hbase.thrift2.driver import Thrift2Driver
from hedwig.store_access import NO_HBASE_ACCESS, StoreAccess

__all__ = ["FACTORY", "Thrift2Driver"]

_PORT: Final = 9090
_CONNECTIONS: Final = 16
_CONNECTIONS_MAX: Final = 256


async def _connect(url: MetadataUrl, options: StoreOptions) -> Thrift2Driver:
    url.check_parameters(frozenset({"connections", "transport", DURABILITY}))
    if StoreAccess.read(options.stores_file).hbase != NO_HBASE_ACCESS:
        raise ConfigurationError(
            f"{url.text!r}: connections to a gateway have no TLS and no login, and the stores file asks for it; use "
            "hbase://, or leave [hbase] out"
        )
    endpoints = url.endpoints(_PORT)
    if len(endpoints) != 1:
        raise ConfigurationError(f"{url.text!r} must name one gateway; put a balancer before several")
    transport = url.parameters.get("transport", "buffered")
    if transport not in ("buffered", "framed"):
        raise ConfigurationError(f"{url.text!r}: the parameter transport is buffered or framed, not {transport!r}")
    connections = url.parameters.get("connections", str(_CONNECTIONS))
    if not (connections.isascii() and connections.isdigit() and 1 <= int(connections) <= _CONNECTIONS_MAX):
        raise ConfigurationError(f"{url.text!r}: the parameter connections is 1 to {_CONNECTIONS_MAX}")
    ((host, port),) = endpoints
    return Thrift2Driver(
        host,
        port,
        options,
        connections=int(connections),
        framed=transport == "framed",
        durability=Durability.of(url),
    )


FACTORY: Final = HBaseFactory(_connect)
