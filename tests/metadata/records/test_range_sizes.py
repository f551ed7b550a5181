"""Compare the maximum size of ledger ranges with the results of the two encodings."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hedwig.metadata.records.packing import pack_ledger_ranges
from hedwig.metadata.records.range_sizes import stored_bytes
from hedwig.metadata.zookeeper.records.records import LEDGER_RANGES
from hedwig.model import LedgerRange, LedgerRanges, MessageSeqId, RegionSeqId, UnknownFields

_NUMBERS = st.integers(0, 64).flatmap(lambda bits: st.integers(0, (1 << bits) - 1))
_REMOTE = st.lists(st.builds(RegionSeqId, st.binary(max_size=300), _NUMBERS), max_size=20).map(tuple)
_ENDS = st.none() | st.builds(MessageSeqId, _NUMBERS, st.just(()) | _REMOTE)
_UNKNOWN = st.none() | st.builds(
    lambda payload: UnknownFields("protobuf", b"\x82\x7d" + bytes((len(payload),)) + payload), st.binary(max_size=100)
)
_RANGES = st.builds(LedgerRange, ledger_id=_NUMBERS, start=st.none() | _NUMBERS, end=_ENDS, unknown=_UNKNOWN)


@settings(max_examples=100)
@given(st.builds(LedgerRanges, st.lists(_RANGES, max_size=40).map(tuple), _UNKNOWN))
def test_no_encoding_takes_more_and_one_takes_hardly_less(record: LedgerRanges) -> None:
    largest = max(len(LEDGER_RANGES.encode(record)), len(pack_ledger_ranges(record)))
    parts = 1 + len(record.ranges) + sum(len(each.end.remote) for each in record.ranges if each.end)
    unknowns = (record.unknown, *(each.unknown for each in record.ranges))
    unknown = sum(len(each.payload) for each in unknowns if each is not None)
    assert largest <= stored_bytes(record) <= largest + 8 * parts + unknown
