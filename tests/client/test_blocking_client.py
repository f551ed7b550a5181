"""Prove the blocking client against a hub of ours: its calls, its waits, its threads, and Ctrl-C."""

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from hedwig.client import BlockingClient, BlockingSubscription, ClientOptions, CreateOrAttach, HubAddress, Message
from hedwig.errors import (
    ClientAlreadySubscribedError,
    ClientClosedError,
    ClientNotSubscribedError,
    NameLimitError,
    SubscriptionClosedError,
    UncertainAnswerError,
)
from hedwig.model import SubscriberId, SubscriptionPreferences, Topic
from tests.hub.support.running import RunningHub
from tests.support.checkout import CHECKOUT

ANN, BOB = SubscriberId(b"ann"), SubscriberId(b"bob")
PATIENCE_S: Final = 30.0


@pytest.fixture
def client(own_hub: HubAddress) -> Iterator[BlockingClient]:
    with BlockingClient(ClientOptions(hub=own_hub)) as made:
        yield made


@pytest.fixture
def other(own_hub: HubAddress) -> Iterator[BlockingClient]:
    with BlockingClient(ClientOptions(hub=own_hub)) as made:
        yield made


def bodies(start: int, stop: int) -> list[bytes]:
    return [b"message %d" % number for number in range(start, stop)]


def take(subscription: BlockingSubscription, number: int) -> list[bytes]:
    taken: list[bytes] = []
    for _ in range(number):
        message = subscription.receive(PATIENCE_S)
        assert message is not None, f"{len(taken)} of {number} messages came"
        taken.append(message.body)
    return taken


def wait_until(condition: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.005)


# ----------------------------------------------------------------------------------------------------------- operations


def test_published_messages_arrive_in_order_under_their_ids(client: BlockingClient, topic: Topic) -> None:
    with client.subscribe(topic, ANN) as subscription:
        assert client.publish(topic, Message(b"first", properties={"lang": b"de"})).local == 1
        ids = [seq_id.local for seq_id in client.publish_many(topic, bodies(0, 50))]
        assert ids == list(range(2, 52))
        first = next(subscription)
        assert (first.body, first.properties) == (b"first", {"lang": b"de"})
        assert take(subscription, 50) == bodies(0, 50)


def test_iterating_ends_when_nothing_came_for_a_while(client: BlockingClient, topic: Topic) -> None:
    with client.subscribe(topic, ANN) as subscription:
        list(client.publish_many(topic, bodies(0, 5)))
        assert [message.body for message in subscription.messages(idle_s=1.0)] == bodies(0, 5)


def test_delivery_goes_on_where_consuming_ended(client: BlockingClient, topic: Topic) -> None:
    with client.subscribe(topic, ANN) as subscription:
        list(client.publish_many(topic, bodies(0, 9)))
        assert take(subscription, 4) == bodies(0, 4)
    with client.subscribe(topic, ANN, mode=CreateOrAttach.ATTACH) as subscription:
        assert take(subscription, 5) == bodies(4, 9)


def test_without_automatic_consuming_the_application_decides(client: BlockingClient, topic: Topic) -> None:
    with client.subscribe(topic, ANN, auto_consume=False) as subscription:
        ids = list(client.publish_many(topic, bodies(0, 9)))
        take(subscription, 9)
        subscription.consume(ids[2])
    with client.subscribe(topic, ANN) as subscription:
        assert take(subscription, 6) == bodies(3, 9)


def test_modes_preferences_and_unsubscribing(client: BlockingClient, topic: Topic) -> None:
    with pytest.raises(ClientNotSubscribedError):
        client.subscribe(topic, ANN, mode=CreateOrAttach.ATTACH)
    wanted = SubscriptionPreferences(options={"a": b"1"}, message_window_size=7)
    assert client.subscribe(topic, ANN, mode=CreateOrAttach.CREATE, preferences=wanted).preferences == wanted
    client.close_subscription(topic, ANN)
    with pytest.raises(ClientNotSubscribedError):
        client.close_subscription(topic, ANN)
    with pytest.raises(ClientAlreadySubscribedError):
        client.subscribe(topic, ANN, mode=CreateOrAttach.CREATE)
    client.unsubscribe(topic, ANN)
    with pytest.raises(ClientNotSubscribedError):
        client.unsubscribe(topic, ANN)


def test_what_cannot_be_sent_is_refused(client: BlockingClient, topic: Topic) -> None:
    with pytest.raises(NameLimitError):
        client.publish(Topic(b""), b"body")
    assert client.publish(topic, b"still usable").local == 1


def test_messages_are_read_no_further_than_they_are_published(own_hub: HubAddress, topic: Topic) -> None:
    read = 0

    def source() -> Iterator[bytes]:
        nonlocal read
        for body in bodies(0, 100):
            read += 1
            yield body

    with BlockingClient(ClientOptions(hub=own_hub, publishes_in_flight_max=4)) as client:
        for number, seq_id in enumerate(client.publish_many(topic, source()), 1):
            assert seq_id.local == number
            assert read <= number + 4
    assert read == 100


# ---------------------------------------------------------------------------------------------------------------- waits


def test_a_wait_that_timed_out_loses_nothing(client: BlockingClient, topic: Topic) -> None:
    with client.subscribe(topic, ANN) as subscription:
        assert subscription.receive(0.02) is None
        list(client.publish_many(topic, bodies(0, 3)))
        assert take(subscription, 3) == bodies(0, 3)


def test_a_message_that_came_after_the_wait_was_given_up_is_not_finished(
    client: BlockingClient, other: BlockingClient, topic: Topic
) -> None:
    with client.subscribe(topic, ANN) as subscription, other.subscribe(topic, BOB) as witness:
        list(client.publish_many(topic, bodies(0, 1)))
        assert take(subscription, 1) == bodies(0, 1)
        assert subscription.receive(0.02) is None
        client.publish(topic, b"nobody looked")
        assert take(witness, 2)[1] == b"nobody looked"
    with client.subscribe(topic, ANN) as subscription:
        assert take(subscription, 1) == [b"nobody looked"]


def test_a_message_at_which_the_application_failed_comes_again(own_hub: HubAddress, topic: Topic) -> None:
    def fail() -> None:
        with BlockingClient(ClientOptions(hub=own_hub)) as client:
            subscription = client.subscribe(topic, ANN)
            list(client.publish_many(topic, bodies(0, 3)))
            take(subscription, 2)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with BlockingClient(ClientOptions(hub=own_hub)) as client:
        assert take(client.subscribe(topic, ANN), 2) == bodies(1, 3)


def test_another_client_takes_a_subscription_over(client: BlockingClient, other: BlockingClient, topic: Topic) -> None:
    mine = client.subscribe(topic, ANN)
    other.subscribe(topic, ANN, force_attach=True)
    with pytest.raises(SubscriptionClosedError):
        next(mine)


def test_a_hub_that_hangs_is_not_waited_for(tmp_path: Path, topic: Topic) -> None:
    with RunningHub(tmp_path) as hub:
        options = ClientOptions(hub=HubAddress.parse(hub.address), answer_timeout_s=0.5, connect_timeout_s=0.5)
        with BlockingClient(options) as client:
            client.publish(topic, b"one")
            subscription = client.subscribe(topic, ANN)
            assert hub.process is not None
            hub.process.send_signal(signal.SIGSTOP)
            try:
                with pytest.raises(UncertainAnswerError):
                    client.publish(topic, b"two")
                assert not subscription.close()
            finally:
                hub.process.send_signal(signal.SIGCONT)


def test_a_subscription_survives_the_death_of_its_hub(tmp_path: Path, topic: Topic) -> None:
    with RunningHub(tmp_path) as hub:
        options = ClientOptions(hub=HubAddress.parse(hub.address), reconnect_pause_max_s=0.2)
        with BlockingClient(options) as client:
            subscription = client.subscribe(topic, ANN)
            client.publish(topic, b"before")
            hub.kill()
            starting = threading.Thread(target=hub.start)
            starting.start()
            # The request may leave before the client learns that the connection has ended.
            with contextlib.suppress(UncertainAnswerError):
                client.publish(topic, b"meanwhile")
            starting.join()
            client.publish(topic, b"after")
            received = take(subscription, 2)
            while received[-1] != b"after":
                received += take(subscription, 1)
            assert [body for body in received if body != b"meanwhile"] == [b"before", b"after"]


# -------------------------------------------------------------------------------------------------------------- threads


def test_threads_share_a_client(client: BlockingClient, topic: Topic) -> None:
    with client.subscribe(topic, ANN) as subscription, ThreadPoolExecutor(8) as threads:

        def publish(thread: int) -> list[int]:
            mine = [b"%d/%d" % (thread, number) for number in range(25)]
            return [seq_id.local for seq_id in client.publish_many(topic, mine)]

        ids = [number for part in threads.map(publish, range(8)) for number in part]
        assert sorted(ids) == list(range(1, 201))
        taken = take(subscription, 200)
    for thread in range(8):
        mine = [body for body in taken if body.startswith(b"%d/" % thread)]
        assert mine == [b"%d/%d" % (thread, number) for number in range(25)]


def test_threads_share_a_subscription(client: BlockingClient, topic: Topic) -> None:
    with client.subscribe(topic, ANN, auto_consume=False) as subscription, ThreadPoolExecutor(4) as threads:
        list(client.publish_many(topic, bodies(0, 100)))

        def read(_: int) -> list[bytes]:
            return [message.body for message in subscription.messages(idle_s=1.0)]

        parts = list(threads.map(read, range(4)))
    assert sorted(body for part in parts for body in part) == sorted(bodies(0, 100))


def test_closing_ends_the_iteration_of_another_thread(own_hub: HubAddress, topic: Topic) -> None:
    with BlockingClient(ClientOptions(hub=own_hub)) as client:
        subscription = client.subscribe(topic, ANN)
        taken: list[Message] = []
        reader = threading.Thread(target=lambda: taken.extend(subscription), daemon=True)
        reader.start()
        client.publish(topic, b"body")
        wait_until(lambda: taken, "the thread reads")
    reader.join(PATIENCE_S)
    assert not reader.is_alive()
    assert [message.body for message in taken] == [b"body"]


def test_a_closed_client_says_so(own_hub: HubAddress, topic: Topic) -> None:
    with BlockingClient(ClientOptions(hub=own_hub)) as client:
        subscription = client.subscribe(topic, ANN)
    client.close()
    for call in (
        lambda: client.publish(topic, b"body"),
        lambda: list(client.publish_many(topic, [b"body"])),
        lambda: client.subscribe(topic, ANN),
        lambda: client.unsubscribe(topic, ANN),
    ):
        with pytest.raises(ClientClosedError):
            call()
    assert list(subscription) == []
    assert subscription.receive(PATIENCE_S) is None
    assert not subscription.close()


# --------------------------------------------------------------------------------------------------- scripts and Ctrl-C


def start_script(hub: HubAddress, topic: Topic, text: str) -> "subprocess.Popen[str]":
    """Start a script, which has `client` and the topic `topic`."""
    head = (
        "import sys\n"
        "from hedwig.client import BlockingClient, ClientOptions, HubAddress\n"
        f"address = ({hub.host!r}, {hub.port})\n"
        "client = BlockingClient(ClientOptions(hub=HubAddress(*address)))\n"
        f"topic = {bytes(topic)!r}\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", head + text],
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test run in the background ignores SIGINT, and its children would too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


INTERRUPTED = """
subscription = client.subscribe(topic, b"ann")
try:
    print("waiting", flush=True)
    for message in subscription:
        print("too early", message)
except KeyboardInterrupt:
    client.publish(topic, b"after Ctrl-C")
    print(subscription.receive(30).body.decode())
    client.close()
"""


def test_ctrl_c_ends_a_wait_and_leaves_the_client_usable(own_hub: HubAddress, topic: Topic) -> None:
    with start_script(own_hub, topic, INTERRUPTED) as script:
        assert script.stdout is not None
        assert script.stdout.readline() == "waiting\n"
        script.send_signal(signal.SIGINT)
        out, err = script.communicate(timeout=PATIENCE_S)
    assert (script.returncode, out, err) == (0, "after Ctrl-C\n", "")


INTERRUPTED_AGAIN_AND_AGAIN = """
import random, signal, threading
sys.unraisablehook = lambda _: None  # An interrupt may come where Python can only report it.
subscription = client.subscribe(topic, b"ann")
source, interrupts = random.Random(1), 0

def interrupt(number, frame):
    # At any step of the client; a message that it has returned would be the script's to lose.
    global interrupts
    signal.setitimer(signal.ITIMER_REAL, source.uniform(1e-5, 2e-3))
    while frame.f_back is not None and frame.f_code.co_name != "receive":
        frame = frame.f_back
    if frame.f_code.co_name == "receive":
        interrupts += 1
        raise KeyboardInterrupt

received, published = [], []
publisher = BlockingClient(ClientOptions(hub=HubAddress(*address)))
def publish():
    for number in range(1000):
        publisher.publish(topic, b"%d" % number)
thread = threading.Thread(target=publish)
signal.signal(signal.SIGALRM, interrupt)
thread.start()
signal.setitimer(signal.ITIMER_REAL, 1e-3)
while len(received) < 1000:
    try:
        message = subscription.receive(1)
        if message is not None:
            received.append(int(message.body))
    except KeyboardInterrupt:
        pass
signal.setitimer(signal.ITIMER_REAL, 0)
thread.join()
print(received == list(range(1000)), interrupts > 20, flush=True)
client.publish(topic, b"after it all")
print(subscription.receive(30).body.decode())
client.close()
publisher.close()
"""


def test_ctrl_c_at_any_step_loses_no_message_and_leaves_the_client_usable(own_hub: HubAddress, topic: Topic) -> None:
    with start_script(own_hub, topic, INTERRUPTED_AGAIN_AND_AGAIN) as script:
        try:
            out, err = script.communicate(timeout=3 * PATIENCE_S)
        finally:
            script.kill()
    assert (script.returncode, out, err) == (0, "True True\nafter it all\n", "")


WITHOUT_CLOSING = """
subscription = client.subscribe(topic, b"ann")
print(client.publish(topic, b"body").local)
"""


def test_a_script_that_closes_nothing_ends_all_the_same(own_hub: HubAddress, topic: Topic) -> None:
    with start_script(own_hub, topic, WITHOUT_CLOSING) as script:
        out, err = script.communicate(timeout=PATIENCE_S)
    assert (script.returncode, out, err) == (0, "1\n", "")
