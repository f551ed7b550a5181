"""A session with ZooKeeper for asyncio, on kazoo; it needs the extra `zookeeper`."""

from hedwig.zookeeper.bridge import Bridge, Connection, Request
from hedwig.zookeeper.options import BridgeOptions

__all__ = ["Bridge", "BridgeOptions", "Connection", "Request"]
