"""Ledger metadata is encoded as BookKeeper does, and keeps unknown fields."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedwig.errors import CorruptRecordError
from hedwig.hub.ledgers.bookkeeper import bookkeeper_pb2 as pb
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import Ensemble, LedgerMetadata, LedgerState
from hedwig.hub.ledgers.bookkeeper.records.metadata_format import decode_metadata, encode_metadata
from hedwig.hub.ledgers.bookkeeper.wire.digests import DigestKind
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums

OPEN = LedgerMetadata(
    quorums=Quorums(ensemble=2, write=2, ack=1),
    state=LedgerState.OPEN,
    ensembles=(Ensemble(first_entry_id=0, bookies=("127.0.0.1:3181", "bookie-four")),),
    digest=DigestKind.CRC32C,
    password=b"pw",
    custom={"application": b"hedwig"},
    creation_token=300,
)


@st.composite
def records(draw: st.DrawFn) -> LedgerMetadata:
    ensemble = draw(st.integers(1, 4))
    write = draw(st.integers(1, ensemble))
    bookie = st.from_regex(r"[a-z][a-z0-9.:_-]{0,12}", fullmatch=True)
    firsts = [0, *sorted(draw(st.sets(st.integers(1, 1 << 40), max_size=3)))]
    return LedgerMetadata(
        format_version=draw(st.sampled_from([2, 3])),
        quorums=Quorums(ensemble=ensemble, write=write, ack=draw(st.integers(1, write))),
        state=draw(st.sampled_from(list(LedgerState))),
        ensembles=tuple(
            Ensemble(first_entry_id=first, bookies=tuple(draw(bookie) for _ in range(ensemble))) for first in firsts
        ),
        length=draw(st.integers(0, 1 << 40)),
        last_entry_id=draw(st.integers(-1, 1 << 40)),
        digest=draw(st.sampled_from([None, *DigestKind])),
        password=draw(st.none() | st.binary(max_size=8)),
        created_ms=draw(st.none() | st.integers(0, 1 << 42)),
        custom=draw(st.dictionaries(st.text(max_size=5), st.binary(max_size=5), max_size=3)),
    )


def test_the_binary_format_by_hand() -> None:
    segment = b"\x0a\x0e127.0.0.1:3181\x0a\x0bbookie-four\x10\x00"
    body = (
        b"\x08\x02\x10\x02\x18\x00\x20" + b"\xff" * 9 + b"\x01\x28\x01"
        + b"\x32" + bytes([len(segment)]) + segment
        + b"\x38\x03\x42\x02pw\x48\x01"
        + b"\x5a\x15\x0a\x0bapplication\x12\x06hedwig"
        + b"\x60\xac\x02"
    )  # fmt: skip
    assert encode_metadata(OPEN) == b"BookieMetadataFormatVersion\t3\n" + bytes([len(body)]) + body
    assert decode_metadata(encode_metadata(OPEN)) == OPEN


def test_the_text_format_is_what_the_original_hub_reads() -> None:
    plain = dataclasses.replace(OPEN, format_version=2, custom={}, digest=DigestKind.CRC32)
    assert encode_metadata(plain).decode() == (
        "BookieMetadataFormatVersion\t2\n"
        "quorumSize: 2\nensembleSize: 2\nlength: 0\nlastEntryId: -1\nstate: OPEN\n"
        'segment {\n  ensembleMember: "127.0.0.1:3181"\n  ensembleMember: "bookie-four"\n  firstEntryId: 0\n}\n'
        'digestType: CRC32\npassword: "pw"\nackQuorumSize: 1\n'
    )


@pytest.mark.parametrize(
    ("end", "state", "last"),
    [
        ("", LedgerState.OPEN, -1),
        ("\n-102\tCLOSED", LedgerState.IN_RECOVERY, -1),
        ("\n17\tCLOSED", LedgerState.CLOSED, 17),
        ("\n-1\tCLOSED", LedgerState.CLOSED, -1),
    ],
)
def test_the_oldest_format(end: str, state: LedgerState, last: int) -> None:
    content = f"BookieMetadataFormatVersion\t1\n2\n2\n30\n0\ta:1\tb:2\n9\tc:3\tb:2{end}".encode()
    metadata = decode_metadata(content)
    assert (metadata.state, metadata.last_entry_id, metadata.length) == (state, last, 30)
    assert metadata.quorums == Quorums(ensemble=2, write=2, ack=2)
    assert [each.bookies for each in metadata.ensembles] == [("a:1", "b:2"), ("c:3", "b:2")]
    assert (metadata.digest, metadata.password) == (None, None)
    assert encode_metadata(metadata) == content


@given(records())
def test_records_come_back_in_the_format_in_which_they_were(metadata: LedgerMetadata) -> None:
    content = encode_metadata(metadata)
    assert content.startswith(b"BookieMetadataFormatVersion\t%d\n" % metadata.format_version)
    assert decode_metadata(content) == metadata


def test_without_an_ack_quorum_it_is_the_write_quorum() -> None:
    text = "BookieMetadataFormatVersion\t2\nquorumSize: 2\nensembleSize: 3\nlength: 0\nstate: OPEN\n"
    text += 'segment {\n  ensembleMember: "a"\n  ensembleMember: "b"\n  ensembleMember: "c"\n  firstEntryId: 0\n}\n'
    assert decode_metadata(text.encode()).quorums == Quorums(ensemble=3, write=2, ack=2)


def test_a_rewrite_keeps_what_a_newer_bookkeeper_added() -> None:
    message = pb.LedgerMetadataFormat(quorumSize=1, ensembleSize=1, length=0, lastEntryId=-1, state="OPEN", cToken=9)
    segment = message.segment.add(ensembleMember=["a"], firstEntryId=0)
    segment.MergeFromString(b"\xa2\x06\x03new")
    message.MergeFromString(b"\xa8\x06\x07\xb2\x06\x05field")
    body = message.SerializeToString()
    metadata = decode_metadata(b"BookieMetadataFormatVersion\t3\n" + bytes([len(body)]) + body)
    again = encode_metadata(metadata.with_ensemble(5, ("b",)).in_recovery().closed(8, 100))
    assert b"\xa8\x06\x07\xb2\x06\x05field" in again
    assert b"\xa2\x06\x03new" in again
    closed = decode_metadata(again)
    assert (closed.state, closed.last_entry_id, closed.length) == (LedgerState.CLOSED, 8, 100)
    assert [each.bookies for each in closed.ensembles] == [("a",), ("b",)]
    assert closed.creation_token is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"BookieMetadataFormatVersion\t3",
        b"BookieMetadataFormatVersion\t4\n\x00",
        b"BookieMetadataFormatVersion\t3\n\x00",
        b"BookieMetadataFormatVersion\t3\n\x7f\x08\x01",
        b"BookieMetadataFormatVersion\t3\n\xff\xff\xff\xff\xff",
        b"BookieMetadataFormatVersion\t2\nquorumSize: two\n",
        b"BookieMetadataFormatVersion\t2\nquorumSize: 2\n",
        b"BookieMetadataFormatVersion\t2\nnewField: 2\n",
        b"BookieMetadataFormatVersion\t1\n2\n2\n",
        b"BookieMetadataFormatVersion\t1\n2\n2\n0\n0\ta",
        b"BookieMetadataFormatVersion\t1\n2\n1\n0\n0\ta",
        b"BookieMetadataFormatVersion\t1\n1\n1\n0\n5\ta",
        b"Something else\n",
    ],
)
def test_what_is_no_metadata(content: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        decode_metadata(content)


def test_an_unknown_state_is_refused_rather_than_guessed() -> None:
    body = b"\x08\x01\x10\x01\x18\x00\x28\x09" + b"\x32\x05\x0a\x01a\x10\x00"
    with pytest.raises(CorruptRecordError, match="state"):
        decode_metadata(b"BookieMetadataFormatVersion\t3\n" + bytes([len(body)]) + body)


def test_the_ensemble_of_an_entry_is_the_last_that_begins_at_or_before_it() -> None:
    metadata = OPEN.with_ensemble(10, ("c", "d")).with_ensemble(20, ("e", "f"))
    bookies = [metadata.ensemble_of(entry).bookies[0] for entry in (0, 9, 10, 19, 20, 999)]
    assert bookies == ["127.0.0.1:3181", "127.0.0.1:3181", "c", "c", "e", "e"]


def test_a_second_change_before_any_entry_replaces_the_first() -> None:
    metadata = OPEN.with_ensemble(10, ("c", "d")).with_ensemble(10, ("e", "f"))
    assert [(each.first_entry_id, each.bookies) for each in metadata.ensembles[1:]] == [(10, ("e", "f"))]
