"""Prove that the unmodified Java client works with our hub as with the original, by trying each expectation on both."""

import time
import uuid
from typing import Final

import pytest

from tests.java_client.conftest import Connect
from tests.java_client.support.client import PATIENCE_S, JavaClient, Mode
from tests.java_client.support.driver import JavaError
from tests.java_client.support.hubs import Hub

ANN, BOB = b"ann", b"bob"
# The largest frame that a hub accepts, less the 4 bytes of its length.
FRAME_BYTES_MAX = 1_258_287


@pytest.fixture
def client(connect: Connect) -> JavaClient:
    return connect()


# ---------------------------------------------------------------------------------------------------------- publishing


def test_published_messages_get_the_ids_1_2_3(client: JavaClient, topic: bytes) -> None:
    assert [client.publish(topic, b"body") for _ in range(3)] == [1, 2, 3]


def test_publishes_in_flight_are_answered_in_order(client: JavaClient, topic: bytes) -> None:
    # Before the client knows the owner, each publish has a connection of its own, and may overtake others.
    client.publish(topic, b"first")
    assert client.publish_many(topic, 500, in_flight=100) == list(range(2, 502))


def test_a_message_arrives_with_its_properties(client: JavaClient, topic: bytes) -> None:
    subscription = client.listen(topic, ANN)
    client.publish(topic, bytes(range(256)), properties={"lang": b"de", "raw": b"\xff\x00"}, message_type="greeting")
    [message] = subscription.take(1)
    assert (message.local, message.body) == (1, bytes(range(256)))
    assert message.properties == {"lang": b"de", "raw": b"\xff\x00"}
    assert (message.message_type, message.source_region) == ("greeting", b"standalone")


def test_an_empty_body_arrives(client: JavaClient, topic: bytes) -> None:
    subscription = client.listen(topic, ANN)
    client.publish(topic, b"")
    assert subscription.take(1)[0].body == b""


def test_a_message_near_the_limit_arrives_whole(client: JavaClient, topic: bytes, ours: bool) -> None:
    subscription = client.listen(topic, ANN)
    # The original's bookies refuse messages that its hub accepts: their own frames end at 1 MiB.
    big = b"big" * ((FRAME_BYTES_MAX - 200 if ours else 1_000_000) // 3)
    assert client.publish(topic, big) == 1
    assert subscription.take(1)[0].body == big


def test_a_message_beyond_the_limit_fails_and_the_next_succeeds(client: JavaClient, topic: bytes) -> None:
    client.publish(topic, b"first")
    with pytest.raises(JavaError, match=r"ServiceDownException|CouldNotConnectException"):
        client.publish(topic, bytes(FRAME_BYTES_MAX))
    assert client.publish(topic, b"second") == 2


def test_names_may_be_any_text(client: JavaClient, topic: bytes) -> None:
    odd = topic + "-ü ☃:%2F#?".encode()
    subscription = client.listen(odd, "zoë:%".encode())
    client.publish(odd, b"body")
    assert subscription.ids(1) == [1]


# --------------------------------------------------------------------------------------------------------- subscribing


def test_attach_needs_a_subscription(client: JavaClient, topic: bytes) -> None:
    with pytest.raises(JavaError) as failure:
        client.subscribe(topic, ANN, mode=Mode.ATTACH)
    assert failure.value.name == "ServiceDownException"
    assert failure.value.causes == ("ClientNotSubscribedException",)


def test_create_needs_that_there_is_none(client: JavaClient, topic: bytes) -> None:
    client.subscribe(topic, ANN, mode=Mode.CREATE).close()
    client.subscribe(topic, ANN, mode=Mode.ATTACH).close()
    with pytest.raises(JavaError) as failure:
        client.subscribe(topic, ANN, mode=Mode.CREATE)
    assert failure.value.name == "ClientAlreadySubscribedException"


def test_a_client_goes_on_after_a_refused_subscribe(
    client: JavaClient, connect: Connect, topic: bytes, ours: bool, shared: bool
) -> None:
    with pytest.raises(JavaError):
        client.subscribe(topic, ANN, mode=Mode.ATTACH)
    # The original closes the channel. On a shared one, the client's next requests may get lost, or run without an
    # answer. So there the test uses another client.
    going_on = client if ours or not shared else connect()
    subscription = going_on.listen(topic, ANN)
    going_on.publish(topic, b"first")
    assert subscription.ids(1) == [1]


def test_create_or_attach_does_either(client: JavaClient, topic: bytes) -> None:
    client.subscribe(topic, ANN, mode=Mode.CREATE_OR_ATTACH).close()
    client.subscribe(topic, ANN, mode=Mode.CREATE_OR_ATTACH).close()


def test_a_subscription_that_another_client_has_open_is_busy(connect: Connect, topic: bytes) -> None:
    first, second = connect(), connect()
    mine = first.listen(topic, ANN)
    with pytest.raises(JavaError) as failure:
        second.subscribe(topic, ANN)
    assert failure.value.name == "ServiceDownException"
    assert failure.value.causes == ("TopicBusyException",)
    second.publish(topic, b"for the first")
    assert mine.ids(1) == [1]


def test_an_unknown_filter_is_refused(client: JavaClient, topic: bytes) -> None:
    with pytest.raises(JavaError, match="INVALID_MESSAGE_FILTER") as failure:
        client.subscribe(topic, ANN, filter="no.such.Filter")
    assert failure.value.name == "ServiceDownException"
    assert client.publish(topic, b"still usable") == 1


def test_a_client_side_filter_sees_the_preferences_of_all_subscribes(client: JavaClient, topic: bytes) -> None:
    client.subscribe(topic, ANN, options={"lang": b"de", "other": b"1"}).close()
    subscription = client.subscribe(topic, ANN, options={"other": b"2"})
    subscription.start(matching="lang")
    for lang in (b"fr", b"de", b"en", b"de"):
        client.publish(topic, lang, properties={"lang": lang})
    assert [(message.local, message.body) for message in subscription.take(2)] == [(2, b"de"), (4, b"de")]


# ------------------------------------------------------------------------------------------------------------ delivery


def test_messages_arrive_in_order_without_gap(client: JavaClient, topic: bytes) -> None:
    subscription = client.listen(topic, ANN)
    client.publish(topic, b"first")
    client.publish_many(topic, 299, prefix="m", in_flight=50)
    messages = subscription.take(300)
    assert [message.local for message in messages] == list(range(1, 301))
    assert [message.body for message in messages[1:]] == [b"m%d" % number for number in range(299)]


def test_a_new_subscription_gets_only_later_messages(client: JavaClient, topic: bytes) -> None:
    client.publish_many(topic, 5)
    subscription = client.listen(topic, ANN)
    client.publish(topic, b"sixth")
    assert subscription.ids(1) == [6]


def test_what_was_published_before_delivery_started_is_queued(client: JavaClient, topic: bytes) -> None:
    subscription = client.subscribe(topic, ANN)
    client.publish_many(topic, 20)
    subscription.start()
    assert subscription.ids(20) == list(range(1, 21))


def test_every_subscriber_gets_every_message(connect: Connect, topic: bytes) -> None:
    first, second = connect(), connect()
    subscriptions = [
        each.listen(topic, name) for each in (first, second) for name in (b"a%d" % id(each), b"b%d" % id(each))
    ]
    first.publish(topic, b"first")
    first.publish_many(topic, 59)
    for subscription in subscriptions:
        assert subscription.ids(60) == list(range(1, 61))


def test_a_client_keeps_many_subscriptions_apart(client: JavaClient, topic: bytes) -> None:
    topics = [topic + b"-%d" % number for number in range(12)]
    subscriptions = [client.listen(each, name) for each in topics for name in (ANN, BOB)]
    for each in topics:
        client.publish(each, each)
    for number, subscription in enumerate(subscriptions):
        assert subscription.take(1)[0].body == topics[number // 2]
    assert not any(subscription.waiting for subscription in subscriptions)


def test_closing_and_refusing_one_subscription_leaves_the_others(client: JavaClient, topic: bytes) -> None:
    kept = client.listen(topic, ANN)
    client.listen(topic, BOB).close()
    client.listen(topic, BOB).unsubscribe()
    client.listen(topic, BOB).close()
    with pytest.raises(JavaError):
        client.subscribe(topic, BOB, mode=Mode.CREATE)
    with pytest.raises(JavaError):
        client.subscribe(topic, b"cleo", mode=Mode.ATTACH)
    client.publish(topic, b"first")
    assert kept.ids(1) == [1]


def test_delivery_stops_and_goes_on(client: JavaClient, topic: bytes) -> None:
    subscription = client.listen(topic, ANN)
    client.publish(topic, b"first")
    assert subscription.ids(1) == [1]
    subscription.stop()
    client.publish(topic, b"second")
    subscription.start()
    assert subscription.ids(1) == [2]


def test_a_client_that_handles_nothing_gets_everything_later(connect: Connect, topic: bytes) -> None:
    """In simple mode it stops reading at 10 messages. The hub must wait, and serve others meanwhile."""
    slow = connect(max_outstanding_messages=10).subscribe(topic, ANN)
    slow.start(hold=True)
    client = connect()
    quick = client.listen(topic, BOB)
    client.publish(topic, b"first")
    client.publish_many(topic, 199, prefix="x" * 20_000)
    assert quick.ids(200) == list(range(1, 201))
    received: list[int] = []
    while len(received) < 200:
        received += slow.ids(1)
        slow.acknowledge()
    assert received == list(range(1, 201))


# -------------------------------------------------------------------------------------------------- consume, redelivery


def test_delivery_goes_on_after_the_last_automatic_consume(client: JavaClient, topic: bytes) -> None:
    """The client sends a consume after every 5 messages only, so 2 of 12 are delivered again."""
    subscription = client.listen(topic, ANN)
    client.publish_many(topic, 12)
    assert subscription.ids(12) == list(range(1, 13))
    subscription.close()
    again = client.listen(topic, ANN, mode=Mode.ATTACH)
    assert again.ids(2) == [11, 12]


def test_the_application_decides_when_it_consumes_itself(connect: Connect, topic: bytes, ours: bool) -> None:
    client = connect(auto_send_consume_message_enabled=False)
    subscription = client.listen(topic, ANN)
    client.publish_many(topic, 10)
    assert subscription.ids(10) == list(range(1, 11))
    subscription.close()
    again = client.listen(topic, ANN)
    assert again.ids(10) == list(range(1, 11)), "nothing was consumed"
    again.consume(3)
    # A close overtakes unwritten requests. They are written once the client receives a later message.
    client.publish(topic, b"eleventh")
    assert again.ids(1) == [11]
    again.close()
    later = client.listen(topic, ANN)
    ids = later.ids(1)
    deadline = time.monotonic() + PATIENCE_S
    while not ours and ids != [4] and time.monotonic() < deadline:
        # The original may handle requests on another channel before the consume on the first one.
        later.close()
        later = client.listen(topic, ANN)
        ids = later.ids(1)
    assert ids + later.ids(7) == list(range(4, 12))


def test_another_client_goes_on_where_the_first_ended(connect: Connect, topic: bytes) -> None:
    first = connect(consumed_messages_buffer_size=1)
    subscription = first.listen(topic, ANN)
    first.publish_many(topic, 4)
    assert subscription.ids(4) == [1, 2, 3, 4]
    subscription.close()
    first.publish(topic, b"fifth")
    assert connect().listen(topic, ANN, mode=Mode.ATTACH).ids(1) == [5]


def test_unsubscribing_forgets_the_subscription(connect: Connect, topic: bytes) -> None:
    client = connect()
    subscription = client.listen(topic, ANN)
    subscription.unsubscribe()
    with pytest.raises(JavaError) as failure:
        connect().subscribe(topic, ANN, mode=Mode.ATTACH)
    assert failure.value.causes == ("ClientNotSubscribedException",)
    client.publish(topic, b"nobody hears")
    again = client.listen(topic, ANN, mode=Mode.CREATE)
    client.publish(topic, b"heard")
    assert again.ids(1) == [2]


def test_unsubscribing_what_is_not_subscribed_fails(client: JavaClient, topic: bytes) -> None:
    with pytest.raises(JavaError) as failure:
        client.unsubscribe(topic, ANN)
    assert failure.value.name == "ClientNotSubscribedException"


# ----------------------------------------------------------------------------------------------------- bound and window


def test_a_bound_skips_old_messages(client: JavaClient, topic: bytes) -> None:
    client.subscribe(topic, ANN, bound=5).close()
    client.publish_many(topic, 20)
    assert client.listen(topic, ANN).ids(5) == [16, 17, 18, 19, 20]


def test_the_default_bound_of_the_client_is_used(connect: Connect, topic: bytes) -> None:
    client = connect(subscription_message_bound=3)
    client.subscribe(topic, ANN).close()
    client.publish_many(topic, 9)
    assert client.listen(topic, ANN).ids(3) == [7, 8, 9]


def test_a_bound_beside_a_subscription_without_one(client: JavaClient, topic: bytes, ours: bool) -> None:
    client.subscribe(topic, ANN, bound=5).close()
    client.subscribe(topic, BOB).close()
    client.publish_many(topic, 20)
    # The original uses the weakest bound for all subscriptions of a topic; our hub uses the bound of each.
    start = 16 if ours else 1
    assert client.listen(topic, ANN).ids(21 - start) == list(range(start, 21))
    assert client.listen(topic, BOB).ids(20) == list(range(1, 21))


def test_a_window_holds_back_what_is_too_far_ahead(connect: Connect, topic: bytes) -> None:
    client = connect(auto_send_consume_message_enabled=False)
    narrow = client.listen(topic, ANN, window=4)
    wide = client.listen(topic, BOB)
    client.publish_many(topic, 10)
    assert wide.ids(10) == list(range(1, 11))
    assert narrow.ids(4) == [1, 2, 3, 4]
    narrow.consume(2)
    assert narrow.ids(2) == [5, 6]
    # Publishing and delivering to the other subscriber takes long enough for a seventh message to arrive.
    client.publish_many(topic, 10)
    assert wide.ids(10) == list(range(11, 21))
    assert narrow.waiting == 0
    narrow.consume(20)
    assert narrow.ids(4) == [7, 8, 9, 10]


def test_a_window_lets_a_client_that_consumes_go_on(client: JavaClient, topic: bytes) -> None:
    subscription = client.listen(topic, ANN, window=6)
    client.publish(topic, b"first")
    client.publish_many(topic, 99)
    assert subscription.ids(100) == list(range(1, 101))


# -------------------------------------------------------------------------------------------------------- forced attach


def test_a_forced_attach_throws_the_other_client_off(connect: Connect, topic: bytes) -> None:
    first, second = connect(), connect()
    loser = first.listen(topic, ANN, resubscribe=False)
    first.publish(topic, b"for the first")
    assert loser.ids(1) == [1]
    winner = second.listen(topic, ANN, force=True)
    assert loser.event() == "SUBSCRIPTION_FORCED_CLOSED"
    assert winner.ids(1) == [1], "one message is never consumed by itself"
    second.publish(topic, b"for the second")
    assert winner.ids(1) == [2]
    assert (loser.waiting, loser.events_waiting) == (0, 0)


def test_a_client_that_was_thrown_off_comes_back_when_the_other_closes(connect: Connect, topic: bytes) -> None:
    first, second = connect(consumed_messages_buffer_size=1), connect(consumed_messages_buffer_size=1)
    loser = first.listen(topic, ANN)
    winner = second.listen(topic, ANN, force=True)
    second.publish(topic, b"for the second")
    assert winner.ids(1) == [1]
    winner.close()
    second.publish(topic, b"for the first again")
    assert loser.ids(1)[0] == 2


# ------------------------------------------------------------------------------------------------------------ restarts


def _on_both_hubs(quick: bool) -> pytest.MarkDecorator:
    """Run with our hub on both kinds of channels, and with the original, which starts slowly, on one kind unless asked.

    `quick` is the kind for the original: whether subscriptions share a channel.
    """
    long = pytest.mark.full
    rows = [
        pytest.param(hub, shared, id=f"{hub}-{kind}", marks=[long] if hub == "original" and shared != quick else [])
        for hub in ("ours", "original")
        for shared, kind in ((False, "simple"), (True, "multiplexed"))
    ]
    return pytest.mark.parametrize(("hub", "shared"), rows, indirect=True, scope="module")


_SHARED_CHANNEL_TRIES: Final = 4
"""How many clients may lose their shared channel in a row, each by a defect of its own (java-compatibility.md).

One in eight does. It asks twice for a subscription, and closes its channel for good at the second success. Or it closes
each channel that it opens, and asks nothing.
"""


@_on_both_hubs(quick=False)
def test_a_client_recovers_its_subscription_when_the_hub_restarts(
    connect: Connect, hub: Hub, ours: bool, shared: bool
) -> None:
    for tries_left in reversed(range(_SHARED_CHANNEL_TRIES if ours and shared else 1)):
        try:
            _recovers(connect(), hub, b"java-client-" + uuid.uuid4().hex.encode(), is_served_again=ours)
            return
        except TimeoutError:
            if not tries_left:
                raise


def _recovers(client: JavaClient, hub: Hub, topic: bytes, *, is_served_again: bool) -> None:
    """Kill and start `hub`. The client must publish again, and with `is_served_again` receive what was not consumed.

    Raises: TimeoutError - a message does not come.
    """
    subscriptions = [client.listen(topic, name) for name in (ANN, BOB)]
    cleo = client.listen(topic, b"cleo", resubscribe=False)
    client.publish_many(topic, 7)
    for subscription in (*subscriptions, cleo):
        assert subscription.ids(7) == list(range(1, 8))
    hub.kill()
    assert cleo.event() == "TOPIC_MOVED", "the client's word for a lost channel"
    try:
        # Each channel notices the end by itself. Before that, it sends once more, and gets no answer.
        with pytest.raises(JavaError, match=r"CouldNotConnectException|ServiceDownException|UncertainStateException"):
            client.publish(topic, b"nobody there")
    finally:
        hub.start()
    assert client.publish(topic, b"eighth") == 8
    if not is_served_again:
        # The original does not always serve subscriptions again, least of all on a shared channel. It may never answer
        # a request that arrives while it takes the topic over, and the client waits for ever. Our hub must serve them.
        return
    for subscription in subscriptions:
        # The hub's interval of storing consumes decides how many messages come again. A client that asks twice may get
        # some of them once more. After that there is no gap.
        first = last = subscription.ids(1)[0]
        assert 1 <= first <= 8
        while last < 8:
            following = subscription.ids(1)[0]
            assert first <= following <= last + 1
            last = following
        assert subscription.events_waiting == 0


@_on_both_hubs(quick=True)
def test_an_orderly_end_of_our_hub_forgets_no_consume(connect: Connect, hub: Hub, topic: bytes, ours: bool) -> None:
    client = connect(consumed_messages_buffer_size=1)
    subscription = client.listen(topic, ANN)
    client.publish_many(topic, 7)
    assert subscription.ids(7) == list(range(1, 8))
    # Once this is answered, the hub has all consumes: they came first on the channel, or the channel has ended.
    subscription.close()
    subscription = client.listen(topic, ANN)
    hub.stop()
    hub.start()
    assert client.publish(topic, b"eighth") == 8
    # The original has no orderly end: SIGTERM loses the consumes that it has not stored, up to 50.
    assert subscription.ids(1) == [8 if ours else 1]
