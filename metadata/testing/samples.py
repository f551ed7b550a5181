"""Records to store: one per number, extremes of every field, and strategies for all values in between."""

from collections.abc import Mapping
from typing import Final

from hypothesis import strategies as st

from hedwig.model import (
    HubInfo,
    LedgerRange,
    LedgerRanges,
    MessageSeqId,
    RegionSeqId,
    SubscriberId,
    SubscriptionData,
    SubscriptionPreferences,
    SubscriptionState,
)

__all__ = [
    "EXTREME_HUBS",
    "EXTREME_RANGES",
    "EXTREME_SUBSCRIPTIONS",
    "UINT32_MAX",
    "UINT64_MAX",
    "hub",
    "hubs",
    "ledger_ranges",
    "preferences",
    "ranges",
    "state",
    "subscriber",
    "subscription",
    "subscriptions",
]

UINT32_MAX: Final = 2**32 - 1
UINT64_MAX: Final = 2**64 - 1

# -------------------------------------------------------------------------------------------------- one for each number


def hub(number: int) -> HubInfo:
    """Return a hub that differs from the hub of every other number."""
    return HubInfo(host=f"hub-{number}.example", port=4080, ssl_port=9876, epoch=number)


def ranges(number: int) -> LedgerRanges:
    """Return ledger ranges that differ from those of every other number."""
    closed = LedgerRange(ledger_id=number, start=1, end=MessageSeqId(number + 7))
    return LedgerRanges((closed, LedgerRange(ledger_id=number + 1, start=number + 8)))


def preferences(number: int) -> SubscriptionPreferences:
    """Return preferences that differ from those of every other number."""
    return SubscriptionPreferences(options={"number": b"%d" % number}, message_bound=number % 1000)


def state(number: int) -> SubscriptionState:
    """Return a state whose consume pointer is `number`."""
    return SubscriptionState(MessageSeqId(number))


def subscriber(number: int) -> SubscriberId:
    """Return a subscriber id that differs from the id of every other number."""
    return SubscriberId(b"subscriber-%d" % number)


def subscription(number: int) -> SubscriptionData:
    """Return a subscription with both parts that differs from the subscription of every other number."""
    return SubscriptionData(preferences=preferences(number), state=state(number))


# ------------------------------------------------------------------------------------------------------------- extremes

_FAR: Final = MessageSeqId(
    UINT64_MAX, tuple(RegionSeqId(b"\x00region/%d\xff" % number, UINT64_MAX - number) for number in range(200))
)

EXTREME_HUBS: Final[Mapping[str, HubInfo]] = {
    "least": HubInfo(host="h", port=0),
    "largest numbers": HubInfo(host="10.255.255.255", port=65535, ssl_port=65535, epoch=UINT64_MAX),
    "a shared log": HubInfo(host="10.0.0.1", port=4080, epoch=1, log=UINT64_MAX),
    "the first log": HubInfo(host="10.0.0.1", port=4080, epoch=1, log=0),
    "no TLS listener": HubInfo(host="10.0.0.1", port=4080, ssl_port=None, epoch=1),
    "IPv6": HubInfo(host="2001:db8::1", port=4080, ssl_port=9876, epoch=2),
    "unicode host": HubInfo(host="käse.例え.example", port=4080, epoch=3),
    "signs that text formats quote": HubInfo(host="a\"b'c\\d{e}#f\x7f", port=4080, epoch=4),
    "a long name": HubInfo(host="x" * 10_000, port=4080, epoch=5),
}

EXTREME_RANGES: Final[Mapping[str, LedgerRanges]] = {
    "no ledger": LedgerRanges(),
    "largest numbers": LedgerRanges((LedgerRange(ledger_id=UINT64_MAX, start=UINT64_MAX, end=_FAR),)),
    "zeros": LedgerRanges((LedgerRange(ledger_id=0, start=0, end=MessageSeqId(0)),)),
    "without a start": LedgerRanges((LedgerRange(ledger_id=3, start=None, end=MessageSeqId(9)),)),
    "open, without a start": LedgerRanges((LedgerRange(ledger_id=3, start=None),)),
    "a thousand": LedgerRanges(
        tuple(LedgerRange(ledger_id=n, start=1 + 10 * n, end=MessageSeqId(10 + 10 * n)) for n in range(1000))
    ),
}

EXTREME_SUBSCRIPTIONS: Final[Mapping[str, SubscriptionData]] = {
    "no part": SubscriptionData(),
    "empty preferences alone": SubscriptionData(preferences=SubscriptionPreferences()),
    "empty state alone": SubscriptionData(state=SubscriptionState()),
    "both empty": SubscriptionData(preferences=SubscriptionPreferences(), state=SubscriptionState()),
    "preferences alone": SubscriptionData(preferences=preferences(1)),
    "state alone": SubscriptionData(state=state(1)),
    "largest numbers": SubscriptionData(
        preferences=SubscriptionPreferences(message_bound=UINT32_MAX, message_window_size=UINT32_MAX),
        state=SubscriptionState(_FAR),
    ),
    "zeros that were said": SubscriptionData(
        preferences=SubscriptionPreferences(message_bound=0, message_window_size=0, message_filter=""),
        state=SubscriptionState(MessageSeqId(0)),
    ),
    "an empty region": SubscriptionData(state=SubscriptionState(MessageSeqId(0, (RegionSeqId(b"", 0),)))),
    "unicode filter": SubscriptionData(
        preferences=SubscriptionPreferences(message_filter="org.exämple.Фильтр$内部\U0001f4e8\x00")
    ),
    "many options": SubscriptionData(
        preferences=SubscriptionPreferences(
            options={
                "": b"",
                "\x00": b"\x00",
                "ключ\U0001f511": bytes(range(256)),
                **{f"k{n}": b"v" for n in range(500)},
            }
        )
    ),
}

# ----------------------------------------------------------------------------------------------------------- strategies

_uint32 = st.integers(0, UINT32_MAX)
_uint64 = st.integers(0, UINT64_MAX)
_text = st.text(max_size=12)
_seq_ids = st.builds(
    MessageSeqId,
    _uint64,
    st.lists(st.builds(RegionSeqId, st.binary(max_size=6), _uint64), max_size=3).map(tuple),
)
_ledger_range = st.builds(LedgerRange, ledger_id=_uint64, start=st.none() | _uint64, end=st.none() | _seq_ids)

_hosts = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=12)

hubs: st.SearchStrategy[HubInfo] = st.builds(
    HubInfo, host=_hosts, port=st.integers(0, 65535), ssl_port=st.none() | st.integers(0, 65535), epoch=_uint64
)
ledger_ranges: st.SearchStrategy[LedgerRanges] = st.builds(LedgerRanges, st.lists(_ledger_range, max_size=4).map(tuple))
subscriptions: st.SearchStrategy[SubscriptionData] = st.builds(
    SubscriptionData,
    preferences=st.none()
    | st.builds(
        SubscriptionPreferences,
        options=st.dictionaries(_text, st.binary(max_size=12), max_size=4),
        message_bound=st.none() | _uint32,
        message_filter=st.none() | _text,
        message_window_size=st.none() | _uint32,
    ),
    state=st.none() | st.builds(SubscriptionState, _seq_ids),
)
