"""Ranges of an HBase table are cut at the ends of its regions, and inside regions that are too large."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedwig.metadata.hbase.key_cuts import END, bucket_from, cuts
from hedwig.metadata.hbase.keys import BUCKETS, bucket_of, bucket_start, split_points, topic_key

EDGES = st.lists(
    st.one_of(st.binary(max_size=6), st.integers(0, BUCKETS).map(bucket_start), st.binary(min_size=1).map(topic_key)),
    max_size=12,
)


def test_as_many_ranges_as_regions_are_the_regions() -> None:
    assert cuts([b"", *split_points(16)], 16) == split_points(16)


def test_small_regions_are_merged_where_they_meet() -> None:
    assert cuts([b"", *split_points(64)], 4) == split_points(4)


def test_large_regions_are_cut_by_the_hash() -> None:
    assert cuts([b""], 4) == split_points(4)
    assert cuts([b"", *split_points(2)], 8) == split_points(8)


def test_regions_that_hbase_split_inside_of_one_large_topic_are_shared_out() -> None:
    middle = [topic_key(b"crowded") + b"%d" % number for number in range(6)]
    keys = cuts([b"", *middle], 7)
    assert len(set(keys) & set(middle)) >= 3


@given(EDGES, st.integers(1, 40))
def test_cuts_are_in_order_and_no_more_than_asked_for(starts: list[bytes], parts: int) -> None:
    keys = cuts([b"", *sorted(set(starts) - {b""})], parts)
    assert len(keys) < parts
    edges = [b"", *keys, END]
    assert all(start < stop for start, stop in pairwise(edges))


@given(st.integers(1, 64), st.integers(1, 64))
def test_ranges_of_an_even_table_are_about_equal(regions: int, parts: int) -> None:
    edges = [0, *(bucket_of(cut) for cut in cuts([b"", *split_points(regions)], parts)), BUCKETS]
    assert len(edges) == parts + 1
    assert max(stop - start for start, stop in pairwise(edges)) <= 1.6 * BUCKETS / parts + 2


@pytest.mark.parametrize(
    ("row", "bucket"), [(b"", 0), (b"0000", 0), (b"0000a", 1), (b"ffff", 0xFFFF), (b"zz", BUCKETS)]
)
def test_first_hash_value_behind_a_row_key(row: bytes, bucket: int) -> None:
    assert bucket_from(row) == bucket
