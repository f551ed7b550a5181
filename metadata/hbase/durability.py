"""What a write must survive before HBase acknowledges it. Each write states this in HBase's own numbers."""

import enum
from typing import Final, Self

from hedwig.errors import ConfigurationError
from hedwig.metadata.contract.url import MetadataUrl

__all__ = ["DURABILITY", "Durability"]

DURABILITY: Final = "durability"
"""The parameter of a metadata URL."""


class Durability(enum.IntEnum):
    """The durability of every write of a store. A region server answers no write before its log has it.

    Source: Durability of HBase, and the numbers of MutationProto and TDurability.
    """

    CLUSTER = 0
    """As the table says, else the cluster: in memory of the log's replicas, or on their disks with hbase.wal.hsync."""
    SYNC = 3
    """In memory of the log's replicas, even if the cluster says otherwise."""
    FSYNC = 4
    """On the disks of the log's replicas, even if the cluster says otherwise."""

    @classmethod
    def of(cls, url: MetadataUrl) -> Self:
        """Return the durability that a URL names, else CLUSTER. Raises ConfigurationError."""
        text = url.parameters.get(DURABILITY, cls.CLUSTER.name.lower())
        for each in cls:
            if text == each.name.lower():
                return each
        raise ConfigurationError(f"{url.text!r}: the parameter {DURABILITY} is cluster, sync or fsync, not {text!r}")
