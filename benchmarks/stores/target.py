"""A target of the metadata managers: operations as a hub, or a tool, issues them."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Final

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.load import Observer
from hedwig.benchmarks.load.workers import Workers
from hedwig.benchmarks.load.workloads import Among, Operation, Workload
from hedwig.benchmarks.stores.dataset import DATA, PAGE, SUCCESSOR, Dataset, WorkloadManagers, owned, unowned
from hedwig.errors import BadVersionError, NoRecordError
from hedwig.metadata.contract.operations import Delete, Outcome, Read, RecordKey, Write
from hedwig.model import LedgerRanges, SubscriptionData, Topic
from hedwig.versions import NEW, Version

__all__ = ["MetadataTarget"]

_STATE_ONLY: Final = SubscriptionData(state=DATA.state)
_BATCH: Final = 32
_BATCHES: Final = 32


class MetadataTarget:
    """A Target over a store that stays open, and holds the data set `dataset`.

    Before the load it reads the versions that a hub would hold in memory: those of `dataset.drawn` keys. Operations
    that need a version then go to these keys. Writes of one such key wait for each other, as they do in a hub. The time
    of such a write counts from when it should have begun. Each round has keys of its own, the same as the Load's.
    """

    def __init__(self, workload: Workload, store: WorkloadManagers, dataset: Dataset, *, round_number: int = 0) -> None:
        self._workload = workload
        self._store = store
        self._dataset = dataset
        self._topic_of = workload.topic_chooser(round_number)
        self._versions: dict[RecordKey, Version] = {}
        self._tails: dict[RecordKey, asyncio.Future[None]] = {}
        self._made: dict[RecordKey, Version] = {}
        self._unknown: list[RecordKey] = []
        """Subscriptions that may exist: making or deleting them failed, or was cancelled."""
        self._to_delete: list[RecordKey] = []
        self._begun_claims = 0
        self._claimed: list[int] = []
        self._callers = Workers(workload.in_flight, self._carry_out)
        self._operations: dict[Operation, Callable[[int, int, int], Awaitable[None]]] = {
            Operation.CLAIM: self._claim,
            Operation.READ_OWNER: self._read_owner,
            Operation.CONSUME: self._consume,
            Operation.CREATE_SUBSCRIPTION: self._create_subscription,
            Operation.DELETE_SUBSCRIPTION: self._delete_subscription,
            Operation.READ_SUBSCRIPTIONS: self._read_subscriptions,
            Operation.LIST_PAGE: self._list_page,
            Operation.RECREATE: self._recreate,
        }

    async def open(self, observer: Observer) -> None:
        """Read and make the records that the operations need.

        Raises: BenchmarkError - one is missing; and as the store does.
        """
        self._observer = observer
        self._callers.open(observer)
        for name in self._workload.mix:
            match Operation(name):
                case Operation.CONSUME:
                    keys = list(dict.fromkeys(map(self._subscription, range(self._dataset.drawn))))
                    self._note(keys, await self._apply(self._store.subscriptions.apply, list(map(Read, keys))))
                case Operation.RECREATE:
                    keys = list(dict.fromkeys(map(self._drawn_topic, range(self._dataset.drawn))))
                    self._note(keys, await self._apply(self._store.persistence.apply, list(map(Read, keys))))
                case Operation.DELETE_SUBSCRIPTION:
                    await self._make_subscriptions()

    def begin(self, number: int, operation: Operation, topic: int) -> None:
        self._callers.begin(number, operation, topic)

    async def close(self) -> None:
        """Cancel the operations still in flight; the store stays open."""
        await self._callers.close()

    async def tidy(self) -> Counter[str]:
        """Delete the subscriptions that were made, so that the store holds the same records as before.

        Returns: how many of them may still be there, by the error of their deletion.
        """
        apply = self._store.subscriptions.apply
        answers = await self._apply(apply, list(map(Read, self._unknown)))
        left = Counter(type(outcome.error).__name__ for outcome in answers if outcome.error is not None)
        for key, outcome in zip(self._unknown, answers, strict=True):
            if outcome.record is not None:
                self._made[key] = outcome.record.version
        outcomes = await self._apply(apply, [Delete(key, version) for key, version in self._made.items()])
        errors = (outcome.error for outcome in outcomes)
        left.update(type(error).__name__ for error in errors if not isinstance(error, NoRecordError | None))
        self._made.clear()
        self._unknown.clear()
        return left

    async def _carry_out(self, caller: int, number: int, operation: Operation, topic: int) -> None:
        await self._operations[operation](caller, number, topic)

    # ------------------------------------------------------------------------------------------------- which key

    def _topic(self, caller: int, number: int, topic: int) -> Topic:
        workload, dataset = self._workload, self._dataset
        match workload.among:
            case Among.LATEST:
                return self._newest(topic)
            case Among.OWNED:
                return dataset.topic(owned(topic))
            case Among.CONTENDED:
                return dataset.topic(owned(caller % workload.keys))
            case Among.UNOWNED:
                return dataset.topic(self._unclaimed(number))
            case Among.WIDE:
                return dataset.wide_topic(workload.wide, topic)
            case Among.ALL:
                return dataset.topic(topic)

    def _unclaimed(self, index: int) -> int:
        """Return one of the topics that this load may claim."""
        if index >= self._dataset.claims:
            raise BenchmarkError("no topic without an owner is left")
        return unowned(self._dataset.first_claim + index)

    def _newest(self, rank: int) -> Topic:
        """Return the topic of that rank by its last claim, the newest first; before this load, the even numbers."""
        if rank < len(self._claimed):
            return self._dataset.topic(self._claimed[-1 - rank])
        before = (self._dataset.topics + 1) // 2
        return self._dataset.topic(owned((before - 1 - (rank - len(self._claimed))) % before))

    def _drawn_topic(self, number: int) -> RecordKey:
        return RecordKey(self._dataset.topic(self._topic_of(number % self._dataset.drawn)))

    def _subscription(self, number: int) -> RecordKey:
        drawn = number % self._dataset.drawn
        return self._dataset.subscription(self._topic_of(drawn), drawn % self._workload.subscribers)

    # ------------------------------------------------------------------------------------------------- operations

    async def _claim(self, caller: int, number: int, topic: int) -> None:
        if self._workload.among is Among.LATEST:
            claimed = self._unclaimed(self._begun_claims)
            self._begun_claims += 1
            await self._own(number, self._dataset.topic(claimed))
            self._claimed.append(claimed)
        else:
            await self._own(number, self._topic(caller, number, topic))

    async def _own(self, number: int, name: Topic) -> None:
        ownership = self._store.ownership
        record = await ownership.read(name)
        version: Version | None = NEW if record is None else record.version
        while True:
            try:
                await ownership.write(name, SUCCESSOR, version or NEW)
                return
            except BadVersionError as exc:
                self._observer.refused(number)
                version = exc.current_version

    async def _read_owner(self, caller: int, number: int, topic: int) -> None:
        if await self._store.ownership.read(self._topic(caller, number, topic)) is None:
            raise BenchmarkError("an owner is missing")

    async def _consume(self, _caller: int, number: int, _topic: int) -> None:
        key = self._subscription(number)
        assert key.subscriber is not None
        subscriptions, subscriber = self._store.subscriptions, key.subscriber

        async def write(version: Version) -> Version:
            return await subscriptions.update(key.topic, subscriber, _STATE_ONLY, version)

        async def read() -> Version | None:
            stored = await subscriptions.read(key.topic, subscriber)
            return None if stored is None else stored.version

        await self._in_turn(key, write, read)

    async def _recreate(self, _caller: int, number: int, _topic: int) -> None:
        key = self._drawn_topic(number)
        persistence = self._store.persistence

        async def write(version: Version) -> Version:
            await persistence.delete(key.topic, version)
            return await persistence.write(key.topic, LedgerRanges(), NEW)

        async def read() -> Version | None:
            stored = await persistence.read(key.topic)
            return None if stored is None else stored.version

        await self._in_turn(key, write, read)

    async def _create_subscription(self, _caller: int, number: int, topic: int) -> None:
        key = self._dataset.new_subscription(topic, number)
        assert key.subscriber is not None
        create = self._store.subscriptions.create
        try:
            self._made[key] = await create(key.topic, key.subscriber, DATA)
        except BaseException:
            self._unknown.append(key)  # The store may have made it despite the error.
            raise

    async def _delete_subscription(self, _caller: int, number: int, _topic: int) -> None:
        if number >= len(self._to_delete):
            raise BenchmarkError("no subscription is left to delete")
        key = self._to_delete[number]
        assert key.subscriber is not None
        # Even if the deletion fails, this version may be gone.
        version = self._made.pop(key)
        try:
            await self._store.subscriptions.delete(key.topic, key.subscriber, version)
        except BaseException:
            self._unknown.append(key)
            raise

    async def _read_subscriptions(self, caller: int, number: int, topic: int) -> None:
        name = self._topic(caller, number, topic)
        count = 0
        async for _ in self._store.subscriptions.read_subscriptions(name):
            count += 1
        if count != self._workload.wide:
            raise BenchmarkError(f"{count:,} subscriptions instead of {self._workload.wide:,}")

    async def _list_page(self, caller: int, number: int, topic: int) -> None:
        name = self._topic(caller, number, topic)
        count = await self._listed(name, PAGE)
        if count < PAGE:
            count += await self._listed(None, PAGE - count)
        if count < min(PAGE, self._dataset.topics):
            raise BenchmarkError(f"a page has only {count:,} topics")

    async def _listed(self, start_after: Topic | None, count: int) -> int:
        listed = 0
        listing: Any = self._store.persistence.topics(start_after=start_after)
        async with aclosing(listing):
            async for _ in listing:
                listed += 1
                if listed == count:
                    break
        return listed

    # ------------------------------------------------------------------------------------------------- versions

    async def _in_turn(
        self,
        key: RecordKey,
        write: Callable[[Version], Awaitable[Version]],
        read: Callable[[], Awaitable[Version | None]],
    ) -> None:
        """Write a record after the earlier writes of it; read its version again if a failed write has lost it."""
        before = self._tails.get(key)
        done = asyncio.get_running_loop().create_future()
        self._tails[key] = done
        try:
            if before is not None:
                await before
            version = self._versions.pop(key, None) or await read()
            if version is None:
                raise BenchmarkError("a record is missing")
            self._versions[key] = await write(version)
        finally:
            done.set_result(None)
            if self._tails.get(key) is done:
                del self._tails[key]

    def _note(self, keys: Sequence[RecordKey], outcomes: Sequence[Outcome[Any]]) -> None:
        for key, outcome in zip(keys, outcomes, strict=True):
            outcome.check()
            if outcome.record is None:
                raise BenchmarkError(f"{key} is missing")
            self._versions[key] = outcome.record.version

    async def _make_subscriptions(self) -> None:
        """Make the subscriptions that the load will delete."""
        numbers = range(self._workload.operations)
        keys = [self._dataset.new_subscription(self._topic_of(number), number) for number in numbers]
        outcomes = await self._apply(self._store.subscriptions.apply, [Write(key, DATA, NEW) for key in keys])
        self._made |= {key: outcome.written() for key, outcome in zip(keys, outcomes, strict=True)}
        self._to_delete = keys

    async def _apply(
        self, apply: Callable[[list[Any]], Awaitable[list[Outcome[Any]]]], operations: Sequence[Any]
    ) -> list[Outcome[Any]]:
        """Run operations in batches, a few of them at once."""
        room = asyncio.Semaphore(_BATCHES)

        async def one(batch: list[Any]) -> list[Outcome[Any]]:
            async with room:
                return await apply(batch)

        answers = await asyncio.gather(*(one(batch) for batch in _batches(operations)))
        return [outcome for outcomes in answers for outcome in outcomes]


def _batches(operations: Sequence[Any]) -> Iterator[list[Any]]:
    for begin in range(0, len(operations), _BATCH):
        yield list(operations[begin : begin + _BATCH])
