"""How `metadata check` and `repair` reach the ledgers of a deployment, and how they know which of them are its own."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hedwig.cli.deployment.cluster_access import ClusterAccess
from hedwig.cli.deployment.ledger_access import LedgerAccess, bookkeeper_place
from hedwig.cli.errors import CommandError, ExitCode
from hedwig.cli.settings.settings import Settings, data_directory
from hedwig.clock import SystemClock
from hedwig.errors import ConfigurationError, LedgerStoreUnavailableError
from hedwig.model import Topic
from hedwig.outcomes import NotAppliedError

if TYPE_CHECKING:
    from hedwig.hub.ledgers.census import LedgerCensus, LedgerEntry

__all__ = ["KEPT_MS", "LEDGERS", "Deployment", "KnownLedgers", "open_known_ledgers"]

KEPT_MS: Final = 3600 * 1000
"""How old a ledger has to be before anybody may say that nothing refers to it: it is made before it is on record."""

LEDGERS: Final = "ledgers"
"""Where they are in the data directory of a standalone hub."""
_ID_FILE: Final = "hub-id"
_APPLICATION: Final = b"hedwig"


@dataclass(frozen=True, slots=True)
class Deployment:
    """Whose ledgers carry which mark: `name` is the hubs' option cluster.zookeeper, to the letter; None: not known."""

    name: str | None

    def why_not_ours(self, entry: "LedgerEntry") -> str | None:
        """Say why a ledger may be somebody else's; None if it carries the mark of this deployment, and its topic."""
        if entry.error is not None:
            return f"its record cannot be read: {entry.error}"
        if entry.about.get("application") != _APPLICATION or "topic" not in entry.about:
            return "it carries no mark of Hedwig: another application's, an original hub's, or one of compat = 4.3"
        deployment = entry.about.get("deployment", b"").decode("utf-8", "backslashreplace")
        if self.name is None:
            return f"it is of the deployment {deployment}, and which is this one was not said; give --cluster URL"
        if deployment != self.name:
            return f"it is of the deployment {deployment}, not of {self.name}"
        return None

    def topic_of(self, entry: "LedgerEntry") -> Topic | None:
        """Return the topic of a ledger of this deployment; None for any other."""
        return Topic(entry.about["topic"]) if self.why_not_ours(entry) is None else None


@dataclass(frozen=True, slots=True)
class KnownLedgers:
    """The ledgers of a store: where they are, what counts them, and which are this deployment's.

    `is_shared`: others may have ledgers there, too, and ledgers may be deleted from outside. `hub_id` is the standalone
    hub whose ledgers they are.
    """

    place: str
    census: "LedgerCensus"
    deployment: Deployment
    is_shared: bool
    hub_id: str | None = None


@asynccontextmanager
async def open_known_ledgers(
    settings: Settings, cluster: ClusterAccess, ledgers: LedgerAccess, *, is_wanted: bool
) -> AsyncIterator[KnownLedgers | str]:
    """Yield the ledgers of the store; or, if it was not said where they are, what to give.

    Nothing is guessed: by the ledgers of another deployment all of this one would be missing, and all of that one
    would belong to nobody.

    Raises: CommandError, ConfigurationError - they are not where it was said, or do not answer.
    """
    if not is_wanted:
        yield "nobody asked for them"
        return
    place = ledgers.place(settings, cluster)
    async with AsyncExitStack() as stack:
        if place is not None and ledgers.bookkeeper:
            yield await _on_bookies(settings, cluster, place, stack)
            return
        if place is not None and cluster.given:
            try:
                known = await _on_bookies(settings, cluster, place, stack)
            except ConfigurationError as exc:
                # They may be elsewhere than hubs keep them unless told otherwise.
                yield f"{exc}; give --bookkeeper URL"
                return
            yield known
            return
        directory = Path(ledgers.data) if ledgers.data else _embedded(settings)
        if directory is None:
            yield "it was not said where the ledgers are; give --data DIR of a standalone hub, or --bookkeeper URL"
            return
        try:
            known = await _in_directory(directory)
        except OSError as exc:
            raise CommandError(
                f"{settings.command} failed on {exc.filename or directory}: {exc.strerror}; see that you may read it, "
                "or name another directory with --data DIR"
            ) from exc
        yield known


async def _on_bookies(settings: Settings, cluster: ClusterAccess, place: str, stack: AsyncExitStack) -> KnownLedgers:
    try:
        from hedwig.hub.ledgers.bookkeeper.census import BookkeeperLedgerCensus
        from hedwig.hub.ledgers.bookkeeper.records.bridged_session import BridgedSession
        from hedwig.hub.ledgers.bookkeeper.records.zookeeper_metadata import ZookeeperLedgerMetadata
        from hedwig.zookeeper import Bridge, BridgeOptions
    except ImportError as exc:
        raise ConfigurationError(
            f"ledgers on bookies are found with {exc.name}; in the checkout of hedwig: pip install "
            "'.[zookeeper,bookkeeper]'"
        ) from exc
    hosts, root = bookkeeper_place(place)
    timeout_s = settings.operation_timeout_s()
    bridge = Bridge(hosts, BridgeOptions(connect_timeout_s=timeout_s))
    stack.push_async_callback(bridge.close)
    try:
        await bridge.connect()
        metadata = await ZookeeperLedgerMetadata.open(BridgedSession(bridge), root, SystemClock(), timeout_s)
    except (NotAppliedError, LedgerStoreUnavailableError) as exc:
        raise CommandError(
            f"{settings.command} failed on the bookies of {place}: {exc}; see that ZooKeeper is up there",
            ExitCode.UNAVAILABLE,
        ) from exc
    return KnownLedgers(place, BookkeeperLedgerCensus(metadata), Deployment(cluster.given), is_shared=True)


async def _in_directory(directory: Path) -> KnownLedgers:
    from hedwig.hub.ledgers.local.census import LocalLedgerCensus

    path = directory / LEDGERS
    if not path.is_dir():
        raise ConfigurationError(f"there are no ledgers in {directory}; name the data directory of the hub: --data DIR")
    id_file = directory / _ID_FILE
    hub_id = id_file.read_text(encoding="ascii", errors="replace").strip() if id_file.is_file() else None
    census = await LocalLedgerCensus.open(path)
    return KnownLedgers(str(directory), census, Deployment(None), is_shared=False, hub_id=hub_id)


def _embedded(settings: Settings) -> Path | None:
    """Return the user's data directory, if the store is the one in it and a hub has run there; else None."""
    directory = data_directory()
    is_embedded = settings.chosen("metadata").value is None
    return directory if is_embedded and (directory / LEDGERS).is_dir() else None
