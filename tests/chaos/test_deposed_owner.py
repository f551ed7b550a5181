"""Prove that a deposed owner is shut out: tests pause it amid publishes, let others take over, and resume it.

Properties: none of its late appends, ownership or range writes takes effect, on topics with a ledger, on those whose
first ledger it was about to make, and on those that had none; it acknowledges nothing that came while it was paused.
A change of a subscription that it acknowledged is seen by clients of the other hubs.
"""

import asyncio
import random
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from hedwig.cli.dev import DevServers
from hedwig.metadata import open_metadata
from hedwig.model import SubscriberId, Topic
from hedwig.status import StatusCode
from hedwig.versions import Versioned
from hedwig.wire import Action, Answer, CreateOrAttach, Delivery, Message, Publish, Subscribe, Unsubscribe
from tests.chaos.support.history import ChaosHistory
from tests.chaos.support.hubs import SESSION_S, Hubs, hubs_on
from tests.chaos.support.recorded_hub import STOPPED_CLOCK
from tests.chaos.support.verdict import judge
from tests.chaos.support.visitors import Visitors
from tests.chaos.support.visits import Do, Reply, Visit, Visits
from tests.chaos.support.workload import Workload, names_of
from tests.faults.linearizability import UNKNOWN, Unanswered
from tests.faults.support.waiting import until
from tests.hub.support import delivery_history as recorded
from tests.hub.support.wire_channel import WireChannel

EACH: Final = 30
"""Topics of each sort."""
VISITED: Final = 5
"""Topics of each sort on which visitors subscribe and unsubscribe."""
BURST: Final = 4
RETRIES: Final = 5
SETTINGS: Final = ("cluster.rebalance_interval_s=0", "ledger_messages_max=20")
FOLLOWER: Final = "follower"
OWNER: Final = "hub-1"
HEIRS: Final = (1, 2)
REGISTERED: Final = "registered as"
REFUSED: Final = "the ledger was taken over"
"""The answer of a bookie to an append of a deposed owner, as the hub logs it."""
REPLIES: Final[dict[StatusCode, Reply | Unanswered]] = {
    StatusCode.SUCCESS: Reply.DONE,
    StatusCode.CLIENT_NOT_SUBSCRIBED: Reply.NOT_SUBSCRIBED,
}
"""After any other answer the outcome is unknown: the change may have been made."""


class Insistent:
    """A client of only one hub, which has the hub claim topics, and sends requests without waiting for answers."""

    def __init__(self, channel: WireChannel, history: ChaosHistory, visits: Visits) -> None:
        self._channel = channel
        self._visits = visits
        self._asked: dict[int, tuple[Visit, Do, float]] = {}
        self._history = history
        self._sent: dict[int, tuple[bytes, bytes, float]] = {}
        self._sessions: dict[bytes, recorded.Session] = {}
        self.answers: dict[int, tuple[Answer, float]] = {}
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while True:
            try:
                heard = await self._channel.receive(None)
            except OSError:
                return
            if isinstance(heard, Answer):
                self.answers[heard.txn_id] = heard, time.monotonic()
            elif isinstance(heard, Delivery):
                assert heard.message.seq_id is not None
                if heard.subscriber == FOLLOWER.encode():
                    self._sessions[heard.topic].deliveries.append((heard.message.seq_id.local, heard.message.body))
                else:
                    self._visits.at(heard.topic, heard.subscriber.decode()).got.add(heard.message.seq_id.local)

    async def subscribe(self, topics: Iterable[bytes]) -> None:
        """Have the hub claim topics, by a subscription on each."""
        asked = []
        for topic in topics:
            now = time.monotonic()
            self._sessions[topic] = recorded.Session(topic, FOLLOWER, now, now)
            asked.append(await self._channel.subscribe(topic, FOLLOWER.encode()))
        await until(lambda: all(each in self.answers for each in asked), "subscriptions")
        assert {self.answers[each][0].status for each in asked} == {StatusCode.SUCCESS}
        self._history.sessions.extend(self._sessions.values())

    def publish(self, topics: Sequence[bytes], count: int, what: str) -> list[int]:
        """Send publishes without waiting for answers; return their numbers."""
        sent = []
        for number in range(count):
            for topic in topics:
                body = b"%s %s %d" % (topic, what.encode(), number)
                txn_id = self._channel.write(topic, Publish(Message(body)))
                self._sent[txn_id] = topic, body, time.monotonic()
                sent.append(txn_id)
        return sent

    def visit(self, topics: Iterable[bytes], name: str) -> list[int]:
        """Request a new subscription of this name on each of these topics, without waiting; return the numbers."""
        subscribe = Subscribe(subscriber=SubscriberId(name.encode()), mode=CreateOrAttach.CREATE)
        return [self._ask(self._visits.begin(topic, name), Do.SUBSCRIBE, subscribe) for topic in topics]

    def leave(self, topics: Iterable[bytes], name: str) -> list[int]:
        """Request the end of the subscriptions of this name, without waiting; return the numbers."""
        unsubscribe = Unsubscribe(SubscriberId(name.encode()))
        return [self._ask(self._visits.at(topic, name), Do.UNSUBSCRIBE, unsubscribe) for topic in topics]

    def _ask(self, visit: Visit, do: Do, action: Action) -> int:
        txn_id = self._channel.write(visit.topic, action)
        self._asked[txn_id] = visit, do, time.monotonic()
        return txn_id

    async def consume(self, topics: Iterable[bytes], name: str) -> None:
        """Tell the hub that the first message of these topics is consumed."""
        for topic in topics:
            await self._channel.consume(topic, name.encode(), 1)

    async def answered(self, numbers: Sequence[int], count: int) -> None:
        """Wait until `count` of these requests have an answer."""
        await until(lambda: sum(each in self.answers for each in numbers) >= count, f"{count} answers")

    async def end(self) -> None:
        """Wait until the hub ends the connection, and record the outcomes of all requests."""
        async with asyncio.timeout(30):
            await self._reading
        for txn_id, (topic, body, sent) in self._sent.items():
            answer, ended = self.answers.get(txn_id, (None, time.monotonic()))
            outcome: recorded.Outcome = recorded.Unknown()
            if answer is not None and answer.published is not None:
                outcome = recorded.Acknowledged(answer.published.local)
            elif answer is not None and answer.status is not StatusCode.UNCERTAIN_STATE:
                outcome = recorded.Refused()
            self._history.publishes.append(recorded.Publish(topic, "insistent", body, sent, ended, outcome))
        for txn_id, (visit, do, sent) in self._asked.items():
            answer, ended = self.answers.get(txn_id, (None, time.monotonic()))
            visit.add(do, sent, REPLIES.get(answer.status, UNKNOWN) if answer is not None else UNKNOWN, ended)


async def records(hubs: Hubs, topics: Iterable[bytes]) -> dict[bytes, tuple[Versioned[Any] | None, ...]]:
    """Return the owner and the ledger ranges of topics, with their versions."""
    async with await open_metadata(hubs.metadata) as store:
        return {
            each: (
                await store.ownership.read(Topic(each)),
                await store.persistence.read(Topic(each)),
            )
            for each in topics
        }


@pytest.mark.parametrize("clock", [pytest.param("its clock goes", marks=pytest.mark.full), "its clock stands"])
@pytest.mark.parametrize(
    "rounds",
    [pytest.param(1, id="quick"), pytest.param(6, id="full", marks=[pytest.mark.full, pytest.mark.timeout(600)])],
)
async def test_nothing_of_a_deposed_owner_takes_effect(
    rounds: int, clock: str, stack: DevServers, source: random.Random, seed: int, tmp_path: Path
) -> None:
    """With a stopped clock, a hub acts as owner until a store or bookie refuses it, so only fencing stops it."""
    history = ChaosHistory()
    stands = clock == "its clock stands"
    async with (
        hubs_on(stack, tmp_path, SETTINGS, environment={STOPPED_CLOCK: "1"} if stands else {}) as hubs,
        Workload(hubs.addresses, source, 1.0, history) as load,
        Visitors([hubs.addresses[heir] for heir in HEIRS], source, history) as visitors,
    ):
        tried = number = 0
        # In some rounds the hub learns that it was deposed before it has tried to write.
        while number < rounds or (stands and not tried and number < rounds + RETRIES):
            tried += await depose(hubs, load, visitors, history, source, f"round-{number}")
            number += 1
        await load.finish(30.0)
        wrong = await visitors.finish(30.0)
    print(visitors)
    judge(history, hubs, seed, tmp_path, wrong)
    assert tried or not stands, "it tried"
    assert {each.outcome.__class__ for each in history.publishes} >= {recorded.Acknowledged, recorded.Unknown}


async def depose(
    hubs: Hubs, load: Workload, visitors: Visitors, history: ChaosHistory, source: random.Random, name: str
) -> int:
    """Depose the owner once, on topics of this round; return how many of its late attempts were refused."""
    stored, first, late = (list(names_of(EACH, f"{name}-{sort}")) for sort in ("stored", "first", "late"))
    topics = [*stored, *first, *late]
    visited = [*stored[:VISITED], *first[:VISITED], *late[:VISITED]]
    async with await WireChannel.open(hubs.hubs[OWNER].port) as channel:
        owner = Insistent(channel, history, visitors.visits)
        await owner.subscribe(topics)
        await owner.answered(sent := owner.publish(stored, 3, "before"), len(sent))
        for visitor in ("stays", "leaves in the middle", "leaves too late", "leaves meanwhile"):
            await owner.answered(sent := owner.visit(visited, visitor), len(sent))
        before = await records(hubs, topics)
        # Pause the hub in the middle: some requests are answered, others are in flight, and it is making ledgers.
        sent = owner.publish([*stored, *first], BURST, "in the middle")
        owner.visit(visited, "comes in the middle")
        owner.leave(visited, "leaves in the middle")
        await owner.answered(sent, source.randrange(1, len(sent) // 3))
        starts, refusals = hubs.hubs[OWNER].log.count(REGISTERED), hubs.hubs[OWNER].log.count(REFUSED)
        hubs.pause(OWNER)
        answered = set(owner.answers)
        # These requests wait in the kernel; the hub reads them first when it resumes.
        waiting = owner.publish(topics, BURST, "too late")
        owner.visit(visited, "comes too late")
        owner.leave(visited, "leaves too late")
        await owner.consume(stored[:VISITED], "leaves meanwhile")
        await asyncio.gather(*(take_over(load, each, source) for each in topics))
        left = [visitors.visits.at(each, "leaves meanwhile") for each in visited]
        await asyncio.gather(*(visitors.unsubscribe(each, source) for each in left))
        assert not answered & set(waiting)
        taken = await records(hubs, topics)
        hubs.resume(OWNER)
        await owner.end()
        await until(lambda: hubs.hubs[OWNER].log.count(REGISTERED) > starts, "the hub's next registration")
        after = await records(hubs, topics)
    for topic in topics:
        (owned, ranges), (owned_before, ranges_before) = taken[topic], before[topic]
        assert owned is not None
        assert owned_before is not None
        assert ranges is not None
        assert ranges_before is not None
        assert owned.value.address != owned_before.value.address, "another hub has it"
        assert ranges.version != ranges_before.version, "the range record was written, even for a topic without ledger"
    assert after == taken, "owners and ranges are as the others left them"
    refusals = hubs.hubs[OWNER].log.count(REFUSED) - refusals
    statuses = {owner.answers[each][0].status for each in waiting if each in owner.answers}
    assert StatusCode.SUCCESS not in statuses, "the deposed owner acknowledges what it can store no more"
    for topic in topics:
        load.subscriber(topic, FOLLOWER)
    await load.all_attached(30.0)
    await until(lambda: not load.behind(), "all messages delivered")
    delivered = [body for session in history.sessions for _, body in session.deliveries]
    assert not [body for body in delivered if b"too late" in body], "late appends became part of a topic"
    late_ones = sorted(statuses)
    print(f"{name}: {len(answered)} answers before; bookies refused it {refusals} ledgers; late ones: {late_ones}")
    return refusals + len(statuses)


async def take_over(load: Workload, topic: bytes, source: random.Random) -> None:
    """Publish through the other hubs until one of them has taken the topic over."""
    async with asyncio.timeout(6 * SESSION_S):
        for number in range(1 << 30):
            outcome = await load.publish(topic, "heir", b"%d" % number, HEIRS[number % 2])
            if isinstance(outcome, recorded.Acknowledged):
                return
            await asyncio.sleep(source.uniform(0.2, 0.5))
