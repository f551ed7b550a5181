"""Prove that records have the original's bytes, also old ones, and that unknown fields stay."""

from typing import Any, Final

import pytest

from hedwig.metadata.zookeeper.records.hub_info_text import HUB_INFO
from hedwig.metadata.zookeeper.records.records import LEDGER_RANGES, SUBSCRIPTION, UndecodableError
from hedwig.model import (
    HubInfo,
    LedgerRange,
    LedgerRanges,
    MessageSeqId,
    RegionSeqId,
    SubscriptionData,
    SubscriptionPreferences,
    SubscriptionState,
    UnknownFields,
)
from hedwig.wire import pubsub_pb2 as pb

NEWER: Final = b"\x8a\x7d\x03new"
"""Field 2001, of a format that does not exist yet."""

MINE: Final = b"\x01\x02\x03\x04\x05\x06\x07\x08"
BEFORE: Final = b"\xff" * 8


def _subscription(consumed: int = 7, **preferences: Any) -> SubscriptionData:
    return SubscriptionData(
        state=SubscriptionState(MessageSeqId(consumed)), preferences=SubscriptionPreferences(**preferences)
    )


# --------------------------------------------------------------------------------------------------------- owner record


@pytest.mark.parametrize(
    ("hub", "text"),
    [
        (HubInfo(host="10.0.0.1", port=4080, ssl_port=9876, epoch=30), 'hostname: "10.0.0.1:4080:9876"\nczxid: 30\n'),
        (HubInfo(host="h", port=1), 'hostname: "h:1:-1"\nczxid: 0\n'),
        (HubInfo(host="::1", port=1, epoch=2**64 - 1), f'hostname: "::1:1:-1"\nczxid: {2**64 - 1}\n'),
    ],
)
def test_owner_record_is_two_lines(hub: HubInfo, text: str) -> None:
    assert HUB_INFO.encode(hub) == text.encode()
    assert HUB_INFO.decode(text.encode()) == hub


@pytest.mark.parametrize("text", ["10.0.0.1:4080:9876", "10.0.0.1:4080:9876\n"])
def test_old_owner_record_is_a_bare_address(text: str) -> None:
    assert HUB_INFO.decode(text.encode()) == HubInfo(host="10.0.0.1", port=4080, ssl_port=9876, epoch=0)


def test_address_without_tls_port_is_read() -> None:
    assert HUB_INFO.decode(b"h:4080") == HubInfo(host="h", port=4080)


def test_owner_record_keeps_lines_that_are_unknown() -> None:
    text = b'hostname: "h:1:-1"\nczxid: 3\nzone: "a:b"\nload {\n  czxid: 9\n}\n'
    hub = HUB_INFO.decode(text)
    assert hub == HubInfo(host="h", port=1, epoch=3)
    assert HUB_INFO.encode(hub) == text
    assert HUB_INFO.merge(text, HubInfo(host="i", port=2)) == text.replace(b"h:1", b"i:2").replace(b": 3", b": 0")


@pytest.mark.parametrize("data", [b"", b"\xff", b"nothing", b"hostname:", b'hostname: "h:x"\nczxid: 1\n'])
def test_unreadable_owner_record_is_said_to_be(data: bytes) -> None:
    with pytest.raises(UndecodableError):
        HUB_INFO.decode(data)


@pytest.mark.parametrize("host", ["::1", "a:1", "a b", "é", '"', "a:-1", "hostname"])
@pytest.mark.parametrize("ssl_port", [None, 0, 65535])
def test_any_host_comes_back(host: str, ssl_port: int | None) -> None:
    hub = HubInfo(host=host, port=1, ssl_port=ssl_port, epoch=2)
    assert HUB_INFO.decode(HUB_INFO.encode(hub)) == hub


def test_owner_record_carries_no_token() -> None:
    body = HUB_INFO.encode(HubInfo(host="h", port=1))
    assert HUB_INFO.stamp(body, MINE, BEFORE) == body
    assert HUB_INFO.token(body) == HUB_INFO.previous(body) == b""


# -------------------------------------------------------------------------------------------------------- ledger ranges

RANGES: Final = LedgerRanges(
    (
        LedgerRange(ledger_id=3, start=1, end=MessageSeqId(4, (RegionSeqId(b"east", 9),))),
        LedgerRange(ledger_id=13, start=5),
    )
)


def test_ledger_ranges_are_the_originals_message() -> None:
    message = pb.LedgerRanges.FromString(LEDGER_RANGES.encode(RANGES))
    assert [(item.ledgerId, item.startSeqIdIncluded) for item in message.ranges] == [(3, 1), (13, 5)]
    assert message.ranges[0].endSeqIdIncluded.localComponent == 4
    assert not message.ranges[1].HasField("endSeqIdIncluded")
    assert LEDGER_RANGES.decode(message.SerializeToString()) == RANGES


def test_old_ledger_ranges_have_no_start() -> None:
    old = pb.LedgerRanges(ranges=[pb.LedgerRange(ledgerId=3, endSeqIdIncluded=pb.MessageSeqId(localComponent=4))])
    record = LEDGER_RANGES.decode(old.SerializeToString())
    assert record == LedgerRanges((LedgerRange(ledger_id=3, start=None, end=MessageSeqId(4)),))
    assert LEDGER_RANGES.encode(record) == old.SerializeToString()


def test_no_bytes_are_no_ranges() -> None:
    assert LEDGER_RANGES.decode(b"") == LedgerRanges()
    assert LEDGER_RANGES.encode(LedgerRanges()) == b""


def test_ledger_ranges_keep_what_is_unknown() -> None:
    message = pb.LedgerRanges.FromString(LEDGER_RANGES.encode(RANGES))
    message.ranges[1].MergeFromString(NEWER)
    message.MergeFromString(NEWER)
    record = LEDGER_RANGES.decode(message.SerializeToString())
    assert record == RANGES
    assert record.unknown == record.ranges[1].unknown == UnknownFields("protobuf", NEWER)
    assert pb.LedgerRanges.FromString(LEDGER_RANGES.encode(record)) == message


# --------------------------------------------------------------------------------------------------------- subscription


def test_subscription_is_the_originals_message() -> None:
    record = _subscription(7, options={"k": b"v"}, message_bound=3, message_filter="F", message_window_size=0)
    message = pb.SubscriptionData.FromString(SUBSCRIPTION.encode(record))
    assert message.state.msgId.localComponent == 7
    assert not message.state.HasField("messageBound")
    assert [(entry.key, entry.value) for entry in message.preferences.options.entries] == [("k", b"v")]
    assert SUBSCRIPTION.decode(message.SerializeToString()) == record


@pytest.mark.parametrize("consumed", [0, 1, 1000])
def test_record_of_release_4_0_is_a_bare_state(consumed: int) -> None:
    state = pb.SubscriptionState(msgId=pb.MessageSeqId(localComponent=consumed), messageBound=5)
    assert SUBSCRIPTION.decode(state.SerializeToString()) == _subscription(consumed, message_bound=5)


def test_bound_in_its_old_place_moves_to_the_preferences() -> None:
    state = pb.SubscriptionState(msgId=pb.MessageSeqId(localComponent=1), messageBound=5)
    old = pb.SubscriptionData(state=state)
    assert SUBSCRIPTION.decode(old.SerializeToString()) == _subscription(1, message_bound=5)
    old.preferences.messageBound = 6
    assert SUBSCRIPTION.decode(old.SerializeToString()) == _subscription(1, message_bound=6)


def test_bound_in_its_old_place_survives_a_write_of_the_state() -> None:
    state = pb.SubscriptionState(msgId=pb.MessageSeqId(localComponent=1), messageBound=5)
    for old in (pb.SubscriptionData(state=state), state):
        moved = SUBSCRIPTION.merge(old.SerializeToString(), SubscriptionData(state=SubscriptionState(MessageSeqId(2))))
        assert SUBSCRIPTION.decode(moved) == _subscription(2, message_bound=5)


def test_first_entry_of_a_repeated_option_counts() -> None:
    message = pb.SubscriptionData()
    for value in (b"1", b"2"):
        message.preferences.options.entries.add(key="k", value=value)
    decoded = SUBSCRIPTION.decode(message.SerializeToString())
    assert decoded.preferences == SubscriptionPreferences(options={"k": b"1"})


def test_merge_leaves_the_other_part_and_all_that_is_unknown() -> None:
    message = pb.SubscriptionData.FromString(SUBSCRIPTION.encode(_subscription(1, message_filter="F")))
    for part in (message, message.state, message.preferences):
        part.MergeFromString(NEWER)
    merged = SUBSCRIPTION.merge(message.SerializeToString(), SubscriptionData(state=SubscriptionState(MessageSeqId(2))))
    message.state.msgId.localComponent = 2
    assert pb.SubscriptionData.FromString(merged) == message


def test_whole_write_stores_what_the_record_says_and_no_more() -> None:
    record = SubscriptionData(state=SubscriptionState(MessageSeqId(2)))
    assert SUBSCRIPTION.decode(SUBSCRIPTION.encode(record)) == record


def test_foreign_encodings_of_unknown_fields_are_left_out() -> None:
    record = SubscriptionData(unknown=UnknownFields("msgpack", b"\x81"))
    assert SUBSCRIPTION.encode(record) == b""


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\x05ab", b"\x0a\x02\x12\x00"])
def test_unreadable_subscription_is_said_to_be(data: bytes) -> None:
    with pytest.raises(UndecodableError):
        SUBSCRIPTION.decode(data)


# --------------------------------------------------------------------------------------------------------------- stamps


@pytest.mark.parametrize(
    ("codec", "body"),
    [(SUBSCRIPTION, SUBSCRIPTION.encode(_subscription())), (LEDGER_RANGES, LEDGER_RANGES.encode(RANGES))],
)
def test_stamp_is_read_back_and_is_no_part_of_the_record(codec: Any, body: bytes) -> None:
    stored = codec.stamp(body, MINE, BEFORE)
    assert stored.startswith(body)
    assert (codec.token(stored), codec.previous(stored)) == (MINE, BEFORE)
    assert codec.decode(stored) == codec.decode(body)
    assert codec.decode(stored).unknown is None
    first = codec.stamp(body, MINE, b"")
    assert (codec.token(first), codec.previous(first)) == (MINE, b"")


def test_merge_drops_the_stamp_of_the_write_before() -> None:
    stored = SUBSCRIPTION.stamp(SUBSCRIPTION.encode(_subscription(1)), BEFORE, b"")
    merged = SUBSCRIPTION.merge(stored, _subscription(2))
    assert merged == SUBSCRIPTION.encode(_subscription(2))


def test_record_without_a_stamp_has_no_token() -> None:
    for data in (SUBSCRIPTION.encode(_subscription()), b"\xff"):
        assert SUBSCRIPTION.token(data) == SUBSCRIPTION.previous(data) == b""


def test_subscription_whose_text_is_no_unicode_is_not_decoded() -> None:
    """protobuf reads it without an error, and returns the text as bytes."""
    good = SUBSCRIPTION.encode(_subscription(message_filter="abc"))
    assert good.count(b"abc") == 1
    with pytest.raises(UndecodableError):
        SUBSCRIPTION.decode(good.replace(b"abc", b"a\xffc"))
