"""The client sends exactly the bytes of the bookies' protocol, and accepts no other answers."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedwig.errors import InvalidArgumentError, RemoteProtocolError
from hedwig.hub.ledgers.bookkeeper import bookkeeper_pb2 as pb
from hedwig.hub.ledgers.bookkeeper.wire.codec import FRAME_BYTES_MAX, PAYLOAD_BYTES_MAX, AnswerDecoder, encode_request
from hedwig.hub.ledgers.bookkeeper.wire.outcomes import BookieOutcome
from hedwig.hub.ledgers.bookkeeper.wire.requests import LAST_ENTRY, AddEntry, BookieAnswer, ReadEntry, ReadLac, WriteLac

KEY = bytes(range(20))

STATUSES = {
    0: BookieOutcome.DONE,
    402: BookieOutcome.NO_LEDGER,
    403: BookieOutcome.NO_ENTRY,
    404: BookieOutcome.BAD_REQUEST,
    501: BookieOutcome.FAILED,
    502: BookieOutcome.UNAUTHORIZED,
    503: BookieOutcome.BAD_PROTOCOL,
    504: BookieOutcome.FENCED,
    505: BookieOutcome.READ_ONLY,
    506: BookieOutcome.BUSY,
    507: BookieOutcome.UNKNOWN_STATE,
}


def frame(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


def answer_frame(transaction: int, **fields: Any) -> bytes:
    header = pb.Header(version=3, operation=1, txnId=transaction)
    return frame(pb.Response(header=header, **fields).SerializeToString())


def test_the_read_of_the_specification() -> None:
    expected = "00000018 0a06080310011807 a2060d080110ffffffffffffffffff01"
    assert encode_request(7, ReadEntry(ledger_id=1, entry_id=LAST_ENTRY)) == bytes.fromhex(expected)


def test_an_add_by_hand() -> None:
    # Header 3, 2, 5; field 101 with ledger 1, entry 2, key, body.
    inner = b"\x08\x01\x10\x02\x1a\x14" + KEY + b"\x22\x03abc"
    expected = b"\x0a\x06\x08\x03\x10\x02\x18\x05" + b"\xaa\x06" + bytes([len(inner)]) + inner
    assert encode_request(5, AddEntry(ledger_id=1, entry_id=2, master_key=KEY, body=b"abc")) == frame(expected)


def test_recovery_adds_and_fencing_reads_are_flagged_and_urgent() -> None:
    add = AddEntry(ledger_id=1, entry_id=2, master_key=KEY, body=b"abc", is_recovery=True)
    message = pb.Request.FromString(encode_request(5, add)[4:])
    assert (message.addRequest.flag, message.header.priority) == (1, 100)
    message = pb.Request.FromString(encode_request(5, ReadEntry(ledger_id=1, entry_id=3, fence_key=KEY))[4:])
    assert (message.readRequest.flag, message.readRequest.masterKey, message.header.priority) == (1, KEY, 100)


def test_plain_requests_carry_no_flag_key_or_priority() -> None:
    for request in (ReadEntry(ledger_id=1, entry_id=3), AddEntry(ledger_id=1, entry_id=2, master_key=KEY, body=b"a")):
        message = pb.Request.FromString(encode_request(5, request)[4:])
        assert not message.header.HasField("priority")
        assert not message.addRequest.HasField("flag")
        assert not message.readRequest.HasField("flag")
        assert not message.readRequest.HasField("masterKey")


def test_a_poll_says_what_is_known_and_how_long_to_wait() -> None:
    request = ReadEntry(ledger_id=1, entry_id=LAST_ENTRY, poll_after_lac=9, poll_ms=250)
    read = pb.Request.FromString(encode_request(5, request)[4:]).readRequest
    assert (read.flag, read.previousLAC, read.timeOut, read.entryId) == (2, 9, 250, -1)


def test_the_last_add_confirmed_is_written_and_asked_for() -> None:
    written = pb.Request.FromString(encode_request(5, WriteLac(ledger_id=1, lac=8, master_key=KEY, body=b"blob"))[4:])
    assert written.header.operation == 6
    lac = written.writeLacRequest
    assert (lac.lac, lac.masterKey, lac.body) == (8, KEY, b"blob")
    asked = pb.Request.FromString(encode_request(5, ReadLac(ledger_id=1))[4:])
    assert (asked.header.operation, asked.readLacRequest.ledgerId) == (7, 1)


def test_the_largest_payload_fits_and_a_frame_over_the_limit_is_not_made() -> None:
    big = (1 << 63) - 1
    body = bytes(32 + 20 + PAYLOAD_BYTES_MAX)
    largest = AddEntry(ledger_id=big, entry_id=big, master_key=KEY, body=body, is_recovery=True)
    assert len(encode_request((1 << 64) - 1, largest)) <= FRAME_BYTES_MAX
    with pytest.raises(InvalidArgumentError):
        encode_request(1, AddEntry(ledger_id=1, entry_id=1, master_key=KEY, body=bytes(FRAME_BYTES_MAX)))


@pytest.mark.parametrize(("status", "outcome"), STATUSES.items())
def test_each_status_has_its_outcome(status: int, outcome: BookieOutcome) -> None:
    assert outcome.status == status
    decoder = AnswerDecoder()
    inner: dict[str, Any] = {"status": status, "ledgerId": 1, "entryId": 2}
    for fields in (
        {"addResponse": pb.AddResponse(**inner)},
        {"readResponse": pb.ReadResponse(**inner)},
        {"readLacResponse": pb.ReadLacResponse(status=status, ledgerId=1)},
        {"writeLacResponse": pb.WriteLacResponse(status=status, ledgerId=1)},
    ):
        ((transaction, answer),) = decoder.receive(answer_frame(9, **fields))
        assert (transaction, answer.outcome) == (9, outcome)


def test_every_outcome_is_a_status_or_found_out_here() -> None:
    local = {outcome for outcome in BookieOutcome if outcome.status is None}
    assert local == {
        BookieOutcome.UNRECOGNISED,
        BookieOutcome.NOT_SENT,
        BookieOutcome.UNANSWERED,
        BookieOutcome.UNVERIFIED,
    }
    assert {outcome for outcome in BookieOutcome if outcome.is_absence} == {
        BookieOutcome.NO_LEDGER,
        BookieOutcome.NO_ENTRY,
    }
    assert {outcome for outcome in BookieOutcome if outcome.ends_writing} == {
        BookieOutcome.FENCED,
        BookieOutcome.UNAUTHORIZED,
    }


def test_an_unknown_status_is_neither_success_nor_absence() -> None:
    decoder = AnswerDecoder()
    ((_, answer),) = decoder.receive(answer_frame(1, addResponse=pb.AddResponse(status=999)))
    assert answer.outcome is BookieOutcome.UNRECOGNISED
    # One answer has no status, and one reports success without its result.
    ((_, answer),) = decoder.receive(answer_frame(1, addResponse=pb.AddResponse(ledgerId=1)))
    assert answer.outcome is BookieOutcome.UNRECOGNISED
    ((_, answer),) = decoder.receive(answer_frame(1, status=0))
    assert answer.outcome is BookieOutcome.UNRECOGNISED


def test_the_inner_status_decides_and_the_outer_one_without_it() -> None:
    decoder = AnswerDecoder()
    ((_, answer),) = decoder.receive(answer_frame(1, status=0, addResponse=pb.AddResponse(status=504)))
    assert answer.outcome is BookieOutcome.FENCED
    ((_, answer),) = decoder.receive(answer_frame(1, status=404))
    assert answer.outcome is BookieOutcome.BAD_REQUEST


def test_the_parts_of_answers() -> None:
    decoder = AnswerDecoder()
    read = pb.ReadResponse(status=0, ledgerId=1, entryId=4, body=b"entry", maxLAC=7)
    ((_, answer),) = decoder.receive(answer_frame(1, readResponse=read))
    assert answer == BookieAnswer(outcome=BookieOutcome.DONE, entry_id=4, body=b"entry", max_lac=7)
    known = pb.ReadLacResponse(status=0, ledgerId=1, lacBody=b"lac", lastEntryBody=b"last")
    ((_, answer),) = decoder.receive(answer_frame(1, readLacResponse=known))
    assert answer == BookieAnswer(outcome=BookieOutcome.DONE, lac_body=b"lac", body=b"last")


@given(st.lists(st.integers(0, (1 << 64) - 1), min_size=1, max_size=5), st.lists(st.integers(1, 40), max_size=40))
def test_answers_come_out_the_same_however_they_were_cut(transactions: list[int], cuts: list[int]) -> None:
    stream = b"".join(
        answer_frame(number, readResponse=pb.ReadResponse(status=0, ledgerId=1, entryId=index, body=bytes(index)))
        for index, number in enumerate(transactions)
    )
    decoder = AnswerDecoder()
    answers: list[tuple[int, BookieAnswer]] = []
    for size in [*cuts, len(stream)]:
        answers += decoder.receive(stream[:size])
        stream = stream[size:]
    assert [number for number, _ in answers] == transactions
    assert [answer.body for _, answer in answers] == [bytes(index) for index in range(len(transactions))]


@pytest.mark.parametrize("body", [b"\x02\x00\x00\x00", b"", b"\x0a\x02\x08\x03", b"\xff" * 9])
def test_what_is_no_answer_ends_the_connection(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        AnswerDecoder().receive(frame(body))


def test_a_frame_over_the_limit_ends_the_connection() -> None:
    with pytest.raises(RemoteProtocolError):
        AnswerDecoder().receive(struct.pack(">I", FRAME_BYTES_MAX))
