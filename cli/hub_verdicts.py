"""Whether the hubs that owner records name are alive: asked of their cluster, or of the standalone hub's registration.

An incarnation of a hub that is not alive never comes back, so that it is dead is told for good. A record has to be read
before it is asked about: its hub had begun by then.
"""

import asyncio
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from cli.cluster_access import ClusterAccess, read_hubs_of
from cli.errors import CommandError, ExitCode
from cli.settings import Settings
from hedwig.errors import ConfigurationError, ServiceDownError
from hedwig.model import HubInfo
from hedwig.outcomes import NotAppliedError
from metadata import MetadataStore

__all__ = ["HubState", "HubVerdicts"]

_PROBE_S: Final = 5.0
_KEPT_MAX: Final = 100_000


class HubState(StrEnum):
    """What is known of an incarnation of a hub."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


class HubVerdicts:
    """Says of the hubs of one store which are alive, as of when somebody was met who was not known."""

    def __init__(self, settings: Settings, store: MetadataStore, cluster: ClusterAccess) -> None:
        self._settings = settings
        self._store = store
        self._cluster = _cluster_of(settings, cluster)
        self._is_told = cluster.given is not None
        self._live: set[tuple[str, int]] = set()
        """Who was alive when it was asked for last."""
        self._dead: set[tuple[str, int]] = set()

    @property
    def why_not(self) -> str | None:
        """Say why nothing can be told; None if it can. A file has no cluster, and knows its standalone hub."""
        if self._cluster is None and self._store.url.scheme != "sqlite":
            return "no cluster was named in which hubs could be looked for; give --cluster URL"
        return None

    @property
    def why_no_repair(self) -> str | None:
        """Say why nobody should be declared dead by what was told; None if they may be.

        Where a store is in a ZooKeeper, hubs need not be registered there: by another place all of them would be dead.
        """
        if self._is_told or self._store.url.scheme == "sqlite":
            return None
        return "none while it is not said where the hubs are registered; give --cluster URL"

    async def of_all(self, hubs: Iterable[HubInfo]) -> dict[tuple[str, int], HubState]:
        """Return what is known of hubs, by address and epoch.

        Raises: CommandError - the cluster's ZooKeeper does not answer; MetadataUnavailableError - the store does not;
            CorruptRecordError - the registration of the standalone hub cannot be read.
        """
        wanted = {(hub.address, hub.epoch): hub for hub in hubs}
        if self.why_not is not None:
            return dict.fromkeys(wanted, HubState.UNKNOWN)
        asked = {name: hub for name, hub in wanted.items() if name not in self._dead and name not in self._live}
        if asked:
            await self._ask(asked)
        return {name: HubState.ALIVE if name in self._live else HubState.DEAD for name in wanted}

    async def of(self, hub: HubInfo) -> HubState:
        """Return what is known of one hub. Raises as `of_all`."""
        return (await self.of_all([hub]))[hub.address, hub.epoch]

    async def _ask(self, asked: Mapping[tuple[str, int], HubInfo]) -> None:
        """Learn who lives now; of `asked` the others are dead."""
        live: set[tuple[str, int]] = set()
        if self._cluster is not None:
            live = await self._registered(self._cluster)
        standalone = await self._store.standalone_hub()
        if standalone is not None:
            name = (standalone.address, standalone.starts)
            if name in self._live or (name in asked and not await _is_refused(asked[name])):
                live.add(name)
        self._live = live
        if len(self._dead) > _KEPT_MAX:
            self._dead.clear()
        self._dead |= asked.keys() - live

    async def _registered(self, cluster: str) -> set[tuple[str, int]]:
        try:
            hubs = await read_hubs_of(cluster, self._settings.operation_timeout_s())
        except (NotAppliedError, ServiceDownError) as exc:
            raise CommandError(
                f"{self._settings.command} failed on the cluster {cluster}: {exc}; see that ZooKeeper is up there",
                ExitCode.UNAVAILABLE,
            ) from exc
        return {(hub.info.address, hub.info.epoch) for hub in hubs}


def _cluster_of(settings: Settings, cluster: ClusterAccess) -> str | None:
    """Return where the hubs of a cluster are registered; None if that was not said. Raises ConfigurationError."""
    if cluster.given is not None:
        return cluster.url(settings)
    try:
        return cluster.url(settings)
    except ConfigurationError:
        return None


async def _is_refused(hub: HubInfo) -> bool:
    """Say whether a machine that answers has nothing that listens where the clients of a hub would go."""
    try:
        async with asyncio.timeout(_PROBE_S):
            _, writer = await asyncio.open_connection(hub.host, hub.port)
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError):
        return False
    writer.close()
    return False
