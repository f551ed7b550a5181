"""Our client, with a record of all its requests, the hubs that it sends them to, and its deliveries.

The record shows what came over the wire. That includes redirects, and messages repeated after a reconnect, which the
client hides from its application.
"""

import asyncio
import itertools
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, cast

from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.client.activity import Activity
from hedwig.client.connections.heartbeat import Heartbeat
from hedwig.client.connections.request_channels import RequestChannels
from hedwig.client.connections.routes import Routes
from hedwig.client.publishing.lines import Line, PendingPublish
from hedwig.client.publishing.publishing import Publishing
from hedwig.client.subscriptions.attachments import Attachments
from hedwig.client.subscriptions.subscription import Attachment, Subscription
from hedwig.errors import ServiceError, UncertainAnswerError
from hedwig.model import MessageSeqId, SubscriptionPreferences, Topic
from hedwig.names import show_name
from hedwig.status import StatusCode
from hedwig.wire import Action, Answer, Delivery, Event, Message, Request, Subscribe
from tests.chaos.support.history import Attempt, ChaosHistory
from tests.hub.support.delivery_history import Session

__all__ = ["RecordedClient", "Tap"]

_requests: Final = itertools.count(1)


class RecordedClient(HedwigClient):
    """A client that records its requests, answers and deliveries."""

    def __init__(self, options: ClientOptions, history: ChaosHistory, seen: Callable[[Session, int], None]) -> None:
        """`seen` is called with each delivery: its session, and its id."""
        super().__init__(options)
        self._routes = _RecordedRoutes(options, history)
        self._attachments = _RecordedAttachments(options, self._routes, self._heartbeat, self._activity, history, seen)
        self._publishing = _RecordedPublishing(options, self._routes, self._channels, self._activity, history)


class _RecordedRoutes(Routes):
    """Routes that record every attempt."""

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


class _RecordedPublishing(Publishing):
    """Publishing that records every attempt. Those after a pause count as another request."""

    def __init__(
        self,
        options: ClientOptions,
        routes: Routes,
        channels: RequestChannels,
        activity: Activity,
        history: ChaosHistory,
    ) -> None:
        super().__init__(options, routes, channels, activity)
        self._history = history
        self._sent: dict[int, Attempt] = {}
        """The last attempt of each message, since the last pause."""

    def _send(self, line: Line, pending: PendingPublish) -> bool:
        is_sent = super()._send(line, pending)
        if (channel := pending.channel) is not None:
            before = self._sent.get(pending.number)
            self._sent[pending.number] = Attempt(
                topic=line.topic,
                action="Publish",
                hub=str(channel.address),
                sent=time.monotonic(),
                ended=math.inf,
                came="",
                text="",
                local=None,
                request=before.request if before is not None else next(_requests),
                should_claim=bool(line.tried),
            )
        return is_sent

    def _go_on(self, line: Line) -> None:
        super()._go_on(line)
        if isinstance(line.awaits, asyncio.TimerHandle):
            for number in line.waiting:
                self._sent.pop(number, None)

    def _answered(self, pending: PendingPublish, answer: Answer | UncertainAnswerError | int) -> None:
        if isinstance(answer, int):
            self._ended(pending, StatusCode.SUCCESS.name, "", answer)
        elif isinstance(answer, Answer):
            local = answer.published.local if answer.published is not None else None
            self._ended(pending, answer.status.name, answer.text or "", local)
        else:
            self._ended(pending, type(answer).__name__, answer.text)
        super()._answered(pending, answer)

    def _take_back(self, pending: PendingPublish) -> None:
        if pending.channel is not None:
            self._ended(pending, UncertainAnswerError.__name__, "not answered in time, or given up")
        super()._take_back(pending)

    def _end(self, pending: PendingPublish) -> None:
        super()._end(pending)
        self._sent.pop(pending.number, None)

    def _ended(self, pending: PendingPublish, came: str, text: str, local: int | None = None) -> None:
        attempt = replace(self._sent[pending.number], ended=time.monotonic(), came=came, text=text, local=local)
        self._history.attempts.append(attempt)


class _RecordedAttachments(Attachments):
    """Attachments that record a session for every attempt to attach that the hub answers with SUCCESS."""

    def __init__(
        self,
        options: ClientOptions,
        routes: Routes,
        heartbeat: Heartbeat,
        activity: Activity,
        history: ChaosHistory,
        seen: Callable[[Session, int], None],
    ) -> None:
        super().__init__(options, routes, heartbeat, activity)
        self._history = history
        self._seen = seen

    def count_dropped(self, delivery: Delivery) -> None:
        super().count_dropped(delivery)
        self._history.dropped.append(
            f"topic {show_name(delivery.topic)}: message {delivery.message.seq_id} came to "
            f"{show_name(delivery.subscriber)} out of order or unasked, and was dropped"
        )

    async def _attach(self, subscription: Subscription, action: Subscribe) -> Attachment:  # type: ignore[override]
        tap = Tap(subscription, self._history, self._seen)
        # The channel that serves a subscription uses only what the tap passes on.
        return _RecordedAttachment(await super()._attach(cast(Subscription, tap), action), tap)


class Tap:
    """A subscription as its channel sees it; the history gets its session when the hub answers."""

    def __init__(self, subscription: Subscription, history: ChaosHistory, seen: Callable[[Session, int], None]) -> None:
        self.topic = subscription.topic
        self.subscriber = subscription.subscriber
        self.names = subscription.names
        now = time.monotonic()
        self.session = Session(self.topic, self.subscriber.decode(), asked=now, attached=now)
        self._subscription = subscription
        self._history = history
        self._seen = seen

    def begin_session(self) -> None:
        self.session.attached = time.monotonic()
        self._history.sessions.append(self.session)
        self._subscription.begin_session()

    def deliver(self, message: Message) -> bool:
        assert message.seq_id is not None, "a delivery without an id"
        local = message.seq_id.local
        self.session.deliveries.append((local, message.body))
        self._seen(self.session, local)
        return self._subscription.deliver(message)

    def deliver_stored(self, stored: bytes) -> bool:
        return self.deliver(Message.decode(stored))

    def stand_by(self, place: int) -> None:
        self._subscription.stand_by(place)

    def notify(self, event: Event) -> None:
        self._subscription.notify(event)

    def lose(self) -> None:
        self._subscription.lose()


class _RecordedAttachment:
    """An Attachment that records consumed messages."""

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

    def consume_at_once(self, seq_id: MessageSeqId) -> None:
        self._tap.session.consumed.append((seq_id.local, time.monotonic()))
        self._attachment.consume_at_once(seq_id)

    def pause(self) -> None:
        self._attachment.pause()

    def resume(self) -> None:
        self._attachment.resume()

    async def detach(self) -> bool:
        return await self._attachment.detach()

    async def abandon(self) -> None:
        await self._attachment.abandon()
