"""Cut a table into ranges: between its HBase regions if a border is near, else inside of them by the hash of keys.

Only the region servers know how many rows a region has, and a gateway does not report it. There are two estimates:

- Keys are spread evenly over the hash in front of them, so a region holds about its share of the hash. This is wrong
  for a topic with very many subscriptions, which all have the same hash.
- HBase splits a region that has become large, so regions are about equal. This is wrong for a table cut by hand.

So the size of a region is taken as the mean of both.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

from hedwig.metadata.hbase.keys import BUCKETS, bucket_start

__all__ = ["END", "bucket_from", "cuts"]

_NEAR: Final = 0.25
"""A cut moves by up to this share of a range to the end of an HBase region."""

END: Final = bucket_start(BUCKETS)
"""The key behind all rows."""


def bucket_from(row: bytes) -> int:
    """Return the first hash value whose rows are all at `row` or later. An operator may cut tables at any key."""
    return bisect_left(range(BUCKETS), row, key=bucket_start)


def cuts(starts: Sequence[bytes], parts: int) -> list[bytes]:
    """Return the row keys that cut a table into at most `parts` ranges, in order, without the ends of the table.

    Args: starts - the start keys of its HBase regions, the first of which is empty.
    """
    edges = sorted({start for start in starts if start < END} | {b""})
    buckets = [*map(bucket_from, edges), BUCKETS]
    shares = [((end - start) / BUCKETS + 1 / len(edges)) / 2 for start, end in pairwise(buckets)]
    before = [0.0, *accumulate(shares)]
    keys = set()
    for index in range(1, parts):
        wanted = index / parts
        region = min(bisect_right(before, wanted) - 1, len(edges) - 1)
        nearest = min((region, region + 1), key=lambda edge: abs(before[edge] - wanted))
        if abs(before[nearest] - wanted) <= _NEAR / parts:
            keys.add(edges[nearest] if nearest < len(edges) else END)
        else:
            inside = (wanted - before[region]) / shares[region]
            bucket = buckets[region] + round(inside * (buckets[region + 1] - buckets[region]))
            keys.add(max(edges[region], bucket_start(bucket)))
    return sorted(keys - {b"", END})
