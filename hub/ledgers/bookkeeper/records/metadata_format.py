"""The bytes of ledger metadata in ZooKeeper: BookKeeper's formats 1 (lines), 2 (protobuf text) and 3 (protobuf).

Each begins with the line `BookieMetadataFormatVersion`, a tab and the format's number. A ledger stays in the format in
which it was found, and keeps all fields that are not known here.
"""

from collections.abc import Callable
from typing import Final

from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

from hedwig.errors import ConfigurationError, CorruptRecordError
from hedwig.hub.ledgers.bookkeeper import bookkeeper_pb2 as pb
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import Ensemble, LedgerMetadata, LedgerState
from hedwig.hub.ledgers.bookkeeper.wire.add_messages import varint
from hedwig.hub.ledgers.bookkeeper.wire.digests import DigestKind
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums

__all__ = ["decode_metadata", "encode_metadata"]

_FIRST_LINE: Final = b"BookieMetadataFormatVersion\t"
_LINES, _TEXT, _BINARY = 1, 2, 3
_CLOSED: Final = "CLOSED"
_IN_RECOVERY_MARK: Final = "-102"


def encode_metadata(metadata: LedgerMetadata) -> bytes:
    """Return the content of a ledger's znode, in the format that `metadata` names."""
    first = _FIRST_LINE + b"%d\n" % metadata.format_version
    match metadata.format_version:
        case 1:
            return first + _encode_lines(metadata)
        case 2:
            message = _to_message(metadata)
            message.ClearField("cToken")
            return first + text_format.MessageToString(message).encode()
        case _:
            body = _to_message(metadata).SerializeToString() + metadata.unknown
            return first + varint(len(body)) + body


def decode_metadata(content: bytes) -> LedgerMetadata:
    """Read the content of a ledger's znode.

    Raises: CorruptRecordError - it is none of the formats, or lacks a required field; the caller names the ledger.
    """
    line, newline, body = content.partition(b"\n")
    if not newline or not line.startswith(_FIRST_LINE):
        raise CorruptRecordError("ledger metadata without the line that names its format")
    number = line.removeprefix(_FIRST_LINE)
    decode = _DECODERS.get(number)
    if decode is None:
        raise CorruptRecordError(f"ledger metadata of format {number!r}, which is not known here")
    try:
        return decode(body)
    except (DecodeError, text_format.ParseError, ConfigurationError, UnicodeDecodeError, ValueError) as exc:
        raise CorruptRecordError(f"ledger metadata of format {number.decode()} is damaged: {exc}") from exc


# ---------------------------------------------------------------------------------------------------- formats 2 and 3


def _to_message(metadata: LedgerMetadata) -> pb.LedgerMetadataFormat:
    quorums = metadata.quorums
    message = pb.LedgerMetadataFormat(
        quorumSize=quorums.write,
        ensembleSize=quorums.ensemble,
        ackQuorumSize=quorums.ack,
        length=metadata.length,
        lastEntryId=metadata.last_entry_id,
        state=metadata.state.name,
        digestType=metadata.digest.name if metadata.digest is not None else None,
        password=metadata.password,
        ctime=metadata.created_ms,
    )
    for ensemble in metadata.ensembles:
        segment = message.segment.add()
        segment.ensembleMember.extend(ensemble.bookies)
        segment.firstEntryId = ensemble.first_entry_id
        segment.MergeFromString(ensemble.unknown)
    for key, value in metadata.custom.items():
        message.customMetadata.add(key=key, value=value)
    # 0 once a client has rewritten the record: the token then proves no creator.
    message.cToken = metadata.creation_token or 0
    return message


def _from_message(message: pb.LedgerMetadataFormat, format_version: int) -> LedgerMetadata:
    for name in ("quorumSize", "ensembleSize", "length", "state"):
        if not message.HasField(name):
            raise ValueError(f"it lacks {name}, or has a value there that is not known here")
    write = message.quorumSize
    quorums = Quorums(
        ensemble=message.ensembleSize,
        write=write,
        ack=message.ackQuorumSize if message.HasField("ackQuorumSize") else write,
    )
    return _checked(
        LedgerMetadata(
            format_version=format_version,
            quorums=quorums,
            state=LedgerState(message.state),
            ensembles=tuple(_ensemble(segment) for segment in message.segment),
            length=message.length,
            last_entry_id=message.lastEntryId if message.HasField("lastEntryId") else -1,
            digest=DigestKind(message.digestType) if message.HasField("digestType") else None,
            password=message.password if message.HasField("password") else None,
            created_ms=message.ctime if message.HasField("ctime") else None,
            custom={entry.key: entry.value for entry in message.customMetadata},
            creation_token=message.cToken or None,
            unknown=_unknown(message),
        )
    )


def _ensemble(segment: pb.LedgerMetadataFormat.Segment) -> Ensemble:
    bookies = tuple(segment.ensembleMember)
    return Ensemble(first_entry_id=segment.firstEntryId, bookies=bookies, unknown=_unknown(segment))


def _unknown(message: Message) -> bytes:
    """Return the fields of a message that its .proto does not name, as they came."""
    rest = type(message)()
    rest.CopyFrom(message)
    for known in message.DESCRIPTOR.fields:
        rest.ClearField(known.name)
    return rest.SerializeToString()


def _checked(metadata: LedgerMetadata) -> LedgerMetadata:
    if not metadata.ensembles:
        raise ValueError("it names no bookies")
    firsts = [ensemble.first_entry_id for ensemble in metadata.ensembles]
    if firsts[0] != 0 or firsts != sorted(set(firsts)):
        raise ValueError("its ensembles do not follow each other from entry 0 on")
    if any(len(ensemble.bookies) != metadata.quorums.ensemble for ensemble in metadata.ensembles):
        raise ValueError("an ensemble of it has another size")
    return metadata


def _decode_text(body: bytes) -> LedgerMetadata:
    return _from_message(text_format.Parse(body.decode(), pb.LedgerMetadataFormat()), _TEXT)


def _decode_binary(body: bytes) -> LedgerMetadata:
    length, start = _read_varint(body)
    if len(body) < start + length:
        raise ValueError(f"{length} bytes were announced, and {len(body) - start} are there")
    return _from_message(pb.LedgerMetadataFormat.FromString(body[start : start + length]), _BINARY)


def _read_varint(body: bytes) -> tuple[int, int]:
    number = 0
    for index, byte in enumerate(body[:5]):
        number |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return number, index + 1
    raise ValueError("its length cannot be read")


# ----------------------------------------------------------------------------------------------------------- format 1


def _encode_lines(metadata: LedgerMetadata) -> bytes:
    quorums = metadata.quorums
    lines = [str(quorums.write), str(quorums.ensemble), str(metadata.length)]
    lines += ["\t".join([str(each.first_entry_id), *each.bookies]) for each in metadata.ensembles]
    if metadata.state is LedgerState.CLOSED:
        lines.append(f"{metadata.last_entry_id}\t{_CLOSED}")
    elif metadata.state is LedgerState.IN_RECOVERY:
        lines.append(f"{_IN_RECOVERY_MARK}\t{_CLOSED}")
    return "\n".join(lines).encode()


def _decode_lines(body: bytes) -> LedgerMetadata:
    lines = body.decode().rstrip("\n").split("\n")
    write, size, length = (int(line) for line in lines[:3])
    state, last = LedgerState.OPEN, -1
    ensembles: list[Ensemble] = []
    for line in lines[3:]:
        first, *bookies = line.split("\t")
        if bookies == [_CLOSED]:
            recovering = first == _IN_RECOVERY_MARK
            state, last = (LedgerState.IN_RECOVERY, -1) if recovering else (LedgerState.CLOSED, int(first))
        else:
            ensembles.append(Ensemble(first_entry_id=int(first), bookies=tuple(bookies)))
    return _checked(
        LedgerMetadata(
            format_version=_LINES,
            quorums=Quorums(ensemble=size, write=write, ack=write),
            state=state,
            ensembles=tuple(ensembles),
            length=length,
            last_entry_id=last,
            digest=None,
            password=None,
        )
    )


_DECODERS: Final[dict[bytes, Callable[[bytes], LedgerMetadata]]] = {
    b"1": _decode_lines,
    b"2": _decode_text,
    b"3": _decode_binary,
}
