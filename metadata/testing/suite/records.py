"""Prove that a record keeps every field, also newer ones, and that updates leave other parts alone."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from hedwig.errors import BadVersionError, CorruptRecordError, InvalidArgumentError, RecordTooLargeError
from hedwig.metadata import MetadataStore, RecordKey
from hedwig.metadata.testing import samples
from hedwig.metadata.testing.clients import Names
from hedwig.metadata.testing.doors import CALLS, Call
from hedwig.metadata.testing.probe import Probe
from hedwig.model import (
    HubInfo,
    LedgerRange,
    LedgerRanges,
    MessageSeqId,
    RegionSeqId,
    SubscriptionData,
    SubscriptionPreferences,
    Topic,
)
from hedwig.versions import ANY, NEW, Versioned

OWNERSHIP, PERSISTENCE, SUBSCRIPTION = CALLS


async def _round_trip(manager: Call, store: MetadataStore, key: RecordKey, value: Any) -> None:
    """Write `value` as a new record and over an existing one, and check that each read returns it."""
    created = await manager.write(store, key, value, NEW)
    assert await manager.read(store, key) == Versioned(value, created)
    other = await manager.write(store, key, manager.value(1), created)
    again = await manager.write(store, key, value, other)
    assert await manager.read(store, key) == Versioned(value, again)
    await manager.delete(store, key, again)


# ---------------------------------------------------------------------------------------------------------- every field


@pytest.mark.parametrize("hub", samples.EXTREME_HUBS.values(), ids=samples.EXTREME_HUBS)
async def test_extreme_hub_comes_back(hub: HubInfo, store: MetadataStore, names: Names) -> None:
    await _round_trip(OWNERSHIP, store, OWNERSHIP.key(names(b"topic")), hub)


@pytest.mark.parametrize("ranges", samples.EXTREME_RANGES.values(), ids=samples.EXTREME_RANGES)
async def test_extreme_ledger_ranges_come_back(ranges: LedgerRanges, store: MetadataStore, names: Names) -> None:
    await _round_trip(PERSISTENCE, store, PERSISTENCE.key(names(b"topic")), ranges)


@pytest.mark.parametrize("data", samples.EXTREME_SUBSCRIPTIONS.values(), ids=samples.EXTREME_SUBSCRIPTIONS)
async def test_extreme_subscription_comes_back(data: SubscriptionData, store: MetadataStore, names: Names) -> None:
    key = SUBSCRIPTION.key(names(b"topic"))
    await _round_trip(SUBSCRIPTION, store, key, data)
    await SUBSCRIPTION.write(store, key, data, NEW)
    listed = [(name, record.value) async for name, record in store.subscriptions.read_subscriptions(key.topic)]
    assert listed == [(key.subscriber, data)]


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hub=samples.hubs, ranges=samples.ledger_ranges, data=samples.subscriptions)
async def test_any_record_comes_back(
    hub: HubInfo, ranges: LedgerRanges, data: SubscriptionData, store: MetadataStore, names: Names
) -> None:
    for manager, value in ((OWNERSHIP, hub), (PERSISTENCE, ranges), (SUBSCRIPTION, data)):
        key = manager.key(names(b"any"))
        written = await manager.write(store, key, value, ANY)
        assert await manager.read(store, key) == Versioned(value, written)


FAR = samples.UINT64_MAX + 1
WIDE = samples.UINT32_MAX + 1
UNSTORABLE: dict[str, Callable[[], Any]] = {
    "negative epoch": lambda: HubInfo(host="h", port=1, epoch=-1),
    "large epoch": lambda: HubInfo(host="h", port=1, epoch=FAR),
    "negative port": lambda: HubInfo(host="h", port=-1),
    "large port": lambda: HubInfo(host="h", port=65536),
    "TLS port that means none": lambda: HubInfo(host="h", port=1, ssl_port=-1),
    "large TLS port": lambda: HubInfo(host="h", port=1, ssl_port=65536),
    "no host": lambda: HubInfo(host="", port=1),
    "host of half a character": lambda: HubInfo(host="\ud800", port=1),
    "negative ledger id": lambda: LedgerRange(ledger_id=-1, start=1),
    "large ledger id": lambda: LedgerRange(ledger_id=FAR, start=1),
    "negative start": lambda: LedgerRange(ledger_id=1, start=-1),
    "large start": lambda: LedgerRange(ledger_id=1, start=FAR),
    "negative message id": lambda: MessageSeqId(-1),
    "large message id": lambda: MessageSeqId(FAR),
    "negative remote id": lambda: RegionSeqId(b"r", -1),
    "large remote id": lambda: RegionSeqId(b"r", FAR),
    "negative bound": lambda: SubscriptionPreferences(message_bound=-1),
    "large bound": lambda: SubscriptionPreferences(message_bound=WIDE),
    "negative window": lambda: SubscriptionPreferences(message_window_size=-1),
    "large window": lambda: SubscriptionPreferences(message_window_size=WIDE),
    "filter of half a character": lambda: SubscriptionPreferences(message_filter="\ud800"),
    "option of half a character": lambda: SubscriptionPreferences(options={"\ud800": b""}),
}


@pytest.mark.parametrize("what", UNSTORABLE)
def test_value_that_some_backend_cannot_keep_cannot_be_made(what: str) -> None:
    """A value that only some backends can store would be lost in a migration."""
    with pytest.raises(InvalidArgumentError):
        UNSTORABLE[what]()


# ----------------------------------------------------------------------------------------------------------- size limit


def _sized(manager: Call, size: int) -> Any:
    """Return a record that encodes to a little more than `size` bytes, and grows with it byte by byte."""
    if manager is OWNERSHIP:
        return HubInfo(host="h" * size, port=4080, epoch=1)
    if manager is PERSISTENCE:
        end = MessageSeqId(1, (RegionSeqId(b"r" * size, 1),))
        return LedgerRanges((LedgerRange(ledger_id=1, start=1, end=end),))
    return SubscriptionData(preferences=SubscriptionPreferences(options={"o": b"v" * size}), state=samples.state(1))


async def test_record_at_the_limit_fits_and_one_byte_more_does_not(
    manager: Call, store: MetadataStore, probe: Probe, names: Names
) -> None:
    key, refused = manager.key(names(b"topic")), manager.key(names(b"refused"))
    limit = manager.kind.bytes_max
    fits, too_large = limit - 1024, limit + 1
    while too_large - fits > 1:
        size = (fits + too_large) // 2
        try:
            await manager.write(store, key, _sized(manager, size), ANY)
            fits = size
        except RecordTooLargeError:
            too_large = size
    assert limit - 1024 < fits < limit
    version = await manager.write(store, key, _sized(manager, fits), ANY)
    assert await manager.read(store, key) == Versioned(_sized(manager, fits), version)
    before = await probe.cells(manager.kind, key)
    with pytest.raises(RecordTooLargeError, match=str(limit)):
        await manager.write(store, key, _sized(manager, too_large), version)
    assert await probe.cells(manager.kind, key) == before
    with pytest.raises(RecordTooLargeError):
        await manager.write(store, refused, _sized(manager, too_large), NEW)
    assert await probe.cells(manager.kind, refused) == {}


# -------------------------------------------------------------------------------------------------------- newer formats


async def test_newer_fields_survive_a_write(
    manager: Call, store: MetadataStore, other: MetadataStore, probe: Probe, names: Names
) -> None:
    key = manager.key(names(b"topic"))
    await manager.write(store, key, manager.value(1), NEW)
    added = await probe.add_unknown_fields(manager.kind, key)
    record = await manager.read(store, key)
    assert record is not None
    assert record.value == manager.value(1)
    version = await manager.write(other, key, _changed(record.value), record.version)
    assert await probe.unknown_fields(manager.kind, key) == added
    again = await manager.read(store, key)
    assert again == Versioned(_changed(manager.value(1)), version)
    await manager.write(store, key, again.value, again.version)
    assert await probe.unknown_fields(manager.kind, key) == added


def _changed(value: Any) -> Any:
    """Return the record with a known field changed, as a caller that has read the record would write it."""
    if isinstance(value, HubInfo):
        return replace(value, epoch=value.epoch + 1)
    if isinstance(value, LedgerRanges):
        closed = replace(value.ranges[1], end=MessageSeqId(99))
        return replace(value, ranges=(value.ranges[0], closed))
    return replace(value, state=replace(value.state, consumed=MessageSeqId(value.state.consumed.local + 1)))


async def test_newer_fields_survive_a_partial_update(store: MetadataStore, probe: Probe, names: Names) -> None:
    key = SUBSCRIPTION.key(names(b"topic"))
    subscriber = key.subscriber
    assert subscriber is not None
    await SUBSCRIPTION.write(store, key, samples.subscription(1), NEW)
    added = await probe.add_unknown_fields(SUBSCRIPTION.kind, key)
    record = await store.subscriptions.read(key.topic, subscriber)
    assert record is not None
    for part in ("state", "preferences"):
        update = SubscriptionData(**{part: getattr(record.value, part)})
        version = await store.subscriptions.update(key.topic, subscriber, update, record.version)
        assert await probe.unknown_fields(SUBSCRIPTION.kind, key) == added
        record = replace(record, version=version)


# ------------------------------------------------------------------------------------------------------ corrupt records


async def test_corrupt_record_is_reported_and_can_be_repaired(
    manager: Call, store: MetadataStore, probe: Probe, names: Names
) -> None:
    overwritten, deleted, sound = (manager.key(names(name)) for name in (b"overwritten", b"deleted", b"sound"))
    for key in (overwritten, deleted, sound):
        await manager.write(store, key, manager.value(1), NEW)
    for key in (overwritten, deleted):
        await probe.corrupt(manager.kind, key)
        with pytest.raises(CorruptRecordError) as report:
            await manager.read(store, key)
        assert str(key) in str(report.value)
        assert "\n" not in str(report.value)
    repaired = await manager.write(store, overwritten, manager.value(2), ANY)
    assert await manager.read(store, overwritten) == Versioned(manager.value(2), repaired)
    await manager.delete(store, deleted, ANY)
    assert await manager.read(store, deleted) is None
    assert (await manager.read(store, sound)) is not None


async def test_corrupt_record_refuses_a_compare_and_set(
    manager: Call, store: MetadataStore, probe: Probe, names: Names
) -> None:
    """A refusal that cannot return the current record must differ from one that can."""
    key = manager.key(names(b"topic"))
    created = await manager.write(store, key, manager.value(1), NEW)
    stale, _ = created, await manager.write(store, key, manager.value(2), created)
    await probe.corrupt(manager.kind, key)
    before = await probe.cells(manager.kind, key)
    for version in (NEW, stale):
        with pytest.raises((CorruptRecordError, BadVersionError)) as refusal:
            await manager.write(store, key, manager.value(3), version)
        assert getattr(refusal.value, "current", None) is None
    assert await probe.cells(manager.kind, key) == before


async def test_corrupt_version_is_reported_and_can_be_repaired(
    manager: Call, store: MetadataStore, probe: Probe, names: Names
) -> None:
    overwritten, deleted, sound = (manager.key(names(name)) for name in (b"overwritten", b"deleted", b"sound"))
    created = {key: await manager.write(store, key, manager.value(1), NEW) for key in (overwritten, deleted, sound)}
    for key in (overwritten, deleted):
        if await probe.corrupt_version(manager.kind, key):
            with pytest.raises((CorruptRecordError, BadVersionError)):
                await manager.write(store, key, manager.value(3), created[key])
            with pytest.raises((CorruptRecordError, BadVersionError)):
                await manager.delete(store, key, created[key])
    repaired = await manager.write(store, overwritten, manager.value(2), ANY)
    assert await manager.read(store, overwritten) == Versioned(manager.value(2), repaired)
    await manager.delete(store, deleted, ANY)
    assert await manager.read(store, deleted) is None
    assert await manager.read(store, sound) == Versioned(manager.value(1), created[sound])


async def test_corrupt_subscription_does_not_end_a_scan_quietly(
    store: MetadataStore, probe: Probe, names: Names
) -> None:
    topic = Topic(names(b"topic"))
    for number in range(3):
        await SUBSCRIPTION.write(store, RecordKey(topic, b"s%d" % number), samples.subscription(number), NEW)  # type: ignore[arg-type]
    await probe.corrupt(SUBSCRIPTION.kind, RecordKey(topic, b"s1"))  # type: ignore[arg-type]
    with pytest.raises(CorruptRecordError, match="s1"):
        _ = [name async for name, _ in store.subscriptions.read_subscriptions(topic)]
    assert [name async for name in store.subscriptions.topics(prefix=topic)] == [topic]
    assert await store.subscriptions.count_subscriptions(topic) == 3


# ------------------------------------------------------------------------------------------------------- partial update


async def test_update_writes_the_parts_that_are_present(store: MetadataStore, names: Names) -> None:
    key = SUBSCRIPTION.key(names(b"topic"))
    subscriber = key.subscriber
    assert subscriber is not None
    version = await SUBSCRIPTION.write(store, key, samples.subscription(1), NEW)
    steps = [
        (SubscriptionData(state=samples.state(2)), (1, 2)),
        (SubscriptionData(preferences=samples.preferences(3)), (3, 2)),
        (SubscriptionData(), (3, 2)),
        (samples.subscription(4), (4, 4)),
        (SubscriptionData(state=samples.state(5)), (4, 5)),
    ]
    for data, (preferences, state) in steps:
        version = await store.subscriptions.update(key.topic, subscriber, data, version)
        expected = SubscriptionData(preferences=samples.preferences(preferences), state=samples.state(state))
        assert await SUBSCRIPTION.read(store, key) == Versioned(expected, version)


async def test_update_adds_a_part_that_was_absent(store: MetadataStore, names: Names) -> None:
    key = SUBSCRIPTION.key(names(b"topic"))
    subscriber = key.subscriber
    assert subscriber is not None
    version = await SUBSCRIPTION.write(store, key, SubscriptionData(), NEW)
    only_state = SubscriptionData(state=samples.state(1))
    version = await store.subscriptions.update(key.topic, subscriber, only_state, version)
    assert await SUBSCRIPTION.read(store, key) == Versioned(only_state, version)
    empty = SubscriptionData(preferences=SubscriptionPreferences())
    version = await store.subscriptions.update(key.topic, subscriber, empty, version)
    expected = SubscriptionData(preferences=SubscriptionPreferences(), state=samples.state(1))
    assert await SUBSCRIPTION.read(store, key) == Versioned(expected, version)


async def test_update_with_any_creates_just_what_it_brings(store: MetadataStore, names: Names) -> None:
    """The content of a deleted subscription must not return with the next one."""
    key = SUBSCRIPTION.key(names(b"topic"))
    subscriber = key.subscriber
    assert subscriber is not None
    version = await SUBSCRIPTION.write(store, key, samples.subscription(1), NEW)
    await SUBSCRIPTION.delete(store, key, version)
    data = SubscriptionData(state=samples.state(2))
    version = await store.subscriptions.update(key.topic, subscriber, data, ANY)
    assert await SUBSCRIPTION.read(store, key) == Versioned(data, version)
    await SUBSCRIPTION.delete(store, key, version)
    version = await SUBSCRIPTION.write(store, key, data, NEW)
    assert await SUBSCRIPTION.read(store, key) == Versioned(data, version)


async def test_replacement_removes_the_parts_that_are_absent(store: MetadataStore, names: Names) -> None:
    key = SUBSCRIPTION.key(names(b"topic"))
    subscriber = key.subscriber
    assert subscriber is not None
    version = await SUBSCRIPTION.write(store, key, samples.subscription(1), NEW)
    for data in (
        SubscriptionData(state=samples.state(2)),
        SubscriptionData(preferences=samples.preferences(3)),
        SubscriptionData(),
        samples.subscription(4),
    ):
        version = await store.subscriptions.replace(key.topic, subscriber, data, version)
        assert await SUBSCRIPTION.read(store, key) == Versioned(data, version)


async def test_moving_the_state_leaves_the_stored_preferences_alone(
    store: MetadataStore, other: MetadataStore, probe: Probe, names: Names
) -> None:
    key = SUBSCRIPTION.key(names(b"topic"))
    subscriber = key.subscriber
    assert subscriber is not None
    version = await SUBSCRIPTION.write(store, key, samples.subscription(1), NEW)
    preferences, state = await probe.preferences(key), await probe.state(key)
    assert preferences is not None
    assert state is not None
    for number in range(2, 40):
        moved = SubscriptionData(state=samples.state(number))
        client = (store, other)[number % 2]
        version = await client.subscriptions.update(key.topic, subscriber, moved, version)
    # The store's own time marks confirm it. They changed for the state, but not for the preferences.
    assert await probe.preferences(key) == preferences
    assert await probe.state(key) != state
    expected = SubscriptionData(preferences=samples.preferences(1), state=samples.state(39))
    assert await SUBSCRIPTION.read(store, key) == Versioned(expected, version)


async def test_whether_updates_are_partial_is_told(store: MetadataStore) -> None:
    assert store.subscriptions.is_partial_update_supported in (True, False)
