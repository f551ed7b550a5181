"""Makes the nodes of this hub, and never beside another hub at the same address.

The registrar makes two nodes in one transaction: the host node and an endpoint node. The creation zxid of the host node
is the epoch. The name of the endpoint node is new each time.

If a host node exists already, the same transaction deletes it together with its endpoint node. That the endpoint node
still exists proves that the host node is the one that was read. The registrar does this only if the hub that made the
node cannot believe that it is registered:

- A session of this registrar made it. The registrar makes one incarnation after the other, and the former one is over.
- The endpoint node names a process of this machine that has ended.

Otherwise the hub waits until ZooKeeper deletes the node at the end of its session.
"""

import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import NodeExistsError, NoNodeError

from hedwig.clock import Deadline
from hedwig.errors import ServiceDownError
from hedwig.hub.liveness.asking import answer, ask, read
from hedwig.hub.liveness.directory import read_endpoints
from hedwig.hub.liveness.live_hub import Endpoint, encode_load
from hedwig.hub.liveness.options import LivenessOptions
from hedwig.hub.liveness.paths import HubPaths
from hedwig.hub.liveness.process import has_ended
from hedwig.zookeeper import (
    ANY_VERSION,
    Bridge,
    NewSession,
    Request,
    commit_nothing,
    create,
    exists,
    get,
    get_acl,
    is_open_to_all,
    refusal_of,
    transaction,
)

__all__ = ["Enrolment", "Registrar"]

_log = logging.getLogger(__name__)

_TRIES: Final = 3
_REMOVED_MEANWHILE: Final = (NoNodeError, NodeExistsError)


@dataclass(frozen=True, slots=True)
class Enrolment:
    """A pair of nodes that were made: their epoch, their session, and when this hub sent the request, by its clock."""

    epoch: int
    endpoint: str
    sent_at_s: float
    connection: NewSession


class Registrar:
    """Registers the hub at `address`, as many times as needed."""

    def __init__(
        self, bridge: Bridge, paths: HubPaths, address: str, endpoint: Endpoint, options: LivenessOptions
    ) -> None:
        self._bridge = bridge
        self._paths = paths
        self._address = address
        self._host = paths.host(address)
        self._endpoint = endpoint
        self._options = options
        self._what = f"register hub {address} in {paths.hosts}"
        self._sessions: set[int] = set()

    def note_session(self, session_id: int) -> None:
        """Record a session of the bridge, before the first request in it."""
        self._sessions.add(session_id)

    async def enrol(self, load: int) -> Enrolment:
        """Make the nodes. If this fails, nodes may have been made all the same.

        Raises: ServiceDownError - it is not possible now, and the text says why.
        """
        deadline = Deadline.after(self._options.clock, self._options.operation_timeout_s)
        for _ in range(_TRIES):
            made = await self._make(await self._leftover(deadline), load, deadline)
            if made is not None:
                return made
        raise ServiceDownError(f"cannot {self._what}: other hubs register there at the same time")

    async def leave(self, load: int) -> None:
        """Make the other hubs read `load` now, and not at their next read of the loads. Raises: ServiceDownError.

        They watch the children of two nodes, but not the loads, which change with each beat. So this makes an empty
        node, which ends with the session.
        """
        deadline = Deadline.after(self._options.clock, self._options.operation_timeout_s)
        what = f"tell that hub {self._address} takes no topics"
        node = self._paths.leaving(self._address, secrets.token_hex(8))

        def fill(operations: TransactionRequest) -> None:
            operations.set_data(self._host, encode_load(load))
            operations.create(node, b"", ephemeral=True)

        (results,) = await ask(self._bridge, deadline, what, transaction(fill))
        answer(what, refusal_of(results))

    async def say_if_open(self) -> None:
        """Log it if everybody may register a hub here, although this one has a login. Raises: ServiceDownError."""
        if not self._options.access.logins:
            return
        deadline = Deadline.after(self._options.clock, self._options.operation_timeout_s)
        path = self._paths.hosts
        found = await read(self._bridge, deadline, f"read who may change {path}", get_acl(path), NoNodeError)
        if not isinstance(found, NoNodeError) and is_open_to_all(found[0]):
            _log.warning(
                "whoever reaches ZooKeeper may register a hub in %s; close it with: hedwig-admin metadata format "
                "--secure",
                path,
            )

    async def withdraw(self, made: Enrolment) -> None:
        """Delete the nodes of an incarnation that is over. Raises: ServiceDownError - they go with the session."""
        deadline = Deadline.after(self._options.clock, self._options.operation_timeout_s)
        what = f"withdraw hub {self._address} from {self._paths.hosts}"
        # The name of the endpoint node belongs to one incarnation, so this never deletes the nodes of its successor.
        gone = [(self._paths.endpoint(made.endpoint), ANY_VERSION), (self._host, ANY_VERSION)]
        (results,) = await ask(self._bridge, deadline, what, _replacement(gone, []))
        answer(what, refusal_of(results), NoNodeError)

    async def _leftover(self, deadline: Deadline) -> list[tuple[str, int]]:
        """Return the nodes to delete, each a (path, version): none, or those of an incarnation that is over.

        Raises: ServiceDownError - there is an incarnation that is not certainly over.
        """
        committed, node = await ask(self._bridge, deadline, self._what, commit_nothing(), get(self._host))
        answer(self._what, committed)
        if isinstance(answer(self._what, node, NoNodeError), NoNodeError):
            return []
        stat = node[1]
        endpoints = await read_endpoints(self._bridge, self._paths, deadline, self._address)
        its = next(((name, endpoint) for name, endpoint, czxid in endpoints if czxid == stat.czxid), None)
        process = its[1].process if its else None
        if stat.ephemeralOwner not in self._sessions and not (process and has_ended(process)):
            raise ServiceDownError(
                f"cannot {self._what}: another hub is registered there (session 0x{stat.ephemeralOwner & _ID:x}), and "
                f"it is not certain that it has ended. If it has, ZooKeeper removes it once its session times out"
            )
        if its is None:
            # An operator has deleted its endpoint node.
            return [(self._host, stat.version)]
        return [(self._paths.endpoint(its[0]), ANY_VERSION), (self._host, ANY_VERSION)]

    async def _make(self, leftover: Sequence[tuple[str, int]], load: int, deadline: Deadline) -> Enrolment | None:
        """Replace `leftover` by new nodes; return None if the nodes have changed since they were read."""
        name = self._paths.endpoint_name(self._address, secrets.token_hex(8))
        new = [(self._host, encode_load(load)), (self._paths.endpoint(name), self._endpoint.encode())]
        replace = _replacement(leftover, new)
        asked: list[tuple[float, NewSession]] = []

        def submit(client: KazooClient) -> Any:
            connection = self._bridge.connection
            assert connection is not None, "the bridge submits when there is one"
            asked.append((self._options.boot_time_s(), connection))
            return replace(client)

        made, host, endpoint = await ask(
            self._bridge, deadline, self._what, submit, exists(self._host), exists(self._paths.endpoint(name))
        )
        refused = answer(self._what, refusal_of(made), *_REMOVED_MEANWHILE)
        if refused is not None:
            if isinstance(refused, NoNodeError) and not leftover:
                await self._make_parents(deadline)
            return None
        ((sent_at_s, connection),) = asked
        for node in (host, endpoint):
            answer(self._what, node)
            if node is None or node.ephemeralOwner != connection.session_id or node.czxid != host.czxid:
                raise ServiceDownError(f"cannot {self._what}: its nodes are gone or replaced already")
        return Enrolment(host.czxid, name, sent_at_s, connection)

    async def _make_parents(self, deadline: Deadline) -> None:
        for path in self._paths.above():
            await read(self._bridge, deadline, self._what, create(path), NodeExistsError)


_ID: Final = (1 << 64) - 1
"""Session ids are signed here, but shown unsigned."""


def _replacement(delete: Sequence[tuple[str, int]], make: Sequence[tuple[str, bytes]]) -> Request:
    """Return a request that deletes nodes (path, version) and creates ephemeral ones (path, data), all or nothing."""

    def fill(operations: TransactionRequest) -> None:
        for path, version in delete:
            operations.delete(path, version)
        for path, data in make:
            operations.create(path, data, ephemeral=True)

    return transaction(fill)
