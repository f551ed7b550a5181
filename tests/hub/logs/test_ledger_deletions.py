"""Unneeded ledgers that could not be deleted: the hub deletes them once the store can."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hedwig.clock import SystemClock
from hedwig.errors import LedgerStoreUnavailableError
from hedwig.hub.hub import Hub
from hedwig.hub.ledgers import LocalLedgerOptions, LocalLedgerStore
from hedwig.hub.logs import ledger_deletions
from hedwig.hub.logs.ledger_deletions import LedgerDeletions
from hedwig.model import Topic
from tests.faults.support.waiting import until
from tests.hub.support.wire_client import DEADLINE_S, WireClient

T = Topic(b"T")


class QuickClock(SystemClock):
    """A clock whose pauses last a hundredth of the requested time; `pauses` are the requested ones."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await super().sleep(seconds / 100)


class FailingLedgers(LocalLedgerStore):
    """The local store; deletions fail while `is_away`, those of `stuck` always, and all wait while `is_silent`."""

    is_away = False
    is_silent = False
    stuck: int | None = None
    unforeseen = False

    async def delete(self, ledger_id: int) -> None:
        if self.is_silent:
            await asyncio.get_running_loop().create_future()
        if self.unforeseen:
            raise RuntimeError("a defect of the store")
        if self.is_away or ledger_id == self.stuck:
            raise LedgerStoreUnavailableError("the test has it away")
        await super().delete(ledger_id)


async def ids_of(ledgers: LocalLedgerStore) -> list[int]:
    return [ledger_id async for ledger_id in ledgers.ledgers()]


@pytest.fixture
async def ledgers(tmp_path: Path) -> AsyncIterator[FailingLedgers]:
    store = await FailingLedgers.open(tmp_path, LocalLedgerOptions(segment_bytes=1 << 16, reserve_bytes=1 << 16))
    yield store
    await store.aclose()


@pytest.fixture
async def deletions(ledgers: FailingLedgers) -> AsyncIterator[LedgerDeletions]:
    deletions = LedgerDeletions(QuickClock(), 0.2, ledgers)
    yield deletions
    await deletions.close()


async def test_what_a_cancelled_pass_left_is_deleted_as_the_hub_stops(
    ledgers: FailingLedgers, deletions: LedgerDeletions
) -> None:
    made = [await ledgers.create() for _ in range(5)]
    ledgers.is_silent = True
    sweep = asyncio.create_task(deletions.delete(made[:4]))
    await until(lambda: deletions.waiting == 4, "the pass has begun")
    sweep.cancel()
    await asyncio.wait([sweep])
    ledgers.is_silent = False
    await asyncio.wait_for(deletions.close(), DEADLINE_S)
    assert await ids_of(ledgers) == made[4:]


async def test_a_store_that_is_silent_holds_up_no_stop(ledgers: FailingLedgers) -> None:
    deletions = LedgerDeletions(SystemClock(), 3600.0, ledgers)
    made = [await ledgers.create() for _ in range(2)]
    ledgers.is_silent = True
    sweep = asyncio.create_task(deletions.delete(made))
    await until(lambda: deletions.waiting == 2, "the pass has begun")
    sweep.cancel()
    await asyncio.wait_for(deletions.close(), DEADLINE_S)
    assert deletions.waiting == 2


@pytest.mark.parametrize("how", ["is_away", "is_silent", "unforeseen"])
async def test_a_deletion_that_fails_is_tried_until_it_is_done(
    ledgers: FailingLedgers, deletions: LedgerDeletions, how: str
) -> None:
    made = [await ledgers.create() for _ in range(5)]
    setattr(ledgers, how, True)
    await asyncio.wait_for(deletions.delete(made[:3]), DEADLINE_S)
    await asyncio.wait_for(deletions.delete(made[3:4]), DEADLINE_S)
    assert deletions.waiting == 4
    setattr(ledgers, how, False)
    await until(lambda: not deletions.waiting, "all are deleted")
    assert await ids_of(ledgers) == made[4:]
    setattr(ledgers, how, True)
    await asyncio.wait_for(deletions.delete(made[4:]), DEADLINE_S)
    setattr(ledgers, how, False)
    await until(lambda: not deletions.waiting, "so is one that comes later")
    assert await ids_of(ledgers) == []


async def test_one_ledger_that_stays_holds_up_no_other(ledgers: FailingLedgers, deletions: LedgerDeletions) -> None:
    made = [await ledgers.create() for _ in range(4)]
    ledgers.stuck = made[0]
    await asyncio.wait_for(deletions.delete(made), DEADLINE_S)
    await until(lambda: deletions.waiting == 1, "the others are deleted")
    assert await ids_of(ledgers) == made[:1]


async def test_a_deletion_whose_caller_is_cancelled_goes_on(
    ledgers: FailingLedgers, deletions: LedgerDeletions
) -> None:
    made = [await ledgers.create() for _ in range(3)]
    ledgers.is_silent = True
    deleting = asyncio.create_task(deletions.delete(made))
    await until(lambda: deletions.waiting == 3, "it has begun")
    deleting.cancel()
    await asyncio.wait([deleting])
    ledgers.is_silent = False
    await until(lambda: not deletions.waiting, "all are deleted")
    assert await ids_of(ledgers) == []


async def test_another_registration_goes_on_with_its_own_store(
    ledgers: FailingLedgers, deletions: LedgerDeletions, tmp_path: Path
) -> None:
    made = [await ledgers.create() for _ in range(3)]
    ledgers.is_away = True
    await deletions.delete(made)
    await ledgers.aclose()

    async def reopened() -> FailingLedgers:
        return await FailingLedgers.open(tmp_path, LocalLedgerOptions(segment_bytes=1 << 16, reserve_bytes=1 << 16))

    following = await reopened()
    deletions.attach(following)
    await until(lambda: not deletions.waiting, "all are deleted")
    assert await ids_of(following) == []
    await deletions.close()
    await following.aclose()


async def test_what_is_too_many_is_counted_and_left(
    ledgers: FailingLedgers,
    deletions: LedgerDeletions,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(ledger_deletions, "_WAITING_MAX", 3)
    left: list[int] = []
    for time in (1, 2):
        made = [await ledgers.create() for _ in range(8)]
        ledgers.is_away = True
        await deletions.delete(made[:5])
        await deletions.delete(made[5:])
        assert (deletions.waiting, deletions.left) == (3, 5 * time)
        ledgers.is_away = False
        await until(lambda: not deletions.waiting, "those that are remembered are deleted")
        left += made[3:]
        assert await ids_of(ledgers) == left
        said = [record for record in caplog.records if "metadata repair" in record.getMessage()]
        assert len(said) == time, "once for as long as it lasts"


async def test_pauses_grow_to_a_minute(ledgers: FailingLedgers) -> None:
    clock = QuickClock()
    deletions = LedgerDeletions(clock, 0.2, ledgers)
    ledgers.is_away = True
    await deletions.delete([await ledgers.create()])
    await until(lambda: len(clock.pauses) == 8, "it is tried again and again")
    assert clock.pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    await deletions.close()


async def test_consumed_ledgers_of_a_hub_go_once_the_store_is_back(
    hub: Hub, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.publish_many(T, *[b"m"] * 10)
    topic = hub.topics.get(T)
    assert topic is not None
    await until(lambda: topic.log.is_idle, "no ledger is made")

    async def away(_: int) -> None:
        raise LedgerStoreUnavailableError("the test has it away")

    with monkeypatch.context() as patch:
        patch.setattr(hub.ledgers, "delete", away)
        await hub.retention.sweep()
        assert hub.deletions.waiting == 3
        assert len([each async for each in hub.ledgers.ledgers()]) == 4
        await client.publish_many(T, *[b"m"] * 10)
    await until(lambda: not hub.deletions.waiting, "they are deleted while the topic stays owned")
    recorded = await hub.metadata.persistence.read(T)
    assert recorded is not None
    assert [each async for each in hub.ledgers.ledgers()] == [each.ledger_id for each in recorded.value.ranges]
