"""Prove that errors describe a damaged record in words, not by the names of msgpack's exceptions."""

import msgpack
import pytest

from hedwig.errors import CorruptRecordError
from hedwig.metadata import RecordKey
from hedwig.metadata.contract.kinds import PERSISTENCE
from hedwig.metadata.records.packing import pack_ledger_ranges, part_codec
from hedwig.model import LedgerRanges, Topic

WHOLE = pack_ledger_ranges(LedgerRanges())


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        (WHOLE + b"x", "other bytes follow behind its end"),
        (b"\x82", "it ends too early"),
        (b"\xc1", "it holds a byte that begins no value in msgpack"),
        (b"\xa1\xff", "a text in it is not UTF-8"),
        (b"\xff", "a record is a map, not int"),
        (msgpack.packb({"v": 1})[:-1], "it ends too early"),
    ],
)
def test_damage_is_told_in_words(stored: bytes, says: str) -> None:
    with pytest.raises(CorruptRecordError) as caught:
        part_codec(PERSISTENCE).read("ledger ranges", RecordKey(Topic(b"news")), [stored])
    assert str(caught.value).endswith(f"cannot be read: {says}")
