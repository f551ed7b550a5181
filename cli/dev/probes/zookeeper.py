"""One short session with ZooKeeper."""

from collections.abc import Mapping
from typing import Any, Final

from kazoo.exceptions import NodeExistsError

from hedwig.cli.dev.errors import NotReadyError
from hedwig.cli.dev.ports import LOOPBACK
from hedwig.cli.dev.probes.asking import answer
from hedwig.cli.dev.probes.sockets import PROBE_TIMEOUT_S
from hedwig.clock import Deadline
from hedwig.zookeeper import Bridge, BridgeOptions, Request, children, create

__all__ = ["children_of", "create_absent"]

_OPTIONS: Final = BridgeOptions(session_timeout_s=6.0, connect_timeout_s=PROBE_TIMEOUT_S)


def children_of(port: int, path: str) -> list[str]:
    """Return the names of a node's children; none if the node does not exist."""
    (found,) = answer(_ask(port, children(path)))
    return found if isinstance(found, list) else []


def create_absent(port: int, nodes: Mapping[str, str]) -> None:
    """Create those nodes that do not exist, in this order, each with its content."""
    results = answer(_ask(port, *(create(path, text.encode()) for path, text in nodes.items())))
    for path, result in zip(nodes, results, strict=True):
        if isinstance(result, Exception) and not isinstance(result, NodeExistsError):
            raise NotReadyError(f"ZooKeeper refuses to create {path}: {type(result).__name__}")


async def _ask(port: int, *requests: Request) -> list[Any]:
    bridge = Bridge(f"{LOOPBACK}:{port}", _OPTIONS)
    try:
        await bridge.connect()
        return await bridge.send(Deadline.after(_OPTIONS.clock, PROBE_TIMEOUT_S), *requests)
    finally:
        await bridge.close()
