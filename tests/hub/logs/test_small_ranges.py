"""Many small ledgers become few: which ones are merged, and the fate of their messages in all cases."""

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedwig.errors import HedwigError, LedgerStoreUnavailableError, NoSuchLedgerError, UncertainStateError
from hedwig.hub.logs.durable_log import DurableLog
from hedwig.hub.logs.log_context import LogContext
from hedwig.hub.logs.small_ranges import FAN, LargeLedgers, find_mergeable, messages_of
from hedwig.metadata.records.range_sizes import stored_bytes
from hedwig.model import LedgerRange, LedgerRanges, MessageSeqId
from hedwig.wire import Message
from tests.hub.logs.test_full_ranges import TopicStores, publish, stores
from tests.hub.support.wire_client import DEADLINE_S

__all__ = ["stores"]

_SMALL = 100_000 // FAN


def merge_all(messages: list[int], small: int = _SMALL) -> int:
    """Merge as long as possible; return the number of messages that are copied."""
    copied = 0
    while mergeable := find_mergeable([number * (number <= small) for number in messages]):
        first, end = mergeable
        assert end - first >= FAN
        total = sum(messages[first:end])
        copied += total
        messages[first:end] = [total]
    return copied


# ---------------------------------------------------------------------------------------------------------- the choice


def test_ten_years_of_idle_releases_leave_a_small_record() -> None:
    """One release each half hour, with one message each, and a subscriber that never attaches."""
    releases, first_ledger = 175_200, 1 << 40
    messages: list[int] = []
    longest: list[int] = []
    copied = 0
    for _ in range(releases):
        messages.append(1)
        if len(messages) > len(longest):
            longest = messages[:]
        copied += merge_all(messages)
    assert sum(messages) == releases
    assert copied <= 5 * releases, "each message is copied a few times"
    ends = [sum(longest[: index + 1]) for index in range(len(longest))]
    ranges = tuple(
        LedgerRange(ledger_id=first_ledger + index, start=end - number + 1, end=MessageSeqId(end))
        for index, (number, end) in enumerate(zip(longest, ends, strict=True))
    )
    assert stored_bytes(LedgerRanges(ranges)) < 64 << 10
    assert len(ranges) < 100


@pytest.mark.parametrize(
    ("message_bytes", "messages_each"), [(1 << 10, 16**4), (16 << 10, 16**3), (256 << 10, 16**2), (4 << 20, 16)]
)
def test_what_a_year_of_idle_releases_leaves_depends_on_the_size_of_messages(
    message_bytes: int, messages_each: int
) -> None:
    """As docs/reference/hub-limits.md says, a range above a sixteenth of 64 MiB is no longer merged."""
    releases = 17_520
    messages: list[int] = []
    copied = 0
    for _ in range(releases):
        messages.append(1)
        copied += merge_all(messages, min(_SMALL, (4 << 20) // message_bytes))
    assert max(messages) <= messages_each
    assert len(messages) <= releases / messages_each + 100
    assert copied <= releases * (1 + math.log(messages_each, FAN))


def test_what_older_hubs_left_is_merged_in_few_steps() -> None:
    messages = [1] * 5_000
    assert merge_all(messages) <= 5 * 5_000
    assert len(messages) < 100


@settings(max_examples=200)
@given(st.lists(st.integers(1, 300), max_size=120), st.randoms(use_true_random=False))
def test_ranges_of_any_size_become_few_and_are_copied_seldom(given_messages: list[int], source: random.Random) -> None:
    messages = given_messages[:]
    copied = merge_all(messages)
    assert sum(messages) == sum(given_messages)
    # Each copy moves a message up one tier, and there are four tiers.
    assert copied <= 4 * sum(given_messages)
    for first in range(len(messages) - FAN + 1):
        assert max(messages[first : first + FAN]) >= FAN


def test_what_is_open_empty_large_or_not_small_stays_as_it_is() -> None:
    large = LargeLedgers()
    large.add(3)
    ranges = (
        LedgerRange(ledger_id=1, start=1, end=MessageSeqId(7)),
        LedgerRange(ledger_id=2, start=8, end=MessageSeqId(108)),
        LedgerRange(ledger_id=3, start=109, end=MessageSeqId(109)),
        LedgerRange(ledger_id=4, start=110, end=MessageSeqId(109)),
        LedgerRange(ledger_id=5, start=None, end=MessageSeqId(112)),
        LedgerRange(ledger_id=6, start=113),
    )
    assert messages_of(ranges, 100, large) == [7, 0, 0, 0, 0, 0]
    assert find_mergeable([1] * 15 + [0] + [1] * 15) is None
    assert find_mergeable([]) is None


# ------------------------------------------------------------------------------------------------------- their messages


async def release_after_one(stores: TopicStores, releases: int, *, merge: bool) -> DurableLog:
    """Publish a message and release the topic, `releases` times; return a log that has it again."""
    for number in range(releases):
        log = await stores.open()
        local = await publish(log, Message(b"%d" % number))
        assert local == number + 1
        await log.close()
        if merge:
            await log.merge_small()
        assert await log.end()
    return await stores.open()


async def bodies(log: DurableLog) -> list[bytes]:
    contents: list[bytes] = []
    while len(contents) < log.last_id:
        entries: Sequence[bytes] = await log.read(len(contents) + 1, messages_max=7, bytes_max=1 << 20)
        assert entries
        for stored in entries:
            message = Message.decode(stored)
            contents.append(message.body)
            assert message.seq_id is not None
            assert message.seq_id.local == len(contents)
    return contents


async def named(stores: TopicStores) -> list[int]:
    return sorted(each.ledger_id for each in (await stores.record()).ranges)


async def test_idle_releases_with_real_ledgers_lose_nothing(stores: TopicStores) -> None:
    stores.options = stores.small_options()
    log = await release_after_one(stores, 300, merge=True)
    assert await bodies(log) == [b"%d" % number for number in range(300)]
    assert len((await stores.record()).ranges) < 40
    assert await stores.ledger_ids() == await named(stores), "no ledger is left behind"


async def test_messages_and_ledgers_stay_in_order_when_any_call_fails(stores: TopicStores) -> None:
    """Each call of a merge fails once, before or after it takes effect."""
    stores.options = stores.small_options()
    expected = [b"%d" % number for number in range(20)]
    log = await release_after_one(stores, 20, merge=False)
    calls = 0
    is_done = False
    while not is_done:
        calls += 1
        for is_applied in (False, True):
            broken = _Broken(stores, calls, is_applied=is_applied)
            log = await stores.open(taken_over=calls > 1)
            broken.attach()
            try:
                await asyncio.wait_for(log.merge_small(), DEADLINE_S)
            except (HedwigError, TimeoutError):
                assert broken.is_over
            broken.detach()
            is_done = not broken.is_over
            assert await bodies(log) == expected
            await log.close()
            await log.end()
            log = await stores.open(taken_over=True)
            assert await bodies(log) == expected
            assert set(await named(stores)) <= set(await stores.ledger_ids())
    assert calls > 3


class _Broken:
    """Makes one call of the ledgers or of the range record fail."""

    def __init__(self, stores: TopicStores, at: int, *, is_applied: bool) -> None:
        self._stores = stores
        self._left = at
        self._is_applied = is_applied
        self.is_over = False

    def attach(self) -> None:
        self._parts: list[tuple[Any, str]] = [
            *((self._stores.ledgers, name) for name in ("create", "read", "close", "delete")),
            (self._stores.metadata.persistence, "write"),
        ]
        for part, name in self._parts:
            lost = UncertainStateError if name.startswith("write") else TimeoutError
            setattr(part, name, self._around(getattr(part, name), lost))

    def detach(self) -> None:
        for part, name in self._parts:
            delattr(part, name)

    def _around(self, call: Callable[..., Any], lost: type[Exception]) -> Callable[..., Any]:
        async def around(*given: Any, **named: Any) -> Any:
            self._left -= 1
            if self._left:
                return await call(*given, **named)
            self.is_over = True
            if self._is_applied:
                await call(*given, **named)
                raise lost
            raise LedgerStoreUnavailableError("the test refuses it")

        return around


async def test_a_reader_of_a_ledger_that_was_merged_looks_where_its_messages_are_now(stores: TopicStores) -> None:
    stores.options = stores.small_options()
    log = await release_after_one(stores, 16, merge=False)
    ledgers: Any = stores.ledgers
    read = ledgers.read
    met: list[int] = []

    async def read_late(ledger_id: int, *given: Any, **named: Any) -> list[bytes]:
        if not met:
            met.append(ledger_id)
            await log.merge_small()
            with pytest.raises(NoSuchLedgerError):
                await read(ledger_id, *given, **named)
        entries: list[bytes] = await read(ledger_id, *given, **named)
        return entries

    ledgers.read = read_late
    [stored] = await log.read(16, messages_max=1, bytes_max=1)
    assert Message.decode(stored).body == b"15"
    assert len(log.ranges.ranges) == 1


async def test_a_deposed_owner_merges_nothing_and_deletes_only_its_copy(stores: TopicStores) -> None:
    stores.options = stores.small_options()
    old = await release_after_one(stores, 16, merge=False)
    listener = stores.listener
    before = await named(stores)
    ledgers: Any = stores.ledgers
    close = ledgers.close
    new: list[DurableLog] = []

    async def close_late(ledger_id: int) -> int:
        if not new:
            new.append(await stores.open(taken_over=True))
        last: int = await close(ledger_id)
        return last

    ledgers.close = close_late
    with pytest.raises(HedwigError):
        await old.merge_small()
    assert listener.lost is not None
    assert await named(stores) == before
    assert await stores.ledger_ids() == before
    assert await bodies(new[0]) == [b"%d" % number for number in range(16)]


async def test_a_copy_of_what_retention_has_deleted_meanwhile_is_dropped(stores: TopicStores) -> None:
    stores.options = stores.small_options()
    log = await release_after_one(stores, 17, merge=False)
    ledgers: Any = stores.ledgers
    close = ledgers.close
    deleted: list[int] = []

    async def close_late(ledger_id: int) -> int:
        if not deleted:
            deleted.append(await log.delete_consumed(5))
        last: int = await close(ledger_id)
        return last

    ledgers.close = close_late
    await log.merge_small()
    assert deleted == [5]
    assert log.first_id == 6
    assert [(each.start, each.end.local) for each in log.ranges.ranges if each.end] == [
        (local, local) for local in range(6, 18)
    ]
    assert await stores.ledger_ids() == await named(stores)


async def test_large_and_damaged_ledgers_are_read_once_and_left(stores: TopicStores) -> None:
    stores.options = stores.small_options()
    for _ in range(16):
        log = await stores.open()
        await publish(log, Message(b"x" * 5_000_000))
        await log.close()
        await log.end()
    log = await stores.open()
    before = await named(stores)
    for _ in range(17):
        assert not await log.merge_small()
    assert await named(stores) == before
    assert await stores.ledger_ids() == before
    store: LogContext = log._store
    assert any(ledger_id in store.large for ledger_id in before)
