"""Ledgers whose maker got no answer are deleted once the metadata answer again. In virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import cast

import pytest

from hedwig.clock import Clock
from hedwig.errors import LedgerError
from hedwig.hub.logs.ledger_deletions import LedgerDeletions
from hedwig.hub.logs.log_context import LogContext
from hedwig.hub.logs.recent_messages import RecentMessages
from hedwig.hub.options.options import HubOptions
from hedwig.metadata import TopicPersistenceManager
from hedwig.model import Topic
from tests.hub.ledgers.bookkeeper.support.model import LostCreation
from tests.hub.ledgers.bookkeeper.support.room import TWO_OF_THREE, Room, run, until
from tests.simulation.simulated_hub import VirtualClock

T = Topic(b"T")
AWAY_S = 300.0


@asynccontextmanager
async def logs_in(room: Room, clock: Clock) -> AsyncIterator[LogContext]:
    """Yield the context with which logs make their ledgers."""
    options = HubOptions(operation_timeout_s=2.0)
    deletions = LedgerDeletions(clock, options.operation_timeout_s, room.store)
    persistence = cast(TopicPersistenceManager, None)
    yield LogContext(room.store, persistence, options, RecentMessages(0), b"", deletions)
    await deletions.close()


async def fail_to_make(room: Room, logs: LogContext, lost: LostCreation) -> None:
    room.metadata.lost_creation = lost
    with pytest.raises((LedgerError, TimeoutError)):
        await logs.new_ledger(T)


@pytest.mark.parametrize("lost", LostCreation)
def test_a_ledger_that_a_lost_creation_has_made_is_deleted_once_the_metadata_answer(lost: LostCreation) -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE)
        async with logs_in(room, VirtualClock()) as logs:
            kept = await logs.new_ledger(T)
            await fail_to_make(room, logs, lost)
            assert len(room.metadata.records) == (1 if lost is LostCreation.NOT_DONE else 2)
            room.metadata.is_down = True
            await asyncio.sleep(AWAY_S)
            assert logs.deletions.waiting == 1
            room.metadata.is_down = False
            await until(lambda: not logs.deletions.waiting)
            assert list(room.metadata.records) == [kept]
            assert await logs.new_ledger(T) in room.metadata.records

    run(work)


def test_a_creation_that_surely_made_nothing_leaves_nothing_to_delete() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE)
        async with logs_in(room, VirtualClock()) as logs:
            room.metadata.is_down = True
            with pytest.raises(LedgerError):
                await logs.new_ledger(T)
            assert logs.deletions.waiting == 0

    run(work)


@pytest.mark.parametrize("token", [1, None])
def test_a_record_of_another_under_the_same_id_is_left_alone(token: int | None) -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE)
        async with logs_in(room, VirtualClock()) as logs:
            await fail_to_make(room, logs, LostCreation.DONE)
            ((ledger_id, _),) = room.metadata.records.items()
            theirs = replace(room.record(ledger_id), creation_token=token)
            await room.metadata.delete(ledger_id)
            await room.metadata.create(ledger_id, theirs)
            await until(lambda: not logs.deletions.waiting)
            assert room.record(ledger_id) == theirs

    run(work)


def test_the_next_registration_of_the_hub_deletes_what_the_one_before_made() -> None:
    async def work() -> None:
        room = Room(3, TWO_OF_THREE)
        async with logs_in(room, VirtualClock()) as logs:
            await fail_to_make(room, logs, LostCreation.SILENT)
            await room.store.aclose()
            await asyncio.sleep(AWAY_S)
            assert logs.deletions.waiting == len(room.metadata.records) == 1
            logs.deletions.attach(room.client())
            await until(lambda: not logs.deletions.waiting)
            assert not room.metadata.records

    run(work)
