"""Row keys are injective, keep a topic's rows together and apart from all others, and can be decoded."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedwig.metadata.hbase.keys import (
    BUCKETS,
    after,
    bucket_start,
    past_prefix,
    split_points,
    split_row,
    topic_key,
)

# The escape concerns zero and FF, so most names have some of them.
NAMES = st.lists(st.sampled_from([b"\x00", b"\x01", b"\xff", b"a", b"/"]), min_size=1, max_size=6).map(b"".join)


def test_the_worked_example_of_the_layout_page() -> None:
    assert topic_key(b"news/eu\x00") == b"f52dnews/eu\x00\xff\x00\x01"
    assert topic_key(b"x")[:4] == hashlib.sha256(b"x").hexdigest()[:4].encode()


@given(NAMES, NAMES)
def test_a_row_gives_its_names_back(topic: bytes, subscriber: bytes) -> None:
    assert split_row(topic_key(topic) + subscriber) == (topic, subscriber)


@given(NAMES, NAMES, NAMES)
def test_the_rows_of_a_topic_are_exactly_those_that_begin_with_its_key(
    topic: bytes, other: bytes, subscriber: bytes
) -> None:
    row = topic_key(other) + subscriber
    start = topic_key(topic)
    assert row.startswith(start) == (start <= row < past_prefix(start)) == (topic == other)


@given(NAMES, NAMES)
def test_inside_a_bucket_topics_keep_the_order_of_their_names(one: bytes, two: bytes) -> None:
    assert (topic_key(one)[4:] < topic_key(two)[4:]) == (one < two)


@given(st.binary(min_size=1, max_size=8).filter(lambda prefix: prefix.strip(b"\xff") != b""), st.binary(max_size=4))
def test_past_prefix_comes_after_all_that_begin_with_it_and_nothing_else(prefix: bytes, rest: bytes) -> None:
    assert prefix + rest < past_prefix(prefix)
    assert past_prefix(prefix)[: len(prefix)] > prefix[: len(past_prefix(prefix))]


def test_the_longest_names_fit_into_a_row_key_of_hbase() -> None:
    assert len(topic_key(bytes(8192)) + bytes(8192)) <= 32_767


def test_split_points_cut_the_hash_into_equal_shares() -> None:
    assert split_points(4) == [b"4000", b"8000", b"c000"]
    assert split_points(1) == []
    assert bucket_start(0) == b"0000"
    assert bucket_start(BUCKETS) > b"ffff\xff\xff"


def test_after_is_the_next_possible_row() -> None:
    assert b"row" < after(b"row") <= b"row\x00"


def test_a_row_without_a_terminator_is_refused() -> None:
    with pytest.raises(ValueError, match="terminator"):
        split_row(b"0000name")
