"""Where ledgers are, and how to look at them from outside. Nothing is locked, fenced or changed.

Spark sends a location to its tasks, so it holds only names. A caller that opens something from it closes that itself.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from hedwig.clock import Deadline, SystemClock
from hedwig.errors import ConfigurationError, LedgerStoreUnavailableError, OperationError
from hedwig.exit_codes import ExitCode
from hedwig.extras import needed
from hedwig.metadata.contract.url import zookeeper_address
from hedwig.metadata.logs.virtual_ids import is_virtual, log_of, slot_of
from hedwig.model import Topic
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.log_records import open_log_records
from hedwig.outcomes import NotAppliedError
from hedwig.private_files import user_data_directory

if TYPE_CHECKING:
    from hedwig.hub.ledgers.bookkeeper.records.session import BridgedSession
    from hedwig.hub.ledgers.census import LedgerCensus, LedgerEntry
    from hedwig.hub.ledgers.inspection import LedgerInspector
    from hedwig.hub.ledgers.local.inspector import LocalLedgerInspector
    from hedwig.metadata.logs.records import LogRecords
    from hedwig.store_access import TlsFiles

__all__ = [
    "LEDGERS",
    "BookieCounts",
    "LedgerLocation",
    "LedgerOwner",
    "bookies_session",
    "count_bookies",
    "ledger_name",
    "open_ledgers",
    "parse_bookies_url",
]

LEDGERS: Final = "ledgers"
"""The folder of ledgers in the data directory of a standalone hub."""
_APPLICATION: Final = b"hedwig"
_READ_ONLY: Final = "readonly"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLocation:
    """Where ledgers are: the data `directory` of a standalone hub, or the bookies at `bookkeeper`, a ZooKeeper URL.

    `metadata`: URL of the store of the hubs, which has the records of their shared logs; None if it is not known.
    `timeout_s`: how long ZooKeeper may take. `stores_file`: what to show to stores.
    """

    directory: str | None = None
    bookkeeper: str | None = None
    metadata: str | None = None
    stores_file: str = ""
    timeout_s: float

    @classmethod
    def given(cls, deployment: Deployment) -> "LedgerLocation | None":
        """Return where the user said that ledgers are; None if the user did not say it."""
        if not deployment.names_ledgers:
            return None
        return cls(
            directory=deployment.data,
            bookkeeper=deployment.bookkeeper,
            metadata=deployment.metadata,
            stores_file=deployment.stores_file,
            timeout_s=deployment.timeout_s,
        )

    @classmethod
    def of(cls, deployment: Deployment) -> "LedgerLocation":
        """Return where ledgers are, as the user said, else where hubs keep them by default."""
        bookies = deployment.bookies_url
        if bookies is not None:
            return cls(
                bookkeeper=bookies,
                metadata=deployment.metadata,
                stores_file=deployment.stores_file,
                timeout_s=deployment.timeout_s,
            )
        directory = deployment.data or str(user_data_directory())
        return cls(directory=directory, timeout_s=deployment.timeout_s)

    def __str__(self) -> str:
        return self.directory or self.bookkeeper or ""

    @property
    def is_shared(self) -> bool:
        """Whether ledgers are on bookies: other machines see them, others may have some there, and each has a date."""
        return self.directory is None

    @asynccontextmanager
    async def census(self) -> "AsyncGenerator[LedgerCensus]":
        """Open the census, which lists the ledgers.

        Raises: ConfigurationError - there are none, or an extra is missing; NotAppliedError,
            LedgerStoreUnavailableError - nothing answers; OSError - the directory cannot be read.
        """
        if self.directory is not None:
            from hedwig.hub.ledgers.local.census import LocalLedgerCensus

            try:
                census = await LocalLedgerCensus.open(self._ledgers())
            except LedgerStoreUnavailableError as exc:
                # Waiting does not make a directory readable.
                raise exc.__cause__ if isinstance(exc.__cause__, OSError) else exc from None
            yield census
            return
        async with self._session() as (session, root), self._log_records() as records:
            from hedwig.hub.ledgers.bookkeeper.census import BookkeeperLedgerCensus
            from hedwig.hub.ledgers.bookkeeper.inspector import BookkeeperLedgerInspector
            from hedwig.hub.ledgers.bookkeeper.records.zookeeper_metadata import ZookeeperLedgerMetadata
            from hedwig.hub.ledgers.shared.census import SharedLedgerCensus
            from hedwig.hub.ledgers.shared.inspector import InspectedLedgers

            metadata = await ZookeeperLedgerMetadata.open(session, root, SystemClock(), self.timeout_s)
            inspector = await BookkeeperLedgerInspector.open(session, root, SystemClock(), Random(), self._tls())
            try:
                below = BookkeeperLedgerCensus(metadata)
                known = None if self.metadata is None else records
                yield SharedLedgerCensus(below, known, InspectedLedgers(inspector))
            finally:
                await inspector.aclose()

    @asynccontextmanager
    async def inspector(self) -> "AsyncGenerator[LedgerInspector]":
        """Open the inspector, which reads ledgers and knows where they end. Raises as `census`."""
        if self.directory is not None:
            yield await self.local_inspector()
            return
        async with self._session() as (session, root), self._log_records() as records:
            from hedwig.hub.ledgers.bookkeeper.inspector import BookkeeperLedgerInspector
            from hedwig.hub.ledgers.shared.inspector import SharedLedgerInspector

            below = await BookkeeperLedgerInspector.open(session, root, SystemClock(), Random(), self._tls())
            try:
                yield SharedLedgerInspector(below, records, SystemClock())
            finally:
                await below.aclose()

    async def local_inspector(self) -> "LocalLedgerInspector":
        """Open the inspector of the ledgers in the directory. Raises as `census`."""
        from hedwig.hub.ledgers.local.inspector import LocalLedgerInspector

        return await LocalLedgerInspector.open(self._ledgers())

    def _ledgers(self) -> Path:
        assert self.directory is not None, "the caller looked"
        path = Path(self.directory) / LEDGERS
        if not path.is_dir():
            raise ConfigurationError(
                f"there are no ledgers in {self.directory}; name the data directory of the hub with --data DIR, or "
                "its bookies with --bookkeeper URL"
            )
        return path

    def _tls(self) -> "TlsFiles | None":
        """Return what to show to bookies."""
        from hedwig.store_access import StoreAccess

        return StoreAccess.read(self.stores_file).bookkeeper

    def _log_records(self) -> "AbstractAsyncContextManager[LogRecords]":
        return open_log_records(self.metadata, self.timeout_s, self.stores_file)

    @asynccontextmanager
    async def _session(self) -> "AsyncGenerator[tuple[BridgedSession, str]]":
        assert self.bookkeeper is not None, "one of the two was given"
        async with bookies_session(self.bookkeeper, self.timeout_s, self.stores_file) as opened:
            yield opened


def ledger_name(ledger_id: int) -> str:
    """Return how texts name a ledger."""
    place = f" (slot {slot_of(ledger_id)} of log {log_of(ledger_id)})" if is_virtual(ledger_id) else ""
    return f"ledger {ledger_id}{place}"


@dataclass(frozen=True, slots=True)
class LedgerOwner:
    """Whose ledgers are meant: those of hubs whose option cluster.zookeeper equals `cluster`, character by character.

    It tells their ledgers from those of others on the same bookies. None: the user did not say which hubs.
    """

    cluster: str | None

    def why_not_ours(self, entry: "LedgerEntry") -> str | None:
        """Say why a ledger may belong to other hubs; None if it names these hubs, and its topic or shared log."""
        if entry.error is not None:
            return f"its record cannot be read: {entry.error}"
        if entry.about.get("application") != _APPLICATION or entry.about.keys().isdisjoint(("topic", "log")):
            return "it carries no mark of Hedwig: another application's, an original hub's, or one of compat = 4.3"
        deployment = entry.about.get("deployment", b"").decode("utf-8", "backslashreplace")
        if self.cluster is None:
            return f"it is of the deployment {deployment}, and no option names this one; give --cluster URL"
        if deployment != self.cluster:
            return f"it is of the deployment {deployment}, not of {self.cluster}"
        return None

    def topic_of(self, entry: "LedgerEntry") -> Topic | None:
        """Return the topic of a ledger of these hubs; None for any other, and for one of a shared log."""
        topic = entry.about.get("topic")
        return Topic(topic) if topic is not None and self.why_not_ours(entry) is None else None

    def log_of(self, entry: "LedgerEntry") -> int | None:
        """Return the number of the shared log for which these hubs made a ledger; None for any other ledger."""
        number = entry.about.get("log", b"")
        return int(number) if number.isdigit() and self.why_not_ours(entry) is None else None


@asynccontextmanager
async def open_ledgers(deployment: Deployment) -> "AsyncIterator[tuple[LedgerInspector, str]]":
    """Open the inspector of the ledgers of a deployment; yield it with the name of where they are.

    Raises: OperationError - they do not answer; ConfigurationError - the user did not say where they are.
    """
    location = LedgerLocation.of(deployment)
    try:
        async with location.inspector() as inspector:
            yield inspector, str(location)
    except NotAppliedError as exc:
        raise OperationError(
            f"{deployment.command} failed on the bookies of {location}: {exc}; see that ZooKeeper is up there",
            ExitCode.UNAVAILABLE,
        ) from exc
    except LedgerStoreUnavailableError as exc:
        raise OperationError(
            f"{deployment.command} failed on the ledgers in {location}: {exc}", ExitCode.UNAVAILABLE
        ) from exc


@asynccontextmanager
async def bookies_session(url: str, timeout_s: float, stores_file: str) -> "AsyncGenerator[tuple[BridgedSession, str]]":
    """Open a session with the ZooKeeper in which bookies are registered; yield it with the path of their root.

    Raises: ConfigurationError - `url` is invalid, or an extra is missing; NotAppliedError - ZooKeeper does not answer.
    """
    hosts, root = parse_bookies_url(url)
    with needed("zookeeper,bookkeeper", "ledgers on bookies are found with"):
        import hedwig.hub.ledgers.bookkeeper.inspector  # noqa: F401 (what asks bookies needs more than ZooKeeper does)
        from hedwig.hub.ledgers.bookkeeper.records.session import BridgedSession
        from hedwig.store_access import StoreAccess
        from hedwig.zookeeper import Bridge, BridgeOptions
    # Bookies, which have logins of their own, read and delete the nodes of ledgers.
    access = replace(StoreAccess.read(stores_file).zookeeper, closes_nodes=False)
    bridge = Bridge(hosts, BridgeOptions(connect_timeout_s=timeout_s, access=access, clock=SystemClock()))
    try:
        await bridge.connect()
        yield BridgedSession(bridge), root
    finally:
        await bridge.close()


@dataclass(frozen=True, slots=True)
class BookieCounts:
    """How many bookies there are."""

    writable: int
    read_only: int


async def count_bookies(url: str, timeout_s: float, stores_file: str) -> BookieCounts:
    """Return how many bookies are registered at `url`, zookeeper://host:port/ledgers.

    Raises: LedgerStoreUnavailableError - ZooKeeper does not answer, or no bookie was ever there; ConfigurationError -
        it is no such URL, or an extra is missing.
    """
    try:
        async with bookies_session(url, timeout_s, stores_file) as (session, root):
            from kazoo.exceptions import ZookeeperError

            from hedwig.zookeeper import children

            paths = (f"{root}/available", f"{root}/available/{_READ_ONLY}")
            deadline = Deadline.after(SystemClock(), timeout_s)
            known, reading = await session.send(deadline, *(children(path) for path in paths))
    except NotAppliedError as exc:
        raise LedgerStoreUnavailableError(f"{exc}; see that ZooKeeper is up there") from exc
    if isinstance(known, ZookeeperError):
        raise LedgerStoreUnavailableError(f"no bookie was ever registered at {url}: {type(known).__name__}")
    read_only = 0 if isinstance(reading, ZookeeperError) else len(reading)
    return BookieCounts(len(frozenset(known) - {_READ_ONLY}), read_only)


def parse_bookies_url(url: str) -> tuple[str, str]:
    """Return hosts and root of the bookies of a cluster. Raises ConfigurationError."""
    try:
        return zookeeper_address(url)
    except ConfigurationError as exc:
        text = f"the bookies are at {url!r}; it must be like zookeeper://host:2181/ledgers"
        raise ConfigurationError(text) from exc
