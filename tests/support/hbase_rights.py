"""Rights in an HBase that checks them. Its superuser grants and revokes them, as the shell of HBase does."""

import asyncio
from typing import Final

from hedwig.clock import Deadline, SystemClock
from hedwig.metadata import MetadataUrl
from hedwig.metadata.hbase.native.cluster.links import MASTER, Links
from hedwig.metadata.hbase.native.cluster.registry import ZooKeeperRegistry
from hedwig.metadata.hbase.native.wire.codec import delimited, varint
from hedwig.metadata.hbase.native.wire.identity import Identity

__all__ = ["GATEWAY_USER", "KEEPER", "RIGHTS_ARE_CHECKED", "grant", "revoke"]

KEEPER: Final = "keeper"
"""The superuser, who may do everything."""
GATEWAY_USER: Final = "gateway"
"""The user for a gateway that must need rights of its own. Our own user may do all that the servers may."""

_CONTROLLER: Final = "org.apache.hadoop.hbase.security.access.AccessController"
RIGHTS_ARE_CHECKED: Final = {
    "hbase.security.authorization": "true",
    "hbase.superuser": KEEPER,
    "hbase.coprocessor.master.classes": _CONTROLLER,
    "hbase.coprocessor.region.classes": _CONTROLLER,
    "hbase.coprocessor.regionserver.classes": _CONTROLLER,
}
"""The properties of an HBase that checks rights."""

_ACTIONS: Final = {"R": 0, "W": 1, "X": 2, "C": 3, "A": 4}
_IN_NAMESPACE: Final = 2
_DEADLINE_S: Final = 30.0


def grant(url: str, user: str, rights: str) -> None:
    """Give `user` the rights in the namespace of a metadata URL, and no others. Servers learn of it later."""
    actions = b"".join(b"\x10" + varint(_ACTIONS[letter]) for letter in rights)
    asyncio.run(_tell(url, "Grant", user, actions))


def revoke(url: str, user: str) -> None:
    """Take all rights in the namespace of a metadata URL from `user`."""
    asyncio.run(_tell(url, "Revoke", user, b""))


async def _tell(url: str, method: str, user: str, actions: bytes) -> None:
    parsed = MetadataUrl.parse(url)
    namespace = delimited(b"\x0a", Identity.of(parsed).namespace.encode())
    permission = b"\x08" + varint(_IN_NAMESPACE) + delimited(b"\x1a", namespace + actions)
    request = delimited(b"\x0a", delimited(b"\x0a", user.encode()) + delimited(b"\x1a", permission))
    clock = SystemClock()
    deadline = Deadline.after(clock, _DEADLINE_S)
    links = Links(lambda _: None, lambda server: server, KEEPER)
    try:
        master = await ZooKeeperRegistry(parsed.endpoints(2181), "/hbase", clock).master(deadline)
        await links.to(master, MASTER).ask(method, request, deadline)
    finally:
        await links.close()
