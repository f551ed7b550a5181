"""The requests to the original before its metadata is dumped, and the records that must result.

The expected records are made from the requests and from the ids that the hub answered. Ledger ids come from the
original's own console. Our code that reads metadata is never used.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from kazoo.client import KazooClient

from hedwig.model import (
    HubInfo,
    LedgerRange,
    LedgerRanges,
    MessageSeqId,
    RegionSeqId,
    SubscriberId,
    SubscriptionData,
    SubscriptionPreferences,
    SubscriptionState,
    Topic,
)
from hedwig.wire import pubsub_pb2 as pb
from tests.java_hedwig.support.fixture import Stage, TopicRecords
from tests.java_hedwig.support.hub_client import preferences
from tests.java_hedwig.support.stack import HUB_PROPERTIES, REGION_PATH, JavaStack, eventually
from tests.java_hedwig.support.znodes import read_tree

__all__ = ["EXISTING_FILTER", "play"]

EXISTING_FILTER: Final = "org.apache.hedwig.server.subscriptions.AllToAllTopologyFilter"
"""A message filter that the original's jar has; it passes everything to an ordinary subscriber."""

_PER_LEDGER: Final = int(HUB_PROPERTIES["max_entries_per_ledger"])
_LEDGER_LINE: Final = re.compile(r"Ledger (\d+) \[")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subscription:
    """Subscribe after `after` messages, consume up to `consumed`, and finally unsubscribe if `ended`."""

    name: str
    after: int = 0
    consumed: int | None = None
    ended: bool = False
    wanted: SubscriptionPreferences = field(default_factory=SubscriptionPreferences)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The plan of a topic: `before` messages before the hub is killed, `after` messages after that.

    The numbers are never a multiple of the entries of a ledger: after such a multiple the hub rolls the ledger at some
    later time. If `remote` is given, every message and every consume carries that id of another region.
    """

    topic: str
    before: int
    after: int = 0
    remote: tuple[RegionSeqId, ...] = ()
    subscriptions: Sequence[_Subscription] = ()


_PICKY: Final = SubscriptionPreferences(
    options={"colour": b"blue", "empty": b"", "größe": b"\x00\xff"},
    message_bound=100,
    message_filter=EXISTING_FILTER,
    message_window_size=20,
)

_PLANS: Final = (
    _Plan(
        topic="orders",
        before=10,
        after=2,
        subscriptions=(
            _Subscription(name="from-the-start"),
            _Subscription(name="picky", after=1, consumed=3, wanted=_PICKY),
            _Subscription(name="late", after=6, consumed=8),
            _Subscription(name="ahead", after=7, consumed=1 << 40),
            _Subscription(name="bounded", wanted=SubscriptionPreferences(message_bound=0, message_window_size=0)),
            _Subscription(name="gone", ended=True),
            _Subscription(name="__elsewhere", consumed=1),
            _Subscription(name="læser 1"),
        ),
    ),
    _Plan(topic="shop", before=1, subscriptions=(_Subscription(name="books"),)),
    _Plan(topic="shop/books", before=2, subscriptions=(_Subscription(name="shop"),)),
    _Plan(topic="nest/inner/deep", before=1, after=1, subscriptions=(_Subscription(name="hub"),)),
    _Plan(topic="süß/été", before=1, subscriptions=(_Subscription(name="話す人", consumed=1),)),
    _Plan(topic="話題", before=6, subscriptions=(_Subscription(name="s"),)),
    _Plan(topic="silent", before=0, subscriptions=(_Subscription(name="listener", wanted=_PICKY),)),
    _Plan(topic="unheard", before=5),
    _Plan(topic="left", before=0, subscriptions=(_Subscription(name="once", ended=True),)),
    _Plan(topic="100%=a b+c~.\"'", before=1, subscriptions=(_Subscription(name="..x%=y", consumed=1),)),
    _Plan(
        topic="replicated",
        before=5,
        after=1,
        remote=(RegionSeqId(b"east", 7), RegionSeqId(b"west", 1 << 33)),
        subscriptions=(_Subscription(name="s", consumed=2),),
    ),
)


def play(stack: JavaStack) -> list[Stage]:
    """Play both ways in which the original keeps owner records, with a crash and a takeover in each."""
    stack.start_stores()
    return [_ephemeral_owners(stack), _persistent_owners(stack)]


# --------------------------------------------------------------------------------------------------------------- stages


def _ephemeral_owners(stack: JavaStack) -> Stage:
    stack.start_hub()
    for plan in _PLANS:
        _carry_out(stack, plan)
    stack.kill_hub()
    stack.start_hub()
    for plan in _PLANS:
        _publish(stack, plan, plan.before, plan.after)
    with stack.znodes() as client:
        # The session of the killed hub still holds these. A hub that gets a request for such a topic removes them at
        # once.
        left = [plan for plan in _PLANS if not plan.after]
        eventually("the owner records of the killed hub are gone", lambda: _no_owners(client, left))
        hub = stack.hub_info(client)
    return _dump(stack, "ephemeral owners", _PLANS, {plan.topic: hub for plan in _PLANS if plan.after})


_STOPPED: Final = _Plan(topic="cas/stopped", before=1, subscriptions=(_Subscription(name="s"),))
_TAKEN: Final = _Plan(topic="cas/taken-over", before=2, after=1, subscriptions=(_Subscription(name="s", consumed=1),))
_ORPHANED: Final = _Plan(topic="cas/orphaned", before=1, subscriptions=(_Subscription(name="s"),))


def _persistent_owners(stack: JavaStack) -> Stage:
    stack.stop_hub()
    owners = {}
    with stack.znodes() as client:
        stack.start_hub(cas_owners=True)
        _carry_out(stack, _STOPPED)
        # An orderly end leaves owner records of this kind behind, like a crash.
        owners[_STOPPED.topic] = stack.hub_info(client)
        stack.stop_hub()
        stack.start_hub(cas_owners=True)
        _carry_out(stack, _TAKEN)
        _carry_out(stack, _ORPHANED)
        owners[_ORPHANED.topic] = stack.hub_info(client)
        stack.kill_hub()
        stack.start_hub(cas_owners=True)
        _publish(stack, _TAKEN, _TAKEN.before, _TAKEN.after)
        owners[_TAKEN.topic] = stack.hub_info(client)
    return _dump(stack, "persistent owners", (*_PLANS, _STOPPED, _TAKEN, _ORPHANED), owners)


def _no_owners(client: KazooClient, plans: Iterable[_Plan]) -> bool:
    return not any(client.exists(f"{REGION_PATH}/topics/{plan.topic}/hub") for plan in plans)


# -------------------------------------------------------------------------------------------------- what a hub is asked


def _carry_out(stack: JavaStack, plan: _Plan) -> None:
    topic = plan.topic.encode()
    published = 0
    with stack.client() as publisher:
        for one in sorted(plan.subscriptions, key=lambda one: one.after):
            _publish(stack, plan, published, one.after - published)
            published = one.after
            publisher.subscribe(topic, one.name.encode(), _as_sent(one.wanted))
        _publish(stack, plan, published, plan.before - published)
        for one in plan.subscriptions:
            if one.consumed is not None:
                publisher.consume(topic, one.name.encode(), one.consumed, {r.region: r.seq_id for r in plan.remote})
        for one in plan.subscriptions:
            publisher.close_subscription(topic, one.name.encode())
            if one.ended:
                publisher.unsubscribe(topic, one.name.encode())
    with stack.znodes() as client:
        for one in plan.subscriptions:
            eventually(f"the pointer of {one.name} is stored", partial(_pointer_stored, client, plan, one))


def _publish(stack: JavaStack, plan: _Plan, published: int, more: int) -> None:
    with stack.client() as publisher:
        for number in range(published + 1, published + more + 1):
            remote = {one.region: one.seq_id for one in plan.remote}
            given = publisher.publish(plan.topic.encode(), b"message %d" % number, remote)
            assert given == number, f"the hub called message {number} of {plan.topic} {given}"


def _as_sent(wanted: SubscriptionPreferences) -> pb.SubscriptionPreferences:
    return preferences(wanted.options, wanted.message_bound, wanted.message_filter, wanted.message_window_size)


def _pointer_stored(client: KazooClient, plan: _Plan, one: _Subscription) -> bool:
    """Look at the raw record, because the hub does not answer a consume."""
    path = f"{REGION_PATH}/topics/{plan.topic}/subscribers/{one.name}"
    if one.ended:
        return client.exists(path) is None
    data, _ = client.get(path)
    return pb.SubscriptionData.FromString(data).state.msgId.localComponent == _pointer(one)


# ------------------------------------------------------------------------------------------------- what must come of it


def _dump(stack: JavaStack, name: str, plans: Sequence[_Plan], owners: dict[str, HubInfo]) -> Stage:
    with stack.znodes() as client:
        nodes = tuple(read_tree(client, REGION_PATH))
    topics = {}
    for plan in plans:
        said = stack.console("describe", "topic", plan.topic)
        topics[Topic(plan.topic.encode())] = TopicRecords(
            owner=owners.get(plan.topic),
            ranges=_ranges(plan, [int(number) for number in _LEDGER_LINE.findall(said)]),
            subscriptions={
                SubscriberId(one.name.encode()): _subscription(plan, one) for one in plan.subscriptions if not one.ended
            },
            console=said,
        )
    return Stage(name=name, nodes=nodes, topics=topics)


def _ranges(plan: _Plan, ledgers: Sequence[int]) -> LedgerRanges:
    """Return the ranges: a new one after every _PER_LEDGER messages, one after a takeover unless the last was empty."""
    last = plan.before + plan.after
    starts = [*range(1, plan.before + 1, _PER_LEDGER)] or [1]
    if plan.after and plan.before:
        starts.append(plan.before + 1)
    ends = [start - 1 for start in starts[1:]]
    assert len(ledgers) == len(starts), f"{plan.topic} has the ledgers {ledgers}, not one for each of {starts}"
    assert last < starts[-1] + _PER_LEDGER, f"{plan.topic} is planned to fill its last ledger"
    closed = [
        LedgerRange(ledger_id=ledger, start=start, end=MessageSeqId(end, plan.remote))
        for ledger, start, end in zip(ledgers, starts, ends, strict=False)
    ]
    return LedgerRanges((*closed, LedgerRange(ledger_id=ledgers[-1], start=starts[-1])))


def _subscription(plan: _Plan, one: _Subscription) -> SubscriptionData:
    remote = plan.remote if one.consumed is not None else ()
    return SubscriptionData(state=SubscriptionState(MessageSeqId(_pointer(one), remote)), preferences=one.wanted)


def _pointer(one: _Subscription) -> int:
    return one.after if one.consumed is None else one.consumed
