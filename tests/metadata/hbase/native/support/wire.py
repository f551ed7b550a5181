"""HBase's own RPC, as the proxy of the fault tests reads it."""

from typing import Final

from hedwig.metadata.hbase.native.hbase_pb2 import (
    CoprocessorServiceCall,
    CoprocessorServiceRequest,
    MultiRequest,
    MutateRowsRequest,
    MutationProto,
    RequestHeader,
    ResponseHeader,
)
from tests.faults.support.wires import Reply, Request

__all__ = ["WRITE", "HBaseWire", "body_of", "mutations_together"]

WRITE: Final = "conditional put"
"""The name of calls that carry at least one, alone or in a batch."""

_LENGTH_BYTES: Final = 4
_PREAMBLE_BYTES: Final = 6


class HBaseWire:
    """A connection: a preamble and a header, then numbered calls, and replies with the same numbers in any order."""

    def __init__(self) -> None:
        self._from_client = b""
        self._from_server = b""
        self._greeted = False

    def requests(self, data: bytes) -> list[Request | bytes]:
        self._from_client += data
        requests: list[Request | bytes] = []
        if not self._greeted:
            greeting = self._frame(self._from_client, _PREAMBLE_BYTES)
            if greeting is None:
                return []
            self._greeted = True
            self._from_client = self._from_client[len(greeting) :]
            requests.append(greeting)
        while (frame := self._frame(self._from_client)) is not None:
            self._from_client = self._from_client[len(frame) :]
            requests.append(self._request(frame))
        return requests

    def replies(self, data: bytes) -> list[Reply]:
        self._from_server += data
        replies = []
        while (frame := self._frame(self._from_server)) is not None:
            self._from_server = self._from_server[len(frame) :]
            replies.append(Reply(ResponseHeader.FromString(body_of(frame)[0]).call_id, frame))
        return replies

    def _frame(self, data: bytes, skipped: int = 0) -> bytes | None:
        start = skipped + _LENGTH_BYTES
        if len(data) < start:
            return None
        end = start + int.from_bytes(data[skipped:start], "big")
        return data[:end] if len(data) >= end else None

    def method_of(self, frame: bytes) -> str:
        """Return the method that a call names."""
        return RequestHeader.FromString(body_of(frame)[0]).method_name

    def _request(self, frame: bytes) -> Request:
        raw, body = body_of(frame)
        header = RequestHeader.FromString(raw)
        is_write = header.method_name == "Mutate" or _has_put(header.method_name, body)
        return Request(WRITE if is_write else header.method_name, header.call_id, frame)


def body_of(frame: bytes) -> tuple[bytes, bytes]:
    """Return the encoded header and message of a call or a reply."""
    size, start = _varint(frame, _LENGTH_BYTES)
    end = start + size
    if end == len(frame):
        return frame[start:end], b""  # No message follows an exception.
    _, body = _varint(frame, end)
    return frame[start:end], frame[body:]


def _has_put(method: str, body: bytes) -> bool:
    mutations: list[MutationProto] = []
    if method == "Multi":
        actions = [action for part in MultiRequest.FromString(body).region_action for action in part.action]
        mutations = [action.mutation for action in actions if action.HasField("mutation")]
    mutations += mutations_together(method, body)
    return any(mutation.mutate_type == MutationProto.PUT_CELLS for mutation in mutations)


def mutations_together(method: str, body: bytes) -> list[MutationProto]:
    """Return the mutations of several rows that a call asks to be made in one change."""
    calls: list[CoprocessorServiceCall] = []
    if method == "ExecService":
        calls = [CoprocessorServiceRequest.FromString(body).call]
    if method == "Multi":
        actions = [action for part in MultiRequest.FromString(body).region_action for action in part.action]
        calls = [action.service_call for action in actions if action.HasField("service_call")]
    return [each for call in calls for each in MutateRowsRequest.FromString(call.request).mutation_request]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
