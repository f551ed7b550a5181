"""The bookie protocol, version 3, without a socket: requests to frames, frames to answers.

A frame is what hedwig.wire.frames says; its body is one protobuf message. Answers are matched by transaction id and
come in any order. Example, read the last entry of ledger 1 as transaction 7:

    00000018 0a06080310011807 a2060d080110ffffffffffffffffff01
"""

from typing import Final, assert_never

from google.protobuf.message import DecodeError

from hedwig.errors import InvalidArgumentError, RemoteProtocolError
from hedwig.wire.frames import FrameDecoder, encode_frame
from hub.ledgers.bookkeeper import bookkeeper_pb2 as pb
from hub.ledgers.bookkeeper.outcomes import Outcome
from hub.ledgers.bookkeeper.requests import AddEntry, Answer, ReadEntry, ReadLac, Request, WriteLac

__all__ = ["FRAME_BYTES_MAX", "PAYLOAD_BYTES_MAX", "AnswerDecoder", "encode_request"]

FRAME_BYTES_MAX: Final = 5 << 20
"""A bookie's default. It closes a connection over which a larger one comes, without an answer."""

PAYLOAD_BYTES_MAX: Final = FRAME_BYTES_MAX - 1024
"""The largest payload of an entry: what else is in the frame takes less than that."""

_VERSION: Final = 3
_READ_ENTRY: Final = 1
_ADD_ENTRY: Final = 2
_WRITE_LAC: Final = 6
_READ_LAC: Final = 7
_URGENT: Final = 100
_RECOVERY_ADD: Final = 1
_FENCE_LEDGER: Final = 1
_ENTRY_PIGGYBACK: Final = 2


def encode_request(transaction: int, request: Request) -> bytes:
    """Return the frame of a request. Raises: InvalidArgumentError - a bookie would refuse its size."""
    message = pb.Request()
    header = message.header
    header.version = _VERSION
    header.txnId = transaction
    match request:
        case AddEntry():
            header.operation = _ADD_ENTRY
            _fill_add(message, request)
        case ReadEntry():
            header.operation = _READ_ENTRY
            _fill_read(message, request)
        case WriteLac():
            header.operation = _WRITE_LAC
            told = message.writeLacRequest
            told.ledgerId = request.ledger_id
            told.lac = request.lac
            told.masterKey = request.master_key
            told.body = request.body
        case ReadLac():
            header.operation = _READ_LAC
            message.readLacRequest.ledgerId = request.ledger_id
        case _:
            assert_never(request)
    body = message.SerializeToString()
    if len(body) + 4 > FRAME_BYTES_MAX:
        raise InvalidArgumentError(f"an entry of {len(body)} bytes is too large: bookies take {PAYLOAD_BYTES_MAX}")
    return encode_frame(body, FRAME_BYTES_MAX)


def _fill_add(message: pb.Request, request: AddEntry) -> None:
    add = message.addRequest
    add.ledgerId = request.ledger_id
    add.entryId = request.entry_id
    add.masterKey = request.master_key
    add.body = request.body
    if request.is_recovery:
        add.flag = _RECOVERY_ADD
        message.header.priority = _URGENT


def _fill_read(message: pb.Request, request: ReadEntry) -> None:
    read = message.readRequest
    read.ledgerId = request.ledger_id
    read.entryId = request.entry_id
    if request.fence_key is not None:
        read.masterKey = request.fence_key
        read.flag = _FENCE_LEDGER
        message.header.priority = _URGENT
    elif request.poll_after_lac is not None:
        read.flag = _ENTRY_PIGGYBACK
        read.previousLAC = request.poll_after_lac
        read.timeOut = request.poll_ms


class AnswerDecoder:
    """Turns the bytes of a connection into answers, however they were cut. It holds at most one incomplete frame."""

    def __init__(self) -> None:
        self._frames = FrameDecoder(FRAME_BYTES_MAX)

    def receive(self, data: bytes) -> list[tuple[int, Answer]]:
        """Return the answers that are complete now, each with its transaction id.

        Raises: RemoteProtocolError - these bytes are not the protocol's; nothing can be read after them.
        """
        return [_decode(body) for body in self._frames.receive(data)]


def _decode(body: bytes) -> tuple[int, Answer]:
    try:
        message = pb.Response.FromString(body)
    except DecodeError as exc:
        raise RemoteProtocolError(f"a bookie sent {len(body)} bytes that are no answer") from exc
    if not message.header.HasField("txnId"):
        raise RemoteProtocolError("a bookie sent an answer that names no request")
    return message.header.txnId, _answer(message)


def _answer(message: pb.Response) -> Answer:
    # The inner status is the one to trust. Neither being there is not success, which is what 0 would mean.
    if message.HasField("readResponse"):
        read = message.readResponse
        return Answer(
            outcome=_outcome(message, read),
            entry_id=read.entryId if read.HasField("entryId") else -1,
            body=read.body,
            max_lac=read.maxLAC if read.HasField("maxLAC") else None,
        )
    if message.HasField("addResponse"):
        return Answer(outcome=_outcome(message, message.addResponse), entry_id=message.addResponse.entryId)
    if message.HasField("readLacResponse"):
        known = message.readLacResponse
        return Answer(outcome=_outcome(message, known), lac_body=known.lacBody, body=known.lastEntryBody)
    if message.HasField("writeLacResponse"):
        return Answer(outcome=_outcome(message, message.writeLacResponse))
    return Answer(outcome=_refusal(message))


_Inner = pb.ReadResponse | pb.AddResponse | pb.ReadLacResponse | pb.WriteLacResponse


def _outcome(message: pb.Response, inner: _Inner) -> Outcome:
    if inner.HasField("status"):
        return Outcome.of_status(inner.status)
    return Outcome.of_status(message.status) if message.HasField("status") else Outcome.UNRECOGNISED


def _refusal(message: pb.Response) -> Outcome:
    """Return what an answer without a body says; success is not among it."""
    outcome = Outcome.of_status(message.status) if message.HasField("status") else Outcome.UNRECOGNISED
    return Outcome.UNRECOGNISED if outcome is Outcome.DONE else outcome
