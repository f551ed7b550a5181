"""A durable log whose stores fail at every single call: ids stay without gap, and acknowledged messages stay."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hedwig.clock import SystemClock
from hedwig.errors import (
    EntryOrderError,
    HedwigError,
    LedgerStoreFullError,
    LedgerStoreUnavailableError,
    LedgerWriteError,
    ServiceDownError,
    UncertainAnswerError,
    UncertainStateError,
)
from hedwig.hub.ledgers import LocalLedgerOptions
from hedwig.hub.logs.ledger_deletions import LedgerDeletions
from hedwig.hub.logs.log_context import LogContext
from hedwig.hub.logs.recent_messages import RecentMessages
from hedwig.hub.options.options import HubOptions
from hedwig.metadata import format_metadata, open_metadata
from hedwig.model import LedgerRanges, Topic
from hedwig.status import StatusCode
from hedwig.versions import Version
from hedwig.wire import Message
from tests.faults.support.waiting import until
from tests.hub.support.faulty_log import Faults, FaultyLedgers, FaultyPersistence, Owner, T
from tests.hub.support.wire_client import DEADLINE_S, eventually


@pytest.fixture
async def make_owner(tmp_path: Path) -> AsyncIterator[Callable[[Faults], Awaitable[Owner]]]:
    """Make an owner of an empty topic."""
    ledgers: list[FaultyLedgers] = []
    ends: list[LedgerDeletions] = []
    url = f"sqlite://{tmp_path / 'metadata.db'}"
    await format_metadata(url)
    async with await open_metadata(url) as metadata:

        async def make(faults: Faults) -> Owner:
            directory = tmp_path / f"{len(ledgers)}"
            store = await FaultyLedgers.open(
                directory, LocalLedgerOptions(segment_bytes=1 << 16, reserve_bytes=1 << 16), None, random.Random(1)
            )
            store.faults = faults
            store.latest = asyncio.get_running_loop().create_future()
            store.latest.set_result(None)
            ledgers.append(store)
            await format_metadata(url, wipe=True)
            options = replace(HubOptions(repeat_window_s=0.0), ledger_messages_max=3, operation_timeout_s=5.0)
            persistence: Any = FaultyPersistence(metadata, faults)
            deletions = LedgerDeletions(SystemClock(), 5.0, store)
            ends.append(deletions)
            return Owner(LogContext(store, persistence, options, RecentMessages(1 << 20), b"here", deletions))

        yield make
        for deletions in ends:
            await deletions.close()
        for store in ledgers:
            await store.aclose()


async def _work(owner: Owner) -> None:
    """Do some of every operation."""
    await owner.open()
    await owner.publish(1)
    await owner.publish(5)
    await owner.collect(3)
    await owner.publish(2)
    await owner.hand_over()
    await owner.publish(4)
    await owner.collect(min(9, owner.log.last_id))
    await owner.hand_over()
    await owner.collect(owner.log.last_id)
    await owner.publish(4)
    await asyncio.gather(owner.end_ledger(), owner.publish(2))
    await owner.end_ledger()
    await owner.collect(owner.log.last_id)
    await owner.publish(1)


@pytest.mark.parametrize(
    ("is_applied", "lost_append"),
    [
        pytest.param(False, LedgerWriteError("unused"), id="surely not done"),
        pytest.param(True, LedgerWriteError("the test lost the answer"), id="done, and the answer lost"),
        pytest.param(True, RuntimeError("a defect of the store"), id="done, and an error that nobody foresaw"),
        pytest.param(True, asyncio.CancelledError(), id="done, and cancelled"),
    ],
)
async def test_any_call_may_fail(
    make_owner: Callable[[Faults], Awaitable[Owner]], is_applied: bool, lost_append: BaseException
) -> None:
    faults = Faults()
    faults.lost_append = lost_append
    owner = await make_owner(faults)
    faults.arm(0, is_applied=is_applied)
    await _work(owner)
    await owner.check()
    calls = faults.calls
    assert calls > 30
    # The other ways to lose an append are a case of their own for appends only.
    for number in range(1, calls + 1) if isinstance(lost_append, LedgerWriteError) else faults.appends:
        owner = await make_owner(faults)
        faults.arm(number, is_applied=is_applied)
        await _work(owner)
        faults.arm(0, is_applied=is_applied)
        await owner.publish(3)
        await owner.check()
        assert len(owner.acknowledged) >= 12, f"call {number} cost more than it had to"


@pytest.mark.parametrize("is_applied", [False, True], ids=["surely not done", "done, and the answer lost"])
@pytest.mark.parametrize("call", ["create", "close"])
async def test_a_topic_stays_while_the_next_ledger_cannot_be_made_or_the_last_one_sealed(
    make_owner: Callable[[Faults], Awaitable[Owner]], monkeypatch: pytest.MonkeyPatch, call: str, is_applied: bool
) -> None:
    monkeypatch.setattr("hedwig.hub.logs.durable_log._ROLL_PAUSE_S", 0.0)
    owner = await make_owner(Faults())
    await owner.open()
    log, listener, ledgers = owner.log, owner.listener, owner.store.ledgers
    real, failed = getattr(ledgers, call), 0

    async def away(*given: Any) -> Any:
        nonlocal failed
        failed += 1
        if is_applied:
            await real(*given)
            raise TimeoutError
        raise LedgerStoreUnavailableError("the test refused it")

    await owner.publish(1)
    with monkeypatch.context() as patch:
        patch.setattr(ledgers, call, away)
        for _ in range(8):
            await owner.publish(1)
        await until(lambda: log.is_idle, "the last attempt ends")
        assert failed > 1, "it was tried again"
        assert sorted(owner.acknowledged) == list(range(1, 10))
        assert len(log.ranges.ranges) == (1 if call == "create" else 2), "one ledger at a time stays unsealed"
    await owner.publish(2)
    await until(lambda: log.is_idle, "the next ledger is there")
    await owner.publish(5)
    assert (owner.log, listener.lost) == (log, None)
    unheard_of = failed if (call, is_applied) == ("create", True) else 0
    assert (await ledgers.stats()).open_ledgers == 1 + unheard_of
    assert len(log.ranges.ranges) > 2
    await owner.check()
    await owner.hand_over()
    await owner.check()


@pytest.mark.parametrize("is_applied", [False, True], ids=["not done", "done"])
async def test_nothing_is_appended_to_a_ledger_that_may_have_an_end_on_record(
    make_owner: Callable[[Faults], Awaitable[Owner]], monkeypatch: pytest.MonkeyPatch, is_applied: bool
) -> None:
    owner = await make_owner(Faults())
    await owner.open()
    await owner.publish(2)
    log, persistence = owner.log, owner.store.persistence
    write, writes = persistence.write, 0

    async def unheard(topic: Topic, ranges: LedgerRanges, version: Version) -> Version:
        nonlocal writes
        writes += 1
        if is_applied and writes == 1:
            await write(topic, ranges, version)
        raise UncertainStateError("the test lost the answer")

    with monkeypatch.context() as patch:
        patch.setattr(persistence, "write", unheard)
        await owner.publish(1)
        await until(lambda: log.is_idle, "the next ledger is in doubt")
        for _ in range(2):
            await owner.publish(1)
            await until(lambda: log.is_idle, "it stays so")
        assert sorted(owner.acknowledged) == [1, 2, 3]
        assert owner.refused == {b"4", b"5"}
        assert writes == 3
    await owner.publish(2)
    assert (owner.log, owner.listener.lost) == (log, None)
    assert sorted(owner.acknowledged) == [1, 2, 3, 4, 5]
    first, second = log.ranges.ranges
    assert first.end is not None
    assert (first.end.local, second.start) == (3, 4)
    await until(lambda: log.is_idle, "the former ledger is closed")
    assert (await owner.store.ledgers.stats()).open_ledgers == 1
    await owner.check()
    await owner.hand_over()
    await owner.check()


async def test_publishes_go_on_while_the_next_ledger_is_being_made(
    make_owner: Callable[[Faults], Awaitable[Owner]], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = await make_owner(Faults())
    await owner.open()
    await owner.publish(2)
    real, answer = owner.store.ledgers.create, asyncio.Event()

    async def slow(*given: Any) -> int:
        await answer.wait()
        return await real(*given)

    monkeypatch.setattr(owner.store.ledgers, "create", slow)
    await owner.publish(3)
    assert sorted(owner.acknowledged) == [1, 2, 3, 4, 5]
    (only,) = owner.log.ranges.ranges
    assert only.end is None
    answer.set()
    await until(lambda: owner.log.is_idle, "the next ledger is there")
    first, second = owner.log.ranges.ranges
    assert first.end is not None
    assert (first.end.local, second.start) == (5, 6)
    await owner.publish(1)
    await owner.check()


@pytest.mark.parametrize("reason", ["another has the record", "the close fails", "the close takes too long"])
async def test_a_log_that_ended_has_no_ledger_open(
    make_owner: Callable[[Faults], Awaitable[Owner]], monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    owner = await make_owner(Faults())
    await owner.open()
    await owner.publish(2)
    ledgers = owner.store.ledgers
    assert (await ledgers.stats()).open_ledgers == 1
    if reason == "another has the record":
        record = await owner.store.persistence.read(T)
        assert record is not None
        await owner.store.persistence.write(T, record.value, record.version)
        ended = owner._begin(b"last"), owner._begin(b"behind it")
        await asyncio.wait_for(asyncio.gather(*ended), DEADLINE_S)
        assert owner.listener.lost is not None
    else:

        async def close(_: int) -> int:
            raise LedgerStoreUnavailableError("the test refused it") if reason == "the close fails" else TimeoutError

        monkeypatch.setattr(ledgers, "close", close)
        with pytest.raises((LedgerStoreUnavailableError, TimeoutError)):
            await owner.log.close()
    assert (await ledgers.stats()).open_ledgers == 0


async def test_a_range_without_messages_is_told_from_one_that_has_some(
    make_owner: Callable[[Faults], Awaitable[Owner]],
) -> None:
    owner = await make_owner(Faults())
    await owner.open()
    assert not owner.log.has_closed
    await owner.publish(4)
    await owner.hand_over()
    assert owner.log.has_closed
    assert await owner.log.delete_consumed(4) == 4
    assert not owner.log.has_closed
    assert owner.log.first_id == 5
    assert await owner.log.delete_consumed(4) == 0
    await owner.hand_over()
    assert (owner.log.first_id, owner.log.last_id) == (5, 4)
    assert not owner.log.has_closed
    await owner.publish(1)
    assert (owner.log.first_id, owner.log.last_id) == (5, 5)


async def test_what_is_stored_behind_a_refused_message_is_neither_acknowledged_nor_refused_for_sure(
    make_owner: Callable[[Faults], Awaitable[Owner]],
) -> None:
    """A ledger store that continues after a failure breaks its contract. The topic must not take the gap over."""
    faults = Faults()
    owner = await make_owner(faults)
    await owner.open()
    await owner.publish(1)
    ledgers: Any = owner.store.ledgers
    outcomes: list[asyncio.Future[None]] = []

    def start_append(ledger_id: int, entry_id: int, payload: bytes) -> "asyncio.Future[None]":
        outcomes.append(asyncio.get_running_loop().create_future())
        return outcomes[-1]

    ledgers.start_append = start_append
    reported: list[HedwigError | None] = []
    for body in (b"refused", b"stored"):
        owner.log.publish(Message(body), lambda _id, _remote, error: reported.append(error))
    outcomes[0].set_exception(LedgerStoreFullError("the test has no space"))
    outcomes[1].set_result(None)
    await eventually(lambda: len(reported) == 2, "both publishers are told")
    first, second = reported
    assert isinstance(first, LedgerStoreFullError)
    assert isinstance(second, UncertainAnswerError)
    assert owner.listener.lost is second
    assert [body for _, body in owner.listener.heard] == [b"1"]


async def test_a_publish_that_comes_before_the_log_hears_of_a_full_disk_is_refused_as_those_before_it(
    make_owner: Callable[[Faults], Awaitable[Owner]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store takes the id back when it refuses. Until the log knows, its next append is out of order."""
    owner = await make_owner(Faults())
    await owner.open()
    await owner.publish(1)
    refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def out_of_turn() -> None:
        await asyncio.sleep(0)
        raise EntryOrderError("the test has it out of turn")

    appends = iter([refused, asyncio.ensure_future(out_of_turn())])
    with monkeypatch.context() as patch:
        patch.setattr(owner.store.ledgers, "start_append", lambda *_: next(appends))
        first = owner._begin(b"first")
        refused.set_exception(LedgerStoreFullError("the test has no space"))
        outcomes = await asyncio.gather(first, owner._begin(b"second"))
    errors = [error for _, error in outcomes]
    assert [(error.status, error.happened) for error in errors if error] == 2 * [(StatusCode.SERVICE_DOWN, "no")]
    await until(lambda: owner.log.is_idle, "the log has heard of both")
    await owner.publish(1)
    assert sorted(owner.acknowledged) == [1, 2]
    assert owner.listener.lost is None
    await owner.check()


@pytest.mark.parametrize("first", ["deletion", "close"])
async def test_consumed_ledgers_are_deleted_while_the_log_is_closed(
    make_owner: Callable[[Faults], Awaitable[Owner]], first: str
) -> None:
    """Both write the ranges. If one wrote with an outdated version, the topic would stay unclosed."""
    owner = await make_owner(Faults())
    await owner.open()
    await owner.publish(4)
    persistence: Any = owner.store.persistence
    write, writes, go_on = persistence.write, [], asyncio.Event()

    async def slow(topic: Topic, ranges: LedgerRanges, version: Version) -> Version:
        writes.append(ranges)
        await go_on.wait()
        written: Version = await write(topic, ranges, version)
        return written

    persistence.write = slow
    last = owner.publish(1)
    publishing = asyncio.create_task(last)
    await asyncio.sleep(0)
    assert not owner.log.is_idle
    begin = [lambda: owner.collect(3), owner.log.close]
    tasks = [asyncio.create_task(each()) for each in (begin if first == "deletion" else reversed(begin))]
    await until(lambda: writes, "one of them writes")
    await asyncio.wait_for(publishing, DEADLINE_S)
    for _ in range(3):
        await owner.store.ledgers.create()  # The other task's requests to the ledgers are done by then.
    assert len(writes) == 1, "the other waits"
    go_on.set()
    await asyncio.wait_for(asyncio.gather(*tasks), DEADLINE_S)
    assert [each.end.local for each in owner.log.ranges.ranges if each.end][-1] == 5
    owner.taken = 0
    await owner.open()
    await owner.check()


async def test_who_waits_for_a_first_ledger_that_another_made_is_told_to_ask_again(
    make_owner: Callable[[Faults], Awaitable[Owner]],
) -> None:
    """A publisher knows no versions of records, and its messages are surely not stored."""
    owner = await make_owner(Faults())
    await owner.open()
    record = await owner.store.persistence.read(T)
    assert record is not None
    await owner.store.persistence.write(T, record.value, record.version)
    outcomes = [owner._begin(b"first"), owner._begin(b"second")]
    for outcome in outcomes:
        _, error = await asyncio.wait_for(outcome, DEADLINE_S)
        assert isinstance(error, ServiceDownError)
        assert error.happened == "no"
    assert owner.listener.lost is not None
    await owner.open()
    await owner.publish(3)
    await owner.check()


async def test_who_gets_no_turn_to_make_a_ledger_is_refused_in_time_and_keeps_the_topic(
    make_owner: Callable[[Faults], Awaitable[Owner]],
) -> None:
    owner = await make_owner(Faults())
    options = replace(owner.store.options, ledger_changes_max=1, operation_timeout_s=0.2)
    owner.store = replace(owner.store, options=options)
    await owner.open()
    async with owner.store.ledger_turn():
        _, error = await asyncio.wait_for(owner._begin(b"refused"), DEADLINE_S)
    assert isinstance(error, LedgerStoreUnavailableError)
    assert error.happened == "no"
    assert owner.listener.lost is None
    await owner.publish(3)
    await owner.check()


async def test_taking_a_topic_over_reads_its_ranges_and_writes_them_once(
    make_owner: Callable[[Faults], Awaitable[Owner]],
) -> None:
    """After the death of a hub, the store receives these requests for thousands of topics at once."""
    owner = await make_owner(Faults())
    await owner.open()
    await owner.publish(2)
    record = await owner.store.persistence.read(T)
    assert record is not None
    persistence: Any = owner.store.persistence
    write, versions = persistence.write, []

    async def watched(topic: Topic, ranges: LedgerRanges, version: Version) -> Version:
        versions.append(version)
        written: Version = await write(topic, ranges, version)
        return written

    persistence.write = watched
    await owner.open()
    assert versions == [record.version], "nothing is asked for that the store can only refuse"
    await owner.publish(1)
    await owner.check()
