"""Deletes ledgers on a standalone hub's disk that no record names, when an operator requests it.

The hub never does this by itself: started on wiped or foreign metadata, it would delete all its messages. It also does
not trust the request, but reads all records of its own metadata.

Only the log that made a ledger puts it on record. So take a ledger that exists, and is not being made, when a pass over
all records begins. If the pass does not find it on a record, no record will ever name it.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from hedwig.concurrency.tasks import Tasks
from hedwig.errors import HedwigError, LedgerError, ServiceDownError
from hedwig.hub.admin.http.errors import ConflictError
from hedwig.hub.ledgers.local.starts import first_ledger_id
from hedwig.metadata.bulk.findings import FindingKind, find_unreadable, pages

if TYPE_CHECKING:
    from hedwig.hub.hub import Hub

__all__ = ["OrphanDeletion"]

_log = logging.getLogger(__name__)


class OrphanDeletion:
    """Deletes orphan ledgers of one hub, one job at a time."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._tasks = Tasks()
        self._job = 0
        self._is_running = False
        self._records = 0
        self._deleted: Collection[int] = ()
        self._error: str | None = None

    def begin(self, ledger_ids: Iterable[int]) -> None:
        """Start a job that deletes those of these ledgers that no record names.

        Raises: ConflictError - another job is running.
        """
        if self._is_running:
            raise ConflictError("another request is deleting ledgers on this hub; try again", reason="running")
        self._job += 1
        self._is_running, self._records, self._deleted, self._error = True, 0, (), None
        self._tasks.start(self._run(set(ledger_ids)))

    def state(self) -> Mapping[str, Any]:
        """Return the state of the present job, or of the last one."""
        return {
            "job": self._job,
            "running": self._is_running,
            "records": self._records,
            "deleted": sorted(self._deleted),
            "waiting": self._hub.deletions.waiting,
            "failure": self._error,
        }

    async def close(self) -> None:
        """End the job. The ledgers that it has not deleted stay."""
        await self._tasks.cancel()

    async def _run(self, ledger_ids: set[int]) -> None:
        try:
            orphans = await self._orphans(ledger_ids)
            await self._check_may_delete()
            self._deleted = orphans
            _log.warning("%d ledgers that no topic refers to are deleted, as an operator asked", len(orphans))
            await self._hub.deletions.delete(sorted(orphans))
        except HedwigError as exc:
            self._error = str(exc)
        except Exception as exc:
            _log.exception("ledgers that no topic refers to are not deleted")
            self._error = f"the hub failed: {exc!r}"
        finally:
            self._is_running = False

    async def _orphans(self, ledger_ids: set[int]) -> set[int]:
        """Return those of the given ledgers that exist, and that no record names or will name."""
        hub = self._hub
        # A ledger with a higher id was made under other metadata, whose records this hub cannot read.
        ours = [each for each in ledger_ids if each < first_ledger_id(hub.me.epoch + 1)]
        suspects = {each for each in ours if await self._exists(each)}
        suspects -= await hub.incarnation.ledgers_in_the_making()
        async with aclosing(pages(hub.metadata, {FindingKind.ORPHAN_LEDGER}, None, self._count)) as scanned:
            async for page in scanned:
                for finding in find_unreadable(page):
                    raise ServiceDownError(f"nothing is deleted: a record may name any ledger: {finding.what}")
                for _, record in page.ranges:
                    suspects.difference_update(each.ledger_id for each in record.value.ranges)
        return suspects

    def _count(self, records: int) -> None:
        self._records += records

    async def _exists(self, ledger_id: int) -> bool:
        """Say whether a ledger exists and can be read. One that is made later belongs to a log."""
        try:
            await self._hub.ledgers.last_entry_id(ledger_id)
        except LedgerError:
            return False
        return True

    async def _check_may_delete(self) -> None:
        """Raise ServiceDownError if this metadata no longer decides which ledgers this hub keeps."""
        hub = self._hub
        if hub.freezing.why is not None:
            raise ServiceDownError(hub.freezing.why)
        registered = await hub.metadata.standalone_hub()
        why_over = hub.incarnation.why_over
        if why_over is not None or registered is None or registered.starts != hub.me.epoch:
            raise ServiceDownError(why_over or "nothing is deleted: this hub is not the one that its metadata name")
