"""The bookie protocol, version 3, without a socket: requests to frames, frames to answers.

A frame is what hedwig.wire.frames says; its body is one protobuf message. Answers are matched by transaction id and
come in any order. Example, read the last entry of ledger 1 as transaction 7:

    00000018 0a06080310011807 a2060d080110ffffffffffffffffff01
"""

import struct
from typing import Final, assert_never

from google.protobuf.message import DecodeError

from hedwig.errors import InvalidArgumentError, RemoteProtocolError
from hedwig.hub.ledgers.bookkeeper import bookkeeper_pb2 as pb
from hedwig.hub.ledgers.bookkeeper.wire.add_messages import added_transaction, encode_add
from hedwig.hub.ledgers.bookkeeper.wire.outcomes import BookieOutcome
from hedwig.hub.ledgers.bookkeeper.wire.requests import AddEntry, BookieAnswer, ReadEntry, ReadLac, Request, WriteLac
from hedwig.wire.frames import LENGTH_BYTES, encode_frame

__all__ = [
    "FRAME_BYTES_MAX",
    "PAYLOAD_BYTES_MAX",
    "AnswerDecoder",
    "encode_parts",
    "encode_request",
    "encode_start_tls",
]

FRAME_BYTES_MAX: Final = 5 << 20
"""A bookie's default. It closes a connection on which a larger frame arrives, without an answer."""

PAYLOAD_BYTES_MAX: Final = FRAME_BYTES_MAX - 1024
"""The largest payload of an entry. The rest of its frame takes less than 1024 bytes."""

_VERSION: Final = 3
_READ_ENTRY: Final = 1
_WRITE_LAC: Final = 6
_READ_LAC: Final = 7
_START_TLS: Final = 9
_URGENT: Final = 100
_FENCE_LEDGER: Final = 1
_ENTRY_PIGGYBACK: Final = 2
_LENGTH: Final = struct.Struct(">I")
_ADDED: Final = BookieAnswer(outcome=BookieOutcome.DONE)


def encode_request(transaction: int, request: Request) -> bytes:
    """Return the frame of a request. Raises: InvalidArgumentError - a bookie would refuse its size."""
    return b"".join(encode_parts(transaction, request))


def encode_parts(transaction: int, request: Request) -> tuple[bytes, bytes]:
    """Return the frame of a request in two parts. Raises: as encode_request."""
    if isinstance(request, AddEntry):
        parts = encode_add(transaction, request)
        size = len(parts[0]) + len(parts[1])
        if size > FRAME_BYTES_MAX:
            raise InvalidArgumentError(f"an entry of {size} bytes is too large: bookies take {PAYLOAD_BYTES_MAX}")
        return parts
    body = _encode(transaction, request)
    return encode_frame(body, FRAME_BYTES_MAX), b""


def _encode(transaction: int, request: ReadEntry | WriteLac | ReadLac) -> bytes:
    message = pb.Request()
    header = message.header
    header.version = _VERSION
    header.txnId = transaction
    match request:
        case ReadEntry():
            header.operation = _READ_ENTRY
            _fill_read(message, request)
        case WriteLac():
            header.operation = _WRITE_LAC
            write_lac = message.writeLacRequest
            write_lac.ledgerId = request.ledger_id
            write_lac.lac = request.lac
            write_lac.masterKey = request.master_key
            write_lac.body = request.body
        case ReadLac():
            header.operation = _READ_LAC
            message.readLacRequest.ledgerId = request.ledger_id
        case _:
            assert_never(request)
    return message.SerializeToString()


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


def encode_start_tls() -> bytes:
    """Return the frame, transaction 0, after whose answer both sides of a connection speak TLS."""
    message = pb.Request()
    message.header.version, message.header.operation, message.header.txnId = _VERSION, _START_TLS, 0
    message.startTLSRequest.SetInParent()
    return encode_frame(message.SerializeToString(), FRAME_BYTES_MAX)


class AnswerDecoder:
    """Turns the bytes of a connection into answers, in pieces of any size. It holds at most one incomplete frame."""

    __slots__ = ("_needed", "_refusal", "_rest")

    def __init__(self) -> None:
        self._rest = bytearray()
        self._needed = 0
        """The size of the frame that `_rest` begins, as far as is known."""
        self._refusal: str | None = None

    def receive(self, data: bytes) -> list[tuple[int, BookieAnswer]]:
        """Return the answers that are complete now, each with its transaction id.

        Raises: RemoteProtocolError - these bytes are not the protocol's; nothing can be read after them.
        """
        if self._refusal is not None:
            raise RemoteProtocolError(self._refusal)
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return []
            data = bytes(self._rest)
            self._rest.clear()
        answers: list[tuple[int, BookieAnswer]] = []
        at, size = 0, len(data)
        self._needed = LENGTH_BYTES
        while size - at >= LENGTH_BYTES:
            length = _LENGTH.unpack_from(data, at)[0]
            start = at + LENGTH_BYTES
            end = start + length
            if length + LENGTH_BYTES > FRAME_BYTES_MAX:
                self._refusal = f"a bookie announced a frame of {length} bytes"
                if answers:
                    # They came whole. The next call raises the refusal, or the connection ends.
                    return answers
                raise RemoteProtocolError(self._refusal)
            if end > size:
                self._needed = length + LENGTH_BYTES
                break
            transaction = added_transaction(data, start, end)
            if transaction is None:
                answers.append(_decode(data[start:end]))
            else:
                answers.append((transaction, _ADDED))
            at = end
        self._rest += data[at:]
        return answers


def _decode(body: bytes) -> tuple[int, BookieAnswer]:
    try:
        message = pb.Response.FromString(body)
    except DecodeError as exc:
        raise RemoteProtocolError(f"a bookie sent {len(body)} bytes that are no answer") from exc
    if not message.header.HasField("txnId"):
        raise RemoteProtocolError("a bookie sent an answer that names no request")
    return message.header.txnId, _answer(message)


def _answer(message: pb.Response) -> BookieAnswer:
    # Trust the inner status. If neither status is there, that is not success, which is what 0 would mean.
    if message.HasField("readResponse"):
        read = message.readResponse
        return BookieAnswer(
            outcome=_outcome(message, read),
            entry_id=read.entryId if read.HasField("entryId") else -1,
            body=read.body,
            max_lac=read.maxLAC if read.HasField("maxLAC") else None,
        )
    if message.HasField("addResponse"):
        return BookieAnswer(outcome=_outcome(message, message.addResponse), entry_id=message.addResponse.entryId)
    if message.HasField("readLacResponse"):
        known = message.readLacResponse
        return BookieAnswer(outcome=_outcome(message, known), lac_body=known.lacBody, body=known.lastEntryBody)
    if message.HasField("writeLacResponse"):
        return BookieAnswer(outcome=_outcome(message, message.writeLacResponse))
    if message.HasField("startTLSResponse") and message.HasField("status"):
        return BookieAnswer(outcome=BookieOutcome.of_status(message.status))
    return BookieAnswer(outcome=_refusal(message))


_Inner = pb.ReadResponse | pb.AddResponse | pb.ReadLacResponse | pb.WriteLacResponse


def _outcome(message: pb.Response, inner: _Inner) -> BookieOutcome:
    if inner.HasField("status"):
        return BookieOutcome.of_status(inner.status)
    return BookieOutcome.of_status(message.status) if message.HasField("status") else BookieOutcome.UNRECOGNISED


def _refusal(message: pb.Response) -> BookieOutcome:
    """Return the outcome of an answer without a body. It is never success."""
    outcome = BookieOutcome.of_status(message.status) if message.HasField("status") else BookieOutcome.UNRECOGNISED
    return BookieOutcome.UNRECOGNISED if outcome is BookieOutcome.DONE else outcome
