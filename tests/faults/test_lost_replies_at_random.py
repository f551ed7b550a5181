"""Prove over long random runs that lost messages never make a report wrong, even if other clients write meanwhile.

Properties: an unknown outcome is never reported as known; no acknowledged write lost; no increment counts twice; a
version never repeats.
"""

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from hedwig.metadata.testing.clients import Clients, Names
from hedwig.metadata.testing.doors import CALLS, DOORS
from hedwig.metadata.testing.subject import Subject
from tests.faults.support.history import Put, Saw, explain
from tests.faults.support.network import Networked
from tests.faults.support.numbers import number_of
from tests.faults.support.proxy import PASS, Action, Exchange, Step, at_random
from tests.faults.support.recording import Recorder, RecordingClient
from tests.metadata.support.backends import Surroundings

SIZES: Final = [
    pytest.param(150, id="quick"),
    pytest.param(1000, id="full", marks=[pytest.mark.full, pytest.mark.timeout(900)]),
]
COUNT_UNIT: Final = 1_000_000


@pytest.fixture(scope="module")
def networked_subject(networked: Networked, surroundings: Surroundings) -> Iterator[Subject]:
    """A formatted store that the tests of this module share, on a server: HBase with an index of subscribers."""
    with networked.row.subject(surroundings).formatted() as subject:
        yield subject


async def _random_write(client: RecordingClient, topic: bytes, rng: random.Random, seen: int | None) -> None:
    """Create, update or delete, based on the version `seen`; sometimes create on a guess."""
    if seen is None or rng.random() < 0.05:
        await client.put(topic, None)
    elif rng.random() < 0.25:
        await client.delete(topic, seen)
    else:
        await client.put(topic, seen)


@dataclass(slots=True)
class _Overtaker:
    """A plan that loses messages about one record at a time, and lets another client write to it in between."""

    rng: random.Random
    write: str
    direct: RecordingClient
    topic: bytes = b""
    overtakings: int = 0

    def __call__(self, exchange: Exchange) -> Step:
        if exchange.name != self.write or self.rng.random() < 0.55:
            return PASS
        action = Action.CUT_REPLY if self.rng.random() < 0.75 else Action.CUT_REQUEST
        return Step(action, meanwhile=self._write if self.rng.random() < 0.5 else None)

    async def _write(self) -> None:
        self.overtakings += 1
        for _ in range(self.rng.choice([1, 1, 2, 3])):
            await _random_write(self.direct, self.topic, self.rng, await self.direct.read(self.topic))


@pytest.mark.parametrize("writes", SIZES)
async def test_random_writes_end_as_they_are_reported(
    writes: int, networked: Networked, networked_subject: Subject, clients: Clients, names: Names, rng: random.Random
) -> None:
    """Send writes one at a time through the proxy; most are cut at least once, and half of these are overtaken."""
    recorder = Recorder()
    overtaken = losses = 0
    direct_store = await clients.open(networked_subject)
    doors = [*CALLS, DOORS[3]]
    for number, door in enumerate(doors):
        plan = _Overtaker(rng, networked.write, recorder.client("direct", direct_store, door))
        topics = [names(b"%d-%d" % (number, index)) for index in range(writes // 40 + 1)]
        async with (
            networked.proxy(networked_subject, plan) as proxy,
            await networked.behind(proxy, networked_subject).open() as store,
        ):
            client = recorder.client("behind the proxy", store, door)
            for _ in range(writes // len(doors)):
                plan.topic = rng.choice(topics)
                await _random_write(client, plan.topic, rng, await client.read(plan.topic))
        for topic in topics:
            await plan.direct.read(topic)
        overtaken += plan.overtakings
        losses += proxy.done[Action.CUT_REPLY]
    recorder.check()
    print(f"{losses} replies lost, {overtaken} times others came in between, {dict(recorder.outcomes)}")
    assert losses >= writes // 4
    assert overtaken >= writes // 8
    assert recorder.outcomes["NotDone"] == 0, "the store was there all the time"


@pytest.mark.parametrize("writes", SIZES)
async def test_no_increment_counts_twice(
    writes: int, networked: Networked, networked_subject: Subject, clients: Clients, names: Names, rng: random.Random
) -> None:
    """Let four clients behind a proxy and one beside it count together; the count is that of the applied increments."""
    door = CALLS[1]
    topic = names(b"counter")
    recorder = Recorder()
    shares = {Step(Action.CUT_REPLY): 0.25, Step(Action.CUT_REQUEST): 0.1, Step(Action.DELAY_REPLY, seconds=0.02): 0.1}

    async def count(client: RecordingClient) -> None:
        for _ in range(writes // 5):
            seen = await client.read(topic)
            unit = recorder.new_number()
            assert unit < COUNT_UNIT
            await client.put(topic, seen, ((seen or 0) // COUNT_UNIT + 1) * COUNT_UNIT + unit)

    direct_store = await clients.open(networked_subject)
    direct = recorder.client("direct", direct_store, door)
    async with (
        networked.proxy(networked_subject, at_random(rng, networked.write, shares)) as proxy,
        await networked.behind(proxy, networked_subject).open() as first,
        await networked.behind(proxy, networked_subject).open() as second,
        asyncio.TaskGroup() as group,
    ):
        for number, store in enumerate((first, second) * 2):
            group.create_task(count(recorder.client(f"behind the proxy {number}", store, door)))
        group.create_task(count(direct))
    last = await door.read(direct_store, door.key(topic))
    assert last is not None
    await direct.read(topic)
    recorder.check()
    order = explain(recorder.calls)
    assert order is not None
    applied = [call for call in order if isinstance(call.operation, Put) and not isinstance(call.outcome, Saw)]
    assert number_of(last.value) // COUNT_UNIT == len(applied)
    print(f"{dict(proxy.done)}, {dict(recorder.outcomes)}")
    assert proxy.done[Action.CUT_REPLY] >= writes // 10
    assert recorder.outcomes["Done"] >= writes // 10
    assert recorder.outcomes["NotDone"] == 0, "the store was there all the time"


@pytest.mark.parametrize("writes", SIZES)
async def test_many_clients_on_few_records_see_one_order(
    writes: int, networked: Networked, networked_subject: Subject, clients: Clients, names: Names, rng: random.Random
) -> None:
    """Let six clients create, update and delete at once, four of them behind a proxy that loses and delays."""
    recorder = Recorder()
    door = CALLS[2]
    topics = [names(b"shared-%d" % index) for index in range(writes // 50 + 1)]
    shares = {
        Step(Action.CUT_REPLY): 0.2,
        Step(Action.CUT_REQUEST): 0.1,
        Step(Action.DELAY_REPLY, seconds=0.01): 0.1,
        Step(Action.DELAY_REQUEST, seconds=0.01): 0.1,
    }

    async def work(client: RecordingClient) -> None:
        for _ in range(writes // 6):
            topic = rng.choice(topics)
            await _random_write(client, topic, rng, await client.read(topic))

    direct_store = await clients.open(networked_subject)
    async with (
        networked.proxy(networked_subject, at_random(rng, networked.write, shares)) as proxy,
        await networked.behind(proxy, networked_subject).open() as first,
        await networked.behind(proxy, networked_subject).open() as second,
        asyncio.TaskGroup() as group,
    ):
        for number, store in enumerate((first, second) * 2):
            group.create_task(work(recorder.client(f"behind the proxy {number}", store, door)))
        for number in range(2):
            group.create_task(work(recorder.client(f"direct {number}", direct_store, door)))
    for topic in topics:
        await recorder.client("at the end", direct_store, door).read(topic)
    recorder.check()
    print(f"{dict(proxy.done)}, {dict(recorder.outcomes)}")
    assert proxy.done[Action.CUT_REPLY] >= writes // 15
    assert recorder.outcomes["Done"] >= writes // 5
