"""Metadata in ZooKeeper, laid out as the original Hedwig does; docs/reference/zookeeper-layout.md describes it."""

from hedwig.metadata.zookeeper.factory import FACTORY

__all__ = ["FACTORY"]
