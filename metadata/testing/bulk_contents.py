"""The records with which a store is filled before it is scanned in bulk."""

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from hedwig.metadata import MetadataStore, RecordKey, ScannedRecord, Write
from hedwig.metadata.contract.kinds import KINDS, OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS
from hedwig.metadata.testing import samples
from hedwig.metadata.testing.doors import CALLS
from hedwig.model import SubscriberId, Topic
from hedwig.versions import NEW

__all__ = ["PREFIXES", "TOPICS", "Contents", "contents", "fill", "filled_contents"]

Contents: TypeAlias = dict[tuple[str, RecordKey], Any]

TOPICS: Final = (
    *(b"t-%03d" % number for number in range(40)),
    *(b"t-%03d/nested" % number for number in range(0, 40, 5)),
    *(
        b"\x00\x00",
        b"\x00",
        b"\x00\xff",
        b"a\xff",
        b"a\xff\x00",
        b"\xff",
        b"\xff\xff",
        b"\xfe",
        b"a/",
        b"a",
        b"a/b",
        b"a\x00",
    ),
)
PREFIXES: Final = (
    b"t-",
    b"t-00",
    b"t-001",
    b"t-001x",
    b"\x00",
    b"\xff",
    b"\xff\xff",
    b"a",
    b"a/",
    b"t-005/",
    b"/",
    b"",
)


def contents(items: Iterable[ScannedRecord]) -> Contents:
    """Return the scanned records by kind and key; no record may occur twice."""
    listed = [((item.kind.name, item.key), item.read().value) for item in items]
    assert len(dict(listed)) == len(listed)
    return dict(listed)


async def fill(store: MetadataStore, topics: Iterable[bytes] = TOPICS) -> Contents:
    """Store some, all or none of the three kinds for each topic, and up to 150 subscriptions; return the records."""
    writes = _writes(topics)
    for call in CALLS:
        for outcome in await call.apply(store, list(writes[call.kind.name])):
            outcome.check()
    return _contents_of(writes)


def filled_contents() -> Contents:
    """Return what `fill` stores."""
    return _contents_of(_writes(TOPICS))


def _contents_of(writes: dict[str, list[Write[Any]]]) -> Contents:
    return {(kind, write.key): write.record for kind, those in writes.items() for write in those}


def _writes(topics: Iterable[bytes]) -> dict[str, list[Write[Any]]]:
    numbers = {1: 1, 2: 7, 5: 23, 7: 30}
    writes: dict[str, list[Write[Any]]] = {kind.name: [] for kind in KINDS}
    for number, name in enumerate(topics):
        topic = Topic(name)
        if number % 3:
            writes[OWNERSHIP.name].append(Write(RecordKey(topic), samples.hub(number), NEW))
        if number % 4:
            writes[PERSISTENCE.name].append(Write(RecordKey(topic), samples.ranges(number), NEW))
        # More than one page, none at all, and for the first large topic more than is read ahead.
        for index in range(150 if number == 7 else numbers.get(number % 11, 0)):
            key = RecordKey(topic, SubscriberId(b"%d" % index))
            writes[SUBSCRIPTIONS.name].append(Write(key, samples.subscription(number * 1000 + index), NEW))
    return writes
