"""Our client, with a record of everything that it asks of which hub, and of everything that is delivered to it.

What the record shows is what came over the wire: also what the client keeps from its application, such as redirects,
and messages that come again after a reconnect.
"""

import itertools
import time
from collections.abc import Awaitable, Callable
from typing import Final, cast

from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.client.attachments import Attachments
from hedwig.client.routes import Routes
from hedwig.client.subscription import Attachment, Subscription
from hedwig.errors import ServiceError
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.wire import Action, Answer, Event, Message, Request, Subscribe
from tests.chaos.history import Attempt, ChaosHistory
from tests.hub.delivery_history import Session

__all__ = ["RecordedClient", "Tap"]

_requests: Final = itertools.count(1)


class RecordedClient(HedwigClient):
    """A client that writes down what it asks, and what it is told and sent."""

    def __init__(self, options: ClientOptions, history: ChaosHistory, seen: Callable[[Session, int], None]) -> None:
        """`seen` is called with each delivery: its session, and its id."""
        super().__init__(options)
        self._routes = _RecordedRoutes(options, history)
        self._attachments = _RecordedAttachments(options, self._routes, history, seen)


class _RecordedRoutes(Routes):
    """Routes that write down every attempt."""

    def __init__(self, options: ClientOptions, history: ChaosHistory) -> None:
        super().__init__(options)
        self._history = history

    async def carry(
        self, topic: Topic, action: Action, ask: Callable[[HubAddress, Request, float], Awaitable[Answer]]
    ) -> tuple[HubAddress, Answer]:
        number = next(_requests)

        async def ask_and_record(address: HubAddress, request: Request, timeout_s: float) -> Answer:
            sent = time.monotonic()
            came, text, local = "", "", None
            try:
                answer = await ask(address, request, timeout_s)
                came, text = answer.status.name, answer.text or ""
                local = answer.published.local if answer.published is not None else None
            except ServiceError as exc:
                came, text = type(exc).__name__, str(exc)
                raise
            finally:
                attempt = Attempt(
                    topic=topic,
                    action=type(action).__name__,
                    hub=str(address),
                    sent=sent,
                    ended=time.monotonic(),
                    came=came,
                    text=text,
                    local=local,
                    request=number,
                    should_claim=request.should_claim,
                )
                self._history.attempts.append(attempt)
            return answer

        return await super().carry(topic, action, ask_and_record)


class _RecordedAttachments(Attachments):
    """Attachments that make a session of every attempt to attach.

    An attempt that was not answered may have led to deliveries, which come on the same channel as those of the next
    one. So the next one goes on with its session, until the ids show where it began.
    """

    def __init__(
        self, options: ClientOptions, routes: Routes, history: ChaosHistory, seen: Callable[[Session, int], None]
    ) -> None:
        super().__init__(options, routes)
        self._history = history
        self._seen = seen
        self._unanswered: dict[tuple[Topic, SubscriberId], Tap] = {}

    async def _attach(self, subscription: Subscription, action: Subscribe) -> Attachment:  # type: ignore[override]
        key = subscription.topic, subscription.subscriber
        tap = self._unanswered.pop(key, None) or Tap(subscription, self._history, self._seen)
        tap.subscription = subscription
        try:
            # A channel that serves a subscription needs of it what the tap passes on, and nothing else.
            attachment = await super()._attach(cast(Subscription, tap), action)
        except BaseException as exc:
            if not (isinstance(exc, ServiceError) and exc.definite):
                tap.may_begin_anew += 1
                self._unanswered[key] = tap
            raise
        tap.attached()
        return _RecordedAttachment(attachment, tap)


class Tap:
    """A subscription as the channel knows it that serves it; its sessions are written down, attached when that is sure.

    `may_begin_anew`: how often a session may end in the middle, and another begin.
    """

    def __init__(self, subscription: Subscription, history: ChaosHistory, seen: Callable[[Session, int], None]) -> None:
        self.topic = subscription.topic
        self.subscriber = subscription.subscriber
        self.may_begin_anew = 0
        self.subscription = subscription
        self._history = history
        self._seen = seen
        self.session = self._new_session()

    def attached(self) -> None:
        """Take note that the hub said so."""
        if not self.session.deliveries:
            self.session.attached = time.monotonic()
            self._is_answered = True
        self._write_down()

    def deliver(self, message: Message) -> None:
        assert message.seq_id is not None, "a delivery without an id"
        local, deliveries = message.seq_id.local, self.session.deliveries
        if deliveries and local != deliveries[-1][0] + 1 and self.may_begin_anew:
            self.may_begin_anew -= 1
            self.session = self._new_session()
        if not self.session.deliveries and not self._is_answered:
            # It comes behind the answer, but in the same packet, so whoever waits for that has yet to hear of it.
            self.session.attached = time.monotonic()
        self.session.deliveries.append((local, message.body))
        if len(self.session.deliveries) == 1:
            self._write_down()
        self._seen(self.session, local)
        self.subscription.deliver(message)

    def notify(self, event: Event) -> None:
        self.subscription.notify(event)

    def lose(self) -> None:
        self.subscription.lose()

    def _new_session(self) -> Session:
        now = time.monotonic()
        self._is_written = self._is_answered = False
        return Session(self.topic, self.subscriber.decode(), now, now)

    def _write_down(self) -> None:
        if not self._is_written:
            self._is_written = True
            self._history.sessions.append(self.session)


class _RecordedAttachment:
    """An Attachment that writes down what is consumed."""

    def __init__(self, attachment: Attachment, tap: Tap) -> None:
        self.preferences: SubscriptionPreferences = attachment.preferences
        self._attachment = attachment
        self._tap = tap

    @property
    def is_serving(self) -> bool:
        return self._attachment.is_serving

    async def consume(self, seq_id: MessageSeqId) -> None:
        self._tap.session.consumed.append((seq_id.local, time.monotonic()))
        await self._attachment.consume(seq_id)

    def pause(self) -> None:
        self._attachment.pause()

    def resume(self) -> None:
        self._attachment.resume()

    async def detach(self) -> bool:
        return await self._attachment.detach()

    async def abandon(self) -> None:
        await self._attachment.abandon()
