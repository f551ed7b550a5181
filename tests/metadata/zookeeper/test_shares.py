"""Prove that ranges name each topic once, in order, and that no range has more names than one message may carry."""

import random
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import pytest

from hedwig.metadata.contract.kinds import PERSISTENCE
from hedwig.metadata.zookeeper.reads import key_ranges as module
from hedwig.metadata.zookeeper.reads.key_ranges import Shares, listed_topics
from hedwig.model import Topic

ROOM: Final = 1_000
LONGEST: Final = 600


async def _listing(topics: Sequence[tuple[Topic, int]]) -> AsyncIterator[tuple[Topic, Mapping[str, int]]]:
    for topic, records in topics:
        yield topic, {"ledgers": records}


async def _shares(topics: Sequence[tuple[Topic, int]]) -> Shares:
    shares = Shares("ledgers")
    await shares.take(_listing(topics))
    return shares


@pytest.mark.parametrize("parts", [1, 2, 3, 10, 1_000])
@pytest.mark.parametrize("rows_min", [1, 100, 100_000])
@pytest.mark.parametrize("number", [0, 1, 2, 400])
async def test_ranges_name_each_topic_once(
    monkeypatch: pytest.MonkeyPatch, number: int, rows_min: int, parts: int
) -> None:
    monkeypatch.setattr(module, "_NAMES_BYTES", ROOM)
    drawn = random.Random(number * rows_min * parts)
    topics = [
        (Topic(b"%04d" % index + b"x" * drawn.choice((0, 10, 500))), drawn.choice((1, 1, 1, 50)))
        for index in range(number)
    ]
    ranges = (await _shares(topics)).ranges(PERSISTENCE.name, b"", parts, rows_min)
    assert 1 <= len(ranges) <= parts
    assert [each for keys in ranges for each in listed_topics(keys.listed or b"")] == topics
    assert [keys.rows for keys in ranges] == [
        sum(records for _, records in listed_topics(keys.listed or b"")) for keys in ranges
    ]
    if parts == 1_000:
        assert max(len(zlib.decompress(keys.listed or b"")) for keys in ranges) < ROOM + LONGEST


async def test_names_of_usual_length_leave_the_number_of_ranges_to_the_records() -> None:
    topics = [(Topic(b"tenants/%06d/orders" % index), 1) for index in range(100_000)]
    shares = await _shares(topics)
    assert [keys.rows for keys in shares.ranges(PERSISTENCE.name, b"", 4, 1)] == [25_000] * 4
    (whole,) = shares.ranges(PERSISTENCE.name, b"", 4, 100_000)
    assert len(list(listed_topics(whole.listed or b""))) == len(topics)
