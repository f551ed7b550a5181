"""One short session with ZooKeeper. kazoo is loaded when the first server is asked, not before."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hedwig.cli.dev.errors import NotReadyError
from hedwig.cli.dev.ports import LOOPBACK
from hedwig.cli.dev.probes.asking import answer
from hedwig.cli.dev.probes.sockets import PROBE_TIMEOUT_S, four_letter_word
from hedwig.clock import Deadline, SystemClock
from hedwig.extras import needed
from hedwig.store_access import TlsFiles, ZooKeeperAccess

if TYPE_CHECKING:
    from hedwig.zookeeper import Request

__all__ = ["check_serving", "children_of", "create_absent", "registered_under", "transactions_of"]

_SESSION_TIMEOUT_S = 6.0
_ZXID = re.compile(r"^Zxid: 0x[0-9a-f]*?([0-9a-f]{1,8})$", re.MULTILINE)  # Before these digits is the leader's epoch.
_SESSION = re.compile(r"\bsid=0x([0-9a-f]+)")
_PURPOSE = "servers that register in ZooKeeper need"


def check_serving(port: int, tls: TlsFiles | None = None) -> None:
    """Ask for the server's mode: it has one only while it serves, in a quorum only while that has a leader."""
    if "Mode: " not in four_letter_word(port, "srvr", tls):
        raise NotReadyError("it serves no requests yet")


def transactions_of(port: int, tls: TlsFiles | None = None) -> int:
    """Return how many transactions ZooKeeper has made: each write is one, so is each begin and end of a session."""
    zxid = _ZXID.search(four_letter_word(port, "srvr", tls))
    if zxid is None:
        raise NotReadyError("it does not say how many transactions it has made")
    return int(zxid[1], 16)


def children_of(port: int, path: str, tls: TlsFiles | None = None) -> list[str]:
    """Return the names of a node's children; none if there is no such node."""
    check_serving(port, tls)  # A session with a server that does not answer takes kazoo long to begin, and to end.
    with needed("zookeeper", _PURPOSE):
        from kazoo.exceptions import NoNodeError

        from hedwig.zookeeper import children

    (result,) = answer(_ask(port, tls, children(path)))
    if isinstance(result, Exception) and not isinstance(result, NoNodeError):
        raise NotReadyError(f"ZooKeeper refuses to list {path}: {type(result).__name__}")
    return result if isinstance(result, list) else []


def registered_under(ports: Sequence[int], path: str, tls: TlsFiles | None = None) -> list[str]:
    """Return the children of a node whose sessions are connected to the servers at `ports`.

    ZooKeeper keeps the node of a dead server, or of a session that it forgets, for some seconds more.
    """
    names = children_of(ports[0], path, tls)
    if not names:
        return []
    from hedwig.zookeeper import exists

    connected = _connected_sessions(ports, tls)
    nodes = answer(_ask(ports[0], tls, *(exists(f"{path}/{name}") for name in names)))
    owners = [getattr(node, "owner_session_id", None) for node in nodes]
    return [name for name, owner in zip(names, owners, strict=True) if owner in connected]


def _connected_sessions(ports: Sequence[int], tls: TlsFiles | None) -> set[int]:
    """Return the sessions with a connection. A server that does not answer has none."""
    found: set[int] = set()
    for port in ports:
        with suppress(OSError):
            found |= {int(each, 16) for each in _SESSION.findall(four_letter_word(port, "cons", tls))}
    return found


def create_absent(port: int, nodes: Mapping[str, str], tls: TlsFiles | None = None) -> None:
    """Create the nodes that are absent, in this order, each with its content."""
    check_serving(port, tls)
    with needed("zookeeper", _PURPOSE):
        from kazoo.exceptions import NodeExistsError

        from hedwig.zookeeper import create

    results = answer(_ask(port, tls, *(create(path, text.encode()) for path, text in nodes.items())))
    for path, result in zip(nodes, results, strict=True):
        if isinstance(result, Exception) and not isinstance(result, NodeExistsError):
            raise NotReadyError(f"ZooKeeper refuses to create {path}: {type(result).__name__}")


async def _ask(port: int, tls: TlsFiles | None, *requests: "Request") -> list[Any]:
    from hedwig.zookeeper import Bridge, BridgeOptions

    options = BridgeOptions(
        session_timeout_s=_SESSION_TIMEOUT_S, connect_timeout_s=PROBE_TIMEOUT_S, access=ZooKeeperAccess(tls=tls)
    )
    bridge = Bridge(f"{LOOPBACK}:{port}", options)
    try:
        await bridge.connect()
        return await bridge.send(Deadline.after(SystemClock(), PROBE_TIMEOUT_S), *requests)
    finally:
        await bridge.close()
