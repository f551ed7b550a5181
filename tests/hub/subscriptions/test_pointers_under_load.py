"""Prove that a consume pointer is stored in time, however many others are due all the time."""

import asyncio
from typing import Final

from hedwig.clock import SystemClock
from hedwig.hub.options.configuration import Configuration
from hedwig.hub.options.options import HubOptions
from hedwig.hub.process import start_hub
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.wire import Subscribe
from tests.hub.conftest import Connect
from tests.hub.support.wire_client import eventually

T: Final = Topic(b"t")
FLUSH_S: Final = 3600.0
WRITES: Final = 40


class _Clock(SystemClock):
    """The system's clock, which a test can put forward."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


async def test_pointer_that_moved_a_little_is_stored_while_others_are_due_all_the_time(
    hub_options: HubOptions, connect: Connect
) -> None:
    """Two subscribers take turns, so one always has a pointer that is due at once."""
    clock = _Clock()
    options = HubOptions(
        data_directory=hub_options.data_directory, port=0, admin_port=-1, consume_interval=2, consume_flush_s=FLUSH_S
    )
    async with await start_hub(Configuration(options), clock) as hub:
        client = await connect(hub)
        for name in (b"one", b"other", b"quiet"):
            await client.subscribed(T, name, preferences=SubscriptionPreferences(message_window_size=1))
        await client.publish_many(T, *[b"m"] * 2000)
        topic = hub.topics.get(T)
        assert topic is not None
        subscriptions = [topic.subscription(SubscriberId(name)) for name in (b"one", b"other", b"quiet")]
        one, other, quiet = (subscription for subscription in subscriptions if subscription is not None)
        pointers = hub.subscribing.pointers
        put_forward_at = 0
        while quiet.stored == 0 and not (put_forward_at and pointers.stored > put_forward_at + WRITES):
            for busy in (one, other):
                if not busy.is_dirty:
                    hub.subscribing.consume_attached(busy, MessageSeqId(busy.consumed + 2))
                    # The two pointers must not share a batch: the second becomes due while the first is being stored.
                    for _ in range(3):
                        await asyncio.sleep(0)
            if pointers.stored > WRITES and not put_forward_at:
                hub.subscribing.consume_attached(quiet, MessageSeqId(1))
                clock.ahead_s, put_forward_at = FLUSH_S, pointers.stored
            await asyncio.sleep(0)
        assert quiet.stored == 1, f"not stored during {WRITES} other writes, though it was time"


async def test_pointer_that_moved_far_is_stored_also_if_it_moved_during_a_subscribe(
    hub_options: HubOptions, connect: Connect
) -> None:
    """A SUBSCRIBE that changes preferences locks the record. Only the interval makes pointers due."""
    options = HubOptions(
        data_directory=hub_options.data_directory, port=0, admin_port=-1, consume_interval=5, consume_flush_s=FLUSH_S
    )
    async with await start_hub(Configuration(options)) as hub:
        client = await connect(hub)
        await client.subscribed(T, b"s")
        await client.publish_many(T, *[b"m"] * 60)
        for number in range(1, 6):
            preferences = SubscriptionPreferences(message_window_size=100 + number)
            client.send(T, Subscribe(subscriber=SubscriberId(b"s"), preferences=preferences))
            client.consume(T, b"s", 10 * number)

            async def is_stored(local: int = 10 * number) -> bool:
                record = await hub.metadata.subscriptions.read(T, SubscriberId(b"s"))
                state = record.value.state if record is not None else None
                return state is not None and state.consumed.local == local

            await eventually(is_stored, "the pointer is stored")
