"""A message that is published again is stored once, by the same owner of the topic and by the next."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from hedwig.clock import SystemClock
from hedwig.errors import (
    BadVersionError,
    CorruptEntryError,
    HedwigError,
    LedgerStoreUnavailableError,
    MalformedRequestError,
    ServiceDownError,
    UncertainAnswerError,
)
from hedwig.hub.ledgers import LocalLedgerOptions
from hedwig.hub.logs.durable_log import DurableLog
from hedwig.hub.logs.ledger_deletions import LedgerDeletions
from hedwig.hub.logs.log_context import LogContext
from hedwig.hub.logs.non_durable_log import NonDurableLog
from hedwig.hub.logs.recent_messages import RecentMessages
from hedwig.hub.logs.repeat_window import RepeatWindow
from hedwig.hub.logs.repeats import CLOCKS_DIFFER_S, ROOM
from hedwig.hub.options.options import HubOptions
from hedwig.metadata import MetadataStore, format_metadata, open_metadata
from hedwig.model import RegionSeqId, Topic
from hedwig.wire import Message
from tests.hub.support.faulty_log import Faults, FaultyLedgers, Listener
from tests.hub.support.wire_client import DEADLINE_S

_WINDOW_S: Final = 100.0
_MESSAGES: Final = 50
_P, _Q = b"a publisher", b"another one"


class _Clock(SystemClock):
    """A clock that the test can put forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic(self) -> float:
        return SystemClock.monotonic() + self.ahead_s

    def wall(self) -> float:
        return SystemClock.wall() + self.ahead_s


class _Hub:
    """One hub after the other, on the same stores, and its topics."""

    def __init__(self, ledgers: FaultyLedgers, metadata: MetadataStore, deletions: LedgerDeletions) -> None:
        self.ledgers = ledgers
        self.clock = _Clock()
        self.reads = 0
        self._metadata = metadata
        self._deletions = deletions
        self.start()

    def start(self, **options: Any) -> None:
        """Begin anew, without knowledge of the past."""
        bounds = {"ledger_messages_max": 3, "repeat_window_s": _WINDOW_S, "repeat_window_messages": _MESSAGES}
        given: dict[str, Any] = bounds | {"operation_timeout_s": 5.0} | options
        self.store = LogContext(
            self.ledgers,
            self._metadata.persistence,
            replace(HubOptions(), **given),
            RecentMessages(0),
            b"here",
            self._deletions,
            self.clock,
        )

    async def open(self, topic: bytes = b"T", *, taken_over: bool = False) -> "_Log":
        log = await DurableLog.open(self.store, Topic(topic), taken_over=taken_over)
        log.attach_listener(Listener())
        return _Log(log, self)


class _Log:
    """The log of a topic, and publishes to it."""

    def __init__(self, log: DurableLog, hub: _Hub) -> None:
        self.log = log
        self._hub = hub

    def begin(
        self, sequence: int, previous: int = 0, age_s: float = 0.0, *, by: bytes = _P, body: bytes | None = None
    ) -> "asyncio.Future[int]":
        """Publish the message with this sequence; the future has its position."""
        outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def done(local: int, _: tuple[RegionSeqId, ...], error: HedwigError | None) -> None:
            assert not outcome.done(), "a publish has one outcome"
            if error is None:
                outcome.set_result(local)
            else:
                outcome.set_exception(error)

        message = Message(b"%s %d" % (by, sequence) if body is None else body)
        if by:
            self.log.publish_once(message, done, by, sequence, previous, 0, int(1000 * age_s))
        else:
            self.log.publish(message, done)
        return outcome

    async def publish_of_nobody(self) -> int:
        """Publish a message without a publisher."""
        return await asyncio.wait_for(self.begin(0, by=b"", body=b"of nobody"), DEADLINE_S)

    async def publish(
        self, sequence: int, previous: int = 0, age_s: float = 0.0, *, by: bytes = _P, body: bytes | None = None
    ) -> int:
        return await asyncio.wait_for(self.begin(sequence, previous, age_s, by=by, body=body), DEADLINE_S)

    async def bodies(self) -> list[bytes]:
        """Read all messages of the topic."""
        found: list[bytes] = []
        while (local := self.log.first_id + len(found)) <= self.log.last_id:
            page = await self.log.read(local, messages_max=100, bytes_max=1 << 20)
            found += [Message.decode(stored).body for stored in page]
        return found

    async def next_owner(self, *, taken_over: bool = False, **options: Any) -> "_Log":
        """Return the log as the next hub has it, which takes the topic over, or finds it released."""
        if not taken_over:
            await self.log.close()
        self._hub.start(**options)
        while True:
            try:
                return await self._hub.open(self.log.topic, taken_over=taken_over)
            except BadVersionError:
                assert taken_over, "the former owner changes its ranges no more"


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[_Hub]:
    url = f"sqlite://{tmp_path / 'metadata.db'}"
    await format_metadata(url)
    async with await open_metadata(url) as metadata:
        options = LocalLedgerOptions(segment_bytes=1 << 16, reserve_bytes=1 << 16)
        ledgers = await FaultyLedgers.open(tmp_path / "ledgers", options, None, random.Random(1))
        ledgers.faults = Faults()
        ledgers.latest = asyncio.get_running_loop().create_future()
        ledgers.latest.set_result(None)
        deletions = LedgerDeletions(SystemClock(), 5.0, ledgers)
        yield _Hub(ledgers, metadata, deletions)
        await deletions.close()
        await ledgers.aclose()


async def test_a_repeat_has_the_position_of_the_first(hub: _Hub) -> None:
    log = await hub.open()
    first = [await log.publish(number) for number in range(1, 8)]
    assert [await log.publish(number, age_s=1.0) for number in range(1, 8)] == first
    assert len(await log.bodies()) == 7


async def test_a_repeat_waits_for_the_message_that_is_on_its_way(hub: _Hub) -> None:
    log = await hub.open()
    await log.publish(1)
    under_way, repeated = log.begin(2), log.begin(2, age_s=1.0)
    assert not under_way.done()
    assert await repeated == await under_way == 2
    assert len(await log.bodies()) == 2


async def test_a_repeat_while_the_first_waits_for_a_ledger_is_tried_again_later(hub: _Hub) -> None:
    log = await hub.open()
    waiting = log.begin(1)
    with pytest.raises(ServiceDownError, match="waits for a ledger"):
        await log.publish(1, age_s=1.0)
    assert await waiting == await log.publish(1, age_s=1.0) == 1


@pytest.mark.parametrize("taken_over", [False, True], ids=["released", "taken over"])
async def test_the_next_owner_finds_what_the_former_stored(hub: _Hub, taken_over: bool) -> None:
    log = await hub.open()
    first = [await log.publish(10 * number) for number in range(1, 12)]
    of_others = await log.publish(1, by=_Q)
    log = await log.next_owner(taken_over=taken_over)
    # All at once: they wait until the log is read, in their order.
    again = [log.begin(10 * number, age_s=5.0) for number in range(1, 12)]
    assert await asyncio.gather(*again, log.begin(1, age_s=5.0, by=_Q)) == [*first, of_others]
    assert await log.publish(120, 110) == of_others + 1
    assert len(await log.bodies()) == 13


async def test_other_content_under_a_used_sequence_is_refused(hub: _Hub) -> None:
    log = await hub.open()
    await log.publish(1)
    under_way = log.begin(2)
    other = log.begin(2, body=b"other")
    await under_way
    for publish in (other, log.begin(1, body=b"other"), log.begin(1, body=b"other", age_s=1.0)):
        with pytest.raises(MalformedRequestError, match="has this sequence"):
            await asyncio.wait_for(publish, DEADLINE_S)
    assert len(await log.bodies()) == 2


async def test_a_message_is_not_stored_before_those_that_it_follows(hub: _Hub) -> None:
    log = await hub.open()
    with pytest.raises(ServiceDownError, match="message 1 of its publisher is not stored yet"):
        await log.publish(2, 1)
    await log.publish(1)
    with pytest.raises(ServiceDownError, match="message 5 of its publisher is not stored yet"):
        await log.publish(6, 5)
    assert await log.publish(2, 1) == 2
    with pytest.raises(MalformedRequestError, match="sequences must grow"):
        await log.publish(1 - 1, 0)
    assert len(await log.bodies()) == 2


@pytest.mark.parametrize("knows", [True, False], ids=["the same owner", "the next owner"])
async def test_an_attempt_that_is_older_than_the_window_is_refused(hub: _Hub, knows: bool) -> None:
    log = await hub.open()
    await log.publish(1)
    if not knows:
        log = await log.next_owner()
    for age_s, is_known in ((_WINDOW_S - CLOCKS_DIFFER_S - 2, True), (_WINDOW_S - CLOCKS_DIFFER_S + 2, False)):
        if is_known:
            await log.publish(7, age_s=age_s, by=b"%d" % age_s)
        else:
            with pytest.raises(ServiceDownError, match=r"may have been published 92 s ago, .* in the last 90 s"):
                await log.publish(7, age_s=age_s, by=b"%d" % age_s)
    # The sequences of a publisher grow. So a higher one than those in the window is new, whatever its age.
    assert await log.publish(2, age_s=1000.0) == 3


async def test_a_window_of_few_messages_reaches_back_to_the_oldest_of_them(hub: _Hub) -> None:
    log = await hub.open()
    await log.publish(1, by=_Q)
    hub.clock.ahead_s += 30
    for number in range(1, _MESSAGES + 1):
        await log.publish(number)
    log = await log.next_owner()
    assert await log.publish(1, age_s=1.0) == 2, "the oldest that it must know"
    for age_s in (1.0, 35.0):
        with pytest.raises(ServiceDownError, match="in the last 0 s"):
            await log.publish(1, age_s=age_s, by=_Q)
    assert await log.publish(2, by=_Q) == _MESSAGES + 2, "one that was never sent before is new at any time"


async def test_a_message_that_was_surely_not_stored_is_stored_when_it_comes_again_and_before_those_behind_it(
    hub: _Hub,
) -> None:
    log = await hub.open()
    await log.publish(1)
    hub.ledgers.faults.arm(1, is_applied=False)
    sent = [log.begin(2, 0), log.begin(3, 2), log.begin(4, 3)]
    await asyncio.wait_for(asyncio.wait(sent), DEADLINE_S)
    for each in sent:
        error = each.exception()
        assert isinstance(error, HedwigError)
        assert error.happened == "no"
    with pytest.raises(ServiceDownError, match="message 3 of its publisher is not stored yet"):
        await log.publish(4, 3)
    assert [await log.publish(2), await log.publish(3, 2), await log.publish(4, 3)] == [2, 3, 4]
    assert await log.bodies() == [b"a publisher %d" % number for number in range(1, 5)]


async def test_a_repeat_of_a_message_of_unknown_outcome_has_none_either(hub: _Hub) -> None:
    log = await hub.open()
    await log.publish(1)
    hub.ledgers.faults.arm(1, is_applied=True)
    sent = [log.begin(2), log.begin(2, age_s=1.0)]
    for each in sent:
        with pytest.raises(HedwigError) as caught:
            await asyncio.wait_for(each, DEADLINE_S)
        assert caught.value.happened == "unknown"
    log = await log.next_owner(taken_over=True)
    assert await log.publish(2, age_s=1.0) == 2, "it was stored, and only the answer was lost"
    assert len(await log.bodies()) == 2


async def test_what_may_be_repeated_is_kept_though_it_is_consumed(hub: _Hub) -> None:
    log = await hub.open()
    for number in range(1, 8):
        await log.publish(number)
    assert (await log.log.delete_consumed(7), log.log.is_keeping, log.log.has_closed) == (0, True, False)
    hub.clock.ahead_s += _WINDOW_S / 2
    log = await log.next_owner()
    assert log.log.has_closed, "not known yet"
    assert (await log.log.delete_consumed(7), log.log.is_keeping, log.log.has_closed) == (0, True, False)
    assert await log.publish(3, age_s=_WINDOW_S / 2) == 3
    hub.clock.ahead_s += _WINDOW_S / 2 + 1
    assert log.log.has_closed
    assert (await log.log.delete_consumed(7), log.log.is_keeping) == (7, False)
    assert log.log.first_id == 8


async def test_messages_without_a_publisher_are_not_kept(hub: _Hub) -> None:
    log = await hub.open()
    for _ in range(7):
        await log.publish_of_nobody()
    assert not log.log.is_recent
    assert (await log.log.delete_consumed(7), log.log.is_keeping) == (6, False)
    await log.publish(1)
    for _ in range(5):
        await log.publish_of_nobody()
    assert (await log.log.delete_consumed(13), log.log.is_keeping) == (0, True)
    hub.clock.ahead_s += _WINDOW_S + 1
    assert (await log.log.delete_consumed(13), log.log.is_keeping) == (6, False)


async def test_messages_of_a_former_owner_are_kept_below_some_without_a_publisher(hub: _Hub) -> None:
    log = await hub.open()
    for number in range(1, 4):
        await log.publish(number)
    log = await log.next_owner()
    for _ in range(7):
        await log.publish_of_nobody()
    assert (await log.log.delete_consumed(9), log.log.is_keeping) == (0, True)
    log = await log.next_owner()
    assert await log.publish(2, age_s=1.0) == 2


async def test_a_window_of_few_messages_knows_no_more_though_some_without_a_publisher_come_meanwhile(
    hub: _Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await hub.open()
    await log.publish(1)
    for _ in range(_MESSAGES):
        await log.publish_of_nobody()
    log = await log.next_owner()
    read, came = DurableLog.read, 0

    async def read_slowly(self: DurableLog, local: int, *, messages_max: int, bytes_max: int) -> Sequence[bytes]:
        nonlocal came
        if came < 2:
            came += 1
            await log.publish_of_nobody()
        return await read(self, local, messages_max=messages_max, bytes_max=bytes_max)

    with monkeypatch.context() as patch:
        patch.setattr(DurableLog, "read", read_slowly)
        with pytest.raises(ServiceDownError, match="in the last 0 s"):
            await log.publish(1, age_s=1.0)
    assert came == 2


async def test_only_so_many_messages_are_kept_for_repeats(hub: _Hub) -> None:
    log = await hub.open()
    for number in range(1, _MESSAGES + 10):
        await log.publish(number)
    deleted = await log.log.delete_consumed(log.log.last_id)
    assert 6 <= deleted <= 9
    assert log.log.is_keeping
    log = await log.next_owner()
    assert await log.publish(log.log.first_id + 3, age_s=1.0) == log.log.first_id + 3


async def test_a_topic_counts_as_used_while_its_messages_may_be_repeated(hub: _Hub) -> None:
    log = await hub.open()
    assert not log.log.is_recent
    await log.publish(1)
    assert log.log.is_recent
    hub.clock.ahead_s += _WINDOW_S + 1
    assert not log.log.is_recent


async def test_windows_beyond_the_bound_are_dropped_and_read_again(hub: _Hub) -> None:
    hub.start(repeat_bytes_max=6 << 10)
    logs = [await hub.open(b"topic %d" % number) for number in range(40)]
    for log in logs:
        assert await log.publish(1) == 1
    repeats = hub.store.repeats
    assert repeats.held_bytes <= 6 << 10
    assert sum(log.log.window is not None for log in logs) < 20
    for log in (*logs, *logs):
        assert await log.publish(1, age_s=1.0) == 1
        assert repeats.held_bytes <= 6 << 10
    assert await logs[0].publish(2, 1) == 2


async def test_a_window_that_is_not_used_goes_and_its_log_is_not_read_again(
    hub: _Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await hub.open()
    await log.publish(1)
    await hub.store.repeats.sweep()
    assert log.log.window is not None
    hub.clock.ahead_s += _WINDOW_S + 1
    await hub.store.repeats.sweep()
    assert hub.store.repeats.held_bytes == 0

    async def read(*_: Any, **__: Any) -> Sequence[bytes]:
        raise AssertionError("nothing that this owner does not know can matter")

    monkeypatch.setattr(DurableLog, "read", read)
    assert await log.publish(2) == 2
    assert await log.publish(3, age_s=5.0, by=_Q) == 3


async def test_a_publisher_that_may_repeat_anything_has_a_bound(hub: _Hub) -> None:
    log = await hub.open()
    for number in range(1, 4 * _MESSAGES):
        await log.publish(number)
    window = log.log.window
    assert isinstance(window, RepeatWindow)
    (publisher,) = window._publishers()
    assert len(publisher) <= publisher.room <= 2 * _MESSAGES
    assert await log.publish(4 * _MESSAGES - 5, age_s=1.0) == 4 * _MESSAGES - 5
    with pytest.raises(ServiceDownError, match="does not know any more"):
        await log.publish(1, age_s=1.0)


async def test_what_a_publisher_repeats_no_more_takes_no_room(hub: _Hub) -> None:
    log = await hub.open()

    def publish(sequence: int, answered: int) -> "asyncio.Future[int]":
        outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        log.log.publish_once(
            Message(b"m"), lambda local, _, __: outcome.set_result(local), _P, sequence, answered, answered, 0
        )
        return outcome

    for number in range(1, 200):
        assert await publish(number, number - 1) == number
    window = log.log.window
    assert isinstance(window, RepeatWindow)
    (publisher,) = window._publishers()
    assert publisher.room == ROOM


async def test_publishers_that_are_gone_leave_the_window(hub: _Hub) -> None:
    log = await hub.open()
    for number in range(40):
        await log.publish(1, by=b"early %d" % number)
    hub.clock.ahead_s += _WINDOW_S + 1
    for number in range(40):
        await log.publish(1, by=b"late %d" % number)
    window = log.log.window
    assert isinstance(window, RepeatWindow)
    assert len(window._publishers()) < 60
    for number in range(80, 2000):
        await log.publish(1, by=b"later %d" % number)
    assert len(window._publishers()) < 4 * _MESSAGES


@pytest.mark.parametrize("is_last", [True, False])
async def test_a_damaged_message_ends_what_the_next_owner_knows(
    hub: _Hub, is_last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await hub.open()
    for number in range(1, 9):
        await log.publish(number, by=b"publisher %d" % number)
    log = await log.next_owner()
    damaged, read = 8 if is_last else 5, DurableLog.read

    async def read_but_one(self: DurableLog, local: int, *, messages_max: int, bytes_max: int) -> Sequence[bytes]:
        if local == damaged:
            raise CorruptEntryError("the test has damaged it", "a file", 0)
        most = min(messages_max, damaged - local) if local < damaged else messages_max
        return await read(self, local, messages_max=most, bytes_max=bytes_max)

    monkeypatch.setattr(DurableLog, "read", read_but_one)
    for number in range(1, 9):
        if number > damaged:
            assert await log.publish(number, age_s=1.0, by=b"publisher %d" % number) == number
        else:
            with pytest.raises(ServiceDownError, match="in the last 0 s"):
                await log.publish(number, age_s=1.0, by=b"publisher %d" % number)
    assert await log.publish(9, by=_Q) == 9


async def test_publishes_are_refused_while_the_log_cannot_be_read(hub: _Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    log = await hub.open()
    await log.publish(1)
    log = await log.next_owner()

    async def away(*_: Any, **__: Any) -> Sequence[bytes]:
        raise LedgerStoreUnavailableError("the test refused it")

    with monkeypatch.context() as patch:
        patch.setattr(DurableLog, "read", away)
        for each in [log.begin(1, age_s=1.0), log.begin(2, 1)]:
            with pytest.raises(ServiceDownError, match="cannot be read for now"):
                await asyncio.wait_for(each, DEADLINE_S)
    assert hub.store.repeats.held_bytes == 0
    assert await log.publish(1, age_s=1.0) == 1
    assert await log.publish(2, 1) == 2


async def test_publishes_that_wait_for_the_log_are_refused_when_the_topic_goes(
    hub: _Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await hub.open()
    await log.publish(1)
    log = await log.next_owner()
    asked, going_on = asyncio.Event(), asyncio.Event()
    read = DurableLog.read

    async def slow(self: DurableLog, local: int, *, messages_max: int, bytes_max: int) -> Sequence[bytes]:
        asked.set()
        await going_on.wait()
        return await read(self, local, messages_max=messages_max, bytes_max=bytes_max)

    monkeypatch.setattr(DurableLog, "read", slow)
    waiting = log.begin(1, age_s=1.0)
    await asked.wait()
    assert not log.log.is_idle
    log.log.abandon()
    with pytest.raises(ServiceDownError, match="released"):
        await waiting
    going_on.set()
    await log.log.end()
    assert hub.store.repeats.held_bytes == 0


async def test_a_topic_that_is_given_up_leaves_no_repeat_without_outcome(hub: _Hub) -> None:
    log = await hub.open()
    await log.publish(1)
    _, repeat = log.begin(2), log.begin(2, age_s=1.0)
    log.log.on_failed(UncertainAnswerError("the test gives it up"))
    with pytest.raises(UncertainAnswerError):
        await asyncio.wait_for(repeat, DEADLINE_S)
    assert hub.store.repeats.held_bytes == 0


async def test_a_hub_without_a_window_refuses_what_may_be_a_repeat(hub: _Hub) -> None:
    hub.start(repeat_window_s=0.0)
    log = await hub.open()
    with pytest.raises(ServiceDownError, match="does not recognise"):
        await log.publish(1, age_s=1.0)
    assert log.log.last_id == 0


async def test_a_non_durable_topic_has_no_window(hub: _Hub) -> None:
    log = NonDurableLog(hub.store)
    outcomes: list[tuple[int, HedwigError | None]] = []

    def done(local: int, _: tuple[RegionSeqId, ...], error: HedwigError | None) -> None:
        outcomes.append((local, error))

    log.publish_once(Message(b"m"), done, _P, 1, 0, 0, 0)
    log.publish_once(Message(b"m"), done, _P, 1, 0, 0, 5)
    assert outcomes[0] == (1, None)
    assert isinstance(outcomes[1][1], MalformedRequestError)
    assert log.last_id == 1


async def test_no_topic_holds_more_than_its_share(hub: _Hub) -> None:
    hub.start(repeat_window_messages=10)
    log = await hub.open()
    for name in range(60):
        for number in range(1, 30):
            await log.publish(number, by=b"publisher %d" % name)
    assert hub.store.repeats.held_bytes < 2 * 8 * 10 * 128
    assert await log.publish(29, age_s=1.0, by=b"publisher 59") == log.log.last_id
