"""How `metadata check` and `repair` reach the ledgers of a deployment, and tell them from ledgers of others."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hedwig.errors import ConfigurationError, LedgerStoreUnavailableError, OperationError
from hedwig.exit_codes import ExitCode
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.ledgers import LEDGERS, LedgerLocation, LedgerOwner
from hedwig.outcomes import NotAppliedError
from hedwig.private_files import user_data_directory

if TYPE_CHECKING:
    from hedwig.hub.ledgers.census import LedgerCensus

__all__ = ["KEPT_MS", "KnownLedgers", "open_known_ledgers"]

KEPT_MS: Final = 3600 * 1000
"""The age from which a ledger may count as an orphan. A hub makes a ledger before it writes it into the record."""

_ID_FILE: Final = "hub-id"


@dataclass(frozen=True, slots=True)
class KnownLedgers:
    """The ledgers of a store: where they are, the census that lists them, and whose ledgers are meant.

    `is_shared`: others may have ledgers in the same location, and may delete ledgers. `hub_id`: the standalone hub that
    has the ledgers in its directory.
    """

    where: str
    census: "LedgerCensus"
    owner: LedgerOwner
    is_shared: bool
    hub_id: str | None = None


@asynccontextmanager
async def open_known_ledgers(deployment: Deployment, *, is_wanted: bool) -> AsyncIterator[KnownLedgers | str]:
    """Yield the ledgers of the store. If the user did not say where they are, yield what option to give.

    The location is never guessed. With the ledgers of another deployment, all of this one's would seem missing, and all
    of the other's would seem orphans.

    Raises: OperationError, ConfigurationError - the ledgers are not where the user said, or nothing answers there.
    """
    if not is_wanted:
        yield "no kind of finding needs them"
        return
    location = LedgerLocation.given(deployment)
    is_said = location is not None
    if location is None and deployment.cluster and deployment.bookies_of_cluster:
        location = LedgerLocation.of(deployment)
    if location is None and (directory := _embedded(deployment)) is not None:
        location = LedgerLocation(directory=str(directory), timeout_s=deployment.timeout_s)
    if location is None:
        yield "no option says where the ledgers are; give --data DIR of a standalone hub, or --bookkeeper URL"
        return
    async with AsyncExitStack() as stack:
        try:
            known = await _open(deployment, location, stack)
        except ConfigurationError as exc:
            if is_said or not location.is_shared:
                raise
            # We looked at the default bookies. The hubs may be configured with others.
            yield f"{exc}; give --bookkeeper URL"
            return
        yield known


async def _open(deployment: Deployment, location: LedgerLocation, stack: AsyncExitStack) -> KnownLedgers:
    try:
        census = await stack.enter_async_context(location.census())
        hub_id = None if location.directory is None else _hub_id(Path(location.directory))
    except (NotAppliedError, LedgerStoreUnavailableError) as exc:
        where, advice = f"the ledgers in {location}", ""
        if location.is_shared:
            where, advice = f"the bookies of {location}", "; see that ZooKeeper is up there"
        raise OperationError(f"{deployment.command} failed on {where}: {exc}{advice}", ExitCode.UNAVAILABLE) from exc
    except OSError as exc:
        raise OperationError(
            f"{deployment.command} failed on {exc.filename or location}: {exc.strerror}; see that you may read it, "
            "or name another directory with --data DIR"
        ) from exc
    owner = LedgerOwner(deployment.cluster if location.is_shared else None)
    return KnownLedgers(str(location), census, owner, is_shared=location.is_shared, hub_id=hub_id)


def _hub_id(directory: Path) -> str | None:
    """Return the id of the standalone hub whose data directory this is; None if no hub has started there."""
    file = directory / _ID_FILE
    return file.read_text(encoding="ascii", errors="replace").strip() if file.is_file() else None


def _embedded(deployment: Deployment) -> Path | None:
    """Return the user's data directory, if the store is the one in it and a hub has run there; else None."""
    directory = user_data_directory()
    return directory if deployment.is_embedded and (directory / LEDGERS).is_dir() else None
