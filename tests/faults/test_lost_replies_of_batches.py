"""Prove that each of many creations sent together ends as it is reported, even if messages are lost on the way.

Properties: an unknown outcome is never reported as known; no client takes its own record for another's.
"""

from typing import Final

import pytest

from hedwig.errors import TopicPersistenceInfoExistsError
from hedwig.metadata import RecordKey, Write
from hedwig.metadata.testing.clients import Clients, Names
from hedwig.metadata.testing.subject import Subject
from hedwig.model import LedgerRange, LedgerRanges, Topic
from hedwig.versions import NEW
from tests.faults.support.network import Networked
from tests.faults.support.proxy import Action, Step, scripted

MANY: Final = 90


def ranges(number: int) -> LedgerRanges:
    return LedgerRanges((LedgerRange(ledger_id=number, start=1),))


@pytest.mark.parametrize("cuts", [1, 4])
@pytest.mark.parametrize("action", [Action.CUT_REPLY, Action.CUT_REQUEST], ids=["reply", "request"])
async def test_each_creation_of_a_batch_ends_as_it_is_reported(
    action: Action, cuts: int, networked: Networked, networked_subject: Subject, clients: Clients, names: Names
) -> None:
    """Lose messages about a batch: a third of its records exist already, a third were deleted, and a third are new."""
    direct = await clients.open(networked_subject)
    topics = [Topic(names(f"{action.name} {cuts} {number}".encode())) for number in range(MANY)]
    standing = {
        number: await direct.persistence.write(topics[number], ranges(0), NEW)
        for number in range(MANY)
        if number % 3 < 2
    }
    for number, version in standing.items():
        if number % 3 == 1:
            await direct.persistence.delete(topics[number], version)
    async with (
        networked.proxy(networked_subject, scripted(networked.write, [Step(action)] * cuts)) as proxy,
        await networked.behind(proxy, networked_subject).open() as store,
    ):
        writes = [Write(RecordKey(topic), ranges(1 + number), NEW) for number, topic in enumerate(topics)]
        outcomes = await store.persistence.apply(writes)
    assert proxy.done[action] >= 1, "nothing was cut"
    for number, (topic, outcome) in enumerate(zip(topics, outcomes, strict=True)):
        record = await direct.persistence.read(topic)
        assert record is not None
        if number % 3 == 0:
            assert isinstance(outcome.error, TopicPersistenceInfoExistsError)
            assert (record.value, record.version) == (ranges(0), standing[number])
        else:
            assert outcome.error is None
            assert (record.value, record.version) == (ranges(1 + number), outcome.version)
