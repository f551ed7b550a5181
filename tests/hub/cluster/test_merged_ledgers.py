"""Prove that small ledgers on bookies are merged, and that the next owner of the topic reads their messages."""

from typing import Final

import pytest

from hedwig.errors import NoSuchLedgerError
from hedwig.hub.hub import Hub
from hedwig.model import Topic
from tests.faults.support.waiting import until
from tests.hub.cluster.support.both import on_per_topic
from tests.hub.cluster.support.deployment import Deployment

T: Final = Topic(b"t")


async def _ledger_ids(deployment: Deployment) -> list[int]:
    record = await deployment.store.persistence.read(T)
    return [each.ledger_id for each in record.value.ranges] if record is not None else []


async def _release(hub: Hub) -> None:
    topic = hub.topics.get(T)
    assert topic is not None
    await until(lambda: topic.log.is_idle, "no ledger is made")
    await hub.topics.release(topic)


@on_per_topic
async def test_ledgers_of_idle_releases_are_merged_and_read_by_the_next_owner(deployment: Deployment) -> None:
    one, other = [await deployment.start() for _ in range(2)]
    to_one, to_other = await deployment.connect(one), await deployment.connect(other)
    await to_one.subscribed(T, b"away")
    await to_one.close_subscription(T, b"away")
    before: set[int] = set()
    for number in range(1, 19):
        before |= {*await _ledger_ids(deployment)}
        assert await to_one.publish(T, b"%d" % number) == number
        await _release(one)
    kept = await _ledger_ids(deployment)
    assert len(kept) == 3, "sixteen became one"
    for hub in (one, other):
        for ledger_id in before - {*kept}:
            with pytest.raises(NoSuchLedgerError):
                await hub.ledgers.read(ledger_id, 0, entries_max=1, bytes_max=1)
        assert [await hub.ledgers.last_entry_id(each) for each in kept] == [15, 0, 0]
    await to_other.subscribed(T, b"away")
    assert await to_other.delivered(18) == list(range(1, 19))
    assert await to_other.publish(T, b"next") == 19
