"""Backlogs: how many bytes of a topic are not consumed yet, where a limit bounds them.

Nobody counts what is consumed. The hub knows a bound: what it has measured once, and all that was published since. Only
when that comes near the limit does it measure again: it reads the subscriptions of the topic, and asks the ledgers how
large the messages behind the lowest consume pointer are. That takes a few reads, however many messages there are.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from hedwig.access import Limit
from hedwig.clock import Clock
from hedwig.concurrency.tasks import Tasks
from hedwig.errors import HedwigError, NotPermittedError, QuotaExceededError, ServiceDownError
from hedwig.hub.options.options import HubOptions
from hedwig.hub.subscriptions.needs import Needs
from hedwig.hub.topics.topic import OwnedTopic
from hedwig.metadata import SubscriptionDataManager
from hedwig.model import RegionSeqId
from hedwig.names import show_name
from hedwig.versions import Version

__all__ = ["Backlogs", "BoundedPublish", "Settle"]

_ADDED_BYTES: Final = 256
"""What a hub adds to a message at most, beside the positions of other regions."""
_POSITION_BYTES: Final = 16
_AGAIN_S: Final = 1.0
"""How long a hub does not measure a topic again after it has found it full, nor after a failure."""
_NEARLY: Final = 0.75
"""Which part of its limit makes a topic full in that sense."""
_MEASURES_MAX: Final = 16
"""How many topics are measured at once."""
_KEPT_MAX: Final = 50_000
"""Of how many topics the hub knows a bound. Those that were published to longest ago are measured anew."""

Settle: TypeAlias = Callable[[Sequence[RegionSeqId], HedwigError | None], None]
"""Receives the outcome of a publish that was admitted, as logs.Published does."""


class BoundedPublish(NamedTuple):
    """A publish to a topic whose backlog has a limit, perhaps not for its publisher.

    `admitted` is called at most once: it goes on, and calls what it is given once its outcome is known. `over` refuses
    it, unless it returns False: then it goes on all the same.
    """

    admitted: Callable[[Settle], None]
    over: Callable[[HedwigError], bool]


class _Waiting(NamedTuple):
    """A publish that waits until its topic is measured."""

    publish: BoundedPublish
    size: int
    limit: Limit | None


@dataclass(slots=True, eq=False)
class _Backlog:
    """What is known of one topic. There may be many of them, so it is small while nothing is measured."""

    owner_version: Version
    """That of the claim. After another one this is worth nothing."""
    size: int | None
    """No more than this is not consumed, or on its way, unless it is beyond `most`; None until it is measured."""
    on_their_way: int = 0
    since: int = 0
    """What was on its way when the measure under way began, or came since. It may be in what is measured, or not."""
    most: int = 0
    """The highest limit that was asked for: what is more than that is not counted."""
    ahead: int = 0
    """From which size on it is measured again, before it is full."""
    is_measured: bool = False
    """Whether a measure is under way."""
    is_outdated: bool = False
    """Whether that measure must be repeated."""
    again_at: float = 0.0
    why_unknown: HedwigError | None = None
    waiting: deque[_Waiting] | None = None
    """What waits for the measure under way, in order."""

    def has_room(self, size: int, limit: Limit | None) -> bool:
        """Say whether so many bytes may come."""
        most = None if limit is None else limit.backlog_bytes_max
        return most is None or (self.size is not None and self.size + size <= most)

    def grow(self, size: int) -> None:
        """Count bytes that may come."""
        self.since += size
        if self.size is not None:
            self.size += size


class Backlogs:
    """The backlogs of the topics for whose publishers there is a limit."""

    def __init__(self, manager: SubscriptionDataManager, options: HubOptions, clock: Clock, tasks: Tasks) -> None:
        """`tasks` runs what measures."""
        self._manager = manager
        self._options = options
        self._clock = clock
        self._tasks = tasks
        self._known: OrderedDict[bytes, _Backlog] = OrderedDict()
        self._turns = asyncio.Semaphore(_MEASURES_MAX)

    def admit(self, topic: OwnedTopic, publish: BoundedPublish, size: int, limit: Limit | None) -> None:
        """Let a publish go on, now or once the topic is measured, if its backlog has room; or refuse it.

        Publishes to one topic go on in the order in which they come.

        Args: size - bytes of the request; limit - None if none is for this publisher.
        """
        backlog = self._known.get(topic.name)
        if backlog is None or backlog.owner_version != topic.owner_version:
            if limit is None:
                publish.admitted(_do_nothing)
                return
            backlog = self._begin(topic)
        self._known.move_to_end(topic.name)
        most = 0 if limit is None else limit.backlog_bytes_max or 0
        waiting = _Waiting(publish, size + _ADDED_BYTES, limit)
        if limit is not None and waiting.size > most:
            _refuse(backlog, waiting, NotPermittedError(f"not permitted: a message of {size} bytes, by {limit}"))
            return
        if most > backlog.most:
            if backlog.most:
                self._forget(backlog)  # What is more than the former limit may not have been counted.
            backlog.most, backlog.ahead = most, most // 2
        if backlog.waiting:
            self._wait(topic, backlog, waiting)
        elif backlog.has_room(waiting.size, limit):
            _take(backlog, waiting)
            if backlog.size is not None and backlog.size > backlog.ahead:
                self._measure_soon(topic, backlog)  # So that nobody need wait for it.
        elif self._measure_soon(topic, backlog):
            self._wait(topic, backlog, waiting)
        else:
            _refuse(backlog, waiting, _why_full(topic, backlog, limit))

    def forget(self, topic: OwnedTopic) -> None:
        """Measure a topic anew before the next publish: a consume pointer of it has moved back."""
        backlog = self._known.get(topic.name)
        if backlog is not None:
            self._forget(backlog)

    @staticmethod
    def _forget(backlog: _Backlog) -> None:
        backlog.size, backlog.again_at, backlog.is_outdated = None, 0.0, True

    def _begin(self, topic: OwnedTopic) -> _Backlog:
        for name in list(islice(self._known, _MEASURES_MAX)):
            if len(self._known) < _KEPT_MAX:
                break
            if not (self._known[name].on_their_way or self._known[name].is_measured):
                del self._known[name]
        is_new = topic.log.last_id == 0 and topic.log.is_idle
        backlog = self._known[topic.name] = _Backlog(topic.owner_version, 0 if is_new else None)
        return backlog

    def _wait(self, topic: OwnedTopic, backlog: _Backlog, waiting: _Waiting) -> None:
        if backlog.waiting is None:
            backlog.waiting = deque()
        if len(backlog.waiting) < self._options.topic_requests_max:
            backlog.waiting.append(waiting)
        else:
            why = f"too many publishes wait for topic '{show_name(topic.name)}'; try again"
            _refuse(backlog, waiting, ServiceDownError(why))

    def _measure_soon(self, topic: OwnedTopic, backlog: _Backlog) -> bool:
        """Begin to measure a topic unless it was just measured; return whether a measure is under way."""
        if not backlog.is_measured and self._clock.monotonic() >= backlog.again_at:
            backlog.is_measured = True
            self._tasks.start(self._measure(topic, backlog))
        return backlog.is_measured

    async def _measure(self, topic: OwnedTopic, backlog: _Backlog) -> None:
        backlog.why_unknown = ServiceDownError("this hub ends; try again")
        try:
            async with asyncio.timeout(self._options.operation_timeout_s), self._turns:
                while True:
                    backlog.since, backlog.is_outdated = backlog.on_their_way, False
                    measured = await self._read(topic, backlog.most)
                    if not backlog.is_outdated:
                        break
            backlog.size = measured + backlog.since
            # Half of the room is to be used first: else a topic that is half full would be measured again and again.
            backlog.ahead = (backlog.size + backlog.most) // 2
        except (HedwigError, TimeoutError) as exc:
            why = exc if isinstance(exc, HedwigError) else "the stores do not answer in time"
            text = f"how much of topic '{show_name(topic.name)}' is not consumed cannot be told now: {why}"
            backlog.why_unknown = ServiceDownError(text)
        finally:
            backlog.is_measured = False
            backlog.again_at = self._clock.monotonic()
            if backlog.size is None or backlog.size > _NEARLY * backlog.most:
                backlog.again_at += _AGAIN_S
            waiting, backlog.waiting = backlog.waiting, None
            for each in waiting or ():
                if backlog.has_room(each.size, each.limit):
                    _take(backlog, each)
                else:
                    _refuse(backlog, each, _why_full(topic, backlog, each.limit))

    async def _read(self, topic: OwnedTopic, most: int) -> int:
        """Return how many bytes of a topic are not consumed; if they are more than `most`, at least as many.

        Raises: MetadataError, LedgerError, TimeoutError.
        """
        needs = Needs(topic.log.last_id)
        async for subscriber, record in self._manager.read_subscriptions(topic.name):
            data, present = record.value, topic.subscription(subscriber)
            consumed = data.consumed if present is None else max(data.consumed, present.consumed)
            needs.add(consumed, data.preferences.message_bound if data.preferences is not None else None)
        return await topic.log.bytes_from(needs.lowest + 1, enough=most)


def _take(backlog: _Backlog, waiting: _Waiting) -> None:
    """Count a publish, and let it go on."""
    size = waiting.size

    def settle(remote: Sequence[RegionSeqId], error: HedwigError | None) -> None:
        backlog.on_their_way -= size
        if error is not None and error.happened == "no":
            backlog.grow(-size)
        else:
            backlog.grow(sum(len(each.region) + _POSITION_BYTES for each in remote))

    backlog.on_their_way += size
    backlog.grow(size)
    waiting.publish.admitted(settle)


def _refuse(backlog: _Backlog, waiting: _Waiting, error: HedwigError) -> None:
    if not waiting.publish.over(error):
        _take(backlog, waiting)


def _why_full(topic: OwnedTopic, backlog: _Backlog, limit: Limit | None) -> HedwigError:
    if backlog.size is None and backlog.why_unknown is not None:
        return backlog.why_unknown
    name = show_name(topic.name)
    text = f"over the limit: {limit}; {backlog.size:,} bytes of topic '{name}' are not consumed, or on their way"
    return QuotaExceededError(text, _AGAIN_S)


def _do_nothing(_: Sequence[RegionSeqId], __: HedwigError | None) -> None:
    """Count nothing of a publish to a topic without a limit."""
