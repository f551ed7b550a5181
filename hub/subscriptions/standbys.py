"""Clients that stand by: each waits in line for a subscription that another client has attached."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from hedwig.errors import TopicBusyError
from hedwig.hub.connections.channel import Channel
from hedwig.hub.topics.topic import OwnedTopic
from hedwig.model import SubscriberId, Topic
from hedwig.names import show_name
from hedwig.status import StatusCode
from hedwig.wire import Answer, CreateOrAttach, Request, Subscribe

__all__ = ["Standbys"]

_log = logging.getLogger(__name__)

_STOOD_S: Final = 2.0
"""If the hub did not look for so long, it stood still."""
_SLICE: Final = 1000
"""How many lines `look` visits before it lets other tasks run."""

_Key: TypeAlias = tuple[Topic, SubscriberId]


@dataclass(slots=True, eq=False)
class _Waiting:
    """A client that waits, and its SUBSCRIBE. `is_called` while that is carried out again, since its turn has come."""

    channel: Channel
    txn_id: int
    action: Subscribe
    is_called: bool = False


@dataclass(slots=True, eq=False)
class _Line:
    """The clients that wait for one subscription, in the order of their arrival."""

    topic: OwnedTopic
    waiting: list[_Waiting]

    def find(self, channel: Channel) -> _Waiting | None:
        return next((each for each in self.waiting if each.channel is channel), None)

    def tell_places(self, begin: int = 0) -> None:
        for place, each in enumerate(self.waiting[begin:], begin + 1):
            each.channel.tell(_at(each.txn_id, place))


class Standbys:
    """The lines of all subscriptions. The first in a line is called as soon as nobody has the subscription attached.

    `serve` carries out the SUBSCRIBE of a client that is called. Set it before any client waits. It returns False if
    another request of that client about the subscription is under way. Use `call` again after that.
    """

    serve: Callable[[Channel, Request], bool]

    def __init__(self, waiting_max: int) -> None:
        """`waiting_max`: how many clients may wait for one subscription."""
        self._waiting_max = waiting_max
        self._lines: dict[Topic, dict[SubscriberId, _Line]] = {}
        self._of_channels: dict[Channel, set[_Key]] = {}
        self._look_by = 0.0
        self.count = 0
        """How many clients wait."""

    def waiting(self, topic: Topic, subscriber: SubscriberId) -> int:
        """Return how many clients wait for a subscription."""
        line = self._line(topic, subscriber)
        return len(line.waiting) if line is not None else 0

    def check_turn(self, topic: OwnedTopic, subscriber: SubscriberId, channel: Channel) -> None:
        """Raise TopicBusyError if other clients wait for the subscription, and it is not the turn of this one."""
        line = self._line(topic.name, subscriber)
        if line is not None and not (line.waiting[0].channel is channel and line.waiting[0].is_called):
            raise TopicBusyError(f"{len(line.waiting)} clients wait for subscriber '{show_name(subscriber)}' already")

    def join(self, topic: OwnedTopic, channel: Channel, txn_id: int, action: Subscribe) -> Answer:
        """Let a client wait, at the end of the line unless it waits already; return what to answer.

        Raises: TopicBusyError - too many wait.
        """
        key = topic.name, action.subscriber
        line = self._line(*key) or _Line(topic, [])
        waiting = line.find(channel)
        if waiting is not None:
            waiting.txn_id, waiting.action, waiting.is_called = txn_id, action, False
        elif len(line.waiting) >= self._waiting_max:
            raise TopicBusyError(
                f"subscriber '{show_name(action.subscriber)}' is attached to another connection, and "
                f"{len(line.waiting)} others wait for it"
            )
        else:
            waiting = _Waiting(channel, txn_id, action)
            self._lines.setdefault(topic.name, {})[action.subscriber] = line
            line.waiting.append(waiting)
            self._of_channels.setdefault(channel, set()).add(key)
            self.count += 1
        return _at(txn_id, line.waiting.index(waiting) + 1)

    def call(self, topic: Topic, subscriber: SubscriberId) -> None:
        """Carry out the SUBSCRIBE of the first in line, if any, and if the subscription is free."""
        line = self._line(topic, subscriber)
        if line is None or line.waiting[0].is_called or not line.topic.is_serving:
            return
        if _is_attached(line.topic, subscriber):
            return
        first = line.waiting[0]
        action = first.action
        if line.topic.is_durable:
            action = replace(action, mode=CreateOrAttach.ATTACH)  # If somebody deleted it, nobody makes it anew.
        first.is_called = self.serve(first.channel, Request(topic=topic, txn_id=first.txn_id, action=action))

    def over(self, topic: OwnedTopic, subscriber: SubscriberId, channel: Channel) -> None:
        """Record that a SUBSCRIBE was carried out or refused. If it has not attached, the next one is called."""
        line = self._line(topic.name, subscriber)
        if line is None:
            return
        waiting = line.find(channel)
        if waiting is not None and waiting.is_called:
            self._remove(line, waiting)
        self.call(topic.name, subscriber)

    def leave(self, topic: Topic, subscriber: SubscriberId, channel: Channel) -> None:
        """Let a client wait no longer. It gets no more answers."""
        line = self._line(topic, subscriber)
        waiting = line.find(channel) if line is not None else None
        if line is not None and waiting is not None:
            self._remove(line, waiting)
            self.call(topic, subscriber)

    def channel_ended(self, channel: Channel) -> None:
        """Drop a client whose channel is gone from all lines."""
        for key in self._of_channels.get(channel, set()).copy():
            self.leave(*key, channel)

    def end(self, topic: OwnedTopic) -> None:
        """Send all that wait for subscriptions of a released topic to its next owner."""
        for line in list(self._lines.get(topic.name, {}).values()):
            for waiting in line.waiting.copy():
                self._remove(line, waiting, tells=False)
                if not waiting.is_called:  # Else its SUBSCRIBE is answered by itself.
                    text = f"topic '{show_name(topic.name)}' was released; try again"
                    waiting.channel.tell(Answer(txn_id=waiting.txn_id, status=StatusCode.SERVICE_DOWN, text=text))

    async def look(self) -> None:
        """Close the channels of silent clients for whose subscriptions others wait, and call those that may attach."""
        now = asyncio.get_running_loop().time()
        latest, self._look_by = self._look_by, now + _STOOD_S
        if now > latest:
            return  # This hub stood still, and has not read what they sent meanwhile.
        for number, line in enumerate([line for lines in self._lines.values() for line in lines.values()]):
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
            if line.waiting:
                self._look_at(line)

    def _line(self, topic: Topic, subscriber: SubscriberId) -> _Line | None:
        lines = self._lines.get(topic)
        return lines.get(subscriber) if lines is not None else None

    def _remove(self, line: _Line, waiting: _Waiting, *, tells: bool = True) -> None:
        topic, subscriber = line.topic.name, waiting.action.subscriber
        index = line.waiting.index(waiting)
        del line.waiting[index]
        self.count -= 1
        keys = self._of_channels[waiting.channel]
        keys.discard((topic, subscriber))
        if not keys:
            del self._of_channels[waiting.channel]
        if not line.waiting:
            del self._lines[topic][subscriber]
            if not self._lines[topic]:
                del self._lines[topic]
        elif tells:
            line.tell_places(index)

    def _look_at(self, line: _Line) -> None:
        subscriber = line.waiting[0].action.subscriber
        subscription = line.topic.subscription(subscriber)
        if subscription is None or subscription.cursor is None or not subscription.is_delivered:
            self.call(line.topic.name, subscriber)
        elif (channel := subscription.cursor.channel).is_silent_for_long:
            _log.info("%s: closing the connection: it is silent, and others wait for %s", channel.peer, subscription)
            channel.abort()


def _at(txn_id: int, place: int) -> Answer:
    return Answer(
        txn_id=txn_id,
        status=StatusCode.TOPIC_BUSY,
        text=f"the subscription is attached to another connection; this one waits at place {place}",
        place=place,
    )


def _is_attached(topic: OwnedTopic, subscriber: SubscriberId) -> bool:
    subscription = topic.subscription(subscriber)
    return subscription is not None and subscription.is_delivered
