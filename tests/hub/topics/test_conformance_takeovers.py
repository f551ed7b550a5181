"""Takeovers over the wire: what a hub finds of a former owner, and how it notices that it was deposed."""

import pytest

from hedwig.errors import BadVersionError, LedgerFencedError, MetadataUnavailableError
from hedwig.hub.hub import Hub
from hedwig.metadata.managers import TablePersistenceManager
from hedwig.model import HubInfo, LedgerRange, LedgerRanges, MessageSeqId
from hedwig.status import StatusCode
from hedwig.versions import NEW, Version
from hedwig.wire import Message, Publish
from tests.hub.support.topic_records import S, T, abandon, ledger_with, owner_of, ranges_of, write_ranges
from tests.hub.support.wire_client import WireClient


@pytest.mark.parametrize("epoch", [1, 2, 30, 4294967330])
async def test_a_topic_of_a_hub_of_a_former_cluster_is_taken_over(hub: Hub, client: WireClient, epoch: int) -> None:
    """Its epoch is the number of a ZooKeeper node, which may be less than a start count, equal, or far greater."""
    other = HubInfo(host="10.1.2.3", port=4080, epoch=epoch)
    await hub.metadata.ownership.write(T, other, NEW)
    assert await client.publish(T, b"m") == 1
    assert await owner_of(hub) == hub.me


async def test_a_topic_of_a_former_start_is_taken_over(hub: Hub, client: WireClient) -> None:
    await client.publish_many(T, b"1", b"2")
    await abandon(hub)
    before = await hub.metadata.persistence.read(T)
    assert await client.publish(T, b"3") == 3
    assert await owner_of(hub) == hub.me
    after = await hub.metadata.persistence.read(T)
    assert before is not None
    assert after is not None
    assert before.version != after.version


async def test_a_takeover_fences_the_open_ledger_of_the_former_owner(hub: Hub, client: WireClient) -> None:
    await client.publish(T, b"1")
    await abandon(hub)
    ledger_id = await ledger_with(hub, 1, 5, seal=False)
    await write_ranges(hub, LedgerRange(ledger_id=ledger_id, start=1))
    await client.subscribed(T, S)
    with pytest.raises(LedgerFencedError):
        await hub.ledgers.append(ledger_id, 5, b"late")
    assert (await ranges_of(hub))[0].end == MessageSeqId(5)
    assert await client.publish(T, b"6") == 6
    assert await client.delivered(1) == [6]


async def test_a_takeover_writes_the_ranges_even_if_nothing_changes(hub: Hub, client: WireClient) -> None:
    await hub.metadata.persistence.write(T, LedgerRanges(), NEW)
    await client.close_subscription(T, S)
    await abandon(hub)
    before = await hub.metadata.persistence.read(T)
    await client.close_subscription(T, S)
    after = await hub.metadata.persistence.read(T)
    assert before is not None
    assert after is not None
    assert (after.value, after.version == before.version) == (before.value, False)


@pytest.mark.parametrize("former", ["another hub", "this hub"])
async def test_a_takeover_that_fails_leaves_the_topic_to_be_taken_over(
    hub: Hub, client: WireClient, monkeypatch: pytest.MonkeyPatch, former: str
) -> None:
    """The next claim must shut out late writes of the former owner, and knows only from the record that it must."""
    owner = hub.me if former == "this hub" else HubInfo(host="10.1.2.3", port=4080, epoch=7)
    await hub.metadata.persistence.write(T, LedgerRanges(), NEW)
    await hub.metadata.ownership.write(T, owner, NEW)
    before = await hub.metadata.persistence.read(T)

    async def refuse(*_: object) -> Version:
        raise MetadataUnavailableError("the test refused it")

    with monkeypatch.context() as patch:
        patch.setattr(TablePersistenceManager, "write", refuse)
        for _ in range(2):
            assert (await client.request(T, Publish(Message(b"m")))).status is StatusCode.SERVICE_DOWN
            assert await owner_of(hub) == owner
    assert await client.publish(T, b"m") == 1
    assert await owner_of(hub) == hub.me
    assert before is not None
    with pytest.raises(BadVersionError):
        await hub.metadata.persistence.write(T, LedgerRanges(), before.version)


@pytest.mark.parametrize("before", [0, 5])
async def test_an_empty_last_ledger_says_nothing(hub: Hub, client: WireClient, before: int) -> None:
    await client.publish(T, b"1")
    await abandon(hub)
    ranges = []
    if before:
        ledger_id = await ledger_with(hub, 1, before, seal=True)
        ranges.append(LedgerRange(ledger_id=ledger_id, start=1, end=MessageSeqId(before)))
    empty = await ledger_with(hub, 1, 0, seal=False)
    await write_ranges(hub, *ranges, LedgerRange(ledger_id=empty, start=before + 1))
    await client.subscribed(T, S)
    assert await ranges_of(hub) == tuple(ranges)
    assert empty not in [ledger_id async for ledger_id in hub.ledgers.ledgers()]
    assert await client.publish(T, b"m") == before + 1


async def test_an_empty_last_ledger_behind_deleted_ones_keeps_the_ids(hub: Hub, client: WireClient) -> None:
    await client.publish(T, b"1")
    await abandon(hub)
    empty = await ledger_with(hub, 1, 0, seal=False)
    await write_ranges(hub, LedgerRange(ledger_id=empty, start=8))
    await client.subscribed(T, S)
    assert await client.publish_many(T, b"8", b"9") == [8, 9]
    assert await client.delivered(2) == [8, 9]


async def test_ranges_of_old_records_have_no_start(hub: Hub, client: WireClient) -> None:
    await client.publish(T, b"1")
    await abandon(hub)
    first, second = await ledger_with(hub, 3, 5, seal=True), await ledger_with(hub, 6, 7, seal=True)
    last = await ledger_with(hub, 8, 9, seal=False)
    await write_ranges(
        hub,
        LedgerRange(ledger_id=first, start=None, end=MessageSeqId(5)),
        LedgerRange(ledger_id=second, start=None, end=MessageSeqId(7)),
        LedgerRange(ledger_id=last, start=None),
    )
    await client.subscribed(T, S)
    assert [(each.start, each.end) for each in await ranges_of(hub)] == [
        (3, MessageSeqId(5)),
        (6, MessageSeqId(7)),
        (8, MessageSeqId(9)),
    ]
    assert await client.publish(T, b"10") == 10


async def test_an_old_record_of_one_open_range_begins_at_one(hub: Hub, client: WireClient) -> None:
    await client.publish(T, b"1")
    await abandon(hub)
    await write_ranges(hub, LedgerRange(ledger_id=await ledger_with(hub, 1, 4, seal=False), start=None))
    assert await client.publish(T, b"5") == 5


async def test_a_record_that_makes_no_sense_is_an_error_and_takes_no_topic(hub: Hub, client: WireClient) -> None:
    one = await ledger_with(hub, 1, 2, seal=False)
    two = await ledger_with(hub, 3, 4, seal=True)
    record = LedgerRanges((LedgerRange(ledger_id=one, start=1), LedgerRange(ledger_id=two, start=3)))
    await hub.metadata.persistence.write(T, record, NEW)
    answer = await client.request(T, Publish(Message(b"m")))
    assert answer.status is StatusCode.UNEXPECTED_CONDITION
    assert await owner_of(hub) is None
    await client.publish(b"another", b"m")


async def test_a_ledger_that_is_gone_is_an_error_and_takes_no_topic(hub: Hub, client: WireClient) -> None:
    record = LedgerRanges((LedgerRange(ledger_id=4711, start=1),))
    await hub.metadata.persistence.write(T, record, NEW)
    assert (await client.request(T, Publish(Message(b"m")))).status is StatusCode.UNEXPECTED_CONDITION
    assert await owner_of(hub) is None


async def test_an_owner_that_is_fenced_gives_the_topic_up_and_takes_it_anew(hub: Hub, client: WireClient) -> None:
    """This happens after a takeover that this hub does not know of yet."""
    await client.publish_many(T, b"1", b"2")
    (last,) = await ranges_of(hub)
    await hub.ledgers.open_and_fence(last.ledger_id)
    answer = await client.request(T, Publish(Message(b"lost")))
    assert answer.status is not StatusCode.SUCCESS
    assert await client.publish(T, b"3") == 3
    assert hub.topics.released == 1


async def test_an_owner_whose_ranges_were_changed_gives_the_topic_up(hub: Hub, client: WireClient) -> None:
    await client.publish_many(T, b"1", b"2")
    await write_ranges(hub, *await ranges_of(hub))  # The write gives the record a version that this hub does not know.
    ids = []
    for _ in range(10):
        answer = await client.request(T, Publish(Message(b"m")))
        if answer.published is not None:
            ids.append(answer.published.local)
    assert ids == list(range(3, 3 + len(ids)))
    assert hub.topics.released == 1
