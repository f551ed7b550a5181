"""The positions of other regions, which a message, a range and a consume pointer hold besides their own position."""

from collections.abc import Iterable, Sequence
from typing import Final

from hedwig.errors import MalformedRequestError
from hedwig.model import RegionSeqId

__all__ = ["POSITIONS_BYTES_MAX", "bounded", "check_bound", "furthest"]

POSITIONS_BYTES_MAX: Final = 4096
"""Every later message of a topic repeats them, and every subscription in memory has some."""
_SEQ_ID_BYTES_MAX: Final = 16


def check_bound(remote: Iterable[RegionSeqId]) -> None:
    """Raise MalformedRequestError if the positions take more bytes than a client may store."""
    size = sum(len(each.region) + _SEQ_ID_BYTES_MAX for each in remote)
    if size > POSITIONS_BYTES_MAX:
        raise MalformedRequestError(
            f"positions in other regions take {size} bytes; at most {POSITIONS_BYTES_MAX} are kept"
        )


def furthest(ours: Sequence[RegionSeqId], theirs: Sequence[RegionSeqId]) -> tuple[RegionSeqId, ...]:
    """Return the greatest position of each region."""
    greatest = {each.region: each.seq_id for each in ours}
    for each in theirs:
        greatest[each.region] = max(each.seq_id, greatest.get(each.region, 0))
    return tuple(RegionSeqId(region, seq_id) for region, seq_id in greatest.items())


def bounded(remote: Iterable[RegionSeqId]) -> tuple[RegionSeqId, ...]:
    """Return the first positions, as many as may be stored. Hubs of the original store any number of them."""
    kept: list[RegionSeqId] = []
    left = POSITIONS_BYTES_MAX
    for each in remote:
        left -= len(each.region) + _SEQ_ID_BYTES_MAX
        if left < 0:
            break
        kept.append(each)
    return tuple(kept)
