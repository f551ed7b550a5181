"""Prove that an export file returns exactly what was written, and that a damaged, cut or foreign file is refused."""

import gzip
import hashlib
import io
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedwig.errors import ExportFileError
from hedwig.metadata import RecordKey
from hedwig.metadata.bulk.export_file import (
    MAGIC,
    MAJOR,
    ExportEnd,
    ExportHeader,
    ExportReader,
    ExportWriter,
    PlainRecord,
    verify,
)
from hedwig.metadata.contract.kinds import OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS
from hedwig.metadata.logs.record import LogRecord
from hedwig.metadata.logs.virtual_ids import virtual_id
from hedwig.metadata.records.unknown_fields import foreign_fields
from hedwig.metadata.testing import samples
from hedwig.model import HubInfo, LedgerRange, LedgerRanges, SubscriberId, SubscriptionData, Topic, UnknownFields

HEADER: Final = ExportHeader(url="sqlite:///x.db", kind="sqlite", store_id="1", at="2026-01-01T00:00:00+00:00")


def written(*pages: list[PlainRecord], header: ExportHeader = HEADER) -> bytes:
    raw = io.BytesIO()
    writer = ExportWriter(raw, header)
    for page in pages:
        writer.write(page)
    writer.finish()
    return raw.getvalue()


def read(path: Path) -> list[PlainRecord]:
    with ExportReader(path) as reader:
        return [record for records in iter(reader.read, None) for record in records or ()]


def owner(number: int, value: HubInfo) -> PlainRecord:
    return PlainRecord(OWNERSHIP, RecordKey(Topic(b"t-%d" % number)), value)


def topic(number: int, value: LedgerRanges) -> PlainRecord:
    return PlainRecord(PERSISTENCE, RecordKey(Topic(b"t-%d" % number)), value)


def subscription(number: int, value: SubscriptionData) -> PlainRecord:
    return PlainRecord(SUBSCRIPTIONS, RecordKey(Topic(b"t"), SubscriberId(b"s-%d" % number)), value)


EXTREMES: Final = [
    *(owner(number, value) for number, value in enumerate(samples.EXTREME_HUBS.values())),
    *(topic(number, value) for number, value in enumerate(samples.EXTREME_RANGES.values())),
    *(subscription(number, value) for number, value in enumerate(samples.EXTREME_SUBSCRIPTIONS.values())),
    PlainRecord(PERSISTENCE, RecordKey(Topic(bytes(range(256)))), LedgerRanges()),
    PlainRecord(PERSISTENCE, RecordKey(Topic(b"x" * 8192)), LedgerRanges()),
]


def test_extreme_records_come_back(tmp_path: Path) -> None:
    path = tmp_path / "export"
    path.write_bytes(written(EXTREMES[:7], [], EXTREMES[7:]))
    assert read(path) == EXTREMES
    header, end, _ = verify(path)
    assert header == HEADER
    assert dict(end.counts) == {"ownership": 9, "persistence": 8, "subscriptions": 11}
    assert end.records == len(EXTREMES)


@given(
    values=st.lists(
        st.builds(owner, st.integers(0, 9), samples.hubs)
        | st.builds(topic, st.integers(0, 9), samples.ledger_ranges)
        | st.builds(subscription, st.integers(0, 9), samples.subscriptions),
        max_size=9,
    )
)
def test_any_records_come_back(values: list[PlainRecord], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("any") / "export"
    path.write_bytes(written(values))
    assert read(path) == values


def test_an_export_of_nothing_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "export"
    path.write_bytes(written())
    assert read(path) == []
    assert verify(path)[1].records == 0


def test_fields_that_only_a_newer_release_knows_come_back(tmp_path: Path) -> None:
    native, foreign = UnknownFields("msgpack", msgpack.packb({"zz": 1})), UnknownFields("protobuf", b"\x08\x01")
    records = [
        owner(1, HubInfo(host="h", port=1, unknown=native)),
        owner(2, HubInfo(host="h", port=1, unknown=UnknownFields("hub-info-text", b"more: 1\n"))),
        topic(
            1, LedgerRanges((_with(samples.ranges(1).ranges[0], native), _with(samples.ranges(1).ranges[1], foreign)))
        ),
        topic(2, LedgerRanges(unknown=foreign)),
        subscription(
            1,
            SubscriptionData(
                preferences=_with(samples.preferences(1), foreign),
                state=_with(samples.state(1), native),
                unknown=foreign,
            ),
        ),
        subscription(2, SubscriptionData(state=_with(samples.state(1), foreign))),
    ]
    path = tmp_path / "export"
    path.write_bytes(written(records))
    again = read(path)
    # Records compare equal whatever unknown fields they have, so compare their encoded form.
    assert [foreign_fields(record.value) for record in again] == [foreign_fields(record.value) for record in records]
    assert written(again) == written(records)


def _with(record: Any, unknown: UnknownFields) -> Any:
    return replace(record, unknown=unknown)


def test_the_logs_that_wanted_records_name_come_back(tmp_path: Path) -> None:
    raw = io.BytesIO()
    writer = ExportWriter(raw, HEADER.with_logs())
    virtual = LedgerRanges((LedgerRange(ledger_id=virtual_id(4, 1), start=1), LedgerRange(ledger_id=5, start=1)))
    writer.write([topic(1, virtual), owner(2, HubInfo(host="h", port=1, log=6)), *MANY[:3]])
    assert writer.named_logs == {4, 6}
    logs = [LogRecord(number=number, hub=HubInfo(host="h", port=1, epoch=number)) for number in (4, 6)]
    writer.write_logs(logs)
    writer.finish()
    path = _put(tmp_path / "export", raw.getvalue())
    header, end, named = verify(path)
    assert (header.major, end.logs, named) == (2, 2, logs)
    assert verify(path, lambda record: record.kind is OWNERSHIP).logs == logs[1:]


def test_a_file_without_logs_has_the_format_of_older_releases(tmp_path: Path) -> None:
    assert verify(_put(tmp_path / "export", written(MANY[:3]))).header.major == 1


def test_equal_records_make_equal_files() -> None:
    assert written(EXTREMES) == written(EXTREMES)


# ------------------------------------------------------------------------------------------------------- refused files

MANY: Final = [topic(number, samples.ranges(number)) for number in range(3000)]


def test_no_cut_file_passes(tmp_path: Path) -> None:
    whole, path = written(MANY[:50]), tmp_path / "export"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ExportFileError, match="export"):
            verify(path)


def test_no_file_with_a_flipped_bit_passes(tmp_path: Path) -> None:
    whole, path, dice = written(MANY[:500]), tmp_path / "export", Random(7)
    expected = verify(_put(path, whole))
    for _ in range(150):
        position, bit = dice.randrange(len(whole)), 1 << dice.randrange(8)
        _put(path, whole[:position] + bytes([whole[position] ^ bit]) + whole[position + 1 :])
        if position < 10 and verified(path) == expected:
            continue  # Some bits of the gzip header have no meaning for the content, such as the name of the system.
        with pytest.raises(ExportFileError, match="export"):
            verify(path)


def test_no_file_that_was_packed_anew_with_other_contents_passes(tmp_path: Path) -> None:
    plain, path, dice = gzip.decompress(written(MANY[:300])), tmp_path / "export", Random(8)
    for _ in range(300):
        position, bit = dice.randrange(len(plain)), 1 << dice.randrange(8)
        _put(path, gzip.compress(plain[:position] + bytes([plain[position] ^ bit]) + plain[position + 1 :], 1))
        with pytest.raises(ExportFileError):
            verify(path)


def verified(path: Path) -> object:
    with suppress(ExportFileError):
        return verify(path)
    return None


def _put(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no export"),
        (b"something else altogether", "no export"),
        (gzip.compress(b"topic\tsubscriber\n" * 9), "no export"),
        (written(MANY) + b"x", "not whole"),
        (written(MANY) + written(MANY), "something follows its end"),
        (gzip.compress(gzip.decompress(written(MANY)) + b"x"), "something follows its end"),
        (written(header=ExportHeader(url="", kind="", store_id="", at="", major=MAJOR + 1)), "later"),
        (gzip.compress(MAGIC + (1 << 31).to_bytes(4, "big") + bytes(1 << 10)), "damaged"),
        (gzip.compress(MAGIC + b"\0\0\0\1\xc1"), "damaged"),
        (gzip.compress(MAGIC + b"\0\0\0\1\x80"), "no header"),
    ],
    ids=["empty", "text", "gzip", "tail", "twice", "inner tail", "newer", "length", "no msgpack", "no header"],
)
def test_what_is_no_whole_export_is_refused_in_words(data: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(ExportFileError, match=words):
        verify(_put(tmp_path / "export", data))


def test_frames_and_fields_of_a_newer_minor_format_are_passed_over(tmp_path: Path) -> None:
    plain = gzip.decompress(written([MANY[0]]))
    ends_at = plain.rindex(b"\x81\xa3end") - 4
    more = msgpack.packb({"remark": "of a later release"})
    records = msgpack.packb({"records": [["p", b"later", None, [msgpack.packb({"r": []})], None, "more"]]})
    body = plain[:ends_at] + b"".join(len(frame).to_bytes(4, "big") + frame for frame in (more, records))
    end = msgpack.packb({"end": {"counts": {"persistence": 2}, "sha256": hashlib.sha256(body).digest(), "more": 1}})
    path = _put(tmp_path / "export", gzip.compress(body + len(end).to_bytes(4, "big") + end))
    assert [record.key.topic for record in read(path)] == [b"t-0", b"later"]
    assert verify(path)[1] == ExportEnd({"persistence": 2}, hashlib.sha256(body).digest())
