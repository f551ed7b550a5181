"""The hubs that use a store during its migration: it finds them, freezes them for the final pause, and thaws them."""

import asyncio
from dataclasses import dataclass

from hedwig.errors import OperationError, ServiceDownError
from hedwig.metadata import MetadataStore, StandaloneHub
from hedwig.model import HubInfo
from hedwig.operations.deployment.admin_endpoint import AdminClient
from hedwig.operations.deployment.cluster import read_hubs_of, unavailable
from hedwig.operations.deployment.deployment import Deployment
from hedwig.outcomes import NotAppliedError

__all__ = ["MigrationHubs"]

_PROBE_S = 2.0


@dataclass(frozen=True, slots=True)
class _Hub:
    """A running hub, its epoch, and its admin endpoint."""

    address: str
    epoch: int
    endpoint: AdminClient


class MigrationHubs:
    """The running hubs of one store: those registered in the cluster of `deployment`, and those at `admins`."""

    def __init__(self, deployment: Deployment, store: MetadataStore, admins: tuple[str, ...]) -> None:
        self._deployment = deployment
        self._command = deployment.command
        self._store = store
        self._cluster = deployment.cluster
        self._admins = admins
        self._timeout_s = deployment.timeout_s
        self._frozen: dict[tuple[str, int], _Hub] = {}
        self._frozen_admins: set[str] = set()
        """The admin endpoints of hubs that were frozen."""

    @property
    def frozen(self) -> list[str]:
        """The addresses of the hubs that were frozen."""
        return sorted({hub.address for hub in self._frozen.values()})

    async def find(self) -> list[str]:
        """Return the addresses of the running hubs.

        Raises: OperationError - one of them cannot be frozen, or it is not known which hubs run.
        """
        return [hub.address for hub in await self._find()]

    async def freeze(self) -> list[str]:
        """Freeze the running hubs that an earlier call did not freeze; return their addresses.

        When this returns, no hub that was running writes to the store until the freeze of the store ends.
        Raises: OperationError - as `find`, or a hub could not be frozen; it may be frozen all the same.
        """
        new = [hub for hub in await self._find() if (hub.address, hub.epoch) not in self._frozen]
        # Include the hubs whose freeze may fail: `thaw` asks them all.
        self._frozen |= {(hub.address, hub.epoch): hub for hub in new}
        done = await asyncio.gather(
            *(asyncio.to_thread(hub.endpoint.post, "/freeze") for hub in new), return_exceptions=True
        )
        for outcome in done:
            if isinstance(outcome, BaseException):
                raise outcome
        self._frozen_admins |= {hub.endpoint.address for hub in new}
        return [hub.address for hub in new]

    async def thaw(self) -> list[str]:
        """Have the frozen hubs check at once whether the freeze is over; return the errors."""
        hubs, self._frozen = list(self._frozen.values()), {}
        done = await asyncio.gather(
            *(asyncio.to_thread(hub.endpoint.post, "/thaw") for hub in hubs), return_exceptions=True
        )
        return [str(outcome) for outcome in done if isinstance(outcome, BaseException)]

    async def _find(self) -> list[_Hub]:
        hubs = {}
        for address in self._admins:
            try:
                hub = await self._ask(address, address)
            except OperationError:
                if address not in self._frozen_admins:
                    raise
                continue  # This hub was frozen, and has ended since.
            hubs[hub.address] = hub
        for hub in await self._registered():
            hubs.setdefault(hub.address, hub)
        standalone = await self._store.standalone_hub()
        if standalone is not None:
            info = HubInfo.at(standalone.address)
            if not any(_host_and_port(address) == (info.host, info.port) for address in hubs):
                await self._check_down(standalone, info)
        return [hubs[address] for address in sorted(hubs)]

    async def _registered(self) -> list[_Hub]:
        if self._cluster is None:
            return []
        try:
            hubs = await read_hubs_of(self._cluster, self._timeout_s, self._deployment.stores_file)
        except (NotAppliedError, ServiceDownError) as exc:
            raise unavailable(self._command, self._cluster, exc) from exc
        running = []
        for hub in hubs:
            name = f"{hub.info.host}:{hub.info.port}"
            known = self._frozen.get((hub.info.address, hub.info.epoch))
            if known is not None:  # It may have ended a moment ago, and still be registered.
                running.append(known)
                continue
            if hub.admin is None:
                raise OperationError(
                    f"{self._command}: hub {name} is running and announces no admin endpoint, as no original hub does, "
                    "so it cannot be frozen. Copy with --no-pause while it runs, then stop it, and run the command "
                    "again"
                )
            asked = await self._ask(name, hub.admin)
            if asked.address != hub.info.address:
                raise OperationError(f"{self._command}: what answers at {hub.admin} is hub {asked.address}, not {name}")
            running.append(asked)
        return running

    async def _ask(self, name: str, admin: str) -> _Hub:
        endpoint = self._deployment.admin_client(name, admin)
        health = await asyncio.to_thread(endpoint.health)
        return _Hub(str(health.get("address")), int(health.get("epoch", 0)), endpoint)

    async def _check_down(self, standalone: StandaloneHub, info: HubInfo) -> None:
        """Raise OperationError if something answers where the standalone hub served."""
        try:
            async with asyncio.timeout(_PROBE_S):
                _, writer = await asyncio.open_connection(info.host, info.port)
        except (OSError, TimeoutError):
            return
        writer.close()
        raise OperationError(
            f"{self._command}: the standalone hub of the source is running at {standalone.address}. Stop it, or name "
            "its admin endpoint with --hub-admin HOST:PORT, so that it can be frozen"
        )


def _host_and_port(address: str) -> tuple[str, int]:
    info = HubInfo.at(address)
    return info.host, info.port
