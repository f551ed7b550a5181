"""Prove that key ranges partition a store: every record is in exactly one of them, wherever it is read."""

from collections import Counter
from typing import Any

import pyarrow as pa

from hedwig.metadata import Delete, MetadataStore, RecordKey, ScannedRecord
from hedwig.metadata.contract.kinds import KINDS, SUBSCRIPTIONS, RecordKind
from hedwig.metadata.contract.operations import Outcome
from hedwig.metadata.contract.packed import PackedColumns, PackedValues
from hedwig.metadata.records.packing import part_codec
from hedwig.metadata.testing.bulk_contents import PREFIXES, fill
from hedwig.metadata.testing.suite.key_ranges import *  # noqa: F403
from hedwig.model import SubscriberId, Topic
from hedwig.versions import ANY, Version, Versioned

THROUGH_THE_GATEWAY = ("test_ranges_hold_every_record_once", "test_record_that_cannot_be_read_is_in_its_range")

_KINDS: tuple[RecordKind[Any], ...] = KINDS
_PAGE_ROWS = 7
"""The rows of a page of the fixture `small_pages`."""


async def test_records_as_they_are_stored_are_those_that_a_scan_reads(small_pages: MetadataStore) -> None:
    """Runs for the backends that return stored records: those that use our own form."""
    stored = await fill(small_pages)
    # Deleted records may leave tombstones, here for more than a page.
    subscribed = [key for name, key in stored if name == SUBSCRIPTIONS.name]
    ((popular, _),) = Counter(key.topic for key in subscribed).most_common(1)
    gone = [key for key in subscribed if key.topic == popular]
    assert len(gone) > 2 * _PAGE_ROWS
    for outcome in await small_pages.subscriptions.apply([Delete(key, ANY) for key in gone]):
        outcome.check()
    for kind in _KINDS:
        for prefix in (None, *PREFIXES[:2]):
            for keys in await small_pages.key_ranges(kind, 3, prefix):
                packed = small_pages.packed_range(keys)
                assert (packed is None) == (small_pages.url.scheme == "zookeeper")
                if packed is None:
                    continue
                pages = [page async for page in packed]
                scanned = [item async for page in small_pages.scan_range(keys) for item in page]
                assert [item for page in pages for item in page.records()] == scanned
                assert [item for page in pages for item in unpacked(kind, page.columns)] == scanned
                assert max((len(page.columns or ()) for page in pages), default=0) <= _PAGE_ROWS


def listed(values: PackedValues) -> list[Any]:
    """Return the values of a column, which may be an Arrow array."""
    return values.to_pylist() if isinstance(values, pa.Array) else list(values)


def unpacked(kind: RecordKind[Any], columns: PackedColumns | None) -> list[ScannedRecord]:
    """Return the records in columns."""
    assert columns is not None, "nothing is wrong with any of them"
    assert len(columns) > 0
    topics, versions, *parts = map(listed, (columns.topics, columns.versions, *columns.parts))
    subscribers = listed(columns.subscribers) or [None] * len(columns)
    rows = zip(topics, subscribers, versions, zip(*parts, strict=True), strict=True)
    return [
        ScannedRecord(
            kind,
            RecordKey(Topic(topic), None if subscriber is None else SubscriberId(subscriber)),
            Outcome(record=Versioned(part_codec(kind).unpack(parts), Version(version))),
        )
        for topic, subscriber, version, parts in rows
    ]
