"""Who owns a topic, whether that hub is alive, and how to reach its admin endpoint.

A dead hub leaves its owner records in the store, so a record alone says little. For a hub of a cluster, ZooKeeper tells
whether it is alive. A standalone hub is asked at its admin endpoint. If that does not answer, a connection to its port
for clients shows whether anything listens there.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataStore, Outcome, Read, RecordKey, StandaloneHub
from hedwig.model import HubInfo, Topic
from hedwig.names import show_name
from hedwig.operations.deployment.admin_access import is_loopback
from hedwig.operations.deployment.admin_endpoint import AdminClient, EndpointError
from hedwig.operations.deployment.cluster import read_cluster
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.store import with_store
from hedwig.operations.errors import missing_topic
from hedwig.versions import Versioned

if TYPE_CHECKING:
    from hedwig.hub.liveness import LiveHub

__all__ = ["ADMIN_PORT", "OwnerFinder", "OwnerState", "TopicOwner", "is_refused"]

ADMIN_PORT: Final = 4081
_PROBE_S: Final = 5.0
"""How long a hub has to say who it is. It does no work for that."""


class OwnerState(StrEnum):
    """What is known of the owner of a topic."""

    NONE = "none"
    """No hub owns it."""
    ALIVE = "alive"
    GONE = "gone"
    """The record names a hub, or an earlier start of one, that serves no client. The next hub asked takes over."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOwner:
    """A topic's owner record, and what is known of the hub. `why` says how a state other than NONE is known.

    `endpoint` is its admin endpoint, None if it has none or cannot be asked. `exists`: the topic has a record.
    `is_gone_for_good`: it is proven that this start of the hub has ended. GONE alone says only that it seems so.
    """

    topic: Topic
    exists: bool
    record: Versioned[HubInfo] | None
    state: OwnerState
    why: str = ""
    endpoint: AdminClient | None = None
    is_gone_for_good: bool = False

    @property
    def hub(self) -> str:
        """Return host:port of the owner, empty if there is none."""
        return "" if self.record is None else self.record.value.name

    def asked(self, command: str) -> AdminClient:
        """Return the admin endpoint of an owner that is alive. Raises OperationError if it has none."""
        if self.endpoint is None:
            raise OperationError(
                f"{command} failed on topic '{show_name(self.topic)}': its owner {self.hub} announces no admin "
                "endpoint; it is an original hub, or runs with admin_port = -1",
                ExitCode.UNAVAILABLE,
            )
        return self.endpoint


@dataclass(frozen=True, slots=True)
class _Look:
    """What is known of a hub, as in TopicOwner."""

    state: OwnerState
    why: str
    endpoint: AdminClient | None = None
    is_for_good: bool = False


class OwnerFinder:
    """Finds the owners of topics. It asks a cluster, or a hub, only once."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._live: Sequence[LiveHub] | None = None
        self._probed: dict[str, _Look] = {}
        self._is_file = False
        """Whether the store is a file. Then its hub runs on the machine that has the file."""

    def find(self, topic: Topic) -> TopicOwner:
        """Return the owner of one topic. Raises: OperationError - ZooKeeper does not answer; what the store raises."""
        return self.find_all([topic])[0]

    def find_existing(self, topic: Topic) -> TopicOwner:
        """Return the owner of one topic. Raises OperationError as `find`, and if there is no such topic."""
        owner = self.find(topic)
        if not owner.exists:
            raise missing_topic(topic)
        return owner

    def find_all(self, topics: Sequence[Topic]) -> list[TopicOwner]:
        """Return the owners of `topics`, in their order. Raises as `find`."""

        async def read(store: MetadataStore) -> tuple[list[Any], list[Any], StandaloneHub | None]:
            reads = [Read(RecordKey(topic)) for topic in topics]
            owned = _records(await store.ownership.apply(reads))
            kept = _records(await store.persistence.apply(reads))
            self._is_file = store.url.scheme == "sqlite"
            return owned, kept, await store.standalone_hub() if any(owned) else None

        owned, kept, standalone = with_store(self._deployment, read)
        owners: list[TopicOwner] = []
        for topic, record, persistence in zip(topics, owned, kept, strict=True):
            exists = record is not None or persistence is not None
            if record is None:
                owners.append(TopicOwner(topic=topic, exists=exists, record=None, state=OwnerState.NONE))
                continue
            look = self._look(record.value, standalone)
            owners.append(
                TopicOwner(
                    topic=topic,
                    exists=exists,
                    record=record,
                    state=look.state,
                    why=look.why,
                    endpoint=look.endpoint,
                    is_gone_for_good=look.is_for_good,
                )
            )
        return owners

    def live_hubs(self) -> "Sequence[LiveHub] | None":
        """Return the living hubs of the cluster; None if no cluster is known. Raises OperationError."""
        if self._live is None:
            if self._deployment.cluster_url_if_known is None:
                return None
            self._live = read_cluster(self._deployment)
        return self._live

    def standalone_endpoint(self) -> AdminClient | None:
        """Return the admin endpoint of the store's standalone hub, if it is alive and can be asked."""
        standalone = with_store(self._deployment, lambda store: store.standalone_hub())
        if standalone is None:
            return None
        return self._look(HubInfo.at(standalone.address, epoch=standalone.starts), standalone).endpoint

    def endpoint_of(self, hub: HubInfo, address: str) -> AdminClient:
        """Return the admin endpoint, at `address`, of a hub that announces it or that the user named."""
        return self._deployment.admin_client(hub.name, address)

    def _look(self, owner: HubInfo, standalone: StandaloneHub | None) -> _Look:
        is_standalone = standalone is not None and standalone.address == owner.address
        if standalone is not None and is_standalone and standalone.starts == owner.epoch:
            if owner.address not in self._probed:
                self._probed[owner.address] = self._probe(owner)
            return self._probed[owner.address]
        live = self.live_hubs()
        for hub in live or ():
            if hub.info.address == owner.address and hub.info.epoch == owner.epoch:
                return self._registered(owner, hub.admin)
        is_earlier = standalone is not None and is_standalone and owner.epoch < standalone.starts
        if live is not None:
            # A store in ZooKeeper does not prove that its hubs are registered there. The user has to say so.
            is_for_good = is_earlier or self._deployment.cluster is not None
            return _Look(OwnerState.GONE, "it is not registered in the cluster any more", None, is_for_good)
        if is_earlier:
            return _Look(OwnerState.GONE, "the standalone hub has been started again since", None, True)
        return _Look(OwnerState.UNKNOWN, "no cluster was named to look for it in; give --cluster URL")

    def _registered(self, owner: HubInfo, announced: str | None) -> _Look:
        """Return what is known of a hub of the cluster. With --admin, the hub that answers there must be this hub."""
        why = "it is registered in the cluster"
        if self._deployment.admin is None:
            return _Look(OwnerState.ALIVE, why, None if announced is None else self.endpoint_of(owner, announced))
        hindrance = self._why_not_at(owner, self._deployment.admin)
        if hindrance is not None:
            return _Look(OwnerState.UNKNOWN, f"{why}, but cannot be asked: {hindrance}; correct --admin HOST:PORT")
        return _Look(OwnerState.ALIVE, why, self.endpoint_of(owner, self._deployment.admin))

    def _why_not_at(self, owner: HubInfo, address: str) -> str | None:
        """Return why what answers at `address` is not this very start of the hub; None if it is."""
        within_s = min(_PROBE_S, self._deployment.timeout_s)
        try:
            health = self._deployment.admin_client(owner.name, address, within_s).health()
        except EndpointError as exc:
            return exc.why
        if health.get("address") == owner.address and health.get("epoch") == owner.epoch:
            return None
        return f"what answers at {address} is hub {health['address']} of epoch {health.get('epoch')}"

    def _probe(self, owner: HubInfo) -> _Look:
        """Ask the standalone hub."""
        address = self._deployment.admin or f"{owner.host}:{ADMIN_PORT}"
        hindrance = self._why_not_at(owner, address)
        if hindrance is None:
            return _Look(OwnerState.ALIVE, f"it answers at {address}", self.endpoint_of(owner, address))
        within_s = min(_PROBE_S, self._deployment.timeout_s)
        if is_refused(owner.host, owner.port, within_s):
            # A firewall refuses too. And over a network, a loopback address in the store may mean another machine.
            is_for_good = _is_here(owner.host) and (self._is_file or not is_loopback(owner.host))
            return _Look(OwnerState.GONE, "nothing listens at its address", None, is_for_good)
        return _Look(
            OwnerState.UNKNOWN,
            f"something listens at its address, but it cannot be asked: {hindrance}; name a way with --admin HOST:PORT",
        )


def _records(outcomes: Sequence[Outcome[Any]]) -> list[Any]:
    for outcome in outcomes:
        outcome.check()
    return [outcome.record for outcome in outcomes]


def is_refused(host: str, port: int, within_s: float) -> bool:
    """Say whether the machine answers, but nothing listens at the port."""
    try:
        socket.create_connection((host, port), within_s).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def _is_here(host: str) -> bool:
    """Say whether an address belongs to this machine: a program can listen only at such an address."""
    try:
        for family, kind, _, _, address in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM):
            with socket.socket(family, kind) as listener:
                listener.bind(address)
    except OSError:
        return False
    return True
