"""A session with ZooKeeper for asyncio, on kazoo; it needs the extra `zookeeper`."""

from hedwig.zookeeper.bridge import Bridge, Connection, Request
from hedwig.zookeeper.options import BridgeOptions
from hedwig.zookeeper.tree_watch import TreeWatch, leave_tree, watch_tree

__all__ = ["Bridge", "BridgeOptions", "Connection", "Request", "TreeWatch", "leave_tree", "watch_tree"]
