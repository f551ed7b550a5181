"""Row keys: the rows of records in an HBase table.

    key(topic) = four hex characters (the first two bytes of SHA-256 of the topic)
               + the topic with every 00 byte written 00 FF
               + 00 01, the terminator
    a subscription's row = key(topic) + the subscriber id as it is

The hash spreads topics that share a prefix over the HBase regions. The escape keeps names in their own byte order.
It also ensures that no key is the prefix of another topic's. So the rows of a topic are exactly those that begin with
its key. In a key the byte after 00 is FF inside a name and 01 at its end, so the topic can be read back.
"""

import hashlib
from typing import Final

from hedwig.model import SubscriberId, Topic

__all__ = [
    "BUCKETS",
    "ESCAPED_ZERO",
    "HASH_CHARACTERS",
    "TERMINATOR",
    "after",
    "bucket_of",
    "bucket_start",
    "escape",
    "past_prefix",
    "split_points",
    "split_row",
    "topic_key",
]

BUCKETS: Final = 1 << 16
"""The number of values of the hash in front of a key."""

HASH_CHARACTERS: Final = 4
TERMINATOR: Final = b"\x00\x01"
ESCAPED_ZERO: Final = b"\x00\xff"


def topic_key(topic: bytes) -> bytes:
    """Return the key with which all rows of `topic` begin."""
    return hashlib.sha256(topic).hexdigest()[:HASH_CHARACTERS].encode() + escape(topic) + TERMINATOR


def escape(name: bytes) -> bytes:
    """Return the form that a name, or the beginning of one, has inside a key."""
    return name.replace(b"\x00", ESCAPED_ZERO)


def split_row(row: bytes) -> tuple[Topic, SubscriberId]:
    """Return the topic and the subscriber id (empty outside the subscriptions table) of a row key.

    Raises: ValueError - the key does not begin with a `topic_key`.
    """
    end = row.find(TERMINATOR, HASH_CHARACTERS)
    if end < 0:
        raise ValueError(f"the row key {row[:64]!r} has no terminator after its topic")
    topic = row[HASH_CHARACTERS:end].replace(ESCAPED_ZERO, b"\x00")
    return Topic(topic), SubscriberId(row[end + len(TERMINATOR) :])


def after(row: bytes) -> bytes:
    """Return the first possible row key after `row`."""
    return row + b"\x00"


def past_prefix(prefix: bytes) -> bytes:
    """Return the first row key after all that begin with `prefix`, which must have a byte below FF."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1])


def bucket_start(bucket: int) -> bytes:
    """Return the row key at which the rows of a hash value begin. For BUCKETS it is the key after all rows."""
    return f"{bucket:04x}".encode() if bucket < BUCKETS else b"g"


def bucket_of(row: bytes) -> int:
    """Return the hash value of a row key; 0 for the beginning of the table."""
    return int(row[:HASH_CHARACTERS], 16) if row else 0


def split_points(regions: int) -> list[bytes]:
    """Return the row keys that cut a table into `regions` HBase regions of equal shares."""
    return [bucket_start(index * BUCKETS // regions) for index in range(1, regions)]
