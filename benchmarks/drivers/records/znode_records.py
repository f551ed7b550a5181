"""Records as plain znodes, conditional only on their own data version: what ZooKeeper alone offers.

The managers promise more, since a node's version repeats after the node was deleted and made again. Comparing these
writes with the managers' guarded ones shows the price of the guard. The requests go through the same bridge.
A node has no parts, so a partial update writes all of it.
"""

from typing import Any, Final, Self

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, ZookeeperError

from hedwig.benchmarks.drivers.records.record_clients import PARTS
from hedwig.clock import Deadline
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.contract.url import MetadataUrl
from hedwig.metadata.zookeeper.session import connect
from hedwig.zookeeper import Bridge, Request, create, get, set_at

__all__ = ["ZnodeRecords"]

_CONTENT: Final = b"".join(PARTS)
_ROOT: Final = "plain"


class ZnodeRecords:
    """A RecordClient over one session. A version is the node's data version."""

    def __init__(self, bridge: Bridge, root: str, options: StoreOptions) -> None:
        self._bridge = bridge
        self._root = root
        self._options = options

    @classmethod
    async def open(cls, url: str) -> Self:
        """Connect to the servers of a zookeeper:// URL. The records lie beside its store, which must exist."""
        options = StoreOptions()
        parsed = MetadataUrl.parse(url)
        bridge = await connect(parsed.hosts, options)
        try:
            records = cls(bridge, f"{parsed.path}/{_ROOT}", options)
            await records._send(create(records._root), NodeExistsError)
        except BaseException:
            await bridge.close()
            raise
        return records

    def key(self, topic: bytes) -> str:
        return f"{self._root}/{topic.decode()}"

    async def read(self, key: str) -> int | None:
        answer = await self._send(get(key), NoNodeError)
        return None if isinstance(answer, NoNodeError) else int(answer[1].version)

    async def create(self, key: str) -> int | None:
        made = await self._send(create(key, _CONTENT), NodeExistsError)
        return None if isinstance(made, NodeExistsError) else 0

    async def update(self, key: str, version: int, *, part: bool) -> tuple[bool, int | None]:  # noqa: ARG002 (no parts)
        stat = await self._send(set_at(key, _CONTENT, version), BadVersionError)
        if isinstance(stat, BadVersionError):
            return False, await self.read(key)
        return True, int(stat.version)

    async def close(self) -> None:
        await self._bridge.close()

    async def _send(self, request: Request, *expected: type[ZookeeperError]) -> Any:
        """Return the result of a request, or one of the `expected` errors. Raises any other."""
        deadline = Deadline.after(self._options.clock, self._options.operation_timeout_s)
        (result,) = await self._bridge.send(deadline, request)
        if isinstance(result, ZookeeperError) and not isinstance(result, expected):
            raise result
        return result
