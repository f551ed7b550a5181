"""Owner records: `HubInfoData` in protobuf's text format, two lines, byte for byte as the original writes them.

A hub with a shared log adds a line for it.

Older hubs stored a bare address. Lines of fields that this code does not know are kept as they are.
"""

from dataclasses import replace
from typing import Final

from google.protobuf import text_format

from hedwig.metadata.zookeeper.records.records import Codec, UndecodableError
from hedwig.model import HubInfo, UnknownFields
from hedwig.wire import pubsub_pb2 as pb

__all__ = ["HUB_INFO"]

_ENCODING: Final = "hub-info-text"
_FIELDS: Final = ("hostname", "czxid", "log")


class _HubInfoCodec:
    def encode(self, record: HubInfo) -> bytes:
        message = pb.HubInfoData(hostname=record.address, czxid=record.epoch, log=record.log)
        text = text_format.MessageToString(message).encode()
        if record.unknown is not None and record.unknown.encoding == _ENCODING:
            text += record.unknown.payload
        return text

    def merge(self, stored: bytes, record: HubInfo) -> bytes:
        """Return the whole record, which has one part only, with the lines that its writer never saw."""
        known = self.decode(stored)
        body = self.encode(record)
        return body if record.unknown is not None or known.unknown is None else body + known.unknown.payload

    def decode(self, data: bytes) -> HubInfo:
        try:
            text = data.decode()
            if not text.startswith("hostname"):
                return _bare_address(text.strip())
            message = text_format.Parse(text, pb.HubInfoData(), allow_unknown_field=True)
            log = message.log if message.HasField("log") else None
            return HubInfo.at(message.hostname, epoch=message.czxid, log=log, unknown=_unknown_lines(text))
        except (UnicodeDecodeError, text_format.ParseError, ValueError) as exc:
            raise UndecodableError(f"its {len(data)} bytes are no HubInfoData in text format: {exc}") from exc

    def fleeting(self, record: HubInfo) -> HubInfo:
        return replace(record, is_fleeting=True)

    def stamp(self, body: bytes, token: bytes, previous: bytes) -> bytes:
        del token, previous
        return body

    def token(self, data: bytes) -> bytes:
        del data
        return b""

    def previous(self, data: bytes) -> bytes:
        del data
        return b""


def _bare_address(text: str) -> HubInfo:
    if not text.isprintable() or " " in text:
        raise ValueError("neither fields nor one address")
    return HubInfo.at(text)


def _unknown_lines(text: str) -> UnknownFields | None:
    """Return the lines that are not fields of ours. Lines inside braces belong to the field that opened them."""
    kept = []
    depth = 0
    for line in text.splitlines(keepends=True):
        ours = depth == 0 and line.split(":", 1)[0].strip() in _FIELDS
        if not ours and line.strip():
            kept.append(line)
        depth += line.count("{") - line.count("}")
    return UnknownFields(_ENCODING, "".join(kept).encode()) if kept else None


HUB_INFO: Final[Codec[HubInfo]] = _HubInfoCodec()
