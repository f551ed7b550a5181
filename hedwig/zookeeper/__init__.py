"""A session with ZooKeeper for asyncio, on kazoo, and the requests made in it. It needs the extra `zookeeper`."""

from hedwig.extras import needed

with needed("zookeeper", "hedwig.zookeeper needs"):
    from hedwig.zookeeper.acl import acl_of, is_open_to_all
    from hedwig.zookeeper.bridge import Bridge, NewSession
    from hedwig.zookeeper.closing import close_tree
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
        get_acl,
        refusal_of,
        set_acl,
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
    "acl_of",
    "children",
    "close_tree",
    "commit_nothing",
    "create",
    "delete",
    "exists",
    "get",
    "get_acl",
    "is_open_to_all",
    "leave_tree",
    "refusal_of",
    "set_acl",
    "set_at",
    "sync",
    "transaction",
    "watch_tree",
]
