"""Nodes that belong to HBase or BookKeeper: a store is not laid out among them."""

from typing import Final

from hedwig.clock import Deadline
from hedwig.errors import ConfigurationError
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.contract.url import MetadataUrl
from hedwig.metadata.zookeeper.writes.guarded_read import answer, reading
from hedwig.zookeeper import Bridge, exists

__all__ = ["refuse_foreign_path"]

_MARKS: Final = {"HBase": ("hbaseid", "rs"), "BookKeeper": ("LAYOUT", "available")}
"""How to recognize the root of another server's nodes: only such a root has all of these children."""


async def refuse_foreign_path(bridge: Bridge, url: MetadataUrl, options: StoreOptions) -> None:
    """Raise ConfigurationError if the path of `url` is the root of another server's nodes, or lies below one."""
    steps = url.path.split("/")
    roots = ["/".join(steps[:end]) for end in range(2, len(steps) + 1)]
    marks = [(root, owner, f"{root}/{child}") for root in roots for owner in _MARKS for child in _MARKS[owner]]

    async def attempt(deadline: Deadline) -> list[bool]:
        return [answer(stat) is not None for stat in await bridge.send(deadline, *(exists(path) for *_, path in marks))]

    there = await reading(options, f"looking for nodes of others at {url.path}", attempt)
    present = [(root, owner) for (root, owner, _), is_there in zip(marks, there, strict=True) if is_there]
    for root, owner in present:
        if present.count((root, owner)) == len(_MARKS[owner]):
            raise ConfigurationError(
                f"{root} in ZooKeeper is where {owner} keeps its own nodes, so no store is laid out at {url.path}; "
                "name a path beside it, such as /hedwig/standalone"
                + (", or a store in HBase: hbase://HOST:2181/hedwig" if owner == "HBase" else "")
            )
