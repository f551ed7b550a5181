"""Messages that are encoded and decoded by hand on the add path are those of protobuf."""

from hypothesis import given
from hypothesis import strategies as st

from hedwig.hub.ledgers.bookkeeper import bookkeeper_pb2 as pb
from hedwig.hub.ledgers.bookkeeper.wire.add_messages import FIRST_TRANSACTION, added_transaction, encode_add, varint
from hedwig.hub.ledgers.bookkeeper.wire.codec import AnswerDecoder
from hedwig.hub.ledgers.bookkeeper.wire.outcomes import BookieOutcome
from hedwig.hub.ledgers.bookkeeper.wire.requests import AddEntry

IDS = st.integers(0, (1 << 63) - 1)
IDS_BYTES = 4
TRANSACTIONS = st.integers(0, (1 << 64) - 1) | st.integers(FIRST_TRANSACTION, (1 << 35) - 1)


@given(TRANSACTIONS, IDS, IDS, st.binary(max_size=30), st.binary(max_size=300), st.booleans())
def test_an_add_is_what_protobuf_makes_of_it(
    transaction: int, ledger_id: int, entry_id: int, key: bytes, body: bytes, is_recovery: bool
) -> None:
    message = pb.Request()
    message.header.version, message.header.operation, message.header.txnId = 3, 2, transaction
    add = message.addRequest
    add.ledgerId, add.entryId, add.masterKey, add.body = ledger_id, entry_id, key, body
    if is_recovery:
        message.header.priority, add.flag = 100, 1
    expected = message.SerializeToString()
    request = AddEntry(ledger_id=ledger_id, entry_id=entry_id, master_key=key, body=body, is_recovery=is_recovery)
    for _ in range(2):
        assert b"".join(encode_add(transaction, request)) == len(expected).to_bytes(4, "big") + expected


def answer(transaction: int, status: int, inner: int | None, ledger_id: int, entry_id: int) -> bytes:
    message = pb.Response(status=status)
    message.header.version, message.header.operation, message.header.txnId = 3, 2, transaction
    added = message.addResponse
    added.ledgerId, added.entryId = ledger_id, entry_id
    if inner is not None:
        added.status = inner
    return message.SerializeToString()


@given(st.integers(FIRST_TRANSACTION, (1 << 35) - 1), IDS, IDS, st.binary(max_size=9), st.binary(max_size=9))
def test_success_is_read_wherever_it_stands(
    transaction: int, ledger_id: int, entry_id: int, before: bytes, behind: bytes
) -> None:
    body = answer(transaction, 0, 0, ledger_id, entry_id)
    assert added_transaction(before + body + behind, len(before), len(before) + len(body)) == transaction


@given(TRANSACTIONS, st.sampled_from([0, 502, 504]), st.sampled_from([None, 0, 101, 502, 504]), IDS, IDS)
def test_every_answer_is_read_as_protobuf_reads_it(
    transaction: int, status: int, inner: int | None, ledger_id: int, entry_id: int
) -> None:
    body = answer(transaction, status, inner, ledger_id, entry_id)
    ((number, reply),) = AnswerDecoder().receive(len(body).to_bytes(4, "big") + body)
    assert number == transaction
    assert reply.outcome is BookieOutcome.of_status(status if inner is None else inner)


@given(st.data(), st.integers(FIRST_TRANSACTION, (1 << 35) - 1))
def test_damage_never_makes_a_success_of_another_answer(data: st.DataObject, transaction: int) -> None:
    body = bytearray(answer(transaction, 0, data.draw(st.sampled_from([0, 504])), 1, 2))
    # The ids follow the statuses. The client does not read them: the transaction tells which entry was added.
    body[data.draw(st.integers(0, len(body) - IDS_BYTES - 1))] = data.draw(st.integers(0, 255))
    added = added_transaction(bytes(body), 0, len(body))
    if added is not None:
        message = pb.Response.FromString(bytes(body))
        assert (message.header.txnId, message.status, message.addResponse.status) == (added, 0, 0)


@given(st.integers(0, (1 << 64) - 1))
def test_numbers_are_written_as_protobuf_writes_them(number: int) -> None:
    expected = pb.Header(txnId=number).SerializeToString()
    assert b"\x18" + varint(number) == expected
