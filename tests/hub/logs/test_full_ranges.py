"""A topic with a full record of ledger ranges: it refuses early, stays owned, and can be closed and recovered."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest

from hedwig.clock import SystemClock
from hedwig.errors import HedwigError, MalformedRequestError, RecordTooLargeError, ServiceDownError
from hedwig.hub.ledgers import LocalLedgerOptions, LocalLedgerStore
from hedwig.hub.logs.durable_log import DurableLog
from hedwig.hub.logs.ledger_deletions import LedgerDeletions
from hedwig.hub.logs.ledger_ranges import to_store
from hedwig.hub.logs.log_context import LogContext
from hedwig.hub.logs.recent_messages import RecentMessages
from hedwig.hub.options.options import HubOptions
from hedwig.metadata import MetadataStore, open_metadata
from hedwig.metadata.contract.kinds import RECORD_BYTES_MAX
from hedwig.metadata.records.range_sizes import stored_bytes
from hedwig.model import LedgerRange, LedgerRanges, MessageSeqId, RegionSeqId, Topic, UnknownFields
from hedwig.status import StatusCode
from hedwig.versions import ANY, NEW, Version
from hedwig.wire import Message
from tests.hub.support.wire_client import DEADLINE_S, eventually

T = Topic(b"T")
REMOTE = tuple(RegionSeqId(b"%04d" % number, (1 << 64) - 1) for number in range(4096 // 20))
"""As many positions in other regions as a message may have."""


def with_positions(remote: Sequence[RegionSeqId]) -> Message:
    """Return a message that carries positions in other regions."""
    return Message(b"m").accepted(MessageSeqId(0, tuple(remote)), b"there")


class Listener:
    """The topic, as the log calls it."""

    has_attached = False

    def __init__(self) -> None:
        self.lost: HedwigError | None = None
        self.looks = 0

    def on_message(self, local: int, stored: bytes) -> None:
        """Do nothing: no subscriber is attached."""

    def on_ledger_closed(self) -> None:
        self.looks += 1

    async def is_owned(self) -> bool:
        return True

    def on_lost(self, error: HedwigError) -> None:
        self.lost = error


class TopicStores:
    """Real stores, and the topic's log over them."""

    def __init__(self, metadata: MetadataStore, ledgers: LocalLedgerStore) -> None:
        self.metadata = metadata
        self.ledgers = ledgers
        self.options = replace(HubOptions(repeat_window_s=0.0), ledger_messages_max=2, operation_timeout_s=30.0)
        self.persistence: Any = metadata.persistence
        self.listener = Listener()
        self.deletions = LedgerDeletions(SystemClock(), 30.0, ledgers)

    def small_options(self) -> HubOptions:
        """Return options with which ledgers of few messages are small."""
        return replace(self.options, ledger_messages_max=100_000)

    async def open(self, *, taken_over: bool = False) -> DurableLog:
        store = LogContext(
            self.ledgers, self.persistence, self.options, RecentMessages(1 << 20), b"here", self.deletions
        )
        log = await DurableLog.open(store, T, taken_over=taken_over)
        self.listener = Listener()
        log.attach_listener(self.listener)
        return log

    async def record(self) -> LedgerRanges:
        record = await self.metadata.persistence.read(T)
        assert record is not None
        return record.value

    async def write(self, record: LedgerRanges) -> None:
        await self.metadata.persistence.write(T, record, ANY)

    async def fill(self, size: int) -> None:
        """Write a record of `size` bytes, as if it named many ledgers."""
        record = replace(await self.record(), unknown=None)
        filler = UnknownFields("msgpack", msgpack.packb({"x": b"x" * (size - stored_bytes(record) - 8)}))
        record = replace(record, unknown=filler)
        assert stored_bytes(record) == size
        await self.write(record)

    async def ledger_ids(self) -> list[int]:
        return [ledger_id async for ledger_id in self.ledgers.ledgers()]


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[TopicStores]:
    ledgers = await LocalLedgerStore.open(
        tmp_path / "ledgers", LocalLedgerOptions(segment_bytes=1 << 20, reserve_bytes=1 << 16)
    )
    async with await open_metadata(f"sqlite://{tmp_path / 'metadata.db'}") as metadata:
        await metadata.persistence.write(T, LedgerRanges(), NEW)
        stores = TopicStores(metadata, ledgers)
        yield stores
        await stores.deletions.close()
    await ledgers.aclose()


async def publish(log: DurableLog, message: Message | None = None) -> int:
    """Publish, and return the position. Raises the error that the publisher gets."""
    outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def done(local: int, _: tuple[RegionSeqId, ...], error: HedwigError | None) -> None:
        if error is None:
            outcome.set_result(local)
        else:
            outcome.set_exception(error)

    log.publish(message or Message(b"m"), done)
    return await asyncio.wait_for(outcome, DEADLINE_S)


async def test_a_full_topic_refuses_before_a_ledger_is_made_and_goes_on_once_there_is_room(stores: TopicStores) -> None:
    log = await stores.open()
    assert await publish(log) == 1
    await log.close()
    await stores.fill(RECORD_BYTES_MAX - 100)
    before = await stores.ledger_ids()
    log = await stores.open()
    for _ in range(3):
        with pytest.raises(ServiceDownError, match="no room for one more") as refusal:
            await publish(log)
        assert refusal.value.happened == "no"
        assert refusal.value.status is StatusCode.SERVICE_DOWN
    assert await stores.ledger_ids() == before
    assert stores.listener.lost is None
    assert stores.listener.looks, "retention is told to look"
    await log.close()
    await stores.fill(RECORD_BYTES_MAX // 2)
    log = await stores.open()
    assert await publish(log) == 2
    await log.close()


async def test_retention_makes_room_for_the_next_publish(stores: TopicStores) -> None:
    for local in (1, 2):
        log = await stores.open()
        assert await publish(log) == local
        await log.close()
    first, second = (await stores.record()).ranges
    filler = UnknownFields("msgpack", msgpack.packb({"x": b"x" * RECORD_BYTES_MAX}))
    await stores.write(LedgerRanges((replace(first, unknown=filler), second)))
    log = await stores.open()
    with pytest.raises(ServiceDownError):
        await publish(log)
    assert await log.delete_consumed(1) == 1
    assert await publish(log) == 3


async def test_a_ledger_at_hand_goes_on_where_there_is_no_room_for_the_next(stores: TopicStores) -> None:
    log = await stores.open()
    assert await publish(log) == 1
    log._record.ranges = replace(
        log.ranges, unknown=UnknownFields("msgpack", msgpack.packb({"x": b"x" * (RECORD_BYTES_MAX - 200)}))
    )
    assert [await publish(log) for _ in range(5)] == [2, 3, 4, 5, 6]
    assert len(await stores.ledger_ids()) == 1
    assert stores.listener.lost is None
    await log.close()
    log = await stores.open()
    assert log.last_id == 6


@pytest.mark.parametrize("is_crash", [False, True])
async def test_whatever_was_begun_is_ended(stores: TopicStores, is_crash: bool) -> None:
    """The record is the largest that takes one more range. The end of that range has as many positions as allowed."""
    refusals = 0
    for size in range(RECORD_BYTES_MAX, 0, -1024):
        await stores.fill(size)
        log = await stores.open()
        try:
            await publish(log, with_positions(REMOTE))
        except ServiceDownError:
            refusals += 1
        else:
            break
    assert 0 < refusals < 10
    if not is_crash:
        await log.close()
    log = await stores.open(taken_over=is_crash)
    assert log.last_id == 1
    record = await stores.record()
    assert record.ranges[-1].end == MessageSeqId(1, REMOTE)
    assert stored_bytes(record) <= RECORD_BYTES_MAX, "there is room for one range more"


async def test_what_older_hubs_wrote_up_to_the_limit_is_recovered_and_ended(stores: TopicStores) -> None:
    log = await stores.open()
    assert await publish(log, with_positions(REMOTE)) == 1
    await stores.fill(RECORD_BYTES_MAX)
    log = await stores.open(taken_over=True)
    assert log.last_id == 1
    assert (await stores.record()).ranges[-1].end == MessageSeqId(1, REMOTE)
    with pytest.raises(ServiceDownError):
        await publish(log)
    await log.close()


async def test_a_refused_record_leaves_no_ledger_and_the_topic_where_it_is(stores: TopicStores) -> None:
    """A store that encodes records in its own way may refuse one."""

    class Refusing:
        async def write(self, topic: Topic, ranges: LedgerRanges, version: Version) -> Version:
            if any(each.end is None for each in ranges.ranges):
                raise RecordTooLargeError("the test refuses it")
            return await stores.metadata.persistence.write(topic, ranges, version)

        def __getattr__(self, name: str) -> Any:
            return getattr(stores.metadata.persistence, name)

    stores.persistence = Refusing()
    log = await stores.open()
    for _ in range(2):
        with pytest.raises(ServiceDownError):
            await publish(log)

    async def is_gone() -> bool:
        return await stores.ledger_ids() == []

    await eventually(is_gone, "no ledger is left")
    assert stores.listener.lost is None
    stores.persistence = stores.metadata.persistence
    log = await stores.open()
    assert await publish(log) == 1


async def test_positions_in_other_regions_stand_in_the_newest_range_only(stores: TopicStores) -> None:
    """Each message repeats them. So 184 claims after one publish with 4 KiB of them once filled a record."""
    for number in range(20):
        log = await stores.open(taken_over=number % 3 == 0)
        assert await publish(log, with_positions(REMOTE) if number == 0 else None) == number + 1
        if number % 2:
            await log.close()
    log = await stores.open(taken_over=True)
    record = await stores.record()
    ends = [each.end for each in record.ranges]
    assert ends == [*map(MessageSeqId, range(1, 20)), MessageSeqId(20, REMOTE)]
    [stored] = await log.read(20, messages_max=1, bytes_max=1)
    assert Message.decode(stored).seq_id == MessageSeqId(20, REMOTE)


async def test_a_record_with_positions_in_each_end_is_read_and_mended_by_the_next_write(stores: TopicStores) -> None:
    ids = [await stores.ledgers.create() for _ in range(3)]
    for local, ledger_id in enumerate(ids, 1):
        await stores.ledgers.append(ledger_id, 0, Message(b"m").accepted(MessageSeqId(local, REMOTE), b"here").encode())
        await stores.ledgers.close(ledger_id)
    ranges = tuple(
        LedgerRange(ledger_id=each, start=local, end=MessageSeqId(local, REMOTE)) for local, each in enumerate(ids, 1)
    )
    await stores.write(LedgerRanges(ranges))
    log = await stores.open()
    assert len(await log.read(2, messages_max=1, bytes_max=1)) == 1
    assert await publish(log) == 4
    assert [each.end for each in (await stores.record()).ranges] == [
        MessageSeqId(1),
        MessageSeqId(2),
        MessageSeqId(3, REMOTE),
        None,
    ]
    with pytest.raises(MalformedRequestError):
        await publish(log, with_positions((RegionSeqId(b"one more", 1),)))
    with contextlib.suppress(HedwigError):
        await log.close()


def test_a_position_that_no_later_range_has_stays() -> None:
    def end(local: int, **remote: int) -> LedgerRange:
        seq_ids = tuple(RegionSeqId(region.encode(), seq_id) for region, seq_id in remote.items())
        return LedgerRange(ledger_id=local, start=local, end=MessageSeqId(local, seq_ids))

    given = LedgerRanges((end(1, a=1, b=7), end(2, a=2), end(3, a=2, c=1), LedgerRange(ledger_id=4, start=4)))
    assert to_store(given).ranges == (end(1, b=7), end(2), *given.ranges[2:])
    few = LedgerRanges((end(1, a=1), end(2)))
    assert to_store(few) is few


def test_positions_without_number_are_cut_where_the_original_wrote_them() -> None:
    many = tuple(RegionSeqId(b"%0100d" % number, 1) for number in range(5000))
    given = LedgerRanges(
        (
            LedgerRange(ledger_id=1, start=1, end=MessageSeqId(1, many)),
            LedgerRange(ledger_id=2, start=2, end=MessageSeqId(2, many)),
        )
    )
    first, last = to_store(given).ranges
    assert first.end == MessageSeqId(1)
    assert last.end == MessageSeqId(2, many[: 4096 // 116])
