"""Requests: how a hub runs each, once it owns the topic."""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from hedwig.concurrency.tasks import Tasks
from hedwig.errors import (
    HedwigError,
    InvalidArgumentError,
    MalformedRequestError,
    NoSuchTopicError,
    NotAuthenticatedError,
    NotPermittedError,
    NotResponsibleForTopicError,
    QuotaExceededError,
    ServiceDownError,
    UncertainStateError,
)
from hedwig.hub.access.access_control import AccessControl
from hedwig.hub.access.revocation import close_revoked
from hedwig.hub.connections.channel import Channel
from hedwig.hub.logs.remote_positions import check_bound
from hedwig.hub.options.options import HubOptions
from hedwig.hub.subscriptions.backlogs import Backlogs, BoundedPublish, Settle
from hedwig.hub.subscriptions.subscribing import NotYetError, Subscribing, TopicGoneError, not_subscribed
from hedwig.hub.topics.topic import OwnedTopic
from hedwig.hub.topics.topics import Topics
from hedwig.metadata import WriteGate
from hedwig.metadata.access.count_records import Counted
from hedwig.model import MessageSeqId, RegionSeqId, SubscriberId, Topic
from hedwig.names import as_subscriber, as_topic, show_name
from hedwig.status import StatusCode
from hedwig.wire import (
    Action,
    Answer,
    Authenticate,
    CloseSubscription,
    Consume,
    CreateOrAttach,
    Malformed,
    Ping,
    Promises,
    Publish,
    Request,
    Subscribe,
    Unsubscribe,
)

__all__ = ["Requests"]

_log = logging.getLogger(__name__)

_TRIES: Final = 3
_REQUEST_BYTES: Final = 1024
"""What a request costs besides its bytes while it waits, roughly."""
_PASSING: Final = frozenset({StatusCode.SERVICE_DOWN, StatusCode.NOT_RESPONSIBLE_FOR_TOPIC})
"""The refusals after which a client sends its message again."""
_FAIR_SHARE: Final = 64 * 1024
"""Bytes of requests that a channel may always have waiting, and one request more, whatever other channels have."""


_Attachment = tuple[Channel, Topic, SubscriberId]


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One of several attempts at a request. `left` is the number of attempts left, including this one.

    `made` is a SUBSCRIBE as its client sent it, if an earlier attempt has stored its subscription. If it fails now, the
    answer must not say that the hub refused it.
    """

    left: int
    made: Subscribe | None = None
    is_first_in_line: bool = False
    """Whether it passes the gate for answers before all others, because it was inside before."""

    def next(self, made: Action | None = None) -> Self:
        """Return the next attempt; `made` is the action, if this attempt has stored its subscription."""
        return type(self)(self.left - 1, self._made_by(made))

    def once_more(self, made: Action) -> Self:
        """Return the attempt that follows once the client has read its answers, after `made` was done."""
        return type(self)(self.left, self._made_by(made), is_first_in_line=True)

    def _made_by(self, action: Action | None) -> Subscribe | None:
        if self.made is not None or not isinstance(action, Subscribe) or action.mode is CreateOrAttach.ATTACH:
            return self.made
        return action

    def outcome(self, error: HedwigError) -> HedwigError:
        """Return the error to answer when the attempt fails with `error`."""
        if self.made is None:
            return error
        if isinstance(error, NotResponsibleForTopicError) and self.made.mode is CreateOrAttach.CREATE_OR_ATTACH:
            return error
        return UncertainStateError(f"the subscription is stored, and was then not attached: {error}")


class Requests:
    """Runs the requests of all channels."""

    def __init__(
        self,
        options: HubOptions,
        topics: Topics,
        subscribing: Subscribing,
        gate: WriteGate,
        promises: Promises,
        access: AccessControl | None,
        backlogs: Backlogs,
        tasks: Tasks,
    ) -> None:
        """`gate`: while it is closed, the hub refuses each request that changes the metadata or may have to.

        `promises` is what the hub tells clients that ask. `access`: None if everybody may do everything. `tasks` are
        the requests that run, and what they wait for.
        """
        self._promises = promises
        self._access = access
        self._backlogs = backlogs
        self._options = options
        self._gate = gate
        self._topics = topics
        self._subscribing = subscribing
        subscribing.standbys.serve = self._serve_standby
        self.tasks = tasks
        self.unanswered_bytes = 0
        """The approximate bytes of all requests that are not answered yet."""
        self._under_way: dict[_Attachment, deque[tuple[Request, int]] | None] = {}
        """The attachments that have a request under way, each with the requests that wait behind it."""
        self.is_read_only = options.read_only
        self.published = 0
        self.refused = 0

    def handle(self, channel: Channel, request: Request, size: int) -> None:
        """Start a request of `size` bytes, and answer it when it is done; answer a CONSUME only if it is refused.

        A Ping and a step of a login are answered at once.
        """
        if isinstance(request.action, Ping):
            self._answer_ping(channel, request, size, request.action)
            return
        if isinstance(request.action, Authenticate):
            self._answer_login(channel, request, size, request.action)
            return
        self._begin(channel, size)
        try:
            self._check(channel, request)
        except HedwigError as exc:
            self._refuse(channel, size, request, exc)
            return
        self._begin_in_order(channel, request, size)

    def _begin_in_order(self, channel: Channel, request: Request, size: int) -> None:
        """Start a request, once the earlier requests for the same subscription are over.

        A SUBSCRIBE may have to begin anew, behind requests that came later. But once a CLOSESUBSCRIPTION is confirmed,
        no earlier request of its channel may attach the subscriber any more.
        """
        if (attachment := _attachment_of(channel, request)) is not None:
            if attachment in self._under_way:
                behind = self._under_way[attachment]
                if behind is None:
                    behind = self._under_way[attachment] = deque()
                behind.append((request, size))
                return
            self._under_way[attachment] = None
        self._with_topic(channel, request, size, _Attempt(_TRIES))

    def _serve_standby(self, channel: Channel, request: Request) -> bool:
        """Carry out the SUBSCRIBE of a client that has waited in line; return False if another request must end first.

        That one may end the wait.
        """
        if _attachment_of(channel, request) in self._under_way:
            return False
        self._begin(channel, 0)
        self._begin_in_order(channel, request, 0)
        return True

    def _over(self, channel: Channel, request: Request) -> None:
        """Record that a request is answered, or needs no answer any more, and start the one that waits behind it."""
        attachment = _attachment_of(channel, request)
        if attachment is None:
            return
        if behind := self._under_way[attachment]:
            # Not at once: each request may be over immediately, and the calls would nest.
            asyncio.get_running_loop().call_soon(self._with_topic, channel, *behind.popleft(), _Attempt(_TRIES))
        else:
            del self._under_way[attachment]
            self._subscribing.standbys.call(request.topic, attachment[2])

    def refuse(self, channel: Channel, request: Request, size: int, error: HedwigError) -> None:
        """Answer a request with `error`, but ignore a CONSUME, and answer a Ping as always."""
        match request.action:
            case Consume():
                return
            case Ping() as ping:
                self._answer_ping(channel, request, size, ping)
            case Authenticate() as step:
                self._answer_login(channel, request, size, step)
            case _:
                self._begin(channel, size)
                self._refuse(channel, size, request, error)

    def _answer_ping(self, channel: Channel, request: Request, size: int, ping: Ping) -> None:
        if self._promises.stores_once and ping.publisher is not None:
            channel.publisher = ping.publisher
        channel.pinged_as = request.txn_id
        self._begin(channel, size)
        channel.answer(size, Answer(txn_id=request.txn_id, promises=self._promises))

    def _answer_login(self, channel: Channel, request: Request, size: int, step: Authenticate) -> None:
        self._begin(channel, size)
        before = channel.caller
        try:
            if self._access is None or self._access.logins is None:
                raise NotAuthenticatedError("not authenticated: clients of this hub do not log in")
            answer = self._access.logins.step(channel, step)
        except HedwigError as exc:
            self._refuse(channel, size, request, exc)
        except Exception:
            _log.exception("%s: a login failed", channel.peer)
            self._refuse(channel, size, request, ServiceDownError("the hub failed to answer; its log says why"))
        else:
            channel.answer(size, Answer(txn_id=request.txn_id, authentication=answer))
            if channel.caller is not before:
                self._access.count_connection(channel)
            if channel.caller is not before and channel.subscriptions:
                # It may be in other groups than before, so it may keep less.
                self.tasks.start(close_revoked([channel], self._access))

    def _begin(self, channel: Channel, size: int) -> None:
        channel.begin(size)
        self.unanswered_bytes += size + _REQUEST_BYTES

    def answered(self, size: int) -> None:
        """Record that a request of `size` bytes is over."""
        self.unanswered_bytes -= size + _REQUEST_BYTES

    def _check(self, channel: Channel, request: Request) -> None:
        as_topic(request.topic)
        if (access := self._access) is not None:
            # Spelt out, since each publish comes by here, and a call costs as much as the rest.
            caller, action = channel.caller, request.action
            if (
                caller is None
                or request.topic not in caller.publishes
                or not isinstance(action, Publish)
                or channel.why_over is not None
            ):
                access.check(channel, request)
        if self.unanswered_bytes > self._options.request_bytes_max:
            self._check_share(channel)
        if self._gate.why_closed is not None and isinstance(request.action, Publish | Subscribe | Unsubscribe):
            raise ServiceDownError(self._gate.why_closed)
        match request.action:
            case Malformed(reason):
                raise MalformedRequestError(reason)
            case Publish():
                if self.is_read_only:
                    raise ServiceDownError("this hub is read-only")
            case Subscribe(subscriber=subscriber) | Unsubscribe(subscriber) | CloseSubscription(subscriber):
                as_subscriber(subscriber)
            case Consume(subscriber=subscriber, seq_id=seq_id):
                as_subscriber(subscriber)
                check_bound(seq_id.remote)

    @staticmethod
    def _check_share(channel: Channel) -> None:
        """Refuse requests of a channel with more than its fair share of waiting bytes; spare the other channels."""
        requests, their_bytes = channel.unanswered
        if their_bytes + requests * _REQUEST_BYTES > _FAIR_SHARE:
            raise ServiceDownError("too many bytes of requests wait in this hub, some of them on this connection")

    def _with_topic(self, channel: Channel, request: Request, size: int, attempt: _Attempt) -> None:
        topic = self._topics.get(request.topic)
        if topic is not None:
            self._serve(topic, channel, request, size, attempt)
            return

        access = self._access
        book = access.book if access is not None else None

        def serve(topic: OwnedTopic) -> None:
            if access is not None and access.book is not book:  # The rules have changed while the request waited.
                try:
                    access.check(channel, request, is_counted=True)
                except HedwigError as exc:
                    refuse(exc)
                    return
            self._serve(topic, channel, request, size, attempt)

        def refuse(error: HedwigError) -> None:
            if isinstance(error, NoSuchTopicError) and not makes_by_nature:
                self._answer_of_no_topic(channel, request, size)
            else:
                # Answer a CONSUME at the wrong hub, too, so that the client can log it.
                self._refuse(channel, size, request, attempt.outcome(error))
            self._over(channel, request)

        makes_by_nature = _makes_its_topic(request.action)
        makes = makes_by_nature and (access is None or access.may_create(channel, request.topic))
        self._topics.with_topic(
            request.topic,
            source=channel,
            makes=makes,
            making=access.making(channel, request.topic, Counted.TOPICS) if makes and access is not None else None,
            should_claim=request.should_claim,
            tried=request.tried,
            serve=serve,
            refuse=refuse,
        )

    def _answer_of_no_topic(self, channel: Channel, request: Request, size: int) -> None:
        """Answer a request as the owner of a topic without subscriptions would."""
        match request.action:
            case Consume():
                channel.end_unanswered(size)
            case Subscribe(subscriber=subscriber) | Unsubscribe(subscriber):
                self._refuse(channel, size, request, not_subscribed(request.topic, subscriber))
            case _:
                channel.answer(size, Answer(txn_id=request.txn_id))

    def _serve(self, topic: OwnedTopic, channel: Channel, request: Request, size: int, attempt: _Attempt) -> None:
        topic.used_at = self._topics.now()
        match request.action:
            case Publish() as action:
                self._publish(topic, channel, request, size, action)
            case Consume(subscriber=subscriber) as action:
                subscription = topic.subscription(subscriber)
                if subscription is not None:
                    self._subscribing.consume_attached(subscription, action.seq_id)
                    channel.end_unanswered(size)
                else:
                    self.tasks.start(self._consume(topic, channel, request, size, attempt, action))
            case Subscribe() as action:
                if action.silence_ms:
                    channel.silence_s = action.silence_ms / 1000
                self._answer_when_done(
                    self._subscribing.subscribe(topic, channel, size, request.txn_id, action),
                    channel,
                    request,
                    size,
                    attempt,
                )
            case Unsubscribe(subscriber):
                self._answer_when_done(
                    self._subscribing.unsubscribe(topic, subscriber, channel), channel, request, size, attempt
                )
            case CloseSubscription(subscriber):
                self._answer_when_done(
                    self._subscribing.close(topic, subscriber, channel), channel, request, size, attempt
                )

    def _publish(self, topic: OwnedTopic, channel: Channel, request: Request, size: int, action: Publish) -> None:
        access = self._access
        if access is None or not access.book.bounds_backlogs or not topic.is_durable:
            self._store(topic, channel, request, size, action)
            return
        publisher, sequence = channel.publisher, request.txn_id
        if (attempt := action.attempt) is not None:
            publisher, sequence = attempt.publisher or publisher, attempt.sequence or sequence
        window = topic.log.window
        if publisher is not None and window is not None and window.knows(publisher, sequence):
            self._store(topic, channel, request, size, action)  # It is stored already, or not at all.
            return

        def admitted(settle: Settle) -> None:
            self._store(topic, channel, request, size, action, settle)

        def over(error: HedwigError) -> bool:
            if isinstance(error, QuotaExceededError | NotPermittedError):
                access.count_over_limit(channel, request.topic)
            if access.refuses:
                self._refuse(channel, size, request, error)
            return access.refuses

        self._backlogs.admit(topic, BoundedPublish(admitted, over), size, access.backlog_limit(channel, request.topic))

    def _store(
        self,
        topic: OwnedTopic,
        channel: Channel,
        request: Request,
        size: int,
        action: Publish,
        settle: Settle | None = None,
    ) -> None:
        """Make a message part of a topic unless it is already, and answer. Then call `settle` with the outcome."""

        def done(local: int, remote: tuple[RegionSeqId, ...], error: HedwigError | None) -> None:
            if settle is not None:
                settle(remote, error)
            if error is not None:
                self._refuse(channel, size, request, error)
                return
            self.published += 1
            if remote:
                seq_id = MessageSeqId(local, remote)
                channel.answer(size, Answer(txn_id=request.txn_id, published=seq_id))
            else:
                channel.answer_published(size, request.txn_id, local)

        publisher, sequence, previous = channel.publisher, request.txn_id, action.previous
        answered = 0 if previous else sequence - 1
        age_ms = 0
        if (attempt := action.attempt) is not None:
            age_ms = attempt.age_ms
            if attempt.sequence is not None:
                sequence = attempt.sequence
            if attempt.publisher is not None:
                publisher, answered = attempt.publisher, 0
            else:
                answered = attempt.answered or (0 if previous else sequence - 1)
        if publisher is None and age_ms:
            why = "a message of nobody that may have been published before is not recognised"
            done(0, (), MalformedRequestError(why))
        elif publisher is None:
            if channel.held_back and not channel.may_publish(request.topic, previous):
                why = "a message before it in the topic was refused; try that again first"
                done(0, (), ServiceDownError(why))
            else:
                topic.log.publish(action.message, done)
        elif sequence <= previous or sequence <= answered:
            why = f"message {sequence} of its publisher comes before one that it follows"
            done(0, (), MalformedRequestError(why))
        elif (window := topic.log.window) is not None:
            window.publish(action.message, done, publisher, sequence, previous, answered, age_ms)
        else:
            topic.log.publish_once(action.message, done, publisher, sequence, previous, answered, age_ms)

    def _answer_when_done(
        self,
        work: Coroutine[Any, Any, bool | None],
        channel: Channel,
        request: Request,
        size: int,
        attempt: _Attempt,
    ) -> None:
        """Run `work`, and answer the request.

        `work` returns True if it has answered the request itself, and False if the request ends without an answer. If
        it returns None, the request is answered here.
        """

        async def carry_out() -> None:
            try:
                await channel.gate.enter(again=attempt.is_first_in_line)
            except BaseException:
                work.close()
                channel.end_unanswered(size)
                self._over(channel, request)
                raise
            is_over = True
            try:
                was_answered = await work
            except NotYetError:
                is_over = False
                again = attempt.once_more(request.action)
                self._with_topic(channel, _finding_what_it_made(request), size, again)
            except TopicGoneError as gone:
                if attempt.left > 1:
                    is_over = False
                    following = _finding_what_it_made(request) if gone.created else request
                    self._with_topic(channel, following, size, attempt.next(request.action if gone.created else None))
                else:
                    error = ServiceDownError("the topic is released again and again; try later")
                    self._refuse(channel, size, request, attempt.outcome(error))
            except HedwigError as exc:
                self._refuse(channel, size, request, attempt.outcome(exc))
            except Exception:
                _log.exception("%s: a request failed", channel.peer)
                error = ServiceDownError("the hub failed to answer the request; its log says why")
                self._refuse(channel, size, request, attempt.outcome(error))
            else:
                if was_answered is None:
                    channel.answer(size, Answer(txn_id=request.txn_id))
                elif not was_answered:
                    channel.end_unanswered(size)
            finally:
                channel.gate.leave()
                if is_over:
                    self._over(channel, request)

        self.tasks.start(carry_out())

    async def _consume(
        self, topic: OwnedTopic, channel: Channel, request: Request, size: int, attempt: _Attempt, action: Consume
    ) -> None:
        try:
            await self._subscribing.consume(topic, action)
        except TopicGoneError:
            if attempt.left > 1:
                # At once, so that it stays before the client's later requests, which go the same way.
                self._with_topic(channel, request, size, attempt.next())
            else:
                error = ServiceDownError("the topic is released again and again; try later")
                self._refuse(channel, size, request, error)
        except HedwigError as exc:
            # A CONSUME has no answer but this one. The messages are delivered again, as after any lost CONSUME.
            _log.warning("a consume of topic '%s' is lost: %r", show_name(topic.name), exc)
            self._refuse(channel, size, request, exc)
        except Exception:
            _log.exception("%s: a consume of topic '%s' is lost", channel.peer, show_name(topic.name))
            channel.end_unanswered(size)
        else:
            channel.end_unanswered(size)

    def _refuse(self, channel: Channel, size: int, request: Request, error: HedwigError) -> None:
        self.refused += 1
        if not isinstance(error, InvalidArgumentError):
            _log.debug("%s: request %d: %s", channel.peer, request.txn_id, error)
            is_passing = error.status in _PASSING and error.happened == "no"
            if is_passing and isinstance(request.action, Publish) and channel.publisher is None:
                channel.hold_back(request.topic)
        channel.answer_error(size, request.txn_id, error)

    def channel_ended(self, channel: Channel) -> None:
        """Detach the subscribers of a channel that is gone."""
        lost = self._subscribing.channel_ended(channel)
        if lost:
            self.tasks.start(self._subscribing.detach_lost(lost, channel))


def _makes_its_topic(action: Action) -> bool:
    """Say whether a request makes a topic that does not exist; other requests find nothing there."""
    match action:
        case Publish():
            return True
        case Subscribe(mode=mode):
            return mode is not CreateOrAttach.ATTACH
    return False


def _attachment_of(channel: Channel, request: Request) -> _Attachment | None:
    """Return the channel and the subscription that a request attaches or ends; None if it does neither."""
    match request.action:
        case Subscribe(subscriber=subscriber) | Unsubscribe(subscriber) | CloseSubscription(subscriber):
            return channel, request.topic, subscriber
    return None


def _finding_what_it_made(request: Request) -> Request:
    """Return an unanswered SUBSCRIBE that has found or made its subscription, changed so that it may find it."""
    assert isinstance(request.action, Subscribe)
    if request.action.mode is CreateOrAttach.ATTACH:
        return request
    return replace(request, action=replace(request.action, mode=CreateOrAttach.CREATE_OR_ATTACH))
