"""Inspect ledgers on bookies, by reads that fence nothing. Their writers and owners notice nothing.

Of an open ledger, a reader sees only the entries that the writer has told bookies are confirmed. If the last entry
tells it, that is late by at least one entry.
"""

from random import Random
from typing import Final, Self

from hedwig.clock import Clock
from hedwig.hub.ledgers.bookkeeper.bookies.links import BookieLinks
from hedwig.hub.ledgers.bookkeeper.bookies.zookeeper_registry import ZookeeperRegistry
from hedwig.hub.ledgers.bookkeeper.cluster import BookieCluster, BookieClusterOptions
from hedwig.hub.ledgers.bookkeeper.last_confirmed import read_last_confirmed
from hedwig.hub.ledgers.bookkeeper.reading import read_payloads
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import LedgerMetadata, LedgerState
from hedwig.hub.ledgers.bookkeeper.records.session import Session
from hedwig.hub.ledgers.bookkeeper.records.zookeeper_metadata import ZookeeperLedgerMetadata
from hedwig.hub.ledgers.bookkeeper.wire.digests import Digest, DigestKind
from hedwig.hub.ledgers.inspection import LedgerFacts
from hedwig.store_access import TlsFiles

__all__ = ["BookkeeperLedgerInspector"]

_DIGEST: Final = DigestKind.CRC32C
"""For the oldest metadata, which do not name the digest."""


class BookkeeperLedgerInspector:
    """A LedgerInspector on bookies, for one event loop. It takes the password and the digest from the metadata."""

    def __init__(self, cluster: BookieCluster, links: BookieLinks, registry: ZookeeperRegistry) -> None:
        self._cluster = cluster
        self._links = links
        self._registry = registry

    @classmethod
    async def open(cls, session: Session, root: str, clock: Clock, random: Random, tls: TlsFiles | None = None) -> Self:
        """Return an inspector of the ledgers below `root`; bookies speak TLS if so. The caller closes the session.

        Raises: ConfigurationError - there is no BookKeeper below `root`, or one with a layout that is not known here;
            LedgerStoreUnavailableError - ZooKeeper does not answer.
        """
        metadata = await ZookeeperLedgerMetadata.open(session, root, clock)
        registry = await ZookeeperRegistry.open(session, root, clock)
        links = BookieLinks(registry, tls=tls)
        return cls(BookieCluster(links, registry, metadata, BookieClusterOptions(), random), links, registry)

    async def facts(self, ledger_id: int) -> LedgerFacts:
        metadata, last = await self._extent(ledger_id)
        is_closed = metadata.state is LedgerState.CLOSED
        return LedgerFacts(is_closed=is_closed, last_entry_id=last, stored_bytes=metadata.length if is_closed else None)

    async def read(self, ledger_id: int, first_entry_id: int, *, entries_max: int, bytes_max: int) -> list[bytes]:
        metadata, last = await self._extent(ledger_id)
        last = min(last, first_entry_id + entries_max - 1)
        entries = range(first_entry_id, last + 1)
        return await read_payloads(self._cluster, ledger_id, metadata, _digest_of(metadata), entries, bytes_max)

    async def aclose(self) -> None:
        await self._registry.aclose()
        await self._links.aclose()

    async def _extent(self, ledger_id: int) -> tuple[LedgerMetadata, int]:
        """Return the record of a ledger, and the last entry that readers can know of."""
        metadata = (await self._cluster.metadata.read(ledger_id)).value
        if metadata.state is LedgerState.CLOSED:
            return metadata, metadata.last_entry_id
        return metadata, await read_last_confirmed(self._cluster, ledger_id, metadata, _digest_of(metadata))


def _digest_of(metadata: LedgerMetadata) -> Digest:
    return Digest(_DIGEST if metadata.digest is None else metadata.digest, metadata.password or b"")
