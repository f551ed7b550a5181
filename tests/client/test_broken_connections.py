"""Prove what the client does when connections break, answers are late and hubs redirect, over a wire that tests cut."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress

import pytest

from hedwig.client import ClientOptions, CreateOrAttach, HedwigClient, HubAddress, Subscription
from hedwig.client.activity import Activity
from hedwig.client.subscriptions.late_pointers import LatePointers
from hedwig.errors import (
    ClientClosedError,
    ClientNotSubscribedError,
    CouldNotConnectError,
    NotResponsibleForTopicError,
    SubscriptionClosedError,
    TopicBusyError,
    UncertainAnswerError,
)
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.status import StatusCode
from hedwig.wire import Answer, CloseSubscription, Consume, Request, Subscribe
from tests.client.support.wire import Wire
from tests.faults.support.waiting import until

ANN, BOB = SubscriberId(b"ann"), SubscriberId(b"bob")
PATIENCE_S = 30.0


@pytest.fixture(params=[False, True], ids=["a channel each", "shared channels"])
async def client(wire: Wire, request: pytest.FixtureRequest) -> AsyncIterator[HedwigClient]:
    async with HedwigClient(ClientOptions(hub=wire.address, share_channels=request.param)) as made:
        yield made


@pytest.fixture
async def other(own_hub: HubAddress) -> AsyncIterator[HedwigClient]:
    """A client that reaches the hub directly."""
    async with HedwigClient(ClientOptions(hub=own_hub)) as made:
        yield made


async def take(subscription: Subscription, number: int) -> list[bytes]:
    async with asyncio.timeout(PATIENCE_S):
        return [(await anext(subscription)).body for _ in range(number)]


def bodies(start: int, stop: int) -> list[bytes]:
    return [b"message %d" % number for number in range(start, stop)]


# ----------------------------------------------------------------------------------------------------------- publishing


async def test_many_publishes_are_under_way_at_once(wire: Wire, client: HedwigClient, topic: Topic) -> None:
    await client.publish(topic, b"first")
    wire.flow.clear()
    publishing = asyncio.create_task(_ids(client, topic, bodies(0, 21)))
    async with asyncio.timeout(PATIENCE_S):
        await wire.has(lambda: wire.unanswered == 21)
        wire.flow.set()
        assert await publishing == list(range(2, 23))


async def test_publishes_under_way_are_bounded(wire: Wire, other: HedwigClient, topic: Topic) -> None:
    options = ClientOptions(hub=wire.address, publishes_in_flight_max=8)
    async with HedwigClient(options) as client, asyncio.timeout(PATIENCE_S):
        await client.publish(topic, b"first")
        publishing = asyncio.create_task(_ids(client, topic, bodies(0, 100)))
        await wire.has(lambda: len(wire.requests) > 20)
        wire.flow.clear()
        await wire.has(lambda: wire.unanswered == 8)
        await _ids(other, Topic(topic + b"/other"), bodies(0, 20))  # This gives further messages time to come.
        wire.flow.set()
        assert len(await publishing) == 100
    assert wire.unanswered_most == 8


async def test_a_publish_that_was_cut_off_is_uncertain(wire: Wire, client: HedwigClient, topic: Topic) -> None:
    wire.cuts_before_answer = 1
    with pytest.raises(UncertainAnswerError):
        await client.publish(topic, b"perhaps")
    assert (await client.publish(topic, b"surely")).local in (1, 2)


async def test_a_status_of_uncertainty_is_no_failure(wire: Wire, client: HedwigClient, topic: Topic) -> None:
    wire.intercept = lambda request: Answer(txn_id=request.txn_id, status=StatusCode.UNCERTAIN_STATE)
    with pytest.raises(UncertainAnswerError) as caught:
        await client.publish(topic, b"perhaps")
    assert caught.value.happened == "unknown"


async def test_an_answer_that_does_not_come_is_not_waited_for(wire: Wire, topic: Topic) -> None:
    async with HedwigClient(ClientOptions(hub=wire.address, answer_timeout_s=0.2)) as client:
        wire.flow.clear()
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(UncertainAnswerError, match=r"did not answer within 0\.2 s$"):
                await client.publish(topic, b"perhaps")


async def _ids(client: HedwigClient, topic: Topic, messages: list[bytes]) -> list[int]:
    return [seq_id.local async for seq_id in client.publish_many(topic, messages)]


# ------------------------------------------------------------------------------------------------------------ redirects


def redirect_to(target: HubAddress) -> Callable[[Request], Answer]:
    text = f"{target.host}:{target.port}:-1"
    return lambda request: Answer(txn_id=request.txn_id, status=StatusCode.NOT_RESPONSIBLE_FOR_TOPIC, text=text)


async def test_redirects_are_followed_and_owners_remembered(own_hub: HubAddress, wire: Wire, topic: Topic) -> None:
    async with Wire(own_hub) as first, HedwigClient(ClientOptions(hub=first.address)) as client:
        first.intercept = redirect_to(wire.address)
        subscription = await client.subscribe(topic, ANN)
        assert [request.should_claim for request in first.requests] == [False]
        assert [(request.should_claim, request.tried) for request in wire.requests] == [(True, (first.address.key,))]
        await client.publish(topic, b"body")
        assert await take(subscription, 1) == [b"body"]
        assert len(first.requests) == 1, "the owner is known by now"


async def test_an_owner_that_is_gone_is_forgotten(own_hub: HubAddress, wire: Wire, topic: Topic) -> None:
    async with Wire(own_hub) as owner, HedwigClient(ClientOptions(hub=wire.address)) as client:
        wire.intercept = redirect_to(owner.address)
        assert (await client.publish(topic, b"one")).local == 1
        owner.cuts_before_answer = 1
        with pytest.raises(UncertainAnswerError):
            await client.publish(topic, b"two")
        wire.intercept = lambda _: None
        assert (await client.publish(topic, b"three")).local in (2, 3)
        assert (len(wire.requests), len(owner.requests)) == (2, 2), "the default hub was asked again"


async def test_once_the_first_hub_is_gone_another_is_asked(own_hub: HubAddress, wire: Wire, topic: Topic) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(Wire(own_hub))
        client = await stack.enter_async_context(HedwigClient(ClientOptions(hub=first.address)))
        first.intercept = redirect_to(wire.address)
        await client.publish(topic, b"one")
        await first.__aexit__(None, None, None)
        async with asyncio.timeout(PATIENCE_S):
            with suppress(UncertainAnswerError):  # The client may not have noticed the end of its connection yet.
                await client.publish(Topic(topic + b"/other"), b"perhaps")
            assert (await client.publish(Topic(topic + b"/third"), b"two")).local == 1
        assert len(first.requests) <= 2
        assert wire.requests[-1].topic == topic + b"/third"


async def test_a_circle_of_redirects_ends(wire: Wire, client: HedwigClient, topic: Topic) -> None:
    wire.intercept = redirect_to(wire.address)
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(NotResponsibleForTopicError):
            await client.unsubscribe(topic, ANN)


# ---------------------------------------------------------------------------------------------------------- subscribing


@pytest.mark.parametrize("cuts", [1, 2, 4])
async def test_a_connection_that_ends_right_after_it_served_is_made_again(
    wire: Wire, client: HedwigClient, other: HedwigClient, topic: Topic, cuts: int
) -> None:
    wire.cuts_after_subscribed = cuts
    async with asyncio.timeout(PATIENCE_S):
        subscription = await client.subscribe(topic, ANN)
        await other.publish(topic, b"body")
        assert await take(subscription, 1) == [b"body"]
    assert wire.cuts_after_subscribed == 0


class LostAttachment:
    """An attachment whose channel ended before a caller used it, or one that serves on."""

    def __init__(self, *, is_serving: bool) -> None:
        self.preferences = SubscriptionPreferences()
        self.is_serving = is_serving

    async def consume(self, seq_id: MessageSeqId) -> None:
        raise CouldNotConnectError("the channel has ended")

    def consume_at_once(self, seq_id: MessageSeqId) -> None:
        raise AssertionError("nothing is delivered here")

    def pause(self) -> None:
        raise AssertionError("nothing is delivered here")

    def resume(self) -> None:
        raise AssertionError("nothing is delivered here")

    async def detach(self) -> bool:
        return self.is_serving

    async def abandon(self) -> None:
        assert not self.is_serving


async def test_a_connection_that_ends_in_the_step_in_which_it_served_is_made_again(topic: Topic) -> None:
    # A channel can end in the same turn of the event loop in which its answer arrives.
    attempts = [LostAttachment(is_serving=False) for _ in range(3)] + [LostAttachment(is_serving=True)]
    made = asyncio.Event()

    async def attach(_: Subscription) -> LostAttachment:
        attachment = attempts.pop(0)
        if attachment.is_serving:
            made.set()
        return attachment

    options = ClientOptions(reconnect_pause_s=0.001)
    subscription = Subscription(
        topic, ANN, options, attach, lambda _: None, LatePointers(1.0), Activity(), auto_consume=True, resubscribe=True
    )
    async with asyncio.timeout(PATIENCE_S):
        await subscription.open()
        await made.wait()
        assert await subscription.close()


async def test_messages_come_once_and_in_order_over_connections_that_are_cut(
    wire: Wire, client: HedwigClient, other: HedwigClient, topic: Topic
) -> None:
    subscription = await client.subscribe(topic, ANN)
    publishing = asyncio.create_task(_ids(other, topic, bodies(0, 300)))
    taken: list[bytes] = []
    while len(taken) < 300:
        taken += await take(subscription, 10)
        if len(taken) % 50 == 0:
            wire.cut()
    assert taken == bodies(0, 300)
    await publishing


async def test_an_attempt_that_failed_leaves_nothing_behind(
    wire: Wire, client: HedwigClient, other: HedwigClient, topic: Topic
) -> None:
    wire.cuts_before_answer = 1
    with pytest.raises(UncertainAnswerError):
        await client.subscribe(topic, ANN, mode=CreateOrAttach.CREATE)
    async with asyncio.timeout(PATIENCE_S):
        theirs = await other.subscribe(topic, ANN)
        await _ids(other, topic, bodies(0, 20))
        assert await take(theirs, 20) == bodies(0, 20)
    assert wire.subscribes == 1, "what the application does not have, nobody attaches again"


async def test_an_attempt_that_was_given_up_lets_others_attach(
    own_hub: HubAddress, wire: Wire, other: HedwigClient, topic: Topic
) -> None:
    async with HedwigClient(ClientOptions(hub=wire.address, share_channels=True)) as client:
        kept = await client.subscribe(topic, BOB)
        wire.flow.clear()
        giving_up = asyncio.create_task(client.subscribe(topic, ANN).open())
        async with asyncio.timeout(PATIENCE_S):
            await wire.has(lambda: wire.subscribes == 2)
            giving_up.cancel()
            await asyncio.wait([giving_up])
            await wire.has(lambda: isinstance(wire.requests[-1].action, CloseSubscription))
            wire.flow.set()
            theirs = await _attach_when_free(other, topic, ANN)
            await other.publish(topic, b"body")
            assert await take(theirs, 1) == [b"body"]
            assert await take(kept, 1) == [b"body"]


async def _attach_when_free(client: HedwigClient, topic: Topic, subscriber: SubscriberId) -> Subscription:
    while True:
        try:
            return await client.subscribe(topic, subscriber)
        except TopicBusyError:
            await asyncio.sleep(0)  # The hub is busy with the request that frees it.


async def test_without_resubscribing_a_lost_connection_ends_it(wire: Wire, client: HedwigClient, topic: Topic) -> None:
    subscription = await client.subscribe(topic, ANN, resubscribe=False)
    assert subscription.is_attached
    wire.cut()
    with pytest.raises(SubscriptionClosedError):
        await take(subscription, 1)
    assert not subscription.is_open
    assert wire.subscribes == 1


async def test_a_consume_is_told_after_the_connection_is_back(
    wire: Wire, client: HedwigClient, other: HedwigClient, topic: Topic
) -> None:
    subscription = await client.subscribe(topic, ANN, auto_consume=False)
    await _ids(other, topic, bodies(0, 3))
    await take(subscription, 3)
    wire.intercept = refuse_to_subscribe
    wire.cut()
    async with asyncio.timeout(PATIENCE_S):
        await wire.has(lambda: wire.subscribes >= 2)
        assert not subscription.is_attached
        await subscription.consume(MessageSeqId(2))
        wire.intercept = lambda _: None
        await wire.has(lambda: isinstance(wire.requests[-1].action, Consume))
        assert await subscription.close()
        again = await other.subscribe(topic, ANN)
        assert await take(again, 1) == bodies(2, 3)


async def test_a_pointer_that_is_told_again_stays_behind_what_is_delivered_again(
    wire: Wire, client: HedwigClient, other: HedwigClient, topic: Topic
) -> None:
    # The hub may delete messages before a pointer. They would be missing when the hub delivers from there again.
    wire.loses_consumes = True
    subscription = await client.subscribe(topic, ANN, auto_consume=False)
    await _ids(other, topic, bodies(0, 12))
    await take(subscription, 11)
    await subscription.consume(MessageSeqId(10))
    async with asyncio.timeout(PATIENCE_S):
        await wire.has(lambda: _consumed(wire) == [10])
        await _lose_consumes(wire, subscription)
        wire.deliveries.set()
        await wire.has(lambda: len(_consumed(wire)) > 1 and _consumed(wire)[-1] == 10)
        assert await take(subscription, 1) == bodies(11, 12)
        assert await subscription.close()
        assert not wire.consumes_ahead
        assert await take(await other.subscribe(topic, ANN), 2) == bodies(10, 12)


async def test_what_is_not_told_again_yet_is_told_at_the_end(
    wire: Wire, client: HedwigClient, other: HedwigClient, topic: Topic
) -> None:
    wire.loses_consumes = True
    subscription = await client.subscribe(topic, ANN, auto_consume=False)
    await _ids(other, topic, bodies(0, 12))
    await take(subscription, 11)
    await subscription.consume(MessageSeqId(10))
    async with asyncio.timeout(PATIENCE_S):
        await wire.has(lambda: _consumed(wire) == [10])
        await _lose_consumes(wire, subscription)
        closing = asyncio.create_task(subscription.close())
        await wire.has(lambda: isinstance(wire.requests[-1].action, CloseSubscription))
        wire.deliveries.set()
        assert await closing
        assert await take(await other.subscribe(topic, ANN), 2) == bodies(10, 12)


@pytest.mark.parametrize("window", [1, 2, 4, 20])
async def test_messages_come_through_a_window_over_connections_that_are_cut(
    wire: Wire, client: HedwigClient, other: HedwigClient, topic: Topic, window: int
) -> None:
    preferences = SubscriptionPreferences(message_window_size=window)
    subscription = await client.subscribe(topic, ANN, preferences=preferences)
    publishing = asyncio.create_task(_ids(other, topic, bodies(0, 60)))
    taken: list[bytes] = []
    while len(taken) < 60:
        taken += await take(subscription, 3)
        if len(taken) % 12 == 0:
            wire.cut()
    assert taken == bodies(0, 60)
    await publishing
    assert not wire.consumes_ahead


def _consumed(wire: Wire) -> list[int]:
    """Return the consume pointers that were sent, in order."""
    return [request.action.seq_id.local for request in wire.requests if isinstance(request.action, Consume)]


async def _lose_consumes(wire: Wire, subscription: Subscription) -> None:
    """Have a subscription attach again to a hub that received no consume and whose deliveries are held back."""
    wire.deliveries.clear()
    wire.cut()
    wire.loses_consumes = False
    await until(lambda: wire.subscribes > 1 and subscription.is_attached, "it attaches again")


def refuse_to_subscribe(request: Request) -> Answer | None:
    is_subscribe = isinstance(request.action, Subscribe)
    return Answer(txn_id=request.txn_id, status=StatusCode.SERVICE_DOWN) if is_subscribe else None


async def test_closing_says_whether_the_hub_has_confirmed_it(wire: Wire, topic: Topic) -> None:
    async with HedwigClient(ClientOptions(hub=wire.address, answer_timeout_s=0.3)) as client:
        subscription = await client.subscribe(topic, ANN)
        assert await subscription.close()
        again = await client.subscribe(topic, ANN)
        wire.flow.clear()
        async with asyncio.timeout(PATIENCE_S):
            assert not await again.close()


async def test_closing_what_was_taken_over_leaves_the_other_one_served(
    client: HedwigClient, other: HedwigClient, topic: Topic
) -> None:
    mine = await client.subscribe(topic, ANN)
    theirs = await other.subscribe(topic, ANN, force_attach=True)
    with pytest.raises(SubscriptionClosedError):
        await take(mine, 1)
    await mine.close()
    await other.publish(topic, b"body")
    assert await take(theirs, 1) == [b"body"]


async def test_a_message_at_which_the_application_failed_comes_again(client: HedwigClient, topic: Topic) -> None:
    await (await client.subscribe(topic, ANN)).close()
    await _ids(client, topic, bodies(0, 3))

    async def fail_at(number: int) -> None:
        async with client.subscribe(topic, ANN) as subscription:
            await take(subscription, number)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_at(2)
    assert await take(await client.subscribe(topic, ANN), 2) == bodies(1, 3)


async def test_a_client_has_a_subscription_open_once(client: HedwigClient, topic: Topic) -> None:
    first = await client.subscribe(topic, ANN)
    with pytest.raises(TopicBusyError):
        await client.subscribe(topic, ANN)
    second = await client.subscribe(topic, ANN, force_attach=True)
    with pytest.raises(SubscriptionClosedError):
        await take(first, 1)
    await client.publish(topic, b"body")
    assert await take(second, 1) == [b"body"]


async def test_closing_by_name(client: HedwigClient, topic: Topic) -> None:
    subscription = await client.subscribe(topic, ANN)
    await client.close_subscription(topic, ANN)
    assert await anext(subscription, None) is None
    with pytest.raises(SubscriptionClosedError):
        await subscription.consume(MessageSeqId(1))
    with pytest.raises(ClientNotSubscribedError):
        await client.close_subscription(topic, ANN)
    await client.unsubscribe(topic, ANN)


async def test_a_closed_client_says_so(own_hub: HubAddress, topic: Topic) -> None:
    async with HedwigClient(ClientOptions(hub=own_hub)) as client:
        await client.publish(topic, b"body")
    for request in (client.publish(topic, b"body"), client.subscribe(topic, ANN), client.unsubscribe(topic, ANN)):
        with pytest.raises(ClientClosedError):
            await request


@pytest.mark.parametrize("hub", ["127.0.0.1:1", "a..b:4080", "no-such-host.invalid:4080"])
async def test_a_hub_that_cannot_be_reached(hub: str, topic: Topic) -> None:
    async with HedwigClient(ClientOptions(hub=HubAddress.parse(hub), answer_timeout_s=0.3)) as client:
        for request in (client.publish(topic, b"body"), client.unsubscribe(topic, ANN)):
            with pytest.raises(CouldNotConnectError, match=hub.partition(":")[0]):
                await request
