"""Prove that a write that the network holds up does not reach the store after the end of its lease.

Properties: it is refused once the lease has run out, as surely not done, or as uncertain if an attempt of it was lost;
and the record is unchanged.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import pytest

from hedwig.errors import MetadataUnavailableError, UncertainStateError
from hedwig.metadata import MetadataStore, StoreOptions, SubscriptionDataManager
from hedwig.metadata.testing import samples
from hedwig.metadata.testing.clients import Clients, Names
from hedwig.metadata.testing.subject import Subject
from hedwig.model import SubscriberId, SubscriptionData, Topic
from hedwig.versions import Versioned
from tests.faults.support.network import Networked
from tests.faults.support.proxy import PASS, Action, Exchange, Proxy, Step

LEASE_S: Final = 2.0
TIMEOUT_S: Final = 60.0
"""The timeout of an operation; the operation ends with the lease."""
S: Final = SubscriberId(b"s")


@dataclass
class _Leased:
    """A subscription, and a client of its store whose lease is over once `until` has passed."""

    proxy: Proxy
    beside: MetadataStore
    subscriptions: SubscriptionDataManager
    topic: Topic
    record: Versioned[SubscriptionData]
    until: float = float("inf")

    async def stored(self) -> Versioned[SubscriptionData] | None:
        """Return the record as another client reads it."""
        return await self.beside.subscriptions.read(self.topic, S)

    async def delete(self) -> None:
        await self.subscriptions.delete(self.topic, S, self.record.version)


@pytest.fixture
async def leased(
    networked: Networked, networked_subject: Subject, clients: Clients, names: Names
) -> AsyncIterator[_Leased]:
    topic = Topic(names(b"leased"))
    beside = await clients.open(networked_subject)
    await beside.subscriptions.create(topic, S, samples.subscription(1))
    async with (
        networked.proxy(networked_subject, lambda _: PASS) as proxy,
        await networked.behind(proxy, networked_subject).open(StoreOptions(operation_timeout_s=TIMEOUT_S)) as store,
    ):
        subscriptions = store.leased(lambda: max(0.0, made.until - time.monotonic())).subscriptions
        record = await subscriptions.read(topic, S)
        assert record is not None
        made = _Leased(proxy, beside, subscriptions, topic, record)
        yield made


async def test_write_that_waited_for_a_connection_is_not_sent_after_its_lease(leased: _Leased) -> None:
    leased.proxy.vanish()
    leased.until = time.monotonic() + LEASE_S
    deleting = asyncio.create_task(leased.delete())
    await asyncio.wait([deleting], timeout=LEASE_S)
    await leased.proxy.come_back()
    with pytest.raises(MetadataUnavailableError):
        await deleting
    assert await leased.stored() == leased.record


async def test_write_whose_answer_was_lost_is_not_repeated_after_its_lease(
    leased: _Leased, networked: Networked
) -> None:
    def plan(exchange: Exchange) -> Step:
        if exchange.name != networked.write:
            return PASS
        leased.until = time.monotonic()
        return Step(Action.CUT_REQUEST)

    leased.proxy.plan = plan
    with pytest.raises(UncertainStateError):
        await leased.delete()
    assert leased.proxy.seen[networked.write] == 1
    assert await leased.stored() == leased.record
