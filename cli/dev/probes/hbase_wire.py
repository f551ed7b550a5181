"""As much of HBase's own RPC as the launcher needs to ask a master and a region server whether they work.

Messages are put together and taken apart by field number. Source: HBase's RPC.proto, Master.proto, Admin.proto,
Client.proto, Registry.proto.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from hedwig.cli.dev.probes.socket_frames import FrameSocket

__all__ = ["HBaseCallError", "HBaseConnection", "HBaseServerName"]

_PREAMBLE = b"HBas\x00\x50"  # version 0, simple authentication
_USER = b"hedwig"
_META_REGION = b"hbase:meta,,1"
_BY_REGION_NAME = 1

Fields = dict[int, list[int | bytes]]


class HBaseCallError(ConnectionError):
    """The server answered with an exception; the text is its class."""


@dataclass(frozen=True, slots=True)
class HBaseServerName:
    """One incarnation of an HBase server."""

    host: str
    port: int
    start_code: int


class HBaseConnection(FrameSocket):
    """A connection to one service (MasterService, AdminService, ClientService, ClientMetaService) of one HBase server.

    Raises in every operation: HBaseCallError - the server answered with an exception; OSError - it did not answer.
    """

    def __init__(self, port: int, service: str, timeout_s: float) -> None:
        super().__init__(port, timeout_s)
        self._service = service
        self._calls = 0

    def __enter__(self) -> Self:
        user = _field(1, _USER)
        try:
            self.send(_PREAMBLE)
            self.send_frame(_field(1, user) + _field(2, self._service.encode()))
        except BaseException:
            self._socket.close()
            raise
        return self

    def live_servers(self) -> set[HBaseServerName]:
        """Ask a master which region servers are registered with it."""
        status = _first_bytes(_decode(self._call("GetClusterStatus", b"")), 1)
        live = [_decode(entry) for entry in _all_bytes(_decode(status), 2)]
        return {_server_name(_first_bytes(entry, 1)) for entry in live}

    def table_names(self) -> int:
        """Ask a master, which answers only after its initialisation, how many tables there are, its own among them."""
        return len(_all_bytes(_decode(self._call("GetTableNames", _varint(2 << 3) + b"\x01")), 1))

    def meta_server(self) -> HBaseServerName | None:
        """Ask a master which region server has hbase:meta; None while it is being moved."""
        for location in _all_bytes(_decode(self._call("GetMetaRegionLocations", b"")), 1):
            name = _decode(location).get(2)
            if name and isinstance(name[0], bytes):
                return _server_name(name[0])
        return None

    def own_name(self) -> HBaseServerName:
        """Ask a region server for its name."""
        info = _first_bytes(_decode(self._call("GetServerInfo", b"")), 1)
        return _server_name(_first_bytes(_decode(info), 1))

    def read_meta(self) -> None:
        """Ask a region server for a row of hbase:meta, which it must have."""
        region = _varint(1 << 3) + _varint(_BY_REGION_NAME) + _field(2, _META_REGION)
        self._call("Get", _field(1, region) + _field(2, _field(1, b"readiness probe")))

    def _call(self, method: str, request: bytes) -> bytes:
        """Call `method` and return the encoded answer."""
        self._calls += 1
        header = _varint(1 << 3) + _varint(self._calls) + _field(3, method.encode()) + _varint(4 << 3) + b"\x01"
        self.send_frame(_delimited(header) + _delimited(request))
        reply = self.receive_frame()
        header_bytes, at = _take_delimited(reply, 0)
        answered = _decode(header_bytes)
        if 2 in answered:
            raise HBaseCallError(_first_bytes(_decode(_first_bytes(answered, 2)), 1).decode(errors="replace"))
        if answered.get(1) != [self._calls]:
            raise ConnectionError(f"HBase answered call {answered.get(1)} instead of {self._calls}")
        return _take_delimited(reply, at)[0]


def _server_name(content: bytes) -> HBaseServerName:
    fields = _decode(content)
    return HBaseServerName(_first_bytes(fields, 1).decode(), _first_int(fields, 2), _first_int(fields, 3))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _delimited(content: bytes) -> bytes:
    return _varint(len(content)) + content


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _delimited(content)


def _take_varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(content):
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ConnectionError("HBase's answer is cut short")


def _take_delimited(content: bytes, at: int) -> tuple[bytes, int]:
    size, at = _take_varint(content, at)
    return content[at : at + size], at + size


def _decode(content: bytes) -> Fields:
    fields: Fields = {}
    for number, value in _walk(content):
        fields.setdefault(number, []).append(value)
    return fields


def _walk(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(content):
        key, at = _take_varint(content, at)
        value: int | bytes
        match key & 7:
            case 0:
                value, at = _take_varint(content, at)
            case 2:
                value, at = _take_delimited(content, at)
            case 1:
                value, at = content[at : at + 8], at + 8
            case 5:
                value, at = content[at : at + 4], at + 4
            case kind:
                raise ConnectionError(f"HBase's answer holds a field of unknown wire type {kind}")
        yield key >> 3, value


def _all_bytes(fields: Fields, number: int) -> list[bytes]:
    return [value for value in fields.get(number, []) if isinstance(value, bytes)]


def _first_bytes(fields: Fields, number: int) -> bytes:
    found = _all_bytes(fields, number)
    if not found:
        raise ConnectionError(f"HBase's answer lacks field {number}")
    return found[0]


def _first_int(fields: Fields, number: int) -> int:
    for value in fields.get(number, []):
        if isinstance(value, int):
            return value
    raise ConnectionError(f"HBase's answer lacks field {number}")
