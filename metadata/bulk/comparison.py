"""Comparing two stores of any backends: all records but their versions, each side read once, in memory that is fixed.

The two sides list topics in orders of their own, so they cannot be read side by side. Instead every record adds a
digest of itself to the bucket of its topic. Two buckets with equal sums hold equal records. The sum is that of 128-bit
digests modulo 2^128, so the order of the records does not matter. To find the records behind a difference, a caller
reads those in the buckets that differ.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Final

from hedwig.metadata.contract.kinds import RecordKind
from hedwig.metadata.contract.operations import RecordKey
from hedwig.metadata.records.packing import part_codec
from hedwig.metadata.store import MetadataStore
from hedwig.model import HubInfo, LedgerRanges, SubscriptionData

__all__ = ["BUCKETS", "StoreDigest", "bucket_of", "digest_store", "plain_record"]

BUCKETS: Final = 1 << 16

_SUM: Final = 1 << 128


@dataclass(slots=True)
class StoreDigest:
    """What one store holds: a sum of digests for each bucket, and the number of records by the name of their kind."""

    sums: list[int]
    counts: Counter[str]

    def differing(self, other: "StoreDigest") -> frozenset[int]:
        """Return the buckets in which two stores differ."""
        pairs = zip(self.sums, other.sums, strict=True)
        return frozenset(bucket for bucket, (mine, theirs) in enumerate(pairs) if mine != theirs)


async def digest_store(
    store: MetadataStore, kinds: Sequence[RecordKind[Any]], advance: Callable[[int], None]
) -> StoreDigest:
    """Return the digest of all records of `kinds`; `advance` receives how many more were read.

    Raises: CorruptRecordError - a record cannot be read, and so not compared; MetadataUnavailableError.
    """
    store_digest = StoreDigest([0] * BUCKETS, Counter())
    topic, bucket = b"", 0
    async with aclosing(store.scan(kinds=kinds)) as pages:
        async for page in pages:
            for item in page:
                if item.key.topic != topic:
                    topic, bucket = item.key.topic, bucket_of(item.key.topic)
                digest = _digest(item.kind, item.key, item.read().value)
                store_digest.sums[bucket] = (store_digest.sums[bucket] + digest) % _SUM
            store_digest.counts.update(item.kind.name for item in page)
            advance(len(page))
    return store_digest


def bucket_of(topic: bytes) -> int:
    """Return the bucket of a topic."""
    return int.from_bytes(blake2b(topic, digest_size=2).digest(), "big")


def _digest(kind: RecordKind[Any], key: RecordKey, record: Any) -> int:
    hashed = blake2b(kind.name.encode(), digest_size=16)
    for part in (key.topic, key.subscriber, *part_codec(kind).pack(plain_record(record))):
        # The length in front keeps neighbours apart, and an absent part from an empty one.
        hashed.update(b"-" if part is None else b"%d:%b" % (len(part), part))
    return int.from_bytes(hashed.digest(), "big")


def plain_record(record: HubInfo | LedgerRanges | SubscriptionData) -> HubInfo | LedgerRanges | SubscriptionData:
    """Return a record in the one form that all equal ones have: known fields only, options in order."""
    match record:
        case HubInfo(unknown=None):
            return record
        case LedgerRanges(ranges=ranges, unknown=None) if all(item.unknown is None for item in ranges):
            return record
        case LedgerRanges(ranges=ranges):
            return LedgerRanges(tuple(replace(item, unknown=None) for item in ranges))
        case SubscriptionData(preferences=preferences, state=state):
            if preferences is not None and (preferences.unknown is not None or len(preferences.options) > 1):
                options = dict(sorted(preferences.options.items()))
                preferences = replace(preferences, options=options, unknown=None)
            if state is not None and state.unknown is not None:
                state = replace(state, unknown=None)
            return SubscriptionData(preferences=preferences, state=state)
        case _:
            return replace(record, unknown=None)
