"""The ledgers of a cluster, as a hub without a shared log of its own uses them.

A command that needs them makes ledgers as the hubs do, and shuts dead hubs out of their logs. So it must know for sure
which hubs are alive.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from hedwig.clock import SystemClock
from hedwig.errors import LedgerStoreUnavailableError, NoSuchLedgerError, OperationError, ServiceDownError
from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataStore
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.model import HubInfo
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.hub_verdicts import HubState, HubVerdicts
from hedwig.operations.deployment.ledgers import bookies_session
from hedwig.outcomes import NotAppliedError

if TYPE_CHECKING:
    from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
    from hedwig.hub.ledgers.bookkeeper.records.zookeeper_metadata import ZookeeperLedgerMetadata
    from hedwig.hub.ledgers.shared.store import IsAlive, SharedLedgerStore

__all__ = ["open_hub_ledgers"]

_MARKS_OF_LOGS = ("log", "footer-of")


@asynccontextmanager
async def open_hub_ledgers(deployment: Deployment, store: MetadataStore) -> "AsyncGenerator[SharedLedgerStore]":
    """Open the ledgers on the bookies of a cluster whose hubs use `store`.

    Raises: OperationError - they do not answer, or there is no cluster; ConfigurationError - the user did not say where
        they are, or an extra is missing.
    """
    url = deployment.bookies_url
    if url is None:
        raise OperationError(
            f"{deployment.command}: only hubs of a cluster have shared logs; name their bookies with --bookkeeper URL, "
            "and the hubs with --cluster URL",
            ExitCode.USAGE,
        )
    try:
        async with bookies_session(url, deployment.timeout_s, deployment.stores_file) as (session, root):
            from hedwig.hub.ledgers.bookkeeper.records.zookeeper_metadata import ZookeeperLedgerMetadata
            from hedwig.hub.ledgers.bookkeeper.store import BookkeeperLedgerStore
            from hedwig.hub.ledgers.shared.options import SharedLogOptions
            from hedwig.hub.ledgers.shared.store import SharedLedgerStore
            from hedwig.store_access import StoreAccess

            clock, records = SystemClock(), KeptLogRecords(store.named_records)
            metadata = await ZookeeperLedgerMetadata.open(session, root, clock, deployment.timeout_s)
            options = await _options_of_hubs(deployment, records, metadata)
            options = replace(options, tls=StoreAccess.read(deployment.stores_file).bookkeeper)
            bookies = await BookkeeperLedgerStore.open(session, root, options, clock, Random())
            is_alive = _judging(HubVerdicts(deployment, store))
            ledgers = SharedLedgerStore.without_log(bookies, records, clock, SharedLogOptions(), is_alive=is_alive)
            try:
                yield ledgers
            finally:
                await ledgers.aclose()
    except (NotAppliedError, LedgerStoreUnavailableError) as exc:
        raise OperationError(
            f"{deployment.command} failed on the bookies of {url}: {exc}; see that ZooKeeper is up there",
            ExitCode.UNAVAILABLE,
        ) from exc


async def _options_of_hubs(
    deployment: Deployment, records: KeptLogRecords, metadata: "ZookeeperLedgerMetadata"
) -> "BookkeeperOptions":
    """Return the options with which the hubs made the newest ledger of a log; without one, those by default."""
    from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions

    for number in reversed([each async for each in records.numbers()]):
        record = await records.read(number)
        for ledger in sorted(record.ledgers if record is not None else (), reverse=True):
            try:
                made = (await metadata.read(ledger)).value
            except NoSuchLedgerError:
                continue
            assert made.digest is not None, "only the oldest metadata have none"
            return BookkeeperOptions(
                quorums=made.quorums,
                digest=made.digest,
                password=made.password or b"",
                custom={name: value for name, value in made.custom.items() if name not in _MARKS_OF_LOGS},
            )
    return BookkeeperOptions.for_hubs((deployment.cluster_url_if_known or "").encode())


def _judging(verdicts: HubVerdicts) -> "IsAlive":
    async def is_alive(hub: HubInfo) -> bool:
        try:
            state = await verdicts.of(hub)
        except OperationError as exc:
            raise ServiceDownError(str(exc)) from exc
        if state is HubState.UNKNOWN or (state is HubState.DEAD and verdicts.why_no_repair(hub) is not None):
            raise ServiceDownError(verdicts.why_unknown)
        return state is HubState.ALIVE

    return is_alive
