"""A session with ZooKeeper for asyncio, on kazoo, and the requests made in it. It needs the extra `zookeeper`."""

from hedwig.extras import needed

with needed("zookeeper", "hedwig.zookeeper needs"):
    from hedwig.zookeeper.bridge import Bridge, NewSession
    from hedwig.zookeeper.options import BridgeOptions
    from hedwig.zookeeper.requests import (
        ANY_VERSION,
        Request,
        children,
        commit_nothing,
        create,
        delete,
        exists,
        get,
        refusal_of,
        set_at,
        sync,
        transaction,
    )
    from hedwig.zookeeper.tree_watch import TreeWatch, leave_tree, watch_tree

__all__ = [
    "ANY_VERSION",
    "Bridge",
    "BridgeOptions",
    "NewSession",
    "Request",
    "TreeWatch",
    "children",
    "commit_nothing",
    "create",
    "delete",
    "exists",
    "get",
    "leave_tree",
    "refusal_of",
    "set_at",
    "sync",
    "transaction",
    "watch_tree",
]
