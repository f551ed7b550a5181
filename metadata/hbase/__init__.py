"""HBase: one table layout and one implementation of compare-and-set, over drivers that reach a cluster."""

from hedwig.metadata.hbase.backend import HBaseBackend, HBaseFactory
from hedwig.metadata.hbase.driver import HBaseDriver

__all__ = ["HBaseBackend", "HBaseDriver", "HBaseFactory"]
