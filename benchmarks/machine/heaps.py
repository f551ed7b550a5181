"""How the heap of a backend is divided. In total it is the same for both sides, whatever machines a side consists of.

A machine is a Java virtual machine.
"""

from typing import Final

__all__ = ["HEAP_MB_MIN", "STORM_HEAP_MB_MIN", "hbase_heaps", "storm_heaps"]

_HBASE_ZOOKEEPER_MB: Final = 128
"""For a ZooKeeper that has only HBase's own nodes."""
_STORM_ZOOKEEPER_MB: Final = 512
"""For a ZooKeeper that also has the liveness of hubs and the ledgers of some hundred thousand topics."""
_MASTER_MB: Final = 256
_GATEWAY_MB: Final = 256
_REGION_SERVER_MB_MIN: Final = 384
HEAP_MB_MIN: Final = _HBASE_ZOOKEEPER_MB + _MASTER_MB + _GATEWAY_MB + _REGION_SERVER_MB_MIN
"""A smaller total is too little for HBase with a gateway."""
STORM_HEAP_MB_MIN: Final = _STORM_ZOOKEEPER_MB + _MASTER_MB + _REGION_SERVER_MB_MIN
"""A smaller total is too little for HBase in a takeover storm."""


def hbase_heaps(heap_mb: int, *, has_gateway: bool = False) -> dict[str, int]:
    """Return the MiB of each of HBase's machines, including its ZooKeeper: `heap_mb` in total."""
    gateway = {"thrift2": _GATEWAY_MB} if has_gateway else {}
    return _shared_out(heap_mb, {"zookeeper": _HBASE_ZOOKEEPER_MB, "hbase-master": _MASTER_MB, **gateway})


def storm_heaps(heap_mb: int, *, metadata: str) -> dict[str, int]:
    """Return the MiB of each machine of a storm's metadata, including the ZooKeeper of liveness: `heap_mb` in total."""
    if metadata == "zookeeper":
        return {"zookeeper": heap_mb}
    return _shared_out(heap_mb, {"zookeeper": _STORM_ZOOKEEPER_MB, "hbase-master": _MASTER_MB})


def _shared_out(heap_mb: int, small: dict[str, int]) -> dict[str, int]:
    """Return the heaps of the small machines, and that of the region server, which gets the rest."""
    return {**small, "regionserver": heap_mb - sum(small.values())}
