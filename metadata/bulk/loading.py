"""Loading very many records: batches through `apply`, several of them at once, in bounded memory.

Goal: Ctrl-C, a crash or the store may end a load of any size at any moment. A caller can continue it without losing or
repeating a result. So results are recorded in the order of the input, and only for whole batches, though the batches
run side by side. A caller that keeps the results knows from the last one alone how far the load has come. A batch whose
outcome was lost is loaded again. That is harmless, since creating an existing record is no error.
"""

import asyncio
import enum
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from hedwig.errors import BadVersionError, MetadataUnavailableError
from hedwig.metadata.contract.operations import Outcome, Read, RecordKey, Write
from hedwig.metadata.store import MetadataStore
from hedwig.model import LedgerRanges, SubscriptionData, Topic
from hedwig.versions import NEW

__all__ = [
    "BATCHES_IN_FLIGHT",
    "BATCH_ROWS",
    "RowOutcome",
    "RowResult",
    "SubscriptionCreator",
    "TopicCreator",
    "load_batches",
]

B = TypeVar("B")
R = TypeVar("R")

BATCH_ROWS: Final = 256
BATCHES_IN_FLIGHT: Final = 4
"""Together 1,024 rows, as many as a store takes at once; more would only wait there, against their deadline."""

_KNOWN_TOPICS_MAX: Final = 4096


class RowResult(enum.Enum):
    """What became of a row that was to be created."""

    CREATED = "created"
    EXISTED = "existed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RowOutcome:
    """The result of one row, and for a failed one the reason."""

    result: RowResult
    reason: str = ""


CREATED: Final = RowOutcome(RowResult.CREATED)
EXISTED: Final = RowOutcome(RowResult.EXISTED)


class TopicCreator:
    """Creates topics: an empty persistence record each."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def create(self, keys: Sequence[RecordKey]) -> list[RowOutcome]:
        """Create the topics of `keys`; return one outcome each, in their order.

        Raises: MetadataUnavailableError - the store did not run all of them, or the outcome is not known.
        """
        outcomes = await self._store.persistence.apply([Write(key, LedgerRanges(), NEW) for key in keys])
        return [_created(outcome) for outcome in outcomes]

    async def exists(self, key: RecordKey) -> bool:
        """Say whether the topic exists."""
        return await self._store.persistence.read(key.topic) is not None


class SubscriptionCreator:
    """Creates subscriptions with the same `data`, and those of their topics that do not exist yet.

    `topics_created` counts the topics created so far.
    """

    def __init__(self, store: MetadataStore, data: SubscriptionData) -> None:
        self._store = store
        self._data = data
        self._topics = TopicCreator(store)
        # Inputs are mostly grouped by topic, so remembering a few thousand names saves nearly all reads.
        self._known: OrderedDict[Topic, None] = OrderedDict()
        self.topics_created = 0

    async def create(self, keys: Sequence[RecordKey]) -> list[RowOutcome]:
        """Create the subscriptions of `keys`; return one outcome each, in their order.

        Topics come first: a load that ends in between leaves topics without subscriptions, which any load finds again.

        Raises: MetadataUnavailableError - the store did not run all of them, or the outcome is not known.
        """
        refused = await self._make_topics(keys)
        writes = [Write(key, self._data, NEW) for key in keys if key.topic not in refused]
        outcomes = iter(await self._store.subscriptions.apply(writes))
        return [refused[key.topic] if key.topic in refused else _created(next(outcomes)) for key in keys]

    async def exists(self, key: RecordKey) -> bool:
        """Say whether the subscription exists."""
        assert key.subscriber is not None, "the key of a subscription has a subscriber"
        return await self._store.subscriptions.read(key.topic, key.subscriber) is not None

    async def _make_topics(self, keys: Sequence[RecordKey]) -> dict[Topic, RowOutcome]:
        """Create the topics that do not exist; return the outcomes of those that cannot be created, or read."""
        unknown = [RecordKey(topic) for topic in dict.fromkeys(key.topic for key in keys) if topic not in self._known]
        if not unknown:
            return {}
        outcomes = await self._store.persistence.apply([Read(key) for key in unknown])
        unreadable = [(key, _unreadable(outcome)) for key, outcome in zip(unknown, outcomes, strict=True)]
        refused = {key.topic: outcome for key, outcome in unreadable if outcome is not None}
        absent = [key for key, outcome in zip(unknown, outcomes, strict=True) if outcome == Outcome()]
        for key, outcome in zip(absent, await self._topics.create(absent) if absent else (), strict=True):
            if outcome.result is RowResult.FAILED:
                refused[key.topic] = outcome
            self.topics_created += outcome.result is RowResult.CREATED
        self._remember(key.topic for key in unknown if key.topic not in refused)
        return refused

    def _remember(self, topics: Iterable[Topic]) -> None:
        for topic in topics:
            self._known[topic] = None
        while len(self._known) > _KNOWN_TOPICS_MAX:
            self._known.popitem(last=False)


async def load_batches(
    batches: AsyncIterator[B],
    carry_out: Callable[[B], Coroutine[Any, Any, R]],
    record: Callable[[B, R], None],
    *,
    in_flight_max: int = BATCHES_IN_FLIGHT,
) -> None:
    """Run `batches`, at most `in_flight_max` at once, and pass each with its result to `record`, in their order.

    If the load is cancelled, or a batch raises, no further batch begins. The load waits for those under way, which the
    deadlines of the store bound, and records them up to the first that failed. A second cancellation ends the wait.

    Raises: what `batches`, `carry_out` or `record` raise; after `record` did, nothing more is recorded.
    """
    window = _Window(record)
    coming = asyncio.create_task(_next(batches))
    try:
        while True:
            # Results are recorded also while the input has no next batch yet.
            room = len(window) < in_flight_max
            await asyncio.wait([*([coming] if room else ()), *window.first], return_when=asyncio.FIRST_COMPLETED)
            if window.is_first_done:
                await window.record_first()
            elif (batch := coming.result()) is not None:
                window.begin(batch, carry_out(batch))
                coming = asyncio.create_task(_next(batches))
            else:
                break
        while len(window):
            await window.record_first()
    except BaseException:
        await window.wind_up()
        raise
    finally:
        coming.cancel()
        await window.give_up()
        # The caller closes `batches` next, which fails while they are being read.
        await asyncio.gather(coming, return_exceptions=True)


async def _next(batches: AsyncIterator[B]) -> B | None:
    return await anext(batches, None)


class _Window(Generic[B, R]):
    """The batches under way, oldest first."""

    def __init__(self, record: Callable[[B, R], None]) -> None:
        self._record = record
        self._running: deque[tuple[B, asyncio.Task[R]]] = deque()
        self._recordable = True

    def __len__(self) -> int:
        return len(self._running)

    @property
    def first(self) -> Sequence[asyncio.Task[R]]:
        """Return the task of the oldest batch; nothing if there is none."""
        return [self._running[0][1]] if self._running else []

    @property
    def is_first_done(self) -> bool:
        return bool(self._running) and self._running[0][1].done()

    def begin(self, batch: B, work: Coroutine[Any, Any, R]) -> None:
        self._running.append((batch, asyncio.create_task(work)))

    async def record_first(self) -> None:
        """Wait for the oldest batch and record it. Raises what it raised; it stays in the window then."""
        batch, task = self._running[0]
        # Unlike awaiting the task, asyncio.wait leaves it alone when this call is cancelled.
        await asyncio.wait([task])
        result = task.result()
        self._running.popleft()
        # The next load would take a gap in the records for done. So once recording has failed, record nothing more.
        self._recordable = False
        self._record(batch, result)
        self._recordable = True

    async def wind_up(self) -> None:
        """Wait for all batches, and record those before the first that failed."""
        if self._running:
            await asyncio.wait([task for _, task in self._running])
        while self._recordable and self._running and self._succeeded(self._running[0][1]):
            await self.record_first()

    async def give_up(self) -> None:
        """Cancel the batches that still run, and wait until they have ended."""
        for _, task in self._running:
            task.cancel()
        # A batch behind the one that failed may have failed too; one error is enough to report.
        await asyncio.gather(*(task for _, task in self._running), return_exceptions=True)

    @staticmethod
    def _succeeded(task: "asyncio.Task[R]") -> bool:
        return not task.cancelled() and task.exception() is None


def _created(outcome: Outcome[R]) -> RowOutcome:
    """Judge the outcome of a first write. Raises MetadataUnavailableError if it says nothing about the record."""
    match outcome.error:
        case None:
            return CREATED
        case MetadataUnavailableError():
            raise outcome.error
        case BadVersionError():
            return EXISTED
        case _:
            return RowOutcome(RowResult.FAILED, str(outcome.error))


def _unreadable(outcome: Outcome[R]) -> RowOutcome | None:
    """Judge the outcome of a read: None if it was answered. Raises MetadataUnavailableError if it was not."""
    if isinstance(outcome.error, MetadataUnavailableError):
        raise outcome.error
    return None if outcome.error is None else RowOutcome(RowResult.FAILED, str(outcome.error))
