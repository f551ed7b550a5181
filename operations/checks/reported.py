"""A finding of a check with its severity, the reason why it matters, and what a repair would do about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from hedwig.metadata.bulk.findings import Finding, FindingKind
from hedwig.model import LedgerRanges, Topic

if TYPE_CHECKING:
    from hedwig.hub.ledgers.census import LedgerEntry

__all__ = ["ONLY_WHEN_NAMED", "SEVERITY", "WHY", "Reported", "Severity"]


class Severity(IntEnum):
    """How bad something is."""

    NOTE = 0
    """It may be in order. People should know of it."""
    WARNING = 1
    """No message is lost, and messages are delivered."""
    CRITICAL = 2
    """Messages are lost, or will not be delivered."""


SEVERITY: Final[Mapping[FindingKind, Severity]] = {
    FindingKind.DEAD_OWNER: Severity.WARNING,
    FindingKind.LONE_SUBSCRIPTION: Severity.CRITICAL,
    FindingKind.RANGE_OVERLAP: Severity.CRITICAL,
    FindingKind.RANGE_GAP: Severity.CRITICAL,
    FindingKind.UNREADABLE_RECORD: Severity.CRITICAL,
    FindingKind.MISSING_LEDGER: Severity.CRITICAL,
    FindingKind.ORPHAN_LEDGER: Severity.WARNING,
    FindingKind.UNINDEXED_SUBSCRIPTION: Severity.WARNING,
    FindingKind.STRAY_INDEX_ENTRY: Severity.NOTE,
}

WHY: Final[Mapping[FindingKind, str]] = {
    FindingKind.DEAD_OWNER: "no hub serves the topic until a client asks for it; that client waits for a takeover",
    FindingKind.LONE_SUBSCRIPTION: "a topic that is made anew counts from 1: messages up to the pointer are skipped",
    FindingKind.RANGE_OVERLAP: "two ledgers claim the same messages, so subscribers may get the wrong ones, or stop",
    FindingKind.RANGE_GAP: "there are messages that no ledger holds, or no hub can open the topic: subscribers stop",
    FindingKind.UNREADABLE_RECORD: "no hub can open the topic, or those in the log, or serve the subscription",
    FindingKind.MISSING_LEDGER: "the messages in it are lost, and no hub can open the topic, or read on there",
    FindingKind.ORPHAN_LEDGER: "it takes up space, and no client can reach its messages",
    FindingKind.UNINDEXED_SUBSCRIPTION: "whoever asks for all subscriptions of its subscriber does not find it",
    FindingKind.STRAY_INDEX_ENTRY: "it takes up space, and a read each time somebody asks for its subscriber",
}
"""Why each kind matters."""

ONLY_WHEN_NAMED: Final = frozenset({FindingKind.UNREADABLE_RECORD, FindingKind.MISSING_LEDGER})
"""The kinds whose repair loses something for good. A repair does them only if the user names the kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """A finding, with what a repair would do about it.

    `remedy` says what a repair does. If not `is_repairable`, it says why a repair does nothing. `ranges` is the record
    that a repair would write. `entry` is the ledger of `topic` that it would delete.
    """

    finding: Finding
    remedy: str
    is_repairable: bool
    severity: Severity
    ranges: LedgerRanges | None = None
    entry: "LedgerEntry | None" = None
    topic: Topic | None = None

    @property
    def why(self) -> str:
        return WHY[self.finding.kind]
