"""What a check has found, as it is told: how bad it is, why it matters, and what a repair would do about it."""

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
    """It may be in order; for people to know."""
    WARNING = 1
    """Messages are safe and flow."""
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
}

WHY: Final[Mapping[FindingKind, str]] = {
    FindingKind.DEAD_OWNER: "nobody serves the topic until a client asks for it, which then waits for a takeover",
    FindingKind.LONE_SUBSCRIPTION: "a topic that is made anew counts from 1: messages up to the pointer are skipped",
    FindingKind.RANGE_OVERLAP: "two ledgers claim the same messages, so subscribers may get the wrong ones, or stop",
    FindingKind.RANGE_GAP: "there are messages that no ledger holds, or no hub can open the topic: subscribers stop",
    FindingKind.UNREADABLE_RECORD: "no hub can open the topic, or serve the subscription, while it stands there",
    FindingKind.MISSING_LEDGER: "the messages in it are lost, and no hub can open the topic, or read on there",
    FindingKind.ORPHAN_LEDGER: "it takes up space, and its messages can be reached by nobody",
}
"""Why each kind matters."""

ONLY_WHEN_NAMED: Final = frozenset({FindingKind.UNREADABLE_RECORD, FindingKind.MISSING_LEDGER})
"""The kinds whose repair gives something up for good: only for those who ask for it by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """A finding with what would be done about it.

    `remedy` is what a repair does or, if not `is_repairable`, why it does nothing. `ranges` is the record that it would
    write; `entry` the ledger that it would delete, which names `topic`.
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
