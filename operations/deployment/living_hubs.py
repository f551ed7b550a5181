"""The living hubs that use a store: those that would lose messages with its records, and whose owner records hold."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from hedwig.errors import ConfigurationError, CorruptRecordError, ServiceDownError
from hedwig.human_units import counted
from hedwig.metadata import MetadataStore
from hedwig.metadata.contract.kinds import OWNERSHIP
from hedwig.model import HubInfo
from hedwig.operations.deployment.cluster import read_hubs_of, read_registered_cluster
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.store import with_store
from hedwig.operations.deployment.topic_owner import is_refused
from hedwig.outcomes import NotAppliedError

__all__ = ["LivingHubs", "living_incarnations"]

_PROBE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class LivingHubs:
    """`names` has host:port of each hub that is, or may be, alive. `doubt` says why there may be others."""

    names: tuple[str, ...] = ()
    doubt: str | None = None

    @classmethod
    async def find(cls, deployment: Deployment, store: MetadataStore, records: Mapping[str, int]) -> "LivingHubs":
        """Look for the hubs of a store. `records` counts its records by kind. Raises MetadataUnavailableError."""
        try:
            standalone = await store.standalone_hub()
        except CorruptRecordError as exc:
            return cls(doubt=f"it is not known which hub uses it: {exc}")
        names = set()
        if standalone is not None:
            info = HubInfo.at(standalone.address)
            within_s = min(_PROBE_S, deployment.timeout_s)
            # A machine that does not answer at all may be cut off from this one, and still reach the store.
            if not await asyncio.to_thread(is_refused, info.host, info.port, within_s):
                names.add(info.name)
        try:
            url = deployment.cluster_url
        except ConfigurationError:
            owners = records.get(OWNERSHIP.name, 0)
            # No cluster keeps its metadata in a file.
            is_doubtful = owners and standalone is None and store.url.scheme != "sqlite"
            return cls(_sorted(names), _owned(owners) if is_doubtful else None)
        try:
            hubs = await read_hubs_of(url, deployment.timeout_s, deployment.stores_file)
        except (NotAppliedError, ServiceDownError) as exc:
            return cls(_sorted(names), f"it is not known which hubs use it: the cluster {url} does not answer: {exc}")
        return cls(_sorted(names | {hub.info.name for hub in hubs}))

    @property
    def why_not(self) -> str | None:
        """Say why the store must not be emptied; None if it may be."""
        if self.names:
            is_one = len(self.names) == 1
            return (
                f"{', '.join(self.names)} {'is' if is_one else 'are'} alive, and would go on from memory: messages "
                f"acknowledged then are lost; stop {'it' if is_one else 'them'} first"
            )
        return self.doubt


def living_incarnations(deployment: Deployment) -> list[HubInfo] | None:
    """Return the hubs whose owner records may hold; None if nothing says which these are. All other owners are stale.

    These are the hubs alive in the cluster that the user named, else the last start of the store's standalone hub. It
    is not asked whether that one runs: an owner record of any earlier start is stale in both cases.

    Raises: as `read_registered_cluster`, or as `with_store`.
    """
    if deployment.cluster is not None:
        return [hub.info for hub in read_registered_cluster(deployment)]
    hub = with_store(deployment, lambda store: store.standalone_hub())
    return None if hub is None else [HubInfo.at(hub.address, epoch=hub.starts)]


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


def _owned(owners: int) -> str:
    return (
        f"it has {counted(owners, 'owner record')}, and no cluster was named to look for these hubs in; "
        "give --cluster URL"
    )
