"""Prove that hubs can never take more of a count than is left, and that a count anew misses nothing."""

import asyncio

import pytest

from hedwig.access import Pattern
from hedwig.errors import CorruptRecordError
from hedwig.metadata import MetadataStore, NamedRecords
from hedwig.metadata.access.count_records import Count, Counted, CountKey, CountRecords, count_of
from hedwig.model import HubInfo, LedgerRanges, SubscriberId, SubscriptionData, Topic
from hedwig.versions import NEW

KEY = CountKey(Counted.TOPICS, Pattern.parse(r"home/ann\x20\x2a*"))
ONE, TWO = HubInfo(host="one", port=4080, epoch=7), HubInfo(host="::1", port=4080, ssl_port=9876, epoch=1 << 40)
NOW_S = 1_764_000_000.0


@pytest.fixture
def records(store: MetadataStore) -> CountRecords:
    return CountRecords(store.named_records)


async def is_one(hub: HubInfo) -> bool:
    return hub.is_same(ONE)


async def anew(records: CountRecords, number: int) -> Count:
    async def count() -> int:
        return number

    return await records.count_anew(KEY, count, is_one, NOW_S)


async def test_a_count_is_read_as_it_was_stored(records: CountRecords) -> None:
    assert await records.read(KEY) is None
    counted = await anew(records, 3)
    assert counted == Count(3, times=1, counted_at=int(NOW_S))
    assert await records.lease(KEY, TWO, has=1, most=103) == 10
    kept = Count(13, {f"{TWO.address} {TWO.epoch} 103": 11}, granted=10, times=1, counted_at=int(NOW_S))
    assert await records.read(KEY) == kept
    assert await records.all() == {KEY: kept}


async def test_hubs_take_what_is_left_and_no_more(records: CountRecords) -> None:
    await anew(records, 990)
    hubs = [HubInfo(host="hub", port=number) for number in range(1, 21)]
    taken = await asyncio.gather(*(records.lease(KEY, hub, has=0, most=1000) for hub in hubs))
    assert sum(taken) == 10
    assert set(taken) == {0, 1}, "the last ones are taken one by one"
    assert await records.lease(KEY, ONE, has=0, most=900) == 0, "a limit below what there is"


async def test_what_is_given_back_can_be_taken_by_others(records: CountRecords) -> None:
    await anew(records, 0)
    assert await records.lease(KEY, ONE, has=0, most=10) == 1
    assert await records.lease(KEY, ONE, has=1, most=10) == 1
    assert await records.lease(KEY, ONE, has=0, most=30) == 2
    await records.give_back(KEY, ONE, 10, 1, kept=1)
    kept = {f"{ONE.address} 7 10": 1, f"{ONE.address} 7 30": 2}
    assert await records.read(KEY) == Count(3, kept, granted=4, times=1, counted_at=int(NOW_S))
    await records.give_back(KEY, ONE, 30, 2)
    await records.give_back(KEY, ONE, 10, 1)
    await records.give_back(KEY, ONE, 10, 1)  # It has none any more.
    assert await records.read(KEY) == Count(0, granted=4, times=1, counted_at=int(NOW_S))


async def test_a_count_anew_keeps_what_living_hubs_may_make_and_drops_the_rest(records: CountRecords) -> None:
    await anew(records, 0)
    for hub in (ONE, TWO):
        assert await records.lease(KEY, hub, has=0, most=1000) >= 90
    counted = await anew(records, 5)
    assert (counted.number, list(counted.leases)) == (5 + 100, [f"{ONE.address} 7 1000"])


async def test_what_is_taken_while_it_is_counted_is_counted(records: CountRecords) -> None:
    await anew(records, 0)

    async def count() -> int:
        assert await records.lease(KEY, TWO, has=0, most=1000) == 100
        return 5

    counted = await records.count_anew(KEY, count, is_one, NOW_S)
    assert (counted.number, sum(counted.leases.values())) == (105, 100)


async def test_the_lower_of_two_counts_at_a_time_is_kept(records: CountRecords) -> None:
    await anew(records, 50)

    async def count(number: int) -> int:
        await anew(records, 20)
        return number

    assert (await records.count_anew(KEY, lambda: count(30), is_one, NOW_S)).number == 20
    assert (await records.count_anew(KEY, lambda: count(10), is_one, NOW_S)).number == 10


async def test_the_leases_of_a_count_are_bounded(records: CountRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hedwig.metadata.access.count_records._LEASES_MAX", 3)
    await anew(records, 0)
    for port in range(1, 6):
        assert await records.lease(KEY, HubInfo(host="hub", port=port), has=0, most=10) == 1
    counted = await anew(records, 5)
    assert counted.leases == {"": 2}, "nobody knows any more whether those hubs are alive"
    assert counted.number == 7


async def test_a_record_that_is_none_is_told(records: CountRecords, store: MetadataStore) -> None:
    await anew(records, 0)
    named: NamedRecords = store.named_records
    (name,) = await named.names("access-count-")
    assert await named.replace(name, await named.read(name), b"\x95\x02")
    with pytest.raises(CorruptRecordError, match=name):
        await records.read(KEY)


async def test_what_there_is_is_counted_below_a_pattern(store: MetadataStore) -> None:
    for name in (b"a/1", b"a/2", b"b/1", b"a"):
        await store.persistence.write(Topic(name), LedgerRanges(), NEW)
    for subscriber in (b"x", b"y"):
        await store.subscriptions.create(Topic(b"a/2"), SubscriberId(subscriber), SubscriptionData())

    async def counted(what: Counted, pattern: str) -> int:
        return await count_of(store, CountKey(what, Pattern.parse(pattern)))

    assert [await counted(Counted.TOPICS, pattern) for pattern in ("*", "a/*", "a", "c", "c*")] == [4, 2, 1, 0, 0]
    assert [await counted(Counted.SUBSCRIPTIONS, pattern) for pattern in ("*", "a/*", "a/2", "a")] == [2, 2, 2, 0]
