"""The topics that this hub owns: how it acquires, keeps and releases each.

A request for a topic that the hub does not own waits until the hub has acquired it. Requests for a topic keep their
order. At most `acquisitions_max` topics are acquired at once, and at most `acquisitions_waiting_max` wait. The hub
refuses requests for further topics, since an unbounded queue does not help. Connections have turns, so that one that
asks for very many topics delays only itself.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Coroutine, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from hedwig.clock import Clock
from hedwig.concurrency.fair_turns import FairTurns
from hedwig.concurrency.rate_limiter import RateLimiter
from hedwig.concurrency.tasks import Tasks
from hedwig.errors import (
    BadVersionError,
    HedwigError,
    LedgerError,
    LedgerStoreUnavailableError,
    MetadataError,
    MetadataUnavailableError,
    NoSuchTopicError,
    NoTopicPersistenceInfoError,
    NotResponsibleForTopicError,
    QuotaExceededError,
    ServiceDownError,
    TopicBusyError,
    UncertainStateError,
)
from hedwig.hub.access.counts import Counts, Making
from hedwig.hub.logs.durable_log import DurableLog
from hedwig.hub.logs.log import TopicLog
from hedwig.hub.logs.log_context import LogContext
from hedwig.hub.logs.non_durable_log import NonDurableLog
from hedwig.hub.options.options import HubOptions
from hedwig.hub.options.patterns import topic_matcher
from hedwig.hub.topics.acquisition import Acquisition, Waiter
from hedwig.hub.topics.ownership import Claim, Ownership
from hedwig.hub.topics.topic import OwnedTopic, TopicState
from hedwig.metadata.contract.operations import Outcome, Read, RecordKey
from hedwig.model import HubInfo, LedgerRanges, Topic
from hedwig.names import show_name
from hedwig.versions import Version, Versioned

__all__ = ["Caretaker", "Topics"]

_log = logging.getLogger(__name__)

_SWEEP_SLICE: Final = 5000
"""How many topics a sweep visits before it lets other tasks run."""
_RELEASES_AT_ONCE: Final = 256
_LEFT_S: Final = 10.0
"""For how long this hub does not claim a topic that it gave up for the balance, so that clients ask other hubs."""
_LEFT_MAX: Final = 100_000
_OPENED_AT_ONCE: Final = 32
"""How many logs the hub recovers at once, of topics that it takes over in bulk."""
_PASSING: Final = (MetadataUnavailableError, UncertainStateError, LedgerStoreUnavailableError, TimeoutError)
"""Errors after which a topic may be taken over a little later."""
_FAIR_SHARE: Final = 16
"""How many topics one connection may always have waiting, whatever other connections have."""


class Caretaker(Protocol):
    """Prepares a topic for its release."""

    def parting(self, topic: OwnedTopic) -> AbstractContextManager[None]:
        """Return a context around the release of `topic`.

        At its end it closes the channels that served subscriptions of the topic at its start.
        """
        ...

    async def detach_all(self, topic: OwnedTopic) -> None:
        """End the deliveries of `topic`, and store the consume pointers of its subscriptions."""
        ...

    async def collect(self, topic: OwnedTopic) -> int:
        """Delete the closed ledgers of `topic` that all subscribers have consumed; return the number of messages."""
        ...


@dataclass(slots=True)
class _Handover:
    """A release of a topic to the hub `target`, and whether that hub is the owner now."""

    target: HubInfo
    is_done: bool = False


class Topics:
    """The topics that the hub owns, and those that it is acquiring or releasing."""

    def __init__(
        self,
        options: HubOptions,
        ownership: Ownership,
        store: LogContext,
        clock: Clock,
        exists: Callable[[Topic], Coroutine[Any, Any, bool]],
        counts: Counts | None = None,
    ) -> None:
        """`exists` says whether the metadata has any record of a topic now. `counts` are those of limits."""
        self._options = options
        self._exists = exists
        self._counts = counts
        self.ownership = ownership
        self._store = store
        self._clock = clock
        self._owned: dict[Topic, OwnedTopic] = {}
        self._acquisitions: dict[Topic, Acquisition] = {}
        self._turns = FairTurns[Topic]()
        """The topics that wait for their turn to be acquired."""
        self._running = 0
        self._pace = RateLimiter(options.cluster.claims_rate if options.is_clustered else 0, clock)
        self._next_turn: asyncio.TimerHandle | None = None
        self._releases: dict[Topic, asyncio.Task[None]] = {}
        """The topics that are being released."""
        self._deletions: dict[Topic, asyncio.Task[LedgerRanges]] = {}
        """The topics whose persistence records are being deleted."""
        self._tasks = Tasks()
        self._released = asyncio.Event()
        """Set whenever a release has ended."""
        self._is_non_durable = topic_matcher(options.non_durable_topics)
        self._is_closing = False
        """Whether the hub claims no topics any more, because it is closing."""
        self._is_over = False
        self.claims_nothing_new = False
        """Whether this hub leaves topics without owner to other hubs, if there are any."""
        self._left: OrderedDict[Topic, float] = OrderedDict()
        """The topics that this hub leaves to other hubs, if there are any, and until when."""
        self._caretaker: Caretaker | None = None
        self.acquired = 0
        self.taken_over = 0
        """How many of these were taken over in bulk."""
        self.released = 0

    def attach_caretaker(self, caretaker: Caretaker) -> None:
        """Set the caretaker that prepares topics for their release. Call this before anything else."""
        self._caretaker = caretaker

    # ----------------------------------------------------------------------------------------------- looking

    def __len__(self) -> int:
        return len(self._owned)

    def __iter__(self) -> Iterator[OwnedTopic]:
        return iter(self._owned.values())

    def get(self, name: Topic) -> OwnedTopic | None:
        """Return a topic that this hub owns and serves; None if it does not."""
        topic = self._owned.get(name)
        return topic if topic is not None and topic.state is TopicState.SERVING else None

    def is_durable(self, name: Topic) -> bool:
        return not self._is_non_durable(name)

    @property
    def acquiring(self) -> int:
        return len(self._acquisitions)

    @property
    def waiting(self) -> int:
        """How many topics wait for their turn to be acquired."""
        return len(self._turns)

    def now(self) -> int:
        """Return the hub's clock in whole seconds."""
        return int(self._clock.monotonic())

    # --------------------------------------------------------------------------------------------- acquiring

    def with_topic(
        self,
        name: Topic,
        *,
        source: Hashable,
        makes: bool,
        making: Making | None = None,
        should_claim: bool,
        tried: Sequence[bytes] = (),
        serve: Callable[[OwnedTopic], None],
        refuse: Callable[[HedwigError], None],
    ) -> None:
        """Call `serve` with the topic once this hub owns it, in the order of these calls; else `refuse`.

        Args: source - the connection that asks; connections have turns; makes - make the topic if there is none, else
            `refuse` with NoSuchTopicError; making - the limits that say whether it may be made; tried - the hubs that
            have redirected the request, in order.
        """
        if self._is_over or (self._is_closing and not self._options.is_clustered):
            refuse(ServiceDownError("the hub is shutting down"))
            return
        acquisition = self._acquisitions.get(name)
        if acquisition is None:
            topic = self.get(name)
            if topic is not None:
                serve(topic)
                return
            owner = self.ownership.known_owner(name, should_claim=should_claim, tried=tried)
            if owner is not None:
                refuse(NotResponsibleForTopicError(owner.address))
                return
            is_full = len(self._turns) >= self._options.acquisitions_waiting_max
            if is_full and self._turns.waiting_for(source) >= _FAIR_SHARE:
                refuse(ServiceDownError("too many topics wait to be acquired by this hub; try again"))
                return
            acquisition = self._acquisitions[name] = Acquisition()
        if len(acquisition.waiters) >= self._options.topic_requests_max:
            refuse(ServiceDownError(f"too many requests wait for topic '{show_name(name)}'; try again"))
            return
        acquisition.waiters.append(Waiter(makes, making, should_claim, tried, serve, refuse))
        if acquisition.running is None:
            # Also if it waits for another connection already, which may have many more topics in front of it.
            self._turns.add(name, source)
            self._begin_turns()

    def _begin_turns(self) -> None:
        while self._turns and self._running < self._options.acquisitions_max:
            if (wait_s := self._pace.wait_s()) > 0:
                if self._next_turn is None:
                    self._next_turn = asyncio.get_running_loop().call_later(wait_s, self._go_on)
                return
            name = self._turns.take()
            self._running += 1
            acquisition = self._acquisitions[name]
            acquisition.running = self._tasks.start(self._acquire(name, acquisition))

    def _go_on(self) -> None:
        self._next_turn = None
        self._begin_turns()

    async def _acquire(self, name: Topic, acquisition: Acquisition) -> None:
        topic: OwnedTopic | None = None
        error: HedwigError | None = None
        try:
            # A release or deletion of the topic must end first.
            for leaving in (self._releases.get(name), self._deletions.get(name)):
                if leaving is not None:
                    await asyncio.wait([leaving])
            topic = await self._own_or_redirect(name, acquisition)
        except HedwigError as exc:
            error = exc
            if exc.happened != "no":
                # A record of the topic is in doubt. The waiting requests have surely not begun.
                error = ServiceDownError(f"topic '{show_name(name)}' could not be acquired; try again ({exc})")
        except TimeoutError:
            error = ServiceDownError(f"topic '{show_name(name)}' could not be acquired in time; try again")
        except Exception:
            # A defect of ours. The waiting requests need an answer all the same.
            _log.exception("topic '%s' could not be acquired", show_name(name))
        finally:
            self._running -= 1
            del self._acquisitions[name]
            if topic is not None:
                self._owned[name] = topic
                self.acquired += 1
            acquisition.end(topic, error or ServiceDownError(f"topic '{show_name(name)}' could not be acquired"))
            self._begin_turns()

    async def _own_or_redirect(self, name: Topic, acquisition: Acquisition) -> OwnedTopic:
        if acquisition.makes_freely or await self._store.within(self._exists(name)):
            return await self._own_here_or_redirect(name, acquisition)
        missing = NoSuchTopicError(f"there is no topic '{show_name(name)}'")
        error: HedwigError = missing
        acquisition.refuse_the_first_that_make_nothing(missing)
        while acquisition.waiters:
            making = acquisition.waiters[0].making
            if making is None or self._counts is None or self._is_closing:
                return await self._own_here_or_redirect(name, acquisition)
            try:
                async with self._counts.making(making):
                    return await self._own_here_or_redirect(name, acquisition)
            except QuotaExceededError as exc:
                error = exc
                acquisition.waiters.popleft().refuse(exc)
                acquisition.refuse_the_first_that_make_nothing(missing)
        raise error

    async def _own_here_or_redirect(self, name: Topic, acquisition: Acquisition) -> OwnedTopic:
        should_claim = acquisition.should_claim
        try:
            return await self._own(name, should_claim, acquisition.tried)
        except NotResponsibleForTopicError as exc:
            if should_claim or not acquisition.should_claim:
                raise
            # The redirect may be this hub's own choice. A client that was sent here meanwhile, maybe by the chosen hub
            # itself, must not be sent back: the original's client takes that for a loop.
            acquisition.refuse_all_not_sent_here(exc)
        return await self._own(name, True, acquisition.tried)

    async def _own(self, name: Topic, should_claim: bool, tried: Collection[bytes]) -> OwnedTopic:
        may_claim = should_claim and not self.claims_nothing_new and not self._is_left(name)
        claim = await self.ownership.claim(name, should_claim=may_claim, tried=tried, takes=not self._is_closing)
        try:
            log = await self._open_log(name, claim)
        except Exception as exc:
            # Not at a cancellation: the hub then abandons all topics, and has no time to wait for the store.
            _log.warning(
                "topic '%s' was claimed, but cannot be served: %s", show_name(name), exc if str(exc) else repr(exc)
            )
            if not isinstance(exc, UncertainStateError):  # Else see `_let_go`.
                await self.ownership.give_back(name, claim)
            raise
        self._left.pop(name, None)
        return OwnedTopic(self, name, claim.version, log, self.now())

    async def _open_log(self, name: Topic, claim: Claim) -> TopicLog:
        if self.is_durable(name):
            return await DurableLog.open(self._store, name, taken_over=claim.taken_over, is_shut_out=claim.is_shut_out)
        return NonDurableLog(self._store)

    # ------------------------------------------------------------------------------------------- taking over in bulk

    @property
    def takes_over(self) -> bool:
        """Whether this hub has room for topics that nobody has asked for, and is about to keep them."""
        is_leaving = self._is_over or self._is_closing or self.claims_nothing_new
        return not is_leaving and len(self._owned) < self._options.topics_max

    async def take_over(self, found: Sequence[tuple[Topic, Versioned[HubInfo]]]) -> int:
        """Take topics of dead hubs over that nobody has asked for; return how many this hub serves now.

        `found` are topics with their owner records. Requests for them wait meanwhile. A topic that could not be taken
        over is acquired as any other if requests wait for it. If the call is cancelled, the work goes on.

        Raises: MetadataError, LedgerError, ServiceDownError, TimeoutError - some of them may be taken over later, and
            the others were.
        """
        busy = (self._owned, self._acquisitions, self._releases, self._deletions)
        batch = [(name, record) for name, record in found if not any(name in names for names in busy)]
        if not batch or not self.takes_over:
            return 0
        outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        acquisitions = {name: Acquisition() for name, _ in batch}
        self._acquisitions |= acquisitions
        running = self._tasks.start(self._take_batch_over(batch, acquisitions, outcome))
        for acquisition in acquisitions.values():
            acquisition.running = running
        return await outcome

    async def _take_batch_over(
        self,
        batch: Sequence[tuple[Topic, Versioned[HubInfo]]],
        acquisitions: Mapping[Topic, Acquisition],
        outcome: "asyncio.Future[int]",
    ) -> None:
        served: dict[Topic, OwnedTopic] = {}
        error: Exception | None = None
        try:
            await self._own_batch(batch, served)
        except (HedwigError, TimeoutError) as exc:
            error = exc
        finally:
            for name, acquisition in acquisitions.items():
                self._end_taking_over(name, acquisition, served.get(name))
            self._begin_turns()
            if outcome.done():
                pass  # Its caller has left.
            elif error is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(len(served))

    def _end_taking_over(self, name: Topic, acquisition: Acquisition, topic: OwnedTopic | None) -> None:
        if topic is None and acquisition.waiters and not self._is_over:
            # It takes its turn, as if it had been asked for now.
            acquisition.running = None
            self._turns.add(name, self)
            return
        del self._acquisitions[name]
        if topic is not None:
            self._owned[name] = topic
            self.acquired += 1
            self.taken_over += 1
        acquisition.end(topic, ServiceDownError("the hub is shutting down"))

    async def _own_batch(
        self, batch: Sequence[tuple[Topic, Versioned[HubInfo]]], served: dict[Topic, OwnedTopic]
    ) -> None:
        """Claim topics, and open their logs. Add those that this hub owns now to `served`."""
        outcomes = await self.ownership.take_over(batch)
        claims = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Claim)}
        errors: list[Exception] = [outcome for outcome in outcomes.values() if isinstance(outcome, HedwigError)]
        errors += await self._open_batch(claims, served)
        if errors:
            first = errors[0]
            _log.warning(
                "%d of %d topics of a dead hub cannot be served: %s",
                len(errors),
                len(batch),
                first if str(first) else repr(first),
            )
        for error in errors:
            if isinstance(error, _PASSING):
                raise error

    async def _open_batch(self, claims: Mapping[Topic, Claim], served: dict[Topic, OwnedTopic]) -> Sequence[Exception]:
        """Open the logs of topics. Add those that this hub serves now to `served`, and return why not the others."""
        durable = [name for name in claims if self.is_durable(name)]
        try:
            records = dict(zip(durable, await self._read_ranges(durable), strict=True))
        except (MetadataError, TimeoutError):
            # Nothing of them is known. So each goes back to its former owner, and the next request takes it over.
            await asyncio.gather(*(self.ownership.give_back(name, claim) for name, claim in claims.items()))
            raise
        turns = asyncio.Semaphore(_OPENED_AT_ONCE)
        errors: list[Exception] = []

        async def open_log(name: Topic, claim: Claim, record: Versioned[LedgerRanges]) -> None:
            try:
                async with turns:
                    log = await DurableLog.take_over(self._store, name, record, is_shut_out=claim.is_shut_out)
            except Exception as exc:
                errors.append(exc)
                if not isinstance(exc, UncertainStateError):  # Else see `_let_go`.
                    await self.ownership.give_back(name, claim)
            else:
                served[name] = OwnedTopic(self, name, claim.version, log, self.now())

        opening = []
        for name, claim in claims.items():
            if not self.is_durable(name):
                served[name] = OwnedTopic(self, name, claim.version, NonDurableLog(self._store), self.now())
                continue
            read = records[name]
            if read.record is not None:
                if claim.is_shut_out and (log := DurableLog.as_recorded(self._store, name, read.record)) is not None:
                    served[name] = OwnedTopic(self, name, claim.version, log, self.now())
                else:
                    opening.append(open_log(name, claim, read.record))
            elif read.error is None:
                # Its hub died before it made the topic, or after the topic was deleted.
                opening.append(self.ownership.release(name, claim.version))
            else:
                errors.append(read.error)
                opening.append(self.ownership.give_back(name, claim))
        await asyncio.gather(*opening)
        return errors

    async def _read_ranges(self, names: Sequence[Topic]) -> Sequence[Outcome[LedgerRanges]]:
        if not names:
            return ()
        return await self._store.within(self._store.persistence.apply([Read(RecordKey(name)) for name in names]))

    # --------------------------------------------------------------------------------------------- releasing

    def give_up(self, topic: OwnedTopic, error: HedwigError) -> None:
        """Release a topic whose log failed; its next owner recovers it."""
        if topic.state is TopicState.SERVING:
            _log.error("topic '%s' is given up: %s", show_name(topic.name), error)
            self._begin_release(topic, close_log=False)

    async def leave(self, topic: OwnedTopic) -> None:
        """Release a topic to another hub. For a while this hub claims it only if `choose` names this hub.

        This is needed because clients come back to the former owner. Clients of the original always ask it to claim
        the topic.
        """
        self._left[topic.name] = self._clock.monotonic() + _LEFT_S
        self._left.move_to_end(topic.name)
        if len(self._left) > _LEFT_MAX:
            self._left.popitem(last=False)
        await self.release(topic)

    def take_back(self, name: Topic) -> None:
        """Stop leaving a topic to other hubs, because it is wanted here."""
        self._left.pop(name, None)

    def _is_left(self, name: Topic) -> bool:
        until = self._left.get(name)
        if until is None:
            return False
        if self._clock.monotonic() < until:
            return True
        del self._left[name]
        return False

    async def release(self, topic: OwnedTopic) -> None:
        """Release a topic: detach its subscribers, store their consume pointers, delete the owner record."""
        if topic.state is TopicState.SERVING:
            self._begin_release(topic, close_log=True)
        if (task := self._releases.get(topic.name)) is not None:
            await asyncio.wait([task])

    async def hand_over(self, topic: OwnedTopic, target: HubInfo) -> bool:
        """Release a topic to the hub `target`; return whether that hub surely owns it now.

        Requests that arrive meanwhile wait, and are then redirected there. It returns False if the topic was being
        released already, the store failed, or another hub has the topic. The hub that the owner record names then
        serves the topic.
        """
        handover = None
        if topic.state is TopicState.SERVING:
            handover = _Handover(target)
            self._begin_release(topic, close_log=True, handover=handover)
        if (task := self._releases.get(topic.name)) is not None:
            await asyncio.wait([task])
        return handover is not None and handover.is_done

    def _begin_release(self, topic: OwnedTopic, *, close_log: bool, handover: _Handover | None = None) -> None:
        topic.state = TopicState.RELEASING
        task = self._tasks.start(self._release(topic, close_log, handover))
        self._releases[topic.name] = task

    async def _release(self, topic: OwnedTopic, close_log: bool, handover: _Handover | None) -> None:
        assert self._caretaker is not None
        # The channels close after the release, so subscribers that come back find no owner, or the new one.
        with self._caretaker.parting(topic):
            await self._shut(topic, self._caretaker, close_log, handover)
            await self._let_go(topic, handover)
        topic.state = TopicState.RELEASED
        self.released += 1
        self._owned.pop(topic.name, None)
        self._releases.pop(topic.name, None)
        self._released.set()

    async def _shut(self, topic: OwnedTopic, caretaker: Caretaker, close_log: bool, handover: _Handover | None) -> None:
        """Detach the subscribers and close the log; log each failure."""
        try:
            await caretaker.detach_all(topic)
        except Exception:
            _log.exception("topic '%s': not all of its subscribers are detached", show_name(topic.name))
        try:
            if close_log:
                await topic.log.close()
                # At a shutdown time is short, and in a hand-over clients wait. The next owner collects, too.
                if not self._is_closing and handover is None:
                    await caretaker.collect(topic)
        except (MetadataError, LedgerError, ServiceDownError, TimeoutError) as exc:
            _log.warning("topic '%s' is left for the next owner to recover: %r", show_name(topic.name), exc)
        except Exception:
            _log.exception("topic '%s' is left for the next owner to recover", show_name(topic.name))

    async def _let_go(self, topic: OwnedTopic, handover: _Handover | None) -> None:
        """Release or hand over the owner record, once no write of this hub can change the topic any more.

        If a change of its ranges is in doubt, it may still take effect. Then the owner record stays. So the next claim,
        by any hub, takes the topic over and shuts that change out. It also stays if messages are in a part of this
        hub's log that is not sealed. Then this hub serves the topic again, or other hubs once they have sealed that.
        """
        may_go = await topic.log.end()
        if not may_go:
            return
        if handover is not None:
            handover.is_done = await self.ownership.hand_over(topic.name, topic.owner_version, handover.target)
        else:
            await self.ownership.release(topic.name, topic.owner_version)

    # ---------------------------------------------------------------------------------------------- deleting

    async def delete(self, name: Topic, version: Version) -> LedgerRanges:
        """Delete the persistence record of a topic that this hub does not own, and return the ranges that it had.

        The hub then deletes their ledgers in the background. Requests for the topic wait until the record is gone, and
        then find no topic. If the call is cancelled, the deletion goes on.

        Raises: TopicBusyError - this hub owns, acquires or releases the topic; BadVersionError, NoRecordError - the
            record is not at `version`; ServiceDownError - the hub is shutting down; another MetadataError.
        """
        if self._is_over or self._is_closing:
            raise ServiceDownError("the hub is shutting down")
        if any(name in busy for busy in (self._owned, self._acquisitions, self._releases, self._deletions)):
            raise TopicBusyError(f"topic '{show_name(name)}' is used at this hub; release it first")
        task = self._deletions[name] = asyncio.get_running_loop().create_task(self._delete(name, version))
        task.add_done_callback(partial(self._deleted, name))
        return await asyncio.shield(task)

    def _deleted(self, name: Topic, task: "asyncio.Task[LedgerRanges]") -> None:
        del self._deletions[name]
        if not task.cancelled():
            task.exception()  # The caller received the error, or has left.

    async def _delete(self, name: Topic, version: Version) -> LedgerRanges:
        persistence = self._store.persistence
        record = await persistence.read(name)
        if record is None:
            raise NoTopicPersistenceInfoError(f"there is no topic '{show_name(name)}'")
        if record.version != version:
            raise BadVersionError(f"topic '{show_name(name)}' is at version {record.version}, not {version}", record)
        await persistence.delete(name, version)
        # If it is unknown whether the record is gone, the deletion above raised, and the ledgers stay.
        self._store.deletions.begin(each.ledger_id for each in record.value.ranges)
        return record.value

    async def sweep(self) -> None:
        """Release the topics that are due: idle, too old, or too many."""
        now = self.now()
        idle_s, age_s = self._options.topic_idle_s, self._options.topic_age_s
        idle_since = now - idle_s if idle_s else -1
        old_since = now - age_s if age_s else -1
        unused: list[OwnedTopic] = []
        excess = len(self._owned) - len(self._releases) - self._options.topics_max
        for index, topic in enumerate(list(self._owned.values())):
            if index % _SWEEP_SLICE == _SWEEP_SLICE - 1:
                await asyncio.sleep(0)
            # Of millions of topics few are due, so each passes only two comparisons.
            is_idle = topic.used_at <= idle_since and topic.is_unused and not topic.log.is_recent
            if is_idle or topic.claimed_at <= old_since:
                await self._make_room(topic)
            elif excess > 0 and topic.is_unused:
                unused.append(topic)
        if excess > 0:
            unused.sort(key=lambda topic: topic.used_at)
            for topic in unused[:excess]:
                await self._make_room(topic)

    async def _make_room(self, topic: OwnedTopic) -> None:
        """Start the release of a topic, once not too many others are being released."""
        while len(self._releases) >= _RELEASES_AT_ONCE:
            self._released.clear()
            await self._released.wait()
        if topic.state is TopicState.SERVING:
            self._begin_release(topic, close_log=True)

    async def close(self) -> None:
        """Claim no more topics, and release all. May be cancelled: the rest is taken over later.

        In a cluster, the hub redirects waiting and new requests to other hubs, until `abandon`.
        """
        self._is_closing = True
        if not self._options.is_clustered:
            self._refuse_turns()
        claiming = [each.running for each in self._acquisitions.values() if each.running is not None]
        for topic in list(self._owned.values()):
            await self._make_room(topic)
        if claiming:
            await asyncio.wait(claiming)
        for topic in list(self._owned.values()):
            await self._make_room(topic)
        while self._releases:
            await asyncio.wait(list(self._releases.values()))

    def _refuse_turns(self) -> None:
        """Refuse all requests for topics that wait to be acquired."""
        if self._next_turn is not None:
            self._next_turn.cancel()
        while self._turns:
            for waiter in self._acquisitions.pop(self._turns.take()).waiters:
                waiter.refuse(ServiceDownError("the hub is shutting down"))

    async def abandon(self) -> None:
        """Drop all topics as they are, and refuse all requests. The next owners of these topics recover them."""
        self._is_over = True
        self._refuse_turns()
        await self._tasks.cancel()
        for deletion in self._deletions.values():
            deletion.cancel()
        for topic in self._owned.values():
            topic.state = TopicState.RELEASED
            topic.log.abandon()
        self._owned.clear()
