"""The record of a shared log: which ledgers it consists of, and whether its hub may still write.

There is one record for each log. It changes when the log begins a segment, when a hub shuts the log's writer out, and
when segments are deleted or merged: never for a message or a topic.
"""

import enum
from dataclasses import dataclass, replace
from typing import Any, Final

import msgpack

from hedwig.errors import CorruptRecordError
from hedwig.model import HubInfo

__all__ = ["DroppedLedger", "LogRecord", "LogState", "Segment"]

_FORMAT: Final = 1


class LogState(enum.Enum):
    """What may happen to a log."""

    OPEN = "open"
    """Its hub appends to the ledgers that the record lists."""
    FENCED = "fenced"
    """Another hub shuts its writer out. No ledger joins the record any more, except as a sealed segment."""
    CLOSED = "closed"
    """Each of its ledgers is a sealed segment."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A sealed segment. `footer` is the ledger whose last entries are the footer: `ledger`, or one for the footer only.

    Its records have the slots `lowest_slot` to `highest_slot`, though not all of these. `size` counts their payloads.
    """

    ledger: int
    footer: int
    lowest_slot: int
    highest_slot: int
    records: int
    size: int

    @property
    def ledgers(self) -> tuple[int, ...]:
        """Return its ledgers."""
        return (self.ledger,) if self.footer == self.ledger else (self.ledger, self.footer)


@dataclass(frozen=True, slots=True)
class DroppedLedger:
    """A ledger that is no segment any more. It is deleted at `due`, in seconds since 1970, or later.

    Until then, a hub that has read an older state of the record may read from it.
    """

    ledger: int
    due: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """A log. `hub` is the incarnation of a hub that writes it. `is_alone` says that this hub has no ledgers of topics
    outside of the log, so that it can append nothing any more once the log is closed.

    `listed` are the ledgers that may hold batches and are not sealed yet, in the order in which they are written. There
    are two at most. `segments` are the sealed ones, in that order too. `dropped` are those to be deleted. `imports`
    counts how often ranges may have been brought into the store from elsewhere. `change` counts the changes of the
    record.
    """

    number: int
    hub: HubInfo
    is_alone: bool = True
    state: LogState = LogState.OPEN
    listed: tuple[int, ...] = ()
    segments: tuple[Segment, ...] = ()
    dropped: tuple[DroppedLedger, ...] = ()
    imports: int = 0
    change: int = 0

    @property
    def ledgers(self) -> set[int]:
        """Return all ledgers that the log consists of, also those to be deleted."""
        of_segments = {ledger for each in self.segments for ledger in each.ledgers}
        return of_segments | {*self.listed, *(each.ledger for each in self.dropped)}

    @property
    def age(self) -> int:
        """Return how often the hubs of a store have changed the log. Of two states of it the later one has more."""
        return self.change - self.imports

    def imported(self, over: "LogRecord | None" = None) -> "LogRecord":
        """Return the record as an import writes it into another store, in place of `over` there."""
        imports = 1 + max(self.imports, 0 if over is None else over.imports)
        return replace(self, change=self.age + imports, imports=imports)

    def changed(self, **fields: Any) -> "LogRecord":
        """Return the record with other values in some fields, as the next change."""
        return replace(self, change=self.change + 1, **fields)

    def encode(self) -> bytes:
        """Return the stored bytes. No two states of a log have the same ones, since `change` differs."""
        segments = [
            (each.ledger, each.footer, each.lowest_slot, each.highest_slot, each.records, each.size)
            for each in self.segments
        ]
        dropped = [(each.ledger, each.due) for each in self.dropped]
        of_hub = self.hub.address, self.hub.epoch, self.is_alone
        counts = self.change, self.imports
        fields = (_FORMAT, self.number, *counts, *of_hub, self.state.value, self.listed, segments, dropped)
        return bytes(msgpack.packb(fields))

    @classmethod
    def decode(cls, stored: bytes) -> "LogRecord":
        """Return the log in stored bytes. Raises: CorruptRecordError."""
        try:
            fields: list[Any] = msgpack.unpackb(stored)
            known, number, change, imports, address, epoch, is_alone, state, listed, segments, dropped = fields
            if known != _FORMAT:
                raise CorruptRecordError(f"a log's record has the format {known}, this program knows {_FORMAT}")
            return cls(
                number=number,
                hub=HubInfo.at(address, epoch=epoch),
                is_alone=is_alone,
                state=LogState(state),
                listed=tuple(listed),
                segments=tuple(Segment(*each) for each in segments),
                dropped=tuple(DroppedLedger(*each) for each in dropped),
                imports=imports,
                change=change,
            )
        except (ValueError, TypeError, AttributeError, msgpack.UnpackException) as exc:
            raise CorruptRecordError(f"a log's record cannot be read: {exc}") from exc
