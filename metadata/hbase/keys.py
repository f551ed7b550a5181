"""Row keys: where a record stands in an HBase table.

    key(topic) = four hex characters (the first two bytes of SHA-256 of the topic)
               + the topic with every 00 byte written 00 FF
               + 00 01, the terminator
    a subscription's row = key(topic) + the subscriber id as it is

The hash spreads topics that share a prefix over the HBase regions; the escape keeps names in their own byte order and
makes no key the prefix of another topic's, so all rows of a topic are exactly those that begin with its key. Whatever
follows 00 in a key is FF inside a name and 01 at its end, so the topic can be read back.
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
"""How many values the hash in front of a key has."""

HASH_CHARACTERS: Final = 4
TERMINATOR: Final = b"\x00\x01"
ESCAPED_ZERO: Final = b"\x00\xff"


def topic_key(topic: bytes) -> bytes:
    """Return the key under which all rows of `topic` stand."""
    return hashlib.sha256(topic).hexdigest()[:HASH_CHARACTERS].encode() + escape(topic) + TERMINATOR


def escape(name: bytes) -> bytes:
    """Return the form of a name, or of the beginning of one, inside a key."""
    return name.replace(b"\x00", ESCAPED_ZERO)


def split_row(row: bytes) -> tuple[Topic, SubscriberId]:
    """Return the topic and the subscriber id (empty outside the subscriptions table) of a row key.

    Raises: ValueError - it is not a key that `topic_key` begins.
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
    """Return the row key at which the rows of a hash value begin; of BUCKETS, the one after all rows."""
    return f"{bucket:04x}".encode() if bucket < BUCKETS else b"g"


def bucket_of(row: bytes) -> int:
    """Return the value of the hash at which a row key stands; 0 for the beginning of the table."""
    return int(row[:HASH_CHARACTERS], 16) if row else 0


def split_points(regions: int) -> list[bytes]:
    """Return the row keys that cut a table into `regions` HBase regions of equal shares."""
    return [bucket_start(index * BUCKETS // regions) for index in range(1, regions)]
