"""How a command reads ledgers: on bookies, or in the data directory of a standalone hub; without anybody noticing."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from hedwig.cli.arguments.option_group import option_group
from hedwig.cli.deployment.cluster_access import ClusterAccess
from hedwig.cli.errors import CommandError, ExitCode
from hedwig.cli.settings.setting_options import ledger_setting_options
from hedwig.cli.settings.settings import Settings, current_settings, data_directory
from hedwig.clock import SystemClock
from hedwig.errors import ConfigurationError, LedgerStoreUnavailableError
from hedwig.metadata import MetadataUrl
from hedwig.metadata.contract.url import zookeeper_place
from hedwig.outcomes import NotAppliedError

if TYPE_CHECKING:
    from hedwig.hub.ledgers.inspection import LedgerInspector

__all__ = ["LedgerAccess", "bookkeeper_of", "bookkeeper_place", "ledger_options"]

_PORT: Final = 2181
_LEDGERS: Final = "ledgers"
_ROOT: Final = "/ledgers"


@dataclass(frozen=True, slots=True)
class LedgerAccess:
    """Where ledgers are, as far as it was given."""

    data: str | None
    bookkeeper: str | None

    @classmethod
    def of(cls, settings: Settings) -> "LedgerAccess":
        """Make it of what was chosen; what says either most directly hides all that is said further away.

        Raises: ConfigurationError - one source says both.
        """
        for source, values in settings.layers(("data", "bookkeeper")):
            data, bookkeeper = values.get("data"), values.get("bookkeeper")
            if data and bookkeeper:
                raise ConfigurationError(f"{source} gives both data and bookkeeper: ledgers are in one of them")
            if data or bookkeeper:
                return cls(str(data) if data else None, str(bookkeeper) if bookkeeper else None)
        return cls(None, None)

    @property
    def is_given(self) -> bool:
        """Whether somebody said where the ledgers are."""
        return bool(self.data or self.bookkeeper)

    def place(self, settings: Settings, cluster: ClusterAccess) -> str | None:
        """Return where the bookies are, as given or as those of the cluster; None if ledgers are in a directory."""
        return self.bookkeeper or (None if self.data else bookkeeper_of(settings, cluster))

    @asynccontextmanager
    async def open(self, settings: Settings, cluster: ClusterAccess) -> "AsyncIterator[tuple[LedgerInspector, str]]":
        """Open what reads the ledgers; yield it with the name of the place.

        Raises: CommandError - it is not there, or does not answer; ConfigurationError - it was not said where it is.
        """
        place = self.place(settings, cluster)
        async with AsyncExitStack() as stack:
            try:
                if place is not None:
                    yield await _open_bookies(settings, place, stack), place
                    return
                directory = Path(self.data) if self.data else data_directory()
                yield await _open_directory(directory), str(directory)
            except LedgerStoreUnavailableError as exc:
                where = place or self.data or str(data_directory())
                raise CommandError(
                    f"{settings.command} failed on the ledgers in {where}: {exc}", ExitCode.UNAVAILABLE
                ) from exc


def ledger_options() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options that say where ledgers are; the command gets them as `ledgers`."""
    return option_group("ledgers", ledger_setting_options(), (), lambda _: LedgerAccess.of(current_settings()))


def bookkeeper_of(settings: Settings, cluster: ClusterAccess) -> str | None:
    """Return where the hubs of a cluster have their bookies unless told otherwise; None without a cluster."""
    try:
        parsed = MetadataUrl.parse(cluster.url(settings))
        hosts = ",".join(f"{host}:{port}" for host, port in parsed.endpoints(_PORT))
    except ConfigurationError:
        return None
    return f"zookeeper://{hosts}{_ROOT}"


async def _open_directory(directory: Path) -> "LedgerInspector":
    from hedwig.hub.ledgers.local.inspector import LocalLedgerInspector

    path = directory / _LEDGERS
    if not path.is_dir():
        raise ConfigurationError(
            f"there are no ledgers in {directory}; name the data directory of the hub with --data DIR, or its bookies "
            "with --bookkeeper URL"
        )
    return await LocalLedgerInspector.open(path)


async def _open_bookies(settings: Settings, place: str, stack: AsyncExitStack) -> "LedgerInspector":
    try:
        from hedwig.hub.ledgers.bookkeeper.inspector import BookkeeperLedgerInspector
        from hedwig.hub.ledgers.bookkeeper.records.bridged_session import BridgedSession
        from hedwig.zookeeper import Bridge, BridgeOptions
    except ImportError as exc:
        raise ConfigurationError(
            f"ledgers on bookies are read with {exc.name}; in the checkout of hedwig: pip install "
            "'.[zookeeper,bookkeeper]'"
        ) from exc
    hosts, root = bookkeeper_place(place)
    clock = SystemClock()
    bridge = Bridge(hosts, BridgeOptions(connect_timeout_s=settings.operation_timeout_s(), clock=clock))
    stack.push_async_callback(bridge.close)
    try:
        await bridge.connect()
    except NotAppliedError as exc:
        raise CommandError(
            f"{settings.command} failed on the bookies of {place}: {exc}; see that ZooKeeper is up there",
            ExitCode.UNAVAILABLE,
        ) from exc
    inspector = await BookkeeperLedgerInspector.open(BridgedSession(bridge), root, clock, Random())
    stack.push_async_callback(inspector.aclose)
    return inspector


def bookkeeper_place(url: str) -> tuple[str, str]:
    """Return hosts and root of the bookies of a cluster. Raises ConfigurationError."""
    try:
        return zookeeper_place(url)
    except ConfigurationError as exc:
        text = f"the bookies are at {url!r}; it must be like zookeeper://host:2181/ledgers"
        raise ConfigurationError(text) from exc
