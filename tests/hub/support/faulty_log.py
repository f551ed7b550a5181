"""A durable log over stores of which any call may fail, and an owner that takes its topic again and again."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from hedwig.errors import (
    HedwigError,
    LedgerError,
    LedgerStoreFullError,
    LedgerStoreUnavailableError,
    LedgerWriteError,
    MetadataError,
    MetadataUnavailableError,
    UncertainStateError,
)
from hedwig.hub.ledgers import InDoubt, LocalLedgerStore
from hedwig.hub.logs.durable_log import DurableLog
from hedwig.hub.logs.log_context import LogContext
from hedwig.metadata import MetadataStore
from hedwig.model import LedgerRanges, RegionSeqId, Topic
from hedwig.versions import Version
from hedwig.wire import Message
from tests.hub.support.wire_client import DEADLINE_S

__all__ = ["Faults", "FaultyLedgers", "FaultyPersistence", "Listener", "Owner", "T"]

T = Topic(b"T")
"""The topic."""
R = TypeVar("R")


class Faults:
    """Counts the calls of both stores, and makes one of them fail: before or after it takes effect."""

    def __init__(self) -> None:
        self.calls = 0
        self.appends: list[int] = []
        """The numbers of the calls that append an entry."""
        self.fail_at = 0
        self.is_applied = False
        self.lost_append: BaseException = LedgerWriteError("the test lost the answer")

    def arm(self, calls: int, *, is_applied: bool) -> None:
        self.calls, self.appends, self.fail_at, self.is_applied = 0, [], calls, is_applied

    def is_due(self) -> bool:
        self.calls += 1
        return self.calls == self.fail_at

    async def around(
        self, call: Callable[[], Awaitable[R]], refused: Callable[[], Exception], lost: Callable[[], Exception]
    ) -> R:
        if not self.is_due():
            return await call()
        if not self.is_applied:
            raise refused()
        await call()
        raise lost()


def _refused() -> Exception:
    return LedgerStoreUnavailableError("the test refused it")


class FaultyLedgers(LocalLedgerStore):
    """The local store. A failed append is either stored, without its caller knowing, or definitely not."""

    faults: Faults
    latest: "asyncio.Future[None]"

    async def create(self, about: Mapping[str, bytes] | None = None, in_doubt: InDoubt | None = None) -> int:
        return await self.faults.around(
            lambda: super(FaultyLedgers, self).create(about, in_doubt), _refused, TimeoutError
        )

    async def close(self, ledger_id: int) -> int:
        return await self.faults.around(lambda: super(FaultyLedgers, self).close(ledger_id), _refused, TimeoutError)

    async def open_and_fence(self, ledger_id: int) -> int:
        return await self.faults.around(
            lambda: super(FaultyLedgers, self).open_and_fence(ledger_id), _refused, TimeoutError
        )

    async def delete(self, ledger_id: int) -> None:
        await self.faults.around(lambda: super(FaultyLedgers, self).delete(ledger_id), _refused, TimeoutError)

    def start_append(self, ledger_id: int, entry_id: int, payload: bytes) -> "asyncio.Future[None]":
        is_due = self.faults.is_due()
        self.faults.appends.append(self.faults.calls)
        if not is_due:
            self.latest = super().start_append(ledger_id, entry_id, payload)
            return self.latest
        failed = asyncio.get_running_loop().create_future()
        if self.faults.is_applied:
            real = super().start_append(ledger_id, entry_id, payload)
            real.add_done_callback(lambda _: self._lose(failed))
        else:
            error = LedgerStoreFullError("the test has no space")
            # The error comes in its turn: a ledger reports outcomes in order.
            self.latest.add_done_callback(lambda _: failed.set_exception(error))
        return failed

    def _lose(self, outcome: "asyncio.Future[None]") -> None:
        if isinstance(self.faults.lost_append, asyncio.CancelledError):
            outcome.cancel()
        else:
            outcome.set_exception(self.faults.lost_append)


class FaultyPersistence:
    """A persistence manager in front of the real one."""

    def __init__(self, store: MetadataStore, faults: Faults) -> None:
        self._manager = store.persistence
        self._faults = faults

    async def write(self, topic: Topic, ranges: LedgerRanges, version: Version) -> Version:
        return await self._faults.around(
            lambda: self._manager.write(topic, ranges, version),
            lambda: MetadataUnavailableError("the test refused it"),
            lambda: UncertainStateError("the test lost the answer"),
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)


class Listener:
    """The topic, as the log calls it. It records messages, and the end of the log."""

    has_attached = True

    def __init__(self) -> None:
        self.heard: list[tuple[int, bytes]] = []
        self.lost: HedwigError | None = None
        self.is_claimed = True

    def on_message(self, local: int, stored: bytes) -> None:
        self.heard.append((local, Message.decode(stored).body))

    def on_ledger_closed(self) -> None:
        """Do nothing: the test collects by itself."""

    async def is_owned(self) -> bool:
        return self.is_claimed

    def on_lost(self, error: HedwigError) -> None:
        self.lost = error


class Owner:
    """Owns the topic over and over. It takes the topic again whenever its log gave up, as the hub does."""

    def __init__(self, store: LogContext) -> None:
        self.store = store
        self.acknowledged: dict[int, bytes] = {}
        self.heard: dict[int, bytes] = {}
        self.refused: set[bytes] = set()
        """The messages whose publishers received a definite refusal."""
        self.taken = 0
        self._published = 0
        self._deleted = 0

    async def open(self) -> None:
        """Take the topic; repeat it once after a failure, as the next request does."""
        for _ in range(3):
            try:
                self.log = await DurableLog.open(self.store, T, taken_over=self.taken > 0)
            except (HedwigError, TimeoutError):
                self.taken += 1
                continue
            self.listener = Listener()
            self.log.attach_listener(self.listener)
            self.taken += 1
            return
        raise AssertionError("one fault must not keep the topic from being taken")

    async def publish(self, count: int) -> None:
        """Publish all at once, and record the acknowledged messages. Take the topic again if the log gave up."""
        waiting = []
        for _ in range(count):
            self._published += 1
            waiting.append(self._begin(b"%d" % self._published))
        outcomes = await asyncio.wait_for(asyncio.gather(*waiting), DEADLINE_S)
        ids = [local for local, error in outcomes if error is None]
        assert ids == sorted(ids)
        for local, body in self.listener.heard:
            assert self.heard.setdefault(local, body) == body
        if self.listener.lost is not None:
            await self.open()

    def _begin(self, body: bytes) -> "asyncio.Future[tuple[int, HedwigError | None]]":
        outcome: asyncio.Future[tuple[int, HedwigError | None]] = asyncio.get_running_loop().create_future()

        def done(local: int, _: tuple[RegionSeqId, ...], error: HedwigError | None) -> None:
            assert not outcome.done(), "a publish has one outcome"
            if error is None:
                assert local not in self.acknowledged, "an id is given once"
                self.acknowledged[local] = body
            elif error.happened == "no":
                self.refused.add(body)
            outcome.set_result((local, error))

        self.log.publish(Message(body), done)
        return outcome

    async def collect(self, consumed: int) -> None:
        with contextlib.suppress(LedgerError, MetadataError, TimeoutError):
            await self.log.delete_consumed(consumed)
        self._deleted = max(self._deleted, consumed)

    async def end_ledger(self) -> None:
        """End the ledger that takes appends, without making another."""
        with contextlib.suppress(LedgerError, MetadataError, TimeoutError):
            await self.log.end_ledger()

    async def hand_over(self) -> None:
        """Release the topic and take it again."""
        try:
            await asyncio.wait_for(self.log.close(), DEADLINE_S)
        except (LedgerError, MetadataError, TimeoutError):
            pass
        else:
            self.taken = 0
        await self.open()

    async def check(self) -> None:
        """Read everything, and compare it with the acknowledged messages and those that the listener received."""
        log = self.log
        local = log.first_id
        assert local <= max(1, self._deleted + 1), "nothing is deleted that was not consumed"
        read: dict[int, bytes] = {}
        while local <= log.last_id:
            entries: Sequence[bytes] = await log.read(local, messages_max=5, bytes_max=1 << 20)
            assert entries, f"message {local} of {log.last_id} is missing"
            for stored in entries:
                message = Message.decode(stored)
                assert message.seq_id is not None
                assert message.seq_id.local == local
                read[local] = message.body
                local += 1
        assert max(self.acknowledged, default=0) <= log.last_id
        for known in (self.acknowledged, self.heard):
            assert {key: read[key] for key in known if key >= log.first_id} == {
                key: body for key, body in known.items() if key >= log.first_id
            }
        assert len(set(read.values())) == len(read), "no message is there twice"
        assert not self.refused & set(read.values()), "what was surely refused is not there"
