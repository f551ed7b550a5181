"""What a write must have survived before it is acknowledged: stated with each, in HBase's own numbers."""

import enum
from typing import Final, Self

from hedwig.errors import ConfigurationError
from hedwig.metadata.contract.url import MetadataUrl

__all__ = ["DURABILITY", "Durability"]

DURABILITY: Final = "durability"
"""The parameter of a metadata URL."""


class Durability(enum.IntEnum):
    """The durability of every write of a store. None of them is answered before the log of the region server has it.

    Source: Durability of HBase, and the numbers of MutationProto and TDurability.
    """

    CLUSTER = 0
    """What the table says, else the cluster: in memory of the log's replicas; on their disks with hbase.wal.hsync."""
    SYNC = 3
    """In memory of the log's replicas, whatever the cluster says."""
    FSYNC = 4
    """On the disks of the log's replicas, whatever the cluster says."""

    @classmethod
    def of(cls, url: MetadataUrl) -> Self:
        """Return what a URL asks for, CLUSTER if nothing. Raises ConfigurationError."""
        text = url.parameters.get(DURABILITY, cls.CLUSTER.name.lower())
        for each in cls:
            if text == each.name.lower():
                return each
        raise ConfigurationError(f"{url.text!r}: the parameter {DURABILITY} is cluster, sync or fsync, not {text!r}")
