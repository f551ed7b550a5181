"""Operator actions on the subscriptions of an owned topic: move a consume pointer anywhere, and delete a subscription.

Subscribers only move their pointer forward. A pointer that an operator moves must survive the work under way. A
connection may still consume messages that it received, and pointers may be on their way to the metadata. So the hub
first detaches an attached subscription. It informs the connection and closes it, and reads no more requests from it.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from typing import Final

from hedwig.errors import (
    BadVersionError,
    ClientNotSubscribedError,
    InvalidArgumentError,
    NoRecordError,
    ServiceDownError,
    TopicBusyError,
)
from hedwig.hub.subscriptions.backlogs import Backlogs
from hedwig.hub.subscriptions.subscribing import Subscribing
from hedwig.hub.topics.topic import OwnedTopic
from hedwig.metadata import Instead, SubscriptionDataManager, change
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionData, SubscriptionState, next_delivered
from hedwig.names import show_name
from hedwig.versions import Version, Versioned

__all__ = ["Edge", "OperatorActions", "Sought"]

_TRIES: Final = 5


class Edge(Enum):
    """The two positions of a consume pointer that have a name."""

    START = "start"
    """All messages that the topic still has are delivered again."""
    END = "end"
    """Only messages published from now on are delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """A moved consume pointer: its old and new position, and the peer whose connection was closed for it."""

    was: int
    consumed: int
    first_id: int
    last_id: int
    detached: str | None
    version: Version

    @property
    def next_id(self) -> int:
        """The first message that is delivered again, or that is yet to be published."""
        return next_delivered(self.consumed, self.first_id)


class OperatorActions:
    """Changes subscriptions of topics that this hub owns, one action per subscription at a time, by compare-and-set."""

    def __init__(self, manager: SubscriptionDataManager, subscribing: Subscribing, backlogs: Backlogs) -> None:
        self._manager = manager
        self._subscribing = subscribing
        self._backlogs = backlogs

    async def seek(
        self, topic: OwnedTopic, subscriber: SubscriberId, to: int | Edge, *, force: bool, expected: Version | None
    ) -> Sought:
        """Move the consume pointer to `to`. The messages after `to` are delivered again, `to` and those before it not.

        Args: force - detach the subscription if it is attached; expected - the version that the record must have.
        Raises: TopicBusyError - it is attached, and `force` is not set; ClientNotSubscribedError; BadVersionError - the
            record is not at `expected`; InvalidArgumentError - there is no message `to` yet, or the topic is not
            durable; ServiceDownError - the topic was released meanwhile, or others keep changing the record;
            MetadataError.
        """
        async with self._subscribing.turn(topic, subscriber):
            _check_kept(topic)
            record, detached = await self._take_away(topic, subscriber, force, expected)
            consumed, start = await self._begin_at(topic, to)
            with start:
                record, version = await self._change(
                    topic, subscriber, record, expected, lambda current: _moved(current, consumed)
                )
                assert version is not None, "it was written"
                topic.is_to_collect = True
                self._backlogs.forget(topic)
                return Sought(
                    was=record.value.consumed,
                    consumed=consumed,
                    first_id=topic.log.first_id,
                    last_id=topic.log.last_id,
                    detached=detached,
                    version=version,
                )

    async def _begin_at(self, topic: OwnedTopic, to: int | Edge) -> tuple[int, ExitStack]:
        """Return the position of `to`, and a guard that keeps the messages after it until the position is stored.

        It first waits for a deletion under way, because only then it is known which messages remain.
        """
        starts = self._subscribing.starts
        with ExitStack() as stack:
            async with starts.deletion(topic.name):
                consumed = _position(topic, to)
                stack.enter_context(starts.at(topic.name, consumed))
            return consumed, stack.pop_all()

    async def delete(
        self, topic: OwnedTopic, subscriber: SubscriberId, *, force: bool, expected: Version | None
    ) -> Versioned[SubscriptionData]:
        """Delete a subscription, and return its last record.

        Raises: as `seek`, except for the errors about positions.
        """
        async with self._subscribing.turn(topic, subscriber):
            _check_kept(topic)
            record, _ = await self._take_away(topic, subscriber, force, expected)
            record, _ = await self._change(topic, subscriber, record, expected, lambda _: Instead.DELETE)
            topic.is_to_collect = True
            return record

    async def _change(
        self,
        topic: OwnedTopic,
        subscriber: SubscriberId,
        record: Versioned[SubscriptionData],
        expected: Version | None,
        function: Callable[[Versioned[SubscriptionData]], SubscriptionData | Instead],
    ) -> tuple[Versioned[SubscriptionData], Version | None]:
        """Change the record, starting from `record`; return the former record and the new version.

        If others changed it meanwhile, it is tried again, or fails if a version was `expected`.
        """

        def changed(current: Versioned[SubscriptionData] | None) -> SubscriptionData | Instead:
            nonlocal record
            _check_serving(topic)
            record = _existing(topic, subscriber, current)
            return function(record)

        records, tries = self._manager.of(subscriber), _TRIES if expected is None else 1
        try:
            version = await change(records, topic.name, changed, seen=record, tries=tries)
        except (BadVersionError, NoRecordError) as exc:
            if expected is not None:
                raise
            raise _changed_by_others(topic, subscriber) from exc
        return record, version

    async def _take_away(
        self, topic: OwnedTopic, subscriber: SubscriberId, force: bool, expected: Version | None
    ) -> tuple[Versioned[SubscriptionData], str | None]:
        """Detach the subscription and drop it from memory; return its record, and the peer that it was attached to."""
        _check_serving(topic)
        self._subscribing.check_not_frozen()
        record = await self._read(topic, subscriber)
        if expected is not None and record.version != expected:
            raise BadVersionError(f"{_name(topic, subscriber)} is at version {record.version}, not {expected}", record)
        held = topic.subscription(subscriber)
        if held is None:
            return record, None
        peer = held.cursor.channel.peer if held.cursor is not None and held.is_delivered else None
        if peer is not None and not force:
            raise TopicBusyError(f"{held} is attached from {peer}")
        await self._subscribing.take_away(held)
        return await self._read(topic, subscriber), peer

    async def _read(self, topic: OwnedTopic, subscriber: SubscriberId) -> Versioned[SubscriptionData]:
        return _existing(topic, subscriber, await self._manager.read(topic.name, subscriber))


def _existing(
    topic: OwnedTopic, subscriber: SubscriberId, record: Versioned[SubscriptionData] | None
) -> Versioned[SubscriptionData]:
    if record is None:
        raise ClientNotSubscribedError(f"there is no {_name(topic, subscriber)}")
    return record


def _check_serving(topic: OwnedTopic) -> None:
    if not topic.is_serving:
        raise ServiceDownError(f"topic '{show_name(topic.name)}' is being released; try again")


def _check_kept(topic: OwnedTopic) -> None:
    if not topic.is_durable:
        raise InvalidArgumentError(
            f"topic '{show_name(topic.name)}' is not durable: its subscriptions are not kept, and end with their "
            "connections"
        )


def _position(topic: OwnedTopic, to: int | Edge) -> int:
    last_id = topic.log.last_id
    match to:
        case Edge.START:
            return topic.log.first_id - 1
        case Edge.END:
            return last_id
        case _ if to > last_id:
            raise InvalidArgumentError(
                f"topic '{show_name(topic.name)}' has no message {to} yet; the last one is {last_id}"
            )
        case _:
            return to


def _moved(record: Versioned[SubscriptionData], consumed: int) -> SubscriptionData:
    """Return the changed part of the record; keep the known positions of other regions, unless `consumed` is 0."""
    state = record.value.state
    remote = state.consumed.remote if state is not None and consumed else ()
    return SubscriptionData(state=SubscriptionState(MessageSeqId(consumed, remote)))


def _name(topic: OwnedTopic, subscriber: SubscriberId) -> str:
    return f"subscription of '{show_name(subscriber)}' to topic '{show_name(topic.name)}'"


def _changed_by_others(topic: OwnedTopic, subscriber: SubscriberId) -> ServiceDownError:
    return ServiceDownError(f"other programs change the {_name(topic, subscriber)} at the same time; try again")
