"""Where the ledgers of a deployment are, and how they are looked at from outside: nothing is locked, fenced or changed.

Tasks take a place along, so it holds nothing but its names; what it opens is closed by whoever opened it.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from hedwig.clock import SystemClock
from hedwig.errors import ConfigurationError
from hedwig.hub.ledgers.census import LedgerCensus, LedgerEntry
from hedwig.hub.ledgers.inspection import LedgerInspector
from hedwig.metadata.contract.url import zookeeper_place

if TYPE_CHECKING:
    from hedwig.hub.ledgers.bookkeeper.records.bridged_session import BridgedSession
    from hedwig.hub.ledgers.local.inspector import LocalLedgerInspector

__all__ = ["LedgerPlace"]

_LEDGERS: Final = "ledgers"
_APPLICATION: Final = b"hedwig"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPlace:
    """Where ledgers are: the data `directory` of a standalone hub, or the bookies at `bookkeeper`, a ZooKeeper URL.

    `deployment` is the hubs' option cluster.zookeeper, to the letter: by it their ledgers are told from others' on the
    same bookies. Without it nobody can say which of those belong to nobody. `timeout_s`: how long ZooKeeper may take.
    """

    directory: str | None = None
    bookkeeper: str | None = None
    deployment: str | None = None
    timeout_s: float = 30.0

    def __str__(self) -> str:
        return self.directory or self.bookkeeper or ""

    @property
    def is_dated(self) -> bool:
        """Say whether ledgers there tell when they were made."""
        return self.directory is None

    @property
    def is_shared(self) -> bool:
        """Say whether other machines see the ledgers, too."""
        return self.directory is None

    def is_ours(self, entry: LedgerEntry) -> bool:
        """Say whether hubs of the deployment have made a ledger."""
        if self.directory is not None:
            return True
        about = entry.about
        return (
            self.deployment is not None
            and about.get("application") == _APPLICATION
            and about.get("deployment", b"") == self.deployment.encode()
        )

    @asynccontextmanager
    async def census(self) -> AsyncGenerator[LedgerCensus]:
        """Open what knows which ledgers there are.

        Raises: ConfigurationError - there are none, or an extra is missing; NotAppliedError,
            LedgerStoreUnavailableError - they cannot be asked for.
        """
        if self.directory is not None:
            from hedwig.hub.ledgers.local.census import LocalLedgerCensus

            yield await LocalLedgerCensus.open(self._ledgers())
            return
        async with self._session() as (session, root):
            from hedwig.hub.ledgers.bookkeeper.census import BookkeeperLedgerCensus
            from hedwig.hub.ledgers.bookkeeper.records.zookeeper_metadata import ZookeeperLedgerMetadata

            metadata = await ZookeeperLedgerMetadata.open(session, root, SystemClock(), self.timeout_s)
            yield BookkeeperLedgerCensus(metadata)

    async def local_inspector(self) -> "LocalLedgerInspector":
        """Open what tells how far the ledgers in the directory go. It is for one task. Raises as `census`."""
        from hedwig.hub.ledgers.local.inspector import LocalLedgerInspector

        return await LocalLedgerInspector.open(self._ledgers())

    @asynccontextmanager
    async def shared_inspector(self) -> AsyncGenerator[LedgerInspector]:
        """Open what asks bookies how far ledgers go. Raises as `census`."""
        async with self._session() as (session, root):
            from hedwig.hub.ledgers.bookkeeper.inspector import BookkeeperLedgerInspector

            inspector = await BookkeeperLedgerInspector.open(session, root, SystemClock(), Random())
            try:
                yield inspector
            finally:
                await inspector.aclose()

    def _ledgers(self) -> Path:
        assert self.directory is not None, "one of the two was given"
        path = Path(self.directory) / _LEDGERS
        if not path.is_dir():
            raise ConfigurationError(f"there are no ledgers in {self.directory}; name the data directory of the hub")
        return path

    @asynccontextmanager
    async def _session(self) -> "AsyncGenerator[tuple[BridgedSession, str]]":
        """Open the ZooKeeper of the bookies; yield it with their root in it."""
        assert self.bookkeeper is not None, "one of the two was given"
        hosts, root = zookeeper_place(self.bookkeeper)
        try:
            import hedwig.hub.ledgers.bookkeeper.inspector  # noqa: F401 (what asks bookies needs more than ZooKeeper does)
            from hedwig.hub.ledgers.bookkeeper.records.bridged_session import BridgedSession
            from hedwig.zookeeper import Bridge, BridgeOptions
        except ImportError as exc:
            raise ConfigurationError(
                f"ledgers on bookies are found with {exc.name}; in the checkout of hedwig: pip install "
                "'.[zookeeper,bookkeeper]'"
            ) from exc
        bridge = Bridge(hosts, BridgeOptions(connect_timeout_s=self.timeout_s))
        try:
            await bridge.connect()
            yield BridgedSession(bridge), root
        finally:
            await bridge.close()
