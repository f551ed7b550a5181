"""Whether the hubs that owner records name are alive, by their cluster or by the standalone hub's registration.

An incarnation of a hub that is dead never comes back, so the verdict "dead" is final. Read a record before you ask
about its hub: then the hub had started before the question.
"""

import asyncio
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from hedwig.errors import OperationError, ServiceDownError
from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataStore, StandaloneHub
from hedwig.model import HubInfo
from hedwig.operations.deployment.cluster import read_hubs_of
from hedwig.operations.deployment.deployment import Deployment
from hedwig.outcomes import NotAppliedError

__all__ = ["HubState", "HubVerdicts"]

_PROBE_S: Final = 5.0
_KEPT_MAX: Final = 100_000


class HubState(StrEnum):
    """What is known of an incarnation of a hub."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


class HubVerdicts:
    """Tells which hubs of one store are alive. It asks again whenever it meets a hub that it does not know."""

    def __init__(self, deployment: Deployment, store: MetadataStore) -> None:
        self._deployment = deployment
        self._store = store
        self._cluster = deployment.cluster_url_if_known
        self._names_cluster = deployment.cluster is not None
        self._is_file = store.url.scheme == "sqlite"
        """No cluster can use a file, so all owners but the present standalone hub have ended."""
        self._standalone: StandaloneHub | None = None
        self._live: set[tuple[str, int]] = set()
        """The hubs that were alive at the last question."""
        self._dead: set[tuple[str, int]] = set()

    @property
    def why_unknown(self) -> str:
        """Say why it is not known whether a hub is alive."""
        return "no cluster was named to look for hubs in; give --cluster URL"

    def why_no_repair(self, hub: HubInfo) -> str | None:
        """Say why a repair should not believe that a hub is dead; None if it may.

        A store in ZooKeeper does not prove that its hubs are registered there. In the wrong ZooKeeper, all of them
        would seem dead.
        """
        if self._names_cluster or self._is_file or self._was_standalone(hub):
            return None
        return "none while no option says where the hubs are registered; give --cluster URL"

    async def of_all(self, hubs: Iterable[HubInfo]) -> dict[tuple[str, int], HubState]:
        """Return what is known of hubs, by address and epoch.

        Raises: OperationError - the cluster's ZooKeeper does not answer; MetadataUnavailableError - the store does not;
            CorruptRecordError - the registration of the standalone hub cannot be read.
        """
        wanted = {(hub.address, hub.epoch): hub for hub in hubs}
        asked = {name: hub for name, hub in wanted.items() if name not in self._dead}
        if asked.keys() - self._live:
            await self._ask(asked)
        return {name: self._state(name) for name in wanted}

    def _state(self, name: tuple[str, int]) -> HubState:
        if name in self._live:
            return HubState.ALIVE
        return HubState.DEAD if name in self._dead else HubState.UNKNOWN

    async def of(self, hub: HubInfo) -> HubState:
        """Return what is known of one hub. Raises as `of_all`."""
        return (await self.of_all([hub]))[hub.address, hub.epoch]

    async def _ask(self, asked: Mapping[tuple[str, int], HubInfo]) -> None:
        """Read which hubs are alive now. The others of `asked` are dead, as far as that can be known."""
        live: set[tuple[str, int]] = set()
        if self._cluster is not None:
            live = await self._registered(self._cluster)
        self._standalone = await self._store.standalone_hub()
        if self._standalone is not None:
            name = (self._standalone.address, self._standalone.starts)
            if name in self._live or (name in asked and not await _is_refused(asked[name])):
                live.add(name)
        self._live = live
        if len(self._dead) > _KEPT_MAX:
            self._dead.clear()
        knows_all = self._cluster is not None or self._is_file
        self._dead |= {
            name for name, hub in asked.items() if name not in live and (knows_all or self._was_standalone(hub))
        }

    def _was_standalone(self, hub: HubInfo) -> bool:
        """Say whether this is a start of the standalone hub. A higher epoch there belongs to a hub of a cluster."""
        standalone = self._standalone
        return standalone is not None and hub.address == standalone.address and hub.epoch <= standalone.starts

    async def _registered(self, cluster: str) -> set[tuple[str, int]]:
        try:
            deployment = self._deployment
            hubs = await read_hubs_of(cluster, deployment.timeout_s, deployment.stores_file)
        except (NotAppliedError, ServiceDownError) as exc:
            raise OperationError(
                f"{self._deployment.command} failed on the cluster {cluster}: {exc}; see that ZooKeeper is up there",
                ExitCode.UNAVAILABLE,
            ) from exc
        return {(hub.info.address, hub.info.epoch) for hub in hubs}


async def _is_refused(hub: HubInfo) -> bool:
    """Say whether the machine of a hub answers, but nothing listens at the hub's port for clients."""
    try:
        async with asyncio.timeout(_PROBE_S):
            _, writer = await asyncio.open_connection(hub.host, hub.port)
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError):
        return False
    writer.close()
    return False
