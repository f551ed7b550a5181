"""The records that the metadata keeps: the hub that owns a topic, the ledgers that hold it, and its subscriptions.

All are immutable values. Ids of messages count from 1 in every topic. A consume pointer of 0 means that nothing was
consumed yet. Some backends could not keep a number out of the wire format's range, or text that is not Unicode. Such a
value raises InvalidArgumentError when it is created, so that all backends refuse alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NewType, Self

from hedwig.errors import InvalidArgumentError

__all__ = [
    "HubInfo",
    "LedgerRange",
    "LedgerRanges",
    "MessageSeqId",
    "RegionSeqId",
    "SubscriberId",
    "SubscriptionData",
    "SubscriptionPreferences",
    "SubscriptionState",
    "Topic",
    "UnknownFields",
    "next_delivered",
]

Topic = NewType("Topic", bytes)
"""The name of a topic: 1 to 8,192 bytes, any bytes."""

SubscriberId = NewType("SubscriberId", bytes)
"""The name of a subscriber: 1 to 8,192 bytes, any bytes."""


_UINT64_MAX: Final = (1 << 64) - 1
_UINT32_MAX: Final = (1 << 32) - 1
_PORT_MAX: Final = (1 << 16) - 1


def _check_number(what: str, number: int, most: int) -> None:
    if not 0 <= number <= most:
        raise InvalidArgumentError(f"{what} is 0 to {most}, not {number}")


def _check_text(what: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidArgumentError(f"{what} must be Unicode text, not {text!r}") from exc


@dataclass(frozen=True, slots=True)
class UnknownFields:
    """Fields of a newer minor format, kept so that a read-modify-write by older code does not lose them.

    `encoding` names the codec of the bytes in `payload`. Another codec cannot express them and leaves them out.
    """

    encoding: str
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HubInfo:
    """A hub as an owner record names it.

    `epoch` distinguishes one incarnation of the hub from the next. It is the creation zxid of its liveness node, or the
    start count of a standalone hub. It is compared for equality only. `ssl_port` is None for a hub without a TLS
    listener.

    `is_fleeting` says that the record vanishes with its hub's session in ZooKeeper. Java hubs keep such records by
    default. Compare-and-set cannot take such a topic over. The field is never written.

    `log` is the number of the shared log in which this incarnation keeps messages; None if it makes no log known here.
    """

    host: str
    port: int
    ssl_port: int | None = None
    epoch: int = 0
    log: int | None = None
    unknown: UnknownFields | None = field(default=None, compare=False, repr=False)
    is_fleeting: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_text("a hub's host", self.host)
        if not self.host:
            raise InvalidArgumentError("a hub's host is a name or an address, not empty")
        _check_number("a hub's port", self.port, _PORT_MAX)
        if self.ssl_port is not None:
            _check_number("a hub's TLS port", self.ssl_port, _PORT_MAX)
        _check_number("a hub's epoch", self.epoch, _UINT64_MAX)
        if self.log is not None:
            _check_number("the number of a hub's log", self.log, _UINT64_MAX)

    @classmethod
    def at(cls, address: str, *, epoch: int = 0, log: int | None = None, unknown: UnknownFields | None = None) -> Self:
        """Return the hub at `host:port[:sslport]`, -1 for no TLS listener. Raises InvalidArgumentError."""
        host, _, last = address.rpartition(":")
        before, _, middle = host.rpartition(":")
        if before and _is_port(middle) and (_is_port(last) or last == "-1"):
            host, port, ssl_port = before, middle, None if last == "-1" else int(last)
        else:
            port, ssl_port = last, None
        if not host or not _is_port(port):
            raise InvalidArgumentError(f"{address!r} is not host:port:sslport")
        return cls(host=host, port=int(port), ssl_port=ssl_port, epoch=epoch, log=log, unknown=unknown)

    @property
    def name(self) -> str:
        """Return `host:port`, as people name a hub."""
        return f"{self.host}:{self.port}"

    @property
    def address(self) -> str:
        """Return `host:port:sslport`, -1 for no TLS listener, as redirects and owner records spell it."""
        return f"{self.host}:{self.port}:{-1 if self.ssl_port is None else self.ssl_port}"

    def is_same(self, other: "HubInfo") -> bool:
        """Say whether both name one incarnation: one address and one epoch."""
        return self.epoch == other.epoch and self.address == other.address

    @property
    def names_in_requests(self) -> frozenset[bytes]:
        """Return the names by which clients report this hub after a redirect: one for each port that they may use."""
        return frozenset(f"{self.host}:{port}".encode() for port in (self.port, self.ssl_port) if port is not None)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) <= _PORT_MAX


@dataclass(frozen=True, slots=True)
class RegionSeqId:
    """The position in the message stream of another region."""

    region: bytes
    seq_id: int

    def __post_init__(self) -> None:
        _check_number("a message id of another region", self.seq_id, _UINT64_MAX)


@dataclass(frozen=True, slots=True)
class MessageSeqId:
    """The position of a message in its topic. `local` counts from 1; `remote` has one entry per other region."""

    local: int = 0
    remote: tuple[RegionSeqId, ...] = ()

    def __post_init__(self) -> None:
        _check_number("a message id", self.local, _UINT64_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRange:
    """The message ids of a topic that one ledger holds.

    `end` is None while the ledger is open. `start` is None only in records that predate start ids.
    """

    ledger_id: int
    start: int | None
    end: MessageSeqId | None = None
    unknown: UnknownFields | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_number("a ledger id", self.ledger_id, _UINT64_MAX)
        if self.start is not None:
            _check_number("the first message id of a ledger range", self.start, _UINT64_MAX)


@dataclass(frozen=True, slots=True)
class LedgerRanges:
    """The ledgers of a topic, oldest first; only the last may lack an end."""

    ranges: tuple[LedgerRange, ...] = ()
    unknown: UnknownFields | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionPreferences:
    """The preferences of a subscriber, which are set once and change rarely.

    `options` are application options that filters read. `message_bound` skips all but the newest N messages.
    `message_window_size` limits delivered, unconsumed messages. None means that the subscriber set no value.
    """

    options: Mapping[str, bytes] = field(default_factory=dict)
    message_bound: int | None = None
    message_filter: str | None = None
    message_window_size: int | None = None
    unknown: UnknownFields | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in self.options:
            _check_text("the name of an option", name)
        if self.message_bound is not None:
            _check_number("a message bound", self.message_bound, _UINT32_MAX)
        if self.message_filter is not None:
            _check_text("the name of a message filter", self.message_filter)
        if self.message_window_size is not None:
            _check_number("a message window size", self.message_window_size, _UINT32_MAX)


@dataclass(frozen=True, slots=True)
class SubscriptionState:
    """The progress of a subscriber. `consumed` is its consume pointer, which moves often."""

    consumed: MessageSeqId = MessageSeqId()
    unknown: UnknownFields | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionData:
    """A subscription. Either part may be absent; an update writes only the parts that are present."""

    preferences: SubscriptionPreferences | None = None
    state: SubscriptionState | None = None
    unknown: UnknownFields | None = field(default=None, compare=False, repr=False)

    @property
    def consumed(self) -> int:
        """Return the consume pointer, in ids of this region; 0 without a state."""
        return 0 if self.state is None else self.state.consumed.local


def next_delivered(consumed: int, first_id: int) -> int:
    """Return the message that a subscription gets next, which may be yet to be published.

    Args: consumed - its consume pointer; first_id - the first message that the topic still has.
    """
    return max(consumed + 1, first_id)
