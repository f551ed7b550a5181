"""Prove that a repair may delete the owner record of a dead hub whose shared log nobody has closed yet.

The next owner finds no owner, so it shuts nobody out before its claim. What the dead hub still does, since it is not
dead after all, is either in the log that the next owner opens, or has no effect.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from hedwig.clock import SystemClock
from hedwig.errors import HedwigError
from hedwig.hub.ledgers import LocalLedgerOptions, LocalLedgerStore
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from hedwig.hub.logs.durable_log import DurableLog
from hedwig.hub.logs.ledger_deletions import LedgerDeletions
from hedwig.hub.logs.log_context import LogContext
from hedwig.hub.logs.recent_messages import RecentMessages
from hedwig.hub.options.options import HubOptions
from hedwig.metadata import MetadataStore, format_metadata, open_metadata
from hedwig.metadata.bulk.repairs import Renewals, RepairResult, release_dead_owner
from hedwig.metadata.logs.record import LogState
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.model import HubInfo, RegionSeqId, Topic
from hedwig.versions import NEW
from hedwig.wire import Message
from tests.hub.support.faulty_log import Listener
from tests.hub.support.wire_client import DEADLINE_S

T = Topic(b"T")
DEAD = HubInfo(host="dead", port=4080, epoch=1)
NEXT = HubInfo(host="next", port=4080, epoch=2)
_LEDGER_MESSAGES = 4


class _Hub:
    """The part of a hub that has the messages of one topic."""

    def __init__(self, context: LogContext, log: DurableLog) -> None:
        self.context = context
        self.log = log
        self.log.attach_listener(Listener())

    async def publish(self, count: int) -> int:
        """Publish messages one after the other, and return how many were acknowledged."""
        acknowledged = 0
        for _ in range(count):
            outcome: asyncio.Future[HedwigError | None] = asyncio.get_running_loop().create_future()

            def done(_local: int, _remote: tuple[RegionSeqId, ...], error: HedwigError | None) -> None:
                outcome.set_result(error)  # noqa: B023 (it is awaited in the same round)

            self.log.publish(Message(b"m"), done)
            acknowledged += await asyncio.wait_for(outcome, DEADLINE_S) is None
        return acknowledged


@pytest.fixture
async def metadata(tmp_path: Path) -> AsyncIterator[MetadataStore]:
    url = f"sqlite://{tmp_path / 'metadata.db'}"
    await format_metadata(url)
    async with await open_metadata(url) as metadata:
        yield metadata


async def _is_next(hub: HubInfo) -> bool:
    return hub.host == NEXT.host


@pytest.mark.parametrize("is_idle", [False, True], ids=["amid a ledger", "between two ledgers"])
async def test_nothing_is_acknowledged_beside_the_next_owner(
    tmp_path: Path, metadata: MetadataStore, is_idle: bool
) -> None:
    records = KeptLogRecords(metadata.named_records)
    options = replace(HubOptions(repeat_window_s=0.0), ledger_messages_max=_LEDGER_MESSAGES, operation_timeout_s=5.0)
    async with AsyncExitStack() as stack:
        below = await LocalLedgerStore.open(tmp_path / "ledgers", LocalLedgerOptions(reserve_bytes=1 << 16))
        stack.push_async_callback(below.aclose)

        async def context(me: HubInfo) -> tuple[int, LogContext]:
            store = await SharedLedgerStore.open(
                below, records, me, SystemClock(), SharedLogOptions(), is_alive=_is_next
            )
            stack.push_async_callback(store.abandon)
            deletions = LedgerDeletions(SystemClock(), 5.0, store)
            stack.push_async_callback(deletions.close)
            assert store.log is not None
            recent = RecentMessages(1 << 20)
            return store.log, LogContext(store, metadata.persistence, options, recent, b"here", deletions)

        number, at_dead = await context(DEAD)
        _, at_next = await context(NEXT)
        await metadata.ownership.write(T, replace(DEAD, log=number), NEW)
        dead = _Hub(at_dead, await DurableLog.open(at_dead, T, taken_over=False))
        acknowledged = await dead.publish(1)
        assert acknowledged == 1
        if is_idle:
            await dead.log.end_ledger()
        seen = await metadata.ownership.read(T)
        assert seen is not None
        assert await release_dead_owner(metadata, T, seen, Renewals()) is RepairResult.REPAIRED
        record = await records.read(number)
        assert record is not None
        assert record.state is LogState.OPEN, "the repair leaves that to the next owner"
        acknowledged += 0 if is_idle else await dead.publish(1)
        following = _Hub(at_next, await DurableLog.open(at_next, T, taken_over=False))
        assert following.log.last_id == acknowledged
        assert await dead.publish(2 * _LEDGER_MESSAGES) == 0
        assert await following.publish(2 * _LEDGER_MESSAGES) == 2 * _LEDGER_MESSAGES
        assert following.log.last_id == acknowledged + 2 * _LEDGER_MESSAGES
        ids: list[int] = []
        while len(ids) < following.log.last_id:
            for stored in await following.log.read(len(ids) + 1, messages_max=99, bytes_max=1 << 20):
                seq_id = Message.decode(stored).seq_id
                assert seq_id is not None
                ids.append(seq_id.local)
        assert ids == list(range(1, len(ids) + 1))
