"""How the heap of a backend is shared out: in all the same for both sides, whatever machines a side is made of."""

from typing import Final

__all__ = ["HEAP_MB_MIN", "STORM_HEAP_MB_MIN", "hbase_heaps", "storm_heaps"]

_HBASE_ZOOKEEPER_MB: Final = 128
"""Of a ZooKeeper that has nothing but HBase's own nodes."""
_STORM_ZOOKEEPER_MB: Final = 512
"""Of one that has the liveness of hubs and the ledgers of some hundred thousand topics besides."""
_MASTER_MB: Final = 256
_GATEWAY_MB: Final = 256
_REGION_SERVER_MB_MIN: Final = 384
HEAP_MB_MIN: Final = _HBASE_ZOOKEEPER_MB + _MASTER_MB + _GATEWAY_MB + _REGION_SERVER_MB_MIN
"""Less in all is too little for HBase with a gateway."""
STORM_HEAP_MB_MIN: Final = _STORM_ZOOKEEPER_MB + _MASTER_MB + _REGION_SERVER_MB_MIN
"""Less in all is too little for HBase in a takeover storm."""


def hbase_heaps(heap_mb: int, *, has_gateway: bool = False) -> dict[str, int]:
    """Return the MiB of each of HBase's machines, its ZooKeeper's too: `heap_mb` in all."""
    gateway = {"thrift2": _GATEWAY_MB} if has_gateway else {}
    return _shared_out(heap_mb, {"zookeeper": _HBASE_ZOOKEEPER_MB, "hbase-master": _MASTER_MB, **gateway})


def storm_heaps(heap_mb: int, *, metadata: str) -> dict[str, int]:
    """Return the MiB of each machine of a storm's metadata, the ZooKeeper of liveness included: `heap_mb` in all."""
    if metadata == "zookeeper":
        return {"zookeeper": heap_mb}
    return _shared_out(heap_mb, {"zookeeper": _STORM_ZOOKEEPER_MB, "hbase-master": _MASTER_MB})


def _shared_out(heap_mb: int, small: dict[str, int]) -> dict[str, int]:
    """Return what the small machines have, and that the region server has the rest."""
    return {**small, "regionserver": heap_mb - sum(small.values())}
