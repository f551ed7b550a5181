"""Entries, digests and keys are those of BookKeeper, and a damaged entry is never accepted."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedwig.hub.ledgers.bookkeeper.wire.digests import Digest, DigestKind, mac_key, master_key
from hedwig.hub.ledgers.bookkeeper.wire.entries import (
    Entry,
    UnverifiedError,
    decode_entry,
    decode_lac,
    encode_fields,
    encode_lac,
)

HELLO = Entry(ledger_id=1, entry_id=2, lac=1, length=10, payload=b"hello")

DIGESTS = {
    DigestKind.CRC32: "00000000fa47c667",
    DigestKind.CRC32C: "fd7158a9",
    DigestKind.HMAC: "45f3343a255279cecd46b8b0b279176692108834",
    DigestKind.DUMMY: "",
}
LAC_DIGESTS = {
    DigestKind.CRC32: "0000000015ce3e3a",
    DigestKind.CRC32C: "57753c55",
    DigestKind.HMAC: "1ffa14de2cc11d2487a5f210c611d8e94700d47f",
}


def _encoded(digest: Digest, entry: Entry) -> bytes:
    return encode_fields(digest, entry.ledger_id, entry.entry_id, entry.lac, entry.length, entry.payload)


kinds = st.sampled_from(list(DigestKind))
checking_kinds = st.sampled_from([DigestKind.CRC32, DigestKind.HMAC, DigestKind.CRC32C])


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    entry_id = draw(st.integers(0, (1 << 63) - 1))
    payload = draw(st.binary(max_size=64))
    return Entry(
        ledger_id=draw(st.integers(0, (1 << 63) - 1)),
        entry_id=entry_id,
        lac=draw(st.integers(-1, entry_id - 1)),
        length=draw(st.integers(len(payload), 1 << 40)),
        payload=payload,
    )


def test_the_keys_of_a_password() -> None:
    assert master_key(b"").hex() == "850bf1071c5e3d8c24235676f8816ae0cbe2f14f"
    assert master_key(b"pw").hex() == "2aa226ba095b6969a64871977693b14671710d76"
    assert mac_key(b"pw").hex() == "1f397c2df518ce03229cc4dc92b608068c3a2fad"


@pytest.mark.parametrize(("kind", "expected"), DIGESTS.items())
def test_the_digest_of_an_entry(kind: DigestKind, expected: str) -> None:
    body = _encoded(Digest(kind, b"pw"), HELLO)
    header = b"".join(number.to_bytes(8, "big") for number in (1, 2, 1, 10))
    assert body == header + bytes.fromhex(expected) + b"hello"


@pytest.mark.parametrize(("kind", "expected"), LAC_DIGESTS.items())
def test_the_digest_of_a_last_add_confirmed(kind: DigestKind, expected: str) -> None:
    body = encode_lac(Digest(kind, b"pw"), 1, 2)
    assert body == (1).to_bytes(8, "big") + (2).to_bytes(8, "big") + bytes.fromhex(expected)


@given(kinds, entries())
def test_entries_come_back(kind: DigestKind, entry: Entry) -> None:
    digest = Digest(kind, b"secret")
    body = _encoded(digest, entry)
    assert decode_entry(digest, entry.ledger_id, entry.entry_id, body) == entry
    assert decode_entry(digest, entry.ledger_id, None, body) == entry


@given(checking_kinds, entries(), st.data())
def test_a_flipped_bit_is_found(kind: DigestKind, entry: Entry, data: st.DataObject) -> None:
    digest = Digest(kind, b"secret")
    body = bytearray(_encoded(digest, entry))
    bit = data.draw(st.integers(0, len(body) * 8 - 1))
    body[bit // 8] ^= 1 << bit % 8
    with pytest.raises(UnverifiedError):
        decode_entry(digest, entry.ledger_id, entry.entry_id, bytes(body))


@given(checking_kinds, entries(), st.data())
def test_a_missing_end_is_found(kind: DigestKind, entry: Entry, data: st.DataObject) -> None:
    digest = Digest(kind, b"secret")
    body = _encoded(digest, entry)
    with pytest.raises(UnverifiedError):
        decode_entry(digest, entry.ledger_id, entry.entry_id, body[: data.draw(st.integers(0, len(body) - 1))])


@pytest.mark.parametrize("kind", list(DigestKind))
def test_another_entry_is_refused(kind: DigestKind) -> None:
    digest = Digest(kind, b"pw")
    for stranger in (dataclasses.replace(HELLO, ledger_id=3), dataclasses.replace(HELLO, entry_id=3)):
        other = _encoded(digest, stranger)
        with pytest.raises(UnverifiedError):
            decode_entry(digest, HELLO.ledger_id, HELLO.entry_id, other)


@pytest.mark.parametrize(("entry_id", "lac", "length"), [(2, 2, 10), (2, -2, 10), (2, 1, 4), (-1, -2, 10)])
def test_numbers_that_make_no_sense_are_refused(entry_id: int, lac: int, length: int) -> None:
    digest = Digest(DigestKind.CRC32C, b"pw")
    entry = Entry(ledger_id=1, entry_id=entry_id, lac=lac, length=length, payload=b"hello")
    with pytest.raises(UnverifiedError):
        decode_entry(digest, 1, None, _encoded(digest, entry))


def test_an_hmac_of_another_password_is_refused() -> None:
    body = _encoded(Digest(DigestKind.HMAC, b"pw"), HELLO)
    with pytest.raises(UnverifiedError):
        decode_entry(Digest(DigestKind.HMAC, b"other"), 1, 2, body)


@given(checking_kinds, st.integers(0, 1 << 40), st.integers(-1, 1 << 40), st.data())
def test_last_adds_confirmed_come_back_whole_or_not_at_all(
    kind: DigestKind, ledger_id: int, lac: int, data: st.DataObject
) -> None:
    digest = Digest(kind, b"secret")
    body = bytearray(encode_lac(digest, ledger_id, lac))
    assert decode_lac(digest, ledger_id, bytes(body)) == lac
    with pytest.raises(UnverifiedError):
        decode_lac(digest, ledger_id + 1, bytes(body))
    bit = data.draw(st.integers(0, len(body) * 8 - 1))
    body[bit // 8] ^= 1 << bit % 8
    with pytest.raises(UnverifiedError):
        decode_lac(digest, ledger_id, bytes(body))
