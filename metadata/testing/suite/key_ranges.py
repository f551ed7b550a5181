"""Prove that key ranges partition a store: every record is in exactly one of them, in whichever process it is read."""

import pickle
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

import pytest

from hedwig.errors import CorruptRecordError, InvalidArgumentError
from hedwig.metadata import Delete, KeyRange, MetadataStore, RecordKey, ScannedRecord, StoreOptions, Write
from hedwig.metadata.contract.kinds import KINDS, OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS, RecordKind
from hedwig.metadata.testing import samples
from hedwig.metadata.testing.awkward_names import AWKWARD, LONGEST
from hedwig.metadata.testing.bulk_contents import PREFIXES, Contents, contents, fill
from hedwig.metadata.testing.clients import Clients
from hedwig.metadata.testing.doors import CALLS
from hedwig.metadata.testing.subject import Subject
from hedwig.model import HubInfo, LedgerRanges, SubscriberId, Topic
from hedwig.versions import ANY, NEW

_KINDS: Final[tuple[RecordKind[Any], ...]] = KINDS
SMALL_PAGES: Final = StoreOptions(page_rows=7)


async def read(store: MetadataStore, ranges: Sequence[KeyRange]) -> list[list[ScannedRecord]]:
    """Return the records of each range, as if the range came from another process."""
    sent: list[KeyRange] = pickle.loads(pickle.dumps(ranges))
    return [[item async for page in store.scan_range(keys) for item in page] for keys in sent]


async def partitioned(
    store: MetadataStore, kind: RecordKind[Any], parts: int, prefix: bytes | None = None, **how: Any
) -> list[list[ScannedRecord]]:
    """Return the records of each range that the store returns."""
    ranges = await store.key_ranges(kind, parts, prefix, **how)
    assert 1 <= len(ranges) <= parts
    return await read(store, ranges)


def of_kind(stored: Contents, kind: RecordKind[Any], prefix: bytes = b"") -> Contents:
    return {
        (name, key): record
        for (name, key), record in stored.items()
        if name == kind.name and key.topic.startswith(prefix)
    }


async def test_ranges_hold_every_record_once(filled: tuple[MetadataStore, Contents]) -> None:
    store, stored = filled
    for kind in _KINDS:
        for parts in (1, 2, 3, 5, 16, 1000):
            shares = await partitioned(store, kind, parts)
            met = [item for share in shares for item in share]
            assert contents(met) == of_kind(stored, kind), (kind.name, parts)


async def test_ranges_follow_one_another_in_the_order_of_the_scan(filled: tuple[MetadataStore, Contents]) -> None:
    store, _ = filled
    for kind in _KINDS:
        whole = [item async for page in store.scan(kinds=(kind,)) for item in page]
        shares = await partitioned(store, kind, 7)
        assert [item for share in shares for item in share] == whole


async def test_ranges_of_a_prefix_hold_what_begins_so(filled: tuple[MetadataStore, Contents]) -> None:
    store, stored = filled
    for prefix in PREFIXES:
        for kind in _KINDS:
            shares = await partitioned(store, kind, 3, prefix)
            assert contents(item for share in shares for item in share) == of_kind(stored, kind, prefix), prefix


async def test_ranges_of_a_hub_hold_at_least_its_owner_records(small_pages: MetadataStore) -> None:
    at = [("127.0.0.1:4080:-1", 5), ("127.0.0.1:4080:-1", 6), ("127.0.0.1:40801:-1", 5), ("127.0.0.1:408:4080", 5)]
    hubs = [*(HubInfo.at(address, epoch=epoch) for address, epoch in at), HubInfo.at("hüb.example:4080:-1", log=7)]
    topics = [Topic(b"t-%03d" % number) for number in range(60)]
    owners = {topic: hubs[number % len(hubs)] for number, topic in enumerate(topics)}
    writes = [Write(RecordKey(topic), owner, NEW) for topic, owner in owners.items()]
    for outcome in await small_pages.ownership.apply(writes):
        outcome.check()
    for address in {hub.address for hub in hubs}:
        ranges = await small_pages.key_ranges(OWNERSHIP, 3)
        shares = await read(small_pages, [replace(keys, hub=address) for keys in ranges])
        met = [item.key.topic for share in shares for item in share if item.read().value.address == address]
        assert sorted(met) == [topic for topic in topics if owners[topic].address == address]


async def test_ranges_hold_awkward_names(small_pages: MetadataStore) -> None:
    topics = [Topic(name) for name in (*AWKWARD, *LONGEST.values())]
    own = [Write(RecordKey(topic), LedgerRanges(), NEW) for topic in topics]
    # Subscribers on a topic whose name begins other topics, and on each topic a subscriber of the topic's own name.
    crowded = [Write(RecordKey(Topic(b"a"), SubscriberId(name)), samples.subscription(1), NEW) for name in AWKWARD]
    single = [
        Write(RecordKey(topic, SubscriberId(topic)), samples.subscription(2), NEW) for topic in topics if topic != b"a"
    ]
    for created in await small_pages.persistence.apply(own):
        created.check()
    for outcome in await small_pages.subscriptions.apply([*crowded, *single]):
        outcome.check()
    for kind, writes in ((PERSISTENCE, own), (SUBSCRIPTIONS, [*crowded, *single])):
        for parts in (2, 9):
            shares = await partitioned(small_pages, kind, parts)
            met = [item.key for share in shares for item in share]
            assert len(met) == len(set(met))
            assert set(met) == {write.key for write in writes}


async def test_empty_store_has_one_range(small_pages: MetadataStore) -> None:
    for kind in _KINDS:
        assert await partitioned(small_pages, kind, 8) == [[]]
        assert await partitioned(small_pages, kind, 8, b"prefix") == [[]]


async def test_many_records_are_cut_into_fair_shares(empty_store: MetadataStore) -> None:
    topics = [Topic(b"topic/%05d" % number) for number in range(2000)]
    for outcome in await empty_store.persistence.apply(
        [Write(RecordKey(topic), LedgerRanges(), NEW) for topic in topics]
    ):
        outcome.check()
    for parts in (2, 5):
        shares = await partitioned(empty_store, PERSISTENCE, parts)
        assert len(shares) == parts
        assert max(map(len, shares)) < 2 * len(topics) / parts
    # HBase estimates the number of records from samples.
    few = await empty_store.key_ranges(PERSISTENCE, 100, rows_min=500)
    assert 3 <= len(few) <= 6
    assert sum(keys.rows for keys in few) == pytest.approx(len(topics), rel=0.35)
    (all_of_them,) = await empty_store.key_ranges(PERSISTENCE, 100, rows_min=1_000_000)
    assert all_of_them.rows == pytest.approx(len(topics), rel=0.35)


async def test_records_that_come_and_go_after_the_cut_do_no_harm(small_pages: MetadataStore) -> None:
    stored = await fill(small_pages)
    ranges = await small_pages.key_ranges(SUBSCRIPTIONS, 5)
    deleted = [key for _, key in of_kind(stored, SUBSCRIPTIONS)][::3]
    for outcome in await small_pages.subscriptions.apply([Delete(key, ANY) for key in deleted]):
        outcome.check()
    new = [RecordKey(Topic(b"t-%03d+" % number), SubscriberId(b"new")) for number in range(40)]
    for outcome in await small_pages.subscriptions.apply([Write(key, samples.subscription(1), NEW) for key in new]):
        outcome.check()
    met = [item.key for share in await read(small_pages, ranges) for item in share]
    assert len(met) == len(set(met))
    kept = {key for _, key in of_kind(stored, SUBSCRIPTIONS)} - set(deleted)
    # New records are returned if the store can be read from one key to another, and never twice.
    assert kept <= set(met) <= kept | set(new)


async def test_record_that_cannot_be_read_is_in_its_range(
    small_pages: MetadataStore, clients: Clients, empty_subject: Subject
) -> None:
    stored = await fill(small_pages)
    probe = await clients.probe(empty_subject, small_pages)
    _, key = next(iter(of_kind(stored, SUBSCRIPTIONS)))
    await probe.corrupt(SUBSCRIPTIONS, key)
    shares = await partitioned(small_pages, SUBSCRIPTIONS, 4)
    (broken,) = [item for share in shares for item in share if item.error is not None]
    assert broken.key == key
    with pytest.raises(CorruptRecordError):
        broken.read()
    # Later tests may use the same store, and have to read it in order to empty it.
    (call,) = (call for call in CALLS if call.kind is SUBSCRIPTIONS)
    for outcome in await call.apply(small_pages, [Delete(key, ANY)]):
        outcome.check()


async def test_range_may_be_left_at_any_page(filled: tuple[MetadataStore, Contents]) -> None:
    store, stored = filled
    (whole,) = await store.key_ranges(SUBSCRIPTIONS, 1)
    async with aclosing(store.scan_range(whole)) as pages:
        async for page in pages:
            assert page
            break
    (met,) = await read(store, [whole])
    assert contents(met) == of_kind(stored, SUBSCRIPTIONS)


async def test_cuts_that_make_no_sense_are_refused(small_pages: MetadataStore) -> None:
    with pytest.raises(InvalidArgumentError):
        await small_pages.key_ranges(PERSISTENCE, 0)
    with pytest.raises(InvalidArgumentError):
        await small_pages.key_ranges(PERSISTENCE, 1, rows_min=0)
    with pytest.raises(InvalidArgumentError, match="no records of a kind 'nobody'"):
        await read(small_pages, [KeyRange(kind="nobody")])
