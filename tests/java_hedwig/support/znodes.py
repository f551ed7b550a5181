"""A tree of znodes as a value: read from one ZooKeeper, created again in another."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kazoo.client import KazooClient

__all__ = ["Znode", "make_tree", "read_tree"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Znode:
    """One node. `path` starts at the root of the tree, whose own path is empty."""

    path: str
    data: bytes
    czxid: int
    version: int
    ephemeral: bool


def read_tree(client: KazooClient, root: str) -> Iterator[Znode]:
    """Yield `root` and everything below, parents first, siblings by name."""
    yield from _read(client, root, "")


def _read(client: KazooClient, root: str, path: str) -> Iterator[Znode]:
    data, stat = client.get(root + path)
    yield Znode(path=path, data=data, czxid=stat.czxid, version=stat.version, ephemeral=stat.ephemeralOwner != 0)
    for name in sorted(client.get_children(root + path)):
        yield from _read(client, root, f"{path}/{name}")


def make_tree(client: KazooClient, root: str, nodes: Iterable[Znode]) -> None:
    """Create the nodes under `root`, with data versions and kinds; ephemeral ones live as long as `client`."""
    for node in nodes:
        path = root + node.path
        client.create(path, node.data, ephemeral=node.ephemeral, makepath=not node.path)
        for _ in range(node.version):
            client.set(path, node.data)
