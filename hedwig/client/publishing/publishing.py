"""Publishing: brings messages to the owners of their topics, and tries again what a hub refuses for a while.

A topic moves, its hub ends, too few bookies are there: such a refusal is no outcome. The message is sent again, after
pauses, until a hub has stored it or its time is up. Meanwhile all messages of the topic wait in a line. The oldest is
sent alone. Once a hub has stored it, the others follow in their order.

A lost answer is no outcome either with `publish_once`, and for a publisher with a name, if the hub has promised to
store a message once. Each message then has a sequence in its topic, by which hubs recognise it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from functools import partial
from typing import Final

from hedwig.client.activity import Activity
from hedwig.client.connections.channel import Channel
from hedwig.client.connections.request_channels import RequestChannels
from hedwig.client.connections.routes import Routes, error_of
from hedwig.client.options import ClientOptions, HubAddress
from hedwig.client.publishing.lines import Line, NamedLine, OnOutcome, PendingPublish
from hedwig.errors import (
    ClientClosedError,
    CouldNotConnectError,
    HedwigError,
    HubNotTrustedError,
    InvalidArgumentError,
    NotAuthenticatedError,
    QuotaExceededError,
    RemoteProtocolError,
    ServiceDownError,
    ServiceError,
    UncertainAnswerError,
)
from hedwig.model import MessageSeqId, Topic
from hedwig.status import StatusCode
from hedwig.wire import Answer, Attempt, Message, Publish, Request, check_bytes, encode_first_publish, encode_request

__all__ = ["Publishing"]

_MESSAGE: Final = (bytes, Message)
_PAUSE_MAX_S: Final = 1.0
"""The longest pause between two attempts. The first is `reconnect_pause_s`, and each further one twice as long."""

_RETRY_AFTER_MAX_S: Final = 5.0
"""For how long a message that is over a limit waits at most before it is tried again."""

_ANSWERED_EVERY: Final = 32
"""One in N messages says which have been answered, so that hubs need not remember these."""

_PASSING: Final = frozenset(
    {
        StatusCode.COULD_NOT_CONNECT,
        StatusCode.NOT_RESPONSIBLE_FOR_TOPIC,
        StatusCode.SERVICE_DOWN,
        StatusCode.COMPOSITE,
    }
)
"""The refusals that pass. Any other would come again."""

_LASTING: Final = (HubNotTrustedError, NotAuthenticatedError)
"""Why no connection is made, and none will be."""

_ALWAYS_DEFINITE: Final = frozenset(
    {
        StatusCode.MALFORMED_REQUEST,
        StatusCode.NO_SUCH_TOPIC,
        StatusCode.TOPIC_BUSY,
        StatusCode.NOT_RESPONSIBLE_FOR_TOPIC,
    }
)
"""The refusals that come before a hub of the original has tried to store the message.

It answers SERVICE_DOWN also when a write has failed, and such a message may be stored. Our hubs answer UNCERTAIN_STATE
then, and promise it.
"""


class Publishing:
    """Sends the messages of a client. At most `publishes_in_flight_max` have no outcome at a time."""

    def __init__(
        self,
        options: ClientOptions,
        routes: Routes,
        channels: RequestChannels,
        activity: Activity,
        name: bytes | None = None,
    ) -> None:
        """`name`: that of a publisher whose application gives each message its sequence."""
        self._options = options
        self._routes = routes
        self._channels = channels
        self._activity = activity
        self._room = asyncio.Semaphore(options.publishes_in_flight_max)
        self._lines: dict[Topic, Line] = {}
        self._pending: dict[int, PendingPublish] = {}
        """The messages without an outcome, in the order of their deadlines, which is that of their numbers."""
        self._number = 0
        self._name = name
        self._is_once = options.publish_once or name is not None
        """Whether hubs recognise these messages if they promise that."""
        self._deadline: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop of the first publish. CPython 3.11 makes a system call to find the running loop."""
        self._is_closed = False

    @property
    def in_flight(self) -> int:
        """Return the number of messages without an outcome."""
        return len(self._pending)

    async def publish(
        self, topic: Topic, message: Message | bytes, sequence: int = 0, age_s: float = 0.0
    ) -> MessageSeqId:
        """Publish a message, and return its position. Errors: HedwigClient.publish.

        Args: sequence, age_s - as NamedPublisher.publish, if this publisher has a name.
        """
        await self._room.acquire()
        position: asyncio.Future[MessageSeqId] = asyncio.get_running_loop().create_future()
        pending = self._begin(topic, message, partial(_settle, position), sequence, age_s)
        try:
            return await position
        except asyncio.CancelledError:
            self._withdraw(pending, position)
            raise

    async def begin(self, topic: Topic, message: Message | bytes, on_outcome: OnOutcome) -> None:
        """Send a message once there is room for it. See HedwigClient.begin_publish."""
        await self._room.acquire()
        self._begin(topic, message, on_outcome, 0, 0.0)

    async def publish_many(
        self, topic: Topic, messages: Iterable[Message | bytes] | AsyncIterable[Message | bytes]
    ) -> AsyncIterator[MessageSeqId]:
        """See HedwigClient.publish_many."""
        running: deque[tuple[PendingPublish, asyncio.Future[MessageSeqId]]] = deque()
        loop = asyncio.get_running_loop()
        try:
            async for message in _aiter(messages):
                while running and (running[0][1].done() or len(running) >= self._options.publishes_in_flight_max):
                    yield await running[0][1]
                    running.popleft()
                await self._room.acquire()
                position: asyncio.Future[MessageSeqId] = loop.create_future()
                running.append((self._begin(topic, message, partial(_settle, position), 0, 0.0), position))
            while running:
                yield await running[0][1]
                running.popleft()
        finally:
            for pending, position in running:
                self._withdraw(pending, position)

    def _begin(
        self, topic: Topic, message: Message | bytes, on_outcome: OnOutcome, sequence: int, age_s: float
    ) -> PendingPublish:
        """Send a message for which there is room.

        Raises: ClientClosedError; InvalidArgumentError - the message is none, or its sequence does not follow.
        """
        if self._is_closed:
            self._room.release()
            raise ClientClosedError("the client was closed; make another one")
        if not isinstance(message, _MESSAGE):
            self._room.release()
            check_bytes("a message", message)
        line = self._lines.get(topic)
        if line is None:
            line = self._lines[topic] = Line(topic) if self._name is None else NamedLine(topic)
        if isinstance(line, NamedLine):
            try:
                line.add(sequence)
            except InvalidArgumentError:
                self._room.release()
                raise
        self._number += 1
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        now = loop.time()
        deadline = now + self._options.answer_timeout_s
        pending = PendingPublish(self._number, line, message, now - age_s, deadline, on_outcome)
        pending.sequence = sequence
        if age_s:
            pending.unsure = UncertainAnswerError("the message may have been published before")
        self._pending[pending.number] = pending
        if self._deadline is None:
            self._deadline = loop.call_at(deadline, self._end_the_late)
        if line.is_held:
            line.waiting[pending.number] = pending
        else:
            self._send(line, pending)
            if not line.in_flight:
                self._go_on_or_forget(line)
        return pending

    def _withdraw(self, pending: PendingPublish, position: asyncio.Future[MessageSeqId]) -> None:
        """Wait for a message no longer. If it was not sent yet, it is not published."""
        if pending.number in self._pending:
            self._take_back(pending)
            self._end(pending)
            self._go_on_or_forget(pending.line)
        if not position.cancel() and not position.cancelled():
            position.exception()  # Nobody will ask for it, and asyncio would report that.

    def close(self) -> None:
        """Send nothing any more. Messages in flight may still be answered, until their channel is closed."""
        self._is_closed = True
        for line in list(self._lines.values()):
            self._stop_waiting(line)
        for pending in list(self._pending.values()):
            if pending.channel is None:
                self._fail(pending, ClientClosedError("the client was closed before a hub accepted the message"))
                self._go_on_or_forget(pending.line)
        if self._deadline is not None and not self._pending:  # Those in flight keep their deadline.
            self._deadline.cancel()

    # ---------------------------------------------------------------------------------------------- one message

    def _send(self, line: Line, pending: PendingPublish) -> bool:
        """Send a message, or let it wait if it cannot be sent yet. Return False if it has failed instead."""
        address = self._routes.owner(line.topic)
        channel = self._channels.opened(address)
        if channel is None or (line.in_flight and channel is not line.channel):  # It must not overtake those in flight.
            line.is_held = True
            line.waiting[pending.number] = pending
            return True
        if pending.txn_id:
            self._activity.publish_repeats += 1
        txn_id = self._routes.new_txn_id()
        previous, answered, attempt = 0, 0, None
        stores_once = self._is_once and channel.promises.stores_once
        if stores_once:
            if pending.sequence or self._name is not None:
                previous, attempt = line.before(pending.sequence), self._attempt_at(line, pending)
            else:
                if line.in_flight:
                    previous = line.last
                if not txn_id % _ANSWERED_EVERY:
                    answered = line.answered
        elif pending.unsure is not None:
            self._fail(pending, pending.unsure)  # This hub might store it for a second time.
            return False
        elif line.in_flight:
            previous = line.last  # If that is refused, this one is too, and is sent again behind it.
        tried = line.tried
        try:
            if tried or attempt is not None:
                if answered:
                    attempt = Attempt(answered=answered)
                publish = Publish(_as_message(pending.message), previous, attempt)
                body = encode_request(
                    Request(topic=line.topic, txn_id=txn_id, action=publish, should_claim=bool(tried), tried=tried)
                )
            else:
                body = encode_first_publish(line.head, txn_id, pending.message, previous, answered)
            channel.send_encoded(body, txn_id, partial(self._answered, pending))
        except HedwigError as exc:
            self._fail(pending, exc)  # It is too large.
            return False
        if stores_once:
            pending.sequence = pending.sequence or txn_id
        line.last = pending.sequence or txn_id
        pending.channel = line.channel = channel
        pending.txn_id = txn_id
        line.in_flight += 1
        return True

    def _attempt_at(self, line: Line, pending: PendingPublish) -> Attempt:
        age_ms = 0
        if pending.unsure is not None:
            age_ms = 1 + int(1000 * (asyncio.get_running_loop().time() - pending.begun_at))
        # A repeat may come behind a younger message that was answered before it.
        answered = 0 if pending.sequence else line.answered
        return Attempt(publisher=self._name, sequence=pending.sequence or None, age_ms=age_ms, answered=answered)

    def _answered(self, pending: PendingPublish, answer: Answer | UncertainAnswerError | int) -> None:
        line, channel = pending.line, pending.channel
        assert channel is not None
        pending.channel = None
        line.in_flight -= 1
        if isinstance(answer, int):
            self._routes.remember(line.topic, channel.address)
            self._succeed(pending, MessageSeqId(answer))
            if line.in_flight:
                return
            if line.is_held:
                self._release(line)
        elif isinstance(answer, UncertainAnswerError):
            line.may_hop = self._routes.leave(line.topic, channel.address) or line.may_hop
            self._in_doubt(pending, channel, answer)
        elif answer.status is StatusCode.SUCCESS:
            self._routes.remember(line.topic, channel.address)
            self._succeed(pending, answer.published)
            if line.is_held and not line.in_flight:
                self._release(line)
        else:
            self._refused(pending, channel, answer)
        self._go_on_or_forget(line)

    def _succeed(self, pending: PendingPublish, position: MessageSeqId | None) -> None:
        if position is None:
            error = RemoteProtocolError(
                "the hub accepted a message but did not return its id; it does not speak this protocol"
            )
            error.happened = "yes"
            self._fail(pending, error)
            return
        pending.line.answered = pending.sequence
        self._activity.published += 1
        self._end(pending)
        _tell(pending, position)

    def _refused(self, pending: PendingPublish, channel: Channel, answer: Answer) -> None:
        """Let a message wait for its next attempt, if the refusal passes and surely nothing was stored."""
        line, topic, refusal = pending.line, pending.line.topic, error_of(answer)
        if answer.status not in _ALWAYS_DEFINITE and not channel.promises.refusals_are_definite:
            refusal = UncertainAnswerError(f"{refusal.text} (perhaps after it was stored)", answer.status)
        if isinstance(refusal, UncertainAnswerError):
            line.may_hop = False
            self._in_doubt(pending, channel, refusal)
            return
        if refusal.code not in _PASSING:
            self._fail(pending, refusal)
            return
        line.refusal, line.may_hop = refusal, answer.status is StatusCode.NOT_RESPONSIBLE_FOR_TOPIC
        if isinstance(refusal, QuotaExceededError):
            line.burst = 1  # Another hub would not help.
        elif line.may_hop:
            try:
                self._routes.follow(topic, answer)
            except ServiceError as exc:
                self._fail(pending, exc)
                return
            if channel.address.key not in line.tried:
                line.tried = (*line.tried, channel.address.key)
        else:
            self._routes.avoid(topic, channel.address)
        line.is_held = True
        line.waiting[pending.number] = pending

    def _in_doubt(self, pending: PendingPublish, channel: Channel, error: UncertainAnswerError) -> None:
        """Let a message wait for its next attempt, if hubs recognise it."""
        if not (self._is_once and channel.promises.stores_once) or self._is_closed:
            if channel.promises.stores_once and not self._is_once:
                error = UncertainAnswerError(f"{error.text} (with publish_once, it would be sent again)", error.code)
            self._fail(pending, error)
            return
        line = pending.line
        line.refusal = pending.unsure = error
        line.is_held = True
        line.waiting[pending.number] = pending

    def _fail(self, pending: PendingPublish, error: HedwigError) -> None:
        if pending.unsure is not None and error is not pending.unsure and error.happened == "no":
            # This attempt has surely stored nothing, but a former one may have.
            error = UncertainAnswerError(f"{pending.unsure.text}, and then: {error}")
        self._activity.publish_errors += 1
        self._end(pending)
        _tell(pending, error)

    def _end(self, pending: PendingPublish) -> None:
        del self._pending[pending.number]
        line = pending.line
        line.waiting.pop(pending.number, None)
        if self._name is not None:
            line.is_over(pending.sequence)
        self._room.release()

    def _take_back(self, pending: PendingPublish) -> None:
        """Wait for the answer to a message in flight no longer."""
        if pending.channel is not None:
            pending.channel.forget(pending.txn_id)
            pending.channel = None
            pending.line.in_flight -= 1

    def _end_the_late(self) -> None:
        """Fail the messages whose time is up. One timer serves all: it waits for the oldest."""
        self._deadline = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._pending:
            oldest = next(iter(self._pending.values()))
            if oldest.deadline > now:
                self._deadline = loop.call_at(oldest.deadline, self._end_the_late)
                return
            self._expire(oldest)

    def _expire(self, pending: PendingPublish) -> None:
        line, channel = pending.line, pending.channel
        timeout_s = self._options.answer_timeout_s
        if channel is not None:
            self._take_back(pending)
            self._routes.leave(line.topic, channel.address)  # The next message must not wait for it too.
            self._fail(pending, channel.unanswered(timeout_s))
        else:
            why = line.refusal or CouldNotConnectError(f"no connection to the hub {self._routes.owner(line.topic)}")
            kind = (
                type(why) if why.happened == "no" else ServiceDownError
            )  # Nothing is in doubt of a message that only waits.
            error = kind(f"not published within {timeout_s:g} s: {why.text}")
            error.code = why.code
            self._fail(pending, error)
        self._go_on_or_forget(line)

    # ------------------------------------------------------------------------------------------- a line that is held

    def _go_on_or_forget(self, line: Line) -> None:
        """Begin the next attempt if messages wait and none is in flight; forget a line without messages."""
        if line.in_flight:
            return
        if not line.waiting:
            self._stop_waiting(line)
            if self._lines.get(line.topic) is line:
                del self._lines[line.topic]
        elif line.awaits is None and not self._is_closed:
            self._go_on(line)

    def _go_on(self, line: Line) -> None:
        """Try the oldest message at once if another hub is to be asked, else after a pause."""
        if line.refusal is None:
            self._attempt(line)
            return
        if line.may_hop and line.hops < self._options.redirects_max:
            line.hops += 1
            self._attempt(line)
            return
        line.hops, line.tried = 0, ()
        longest_s = min(_PAUSE_MAX_S, self._options.reconnect_pause_max_s)
        line.pause_s = min(max(2 * line.pause_s, self._options.reconnect_pause_s), longest_s)
        self._activity.late_topics.begin(line, line.refusal)
        pause_s = line.pause_s * self._options.random.uniform(0.5, 1.0)
        if isinstance(line.refusal, QuotaExceededError) and line.refusal.retry_after_s is not None:
            # The limit may be lifted meanwhile, and what the hub says may be days.
            pause_s = max(pause_s, min(line.refusal.retry_after_s, _RETRY_AFTER_MAX_S))
        line.awaits = asyncio.get_running_loop().call_later(pause_s, self._attempt, line)

    def _attempt(self, line: Line) -> None:
        """Send the oldest message alone, after the channel to the hub is open."""
        line.awaits = None
        address = self._routes.owner(line.topic)
        if self._channels.opened(address) is None:
            line.awaits = opening = self._channels.opening(address)
            opening.add_done_callback(partial(self._opened, line, address))
            return
        line.waiting = dict(sorted(line.waiting.items()))  # Those that were refused came back behind younger ones.
        while line.waiting:
            oldest = line.waiting.pop(next(iter(line.waiting)))
            if self._send(line, oldest):
                return
        self._go_on_or_forget(line)

    def _opened(self, line: Line, address: HubAddress, opening: asyncio.Task[Channel]) -> None:
        if line.awaits is not opening:
            return  # No message waits for it any more.
        line.awaits = None
        error = opening.exception() if not opening.cancelled() else ClientClosedError("the client was closed")
        if error is None and line.refusal is None:
            self._release(line)
        elif isinstance(error, CouldNotConnectError) and not isinstance(error, _LASTING):
            line.refusal, line.may_hop = error, self._routes.leave(line.topic, address)
        elif error is not None:
            assert isinstance(error, HedwigError)
            for pending in list(line.waiting.values()):
                self._fail(pending, error)
        else:
            self._attempt(line)
        self._go_on_or_forget(line)

    def _release(self, line: Line) -> None:
        """Send the messages that wait, since the hub has stored one, or has refused none yet.

        After one was over a limit, a few are sent first, and twice as many each time.
        """
        self._activity.late_topics.end(line)
        line.is_held, line.refusal, line.tried, line.hops, line.pause_s = False, None, (), 0, 0.0
        waiting, line.waiting = line.waiting, {}
        most = line.burst or len(waiting)
        line.burst = 2 * most if len(waiting) > most else 0
        for index, (number, pending) in enumerate(sorted(waiting.items())):
            if line.is_held or index >= most:
                line.is_held = True
                line.waiting[number] = pending
            else:
                self._send(line, pending)

    def _stop_waiting(self, line: Line) -> None:
        if isinstance(line.awaits, asyncio.TimerHandle):
            line.awaits.cancel()
        line.awaits = None
        self._activity.late_topics.end(line)


def _tell(pending: PendingPublish, outcome: MessageSeqId | HedwigError) -> None:
    try:
        pending.on_outcome(outcome)
    except Exception as exc:
        about = {"message": "a function that was called with the outcome of a publish failed", "exception": exc}
        asyncio.get_running_loop().call_exception_handler(about)


def _settle(position: asyncio.Future[MessageSeqId], outcome: MessageSeqId | HedwigError) -> None:
    if position.done():
        return  # The caller was cancelled.
    if isinstance(outcome, HedwigError):
        position.set_exception(outcome)
    else:
        position.set_result(outcome)


async def _aiter(
    messages: Iterable[Message | bytes] | AsyncIterable[Message | bytes],
) -> AsyncIterator[Message | bytes]:
    if isinstance(messages, AsyncIterable):
        async for message in messages:
            yield message
    else:
        for message in messages:
            yield message


def _as_message(message: Message | bytes) -> Message:
    return Message(message) if isinstance(message, bytes) else message
