"""Opening and laying out a ZooKeeper store, from `zookeeper://host:port[,host:port…]/hedwig/REGION`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from hedwig.errors import ConfigurationError, LayoutMissingError
from hedwig.metadata.contract.backend import Backend, BackendFactory, StoreOptions
from hedwig.metadata.contract.layout import Layout, check_layout
from hedwig.metadata.contract.url import MetadataUrl
from hedwig.metadata.zookeeper.backend import PORT, ZookeeperBackend
from hedwig.metadata.zookeeper.foreign_nodes import refuse_foreign_path
from hedwig.metadata.zookeeper.layout import KIND, has_topics, read_layout, write_layout
from hedwig.metadata.zookeeper.records.paths import Paths, legal_component
from hedwig.metadata.zookeeper.session import connect
from hedwig.metadata.zookeeper.writes.wiping import delete_tree
from hedwig.zookeeper import Bridge

__all__ = ["FACTORY"]

_CHILDREN_MAX: Final = "children_max"
_EXAMPLE: Final = "zookeeper://127.0.0.1:2181/hedwig/standalone"


class _ZookeeperFactory:
    async def read_layout(self, url: MetadataUrl, options: StoreOptions) -> Layout | None:
        paths = _paths(url)
        async with _connection(url, options) as bridge:
            return await read_layout(bridge, paths, options)

    async def open(self, url: MetadataUrl, options: StoreOptions) -> Backend:
        paths = _paths(url)
        options = _with_limit(url, options)
        bridge = await _connect(url, options)
        try:
            layout, is_there = await _look(bridge, paths, url, options)
            check_layout(layout, kind=KIND, url=url.text)
            if not is_there:
                raise LayoutMissingError(
                    f"{paths.topics} is missing from the metadata at {url.text}; "
                    f"make it with: hedwig-admin metadata format --metadata '{url.text}'"
                )
        except BaseException:
            await bridge.close()
            raise
        return ZookeeperBackend(bridge, paths, url, options)

    async def format(self, url: MetadataUrl, options: StoreOptions, *, wipe: bool = False) -> Layout:
        paths = _paths(url)
        async with _connection(url, options) as bridge:
            layout, _ = await _look(bridge, paths, url, options)
            if layout is None:
                await refuse_foreign_path(bridge, url, options)
            else:
                check_layout(layout, kind=KIND, url=url.text)
            if wipe:
                await delete_tree(bridge, options, paths.topics)
            await write_layout(bridge, paths, options)
            return check_layout(await read_layout(bridge, paths, options), kind=KIND, url=url.text)


async def _look(bridge: Bridge, paths: Paths, url: MetadataUrl, options: StoreOptions) -> tuple[Layout | None, bool]:
    """Return the layout, and whether the node above all topics exists.

    Raises: LayoutMissingError - that node exists without a layout record. None of our programs leaves this state, so
        what the records below are is unknown. A caller must neither use nor wipe them as ours.
    """
    # Look for the topics first: `write_layout` makes the layout before them, so it must exist by then.
    is_there = await has_topics(bridge, paths, options)
    layout = await read_layout(bridge, paths, options)
    if layout is None and is_there:
        raise LayoutMissingError(
            f"the metadata at {url.text} have no layout record, like those of the original's releases 4.0 and 4.1. "
            "Start a hub of its release 4.2 or 4.3 there, which makes that record"
        )
    return layout, is_there


@asynccontextmanager
async def _connection(url: MetadataUrl, options: StoreOptions) -> AsyncIterator[Bridge]:
    bridge = await _connect(url, options)
    try:
        yield bridge
    finally:
        await bridge.close()


async def _connect(url: MetadataUrl, options: StoreOptions) -> Bridge:
    url.check_parameters(frozenset({_CHILDREN_MAX}))
    hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in url.endpoints(PORT))
    return await connect(hosts, options)


def _with_limit(url: MetadataUrl, options: StoreOptions) -> StoreOptions:
    """Return the options, with the `children_max` of the URL if it gives one."""
    text = url.parameters.get(_CHILDREN_MAX)
    if text is None:
        return options
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 31):
        raise ConfigurationError(f"{_CHILDREN_MAX} of the metadata URL {url.text!r} must be a number above 0")
    return replace(options, children_max=int(text))


def _paths(url: MetadataUrl) -> Paths:
    """Return the paths under the prefix that the URL names. In the original it is `zk_prefix` and the region."""
    components = url.path.split("/")[1:]
    if not components or components == [""]:
        raise ConfigurationError(
            f"the metadata URL {url.text!r} needs a path, the prefix of the store in ZooKeeper; for example {_EXAMPLE}"
        )
    if components[0] == "zookeeper" or not all(legal_component(component) for component in components):
        raise ConfigurationError(
            f"the path {url.path!r} of the metadata URL cannot be a store in ZooKeeper; write for example {_EXAMPLE}"
        )
    return Paths(url.path)


FACTORY: Final[BackendFactory] = _ZookeeperFactory()
