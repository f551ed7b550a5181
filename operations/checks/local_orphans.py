"""Deletion of ledgers in the data directory of a standalone hub that no record names.

While the hub runs, only the hub deletes there. So it is asked to, and it reads the records itself. While the hub is
stopped, this code holds the lock of the directory, which keeps the hub from starting, and reads the records once more.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hedwig.errors import LedgerStoreLockedError, OperationError
from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataStore
from hedwig.metadata.bulk.findings import FindingKind, find_unreadable, pages
from hedwig.operations.checks.ledger_census import KnownLedgers
from hedwig.operations.checks.ledger_ids import LedgerIdSet
from hedwig.operations.deployment.admin_endpoint import AdminClient, RefusedError
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.ledgers import LEDGERS
from hedwig.operations.deployment.topic_owner import OwnerFinder

if TYPE_CHECKING:
    from hedwig.hub.ledgers import LocalLedgerStore

__all__ = ["LocalOrphans"]

_LOOK_S: Final = 0.2
_STANDS_STILL_S: Final = 60.0
"""How long a hub may take for a page of records, or for a ledger, before we stop waiting."""


class LocalOrphans:
    """Deletes orphans among the ledgers `known`, for a repair of `store`. Close it."""

    def __init__(self, deployment: Deployment, store: MetadataStore, known: KnownLedgers) -> None:
        self._deployment = deployment
        self._store = store
        self._known = known
        self._ledgers: LocalLedgerStore | None = None
        self._endpoint: AdminClient | None = None
        self._on_record = LedgerIdSet()

    async def aclose(self) -> None:
        """Release the lock of the directory, so that the hub can start again."""
        if self._ledgers is not None:
            await self._ledgers.aclose()

    async def delete(self, ledger_ids: Sequence[int]) -> set[int]:
        """Delete the ledgers of a page that no record names; return their ids.

        Raises: OperationError - the hub runs and cannot be asked, or refuses, or its outcome is not known: look again;
            LedgerStoreUnavailableError, MetadataUnavailableError.
        """
        if self._ledgers is None and self._endpoint is None:
            await self._open()
        await self._check_registered()
        if self._ledgers is None:
            return await self._have_deleted(ledger_ids)
        gone = {each for each in ledger_ids if each not in self._on_record}
        for ledger_id in gone:
            await self._ledgers.delete(ledger_id)
        return gone

    async def _open(self) -> None:
        from hedwig.hub.ledgers import LocalLedgerStore

        path = Path(self._known.where) / LEDGERS
        try:
            self._ledgers = await LocalLedgerStore.open(path)
        except LedgerStoreLockedError as exc:
            finder = OwnerFinder(self._deployment)
            self._endpoint = await asyncio.to_thread(finder.standalone_endpoint)
            if self._endpoint is None:
                raise OperationError(
                    f"{self._deployment.command} failed: {exc}. If the hub holds it, the hub does not answer. Name a "
                    "way to its admin endpoint with --admin HOST:PORT, or stop the hub",
                    ExitCode.UNAVAILABLE,
                ) from exc
            return
        # We hold the lock, so no hub makes ledgers there or writes them into records: one pass is enough.
        async with aclosing(pages(self._store, {FindingKind.ORPHAN_LEDGER}, None, lambda _: None)) as scanned:
            async for page in scanned:
                for finding in find_unreadable(page):
                    raise OperationError(f"{self._deployment.command}: a record may name any ledger: {finding.what}")
                self._on_record.update(each.ledger_id for _, record in page.ranges for each in record.value.ranges)

    async def _check_registered(self) -> None:
        """Raise OperationError unless the hub registered in the store is the one that has these ledgers."""
        registered = await self._store.standalone_hub()
        if registered is None or registered.hub_id != self._known.hub_id:
            raise OperationError(
                f"{self._deployment.command}: the ledgers in {self._known.where} are not of the standalone hub that is "
                "registered in the store; see that --metadata is right",
                ExitCode.VERSION_CONFLICT,
            )

    async def _have_deleted(self, ledger_ids: Sequence[int]) -> set[int]:
        """Have the hub delete ledgers; return the ids that it deleted."""
        assert self._endpoint is not None, "`_open` has set it"
        path = f"/delete-orphans?ledgers={','.join(map(str, ledger_ids))}"
        try:
            state: Mapping[str, Any] = await asyncio.to_thread(self._endpoint.post, path)
        except RefusedError as exc:
            if exc.http_status != HTTPStatus.NOT_FOUND:
                raise
            raise OperationError(
                f"{self._deployment.command}: the hub is of a release that deletes no ledgers when asked: stop it, and "
                "run this command again"
            ) from exc
        job, seen = state["job"], None
        loop = asyncio.get_running_loop()
        until = loop.time() + _STANDS_STILL_S
        while state["running"] and state["job"] == job:
            if (state["records"], state["waiting"]) != seen:
                seen, until = (state["records"], state["waiting"]), loop.time() + _STANDS_STILL_S
            if loop.time() > until:
                break
            await asyncio.sleep(_LOOK_S)
            state = await asyncio.to_thread(self._endpoint.get, "/delete-orphans")
        if state["running"] or state["job"] != job:
            raise OperationError(
                f"{self._deployment.command}: it is not known which ledgers the hub has deleted; run the check again",
                ExitCode.OUTCOME_UNKNOWN,
            )
        if state["failure"] is not None:
            raise OperationError(
                f"{self._deployment.command} failed on the hub: {state['failure']}", ExitCode.UNAVAILABLE
            )
        return set(state["deleted"])
