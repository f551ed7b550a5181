"""Prove on every backend that faults of records are found, and that a repair changes a record only as it was seen."""

from contextlib import aclosing
from typing import Any

import pytest

from hedwig.errors import BadVersionError, NoRecordError
from hedwig.metadata import MetadataStore, RecordKey, StoreOptions
from hedwig.metadata.bulk.findings import (
    Finding,
    FindingKind,
    find_lone_subscriptions,
    find_ranges,
    find_unreadable,
    pages,
)
from hedwig.metadata.bulk.repairs import (
    Renewals,
    RepairResult,
    delete_unreadable,
    make_topic,
    release_dead_owner,
    reset_pointer,
)
from hedwig.metadata.contract.kinds import OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS
from hedwig.metadata.testing import samples
from hedwig.metadata.testing.clients import Clients
from hedwig.metadata.testing.subject import Subject
from hedwig.model import HubInfo, LedgerRange, LedgerRanges, MessageSeqId, SubscriberId, Topic
from hedwig.model import SubscriptionData as Data
from hedwig.model import SubscriptionPreferences as Preferences
from hedwig.model import SubscriptionState as State
from hedwig.versions import NEW, Version

THROUGH_THE_GATEWAY = ("test_unreadable_records_are_deleted_at_the_version_that_was_seen",)

TOPIC = Topic(b"a/topic")
READER = SubscriberId(b"reader")
KEY = RecordKey(TOPIC, READER)
DEAD = HubInfo(host="127.0.0.1", port=9, epoch=7)
BROKEN = LedgerRanges(
    (
        LedgerRange(ledger_id=1, start=1, end=MessageSeqId(5)),
        LedgerRange(ledger_id=2, start=5, end=MessageSeqId(9)),
        LedgerRange(ledger_id=3, start=12),
    )
)
CONSUMED = Data(preferences=Preferences(message_bound=3), state=State(MessageSeqId(57)))


async def findings_of(store: MetadataStore, prefix: bytes | None = None) -> list[Finding]:
    """Return the findings from the records alone."""
    findings: list[Finding] = []
    read = 0

    def count(records: int) -> None:
        nonlocal read
        read += records

    async with aclosing(pages(store, list(FindingKind), prefix, count)) as scanned:
        async for page in scanned:
            findings += find_unreadable(page)
            findings += find_ranges(page, list(FindingKind))
            findings += await find_lone_subscriptions(store, page)
            assert all(not record.value.is_fleeting for _, record in page.owners)
    assert read == sum((await store.count()).values()) or prefix is not None
    return findings


async def _version(store: MetadataStore) -> Version:
    record = await store.persistence.read(TOPIC)
    assert record is not None
    return record.version


async def test_sound_store_has_no_findings(empty_store: MetadataStore) -> None:
    for number in range(40):
        topic = Topic(b"t-%02d" % number)
        await store_topic(empty_store, topic, subscribers=number % 5)
    assert await findings_of(empty_store) == []


async def store_topic(store: MetadataStore, topic: Topic, subscribers: int) -> None:
    await store.persistence.write(topic, LedgerRanges(), NEW)
    await store.ownership.write(topic, DEAD, NEW)
    for number in range(subscribers):
        await store.subscriptions.create(topic, samples.subscriber(number), CONSUMED)


async def test_each_fault_is_found_on_its_record_also_across_pages(clients: Clients, empty_subject: Subject) -> None:
    store = await clients.open(empty_subject, StoreOptions(page_rows=7))
    for number in range(30):
        await store_topic(store, Topic(b"t-%02d" % number), subscribers=4)
    await store.persistence.write(Topic(b"u/broken"), BROKEN, NEW)
    lone = [SubscriberId(b"s-%02d" % number) for number in range(20)]
    for subscriber in lone:
        await store.subscriptions.create(Topic(b"u/lone"), subscriber, CONSUMED)
    findings = await findings_of(store)
    assert {(each.kind, each.key) for each in findings} == {
        (FindingKind.RANGE_OVERLAP, RecordKey(Topic(b"u/broken"))),
        (FindingKind.RANGE_GAP, RecordKey(Topic(b"u/broken"))),
        *((FindingKind.LONE_SUBSCRIPTION, RecordKey(Topic(b"u/lone"), subscriber)) for subscriber in lone),
    }
    assert len(findings) == 22
    assert await findings_of(store, b"t-") == []
    assert len(await findings_of(store, b"u/lone")) == 20


async def test_topic_that_was_made_after_the_scan_passed_is_no_finding(empty_store: MetadataStore) -> None:
    await empty_store.subscriptions.create(TOPIC, READER, CONSUMED)
    async with aclosing(pages(empty_store, list(FindingKind), None, lambda _: None)) as scanned:
        async for page in scanned:
            assert TOPIC in page.lone
            await make_topic(empty_store, TOPIC)
            assert await find_lone_subscriptions(empty_store, page) == []


async def test_unreadable_records_are_deleted_at_the_version_that_was_seen(
    empty_store: MetadataStore, clients: Clients, empty_subject: Subject
) -> None:
    store = empty_store
    await store_topic(store, TOPIC, 0)
    await store.subscriptions.create(TOPIC, READER, CONSUMED)
    probe = await clients.probe(empty_subject, store)
    broken: list[tuple[Any, RecordKey]] = [(OWNERSHIP, RecordKey(TOPIC)), (SUBSCRIPTIONS, KEY)]
    for kind, key in broken:
        await probe.corrupt(kind, key)
    findings = await findings_of(store)
    assert {(each.kind, each.of, each.key) for each in findings} == {
        (FindingKind.UNREADABLE_RECORD, kind, key) for kind, key in broken
    }
    before = await _version(store)
    for each in findings:
        assert each.of is not None
        assert each.key is not None
        assert each.version is not None
        stale = Version(each.version.raw[:-1] + bytes([each.version.raw[-1] ^ 1]))
        assert await delete_unreadable(store, each.of, each.key, stale, Renewals()) is RepairResult.CHANGED
        assert await delete_unreadable(store, each.of, each.key, None, Renewals()) is RepairResult.LEFT
        assert await delete_unreadable(store, each.of, each.key, each.version, Renewals()) is RepairResult.REPAIRED
        assert await delete_unreadable(store, each.of, each.key, each.version, Renewals()) is RepairResult.CHANGED
    assert await _version(store) != before  # An owner by that record is now refused.
    assert await findings_of(store) == []


async def test_unreadable_ledger_ranges_are_never_deleted(
    empty_store: MetadataStore, clients: Clients, empty_subject: Subject
) -> None:
    await store_topic(empty_store, TOPIC, 1)
    probe = await clients.probe(empty_subject, empty_store)
    await probe.corrupt(PERSISTENCE, RecordKey(TOPIC))
    (finding,) = await findings_of(empty_store)
    assert (finding.kind, finding.of) == (FindingKind.UNREADABLE_RECORD, PERSISTENCE)
    assert finding.version is not None
    result = await delete_unreadable(empty_store, PERSISTENCE, RecordKey(TOPIC), finding.version, Renewals())
    assert result is RepairResult.LEFT
    assert len(await findings_of(empty_store)) == 1


async def test_release_of_a_dead_owner_shuts_out_what_it_may_have_sent(empty_store: MetadataStore) -> None:
    """A range write that the dead hub sent before is refused, as after a takeover. The next claim is no takeover."""
    store = empty_store
    seen_by_the_dead = await store.persistence.write(TOPIC, BROKEN, NEW)
    await store.ownership.write(TOPIC, DEAD, NEW)
    owner = await store.ownership.read(TOPIC)
    assert owner is not None
    assert await release_dead_owner(store, TOPIC, owner, Renewals()) is RepairResult.REPAIRED
    assert await store.ownership.read(TOPIC) is None
    kept = await store.persistence.read(TOPIC)
    assert kept is not None
    assert kept.value == BROKEN
    with pytest.raises(BadVersionError):
        await store.persistence.write(TOPIC, LedgerRanges(), seen_by_the_dead)
    assert await release_dead_owner(store, TOPIC, owner, Renewals()) is RepairResult.CHANGED


async def test_release_leaves_an_owner_alone_that_took_over_meanwhile(empty_store: MetadataStore) -> None:
    store = empty_store
    await store.persistence.write(TOPIC, BROKEN, NEW)
    await store.ownership.write(TOPIC, DEAD, NEW)
    owner = await store.ownership.read(TOPIC)
    assert owner is not None
    taken = await store.ownership.write(TOPIC, samples.hub(3), owner.version)
    before = await _version(store)
    assert await release_dead_owner(store, TOPIC, owner, Renewals()) is RepairResult.CHANGED
    assert await _version(store) == before
    now = await store.ownership.read(TOPIC)
    assert now is not None
    assert now.version == taken


async def test_release_of_a_topic_without_ranges_deletes_the_owner_alone(empty_store: MetadataStore) -> None:
    await empty_store.ownership.write(TOPIC, DEAD, NEW)
    owner = await empty_store.ownership.read(TOPIC)
    assert owner is not None
    assert await release_dead_owner(empty_store, TOPIC, owner, Renewals()) is RepairResult.REPAIRED
    assert [topic async for topic in empty_store.topics()] == []
    assert await Renewals().renew(empty_store, TOPIC)  # The topic does not exist, and `renew` does not make it.
    assert [topic async for topic in empty_store.topics()] == []


async def test_pointer_is_reset_and_nothing_else(empty_store: MetadataStore) -> None:
    store = empty_store
    await store.subscriptions.create(TOPIC, READER, CONSUMED)
    (finding,) = await findings_of(store)
    assert finding.record is not None
    assert await reset_pointer(store, KEY, finding.record) is RepairResult.REPAIRED
    now = await store.subscriptions.read(TOPIC, READER)
    assert now is not None
    assert now.value == Data(preferences=CONSUMED.preferences, state=State())
    # The finding has an older version of the record.
    assert await reset_pointer(store, KEY, finding.record) is RepairResult.CHANGED
    assert await make_topic(store, TOPIC) is RepairResult.REPAIRED
    assert await make_topic(store, TOPIC) is RepairResult.CHANGED
    assert await findings_of(store) == []
    await store.subscriptions.delete(TOPIC, READER, now.version)
    assert await reset_pointer(store, KEY, finding.record) is RepairResult.CHANGED
    with pytest.raises(NoRecordError):
        await store.subscriptions.delete(TOPIC, READER, now.version)


async def test_renewed_ranges_are_known_to_be_as_they_were_seen(empty_store: MetadataStore) -> None:
    store, renewals = empty_store, Renewals()
    first = await store.persistence.write(TOPIC, BROKEN, NEW)
    assert renewals.of(TOPIC, first) == first
    for _ in range(2):
        assert await renewals.renew(store, TOPIC)
        assert renewals.of(TOPIC, first) == await _version(store) != first
    written = await store.persistence.write(TOPIC, BROKEN, await _version(store))
    assert await renewals.renew(store, TOPIC)  # A write came between, so the first version is no longer known.
    assert renewals.of(TOPIC, first) == first
    assert renewals.of(TOPIC, written) == await _version(store)
