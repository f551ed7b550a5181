"""What may be wrong with the records of a store, as far as the records themselves show.

Suspicions come from a scan, which is no picture of one moment. So a suspicion that depends on more than the record
itself is checked a second time. The caller has to know which hubs live and which ledgers exist. Nothing here changes
anything.
"""

import enum
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from hedwig.errors import CorruptRecordError
from hedwig.metadata.contract.kinds import KINDS, OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS, RecordKind
from hedwig.metadata.contract.operations import Read, RecordKey
from hedwig.metadata.contract.scan import ScannedRecord
from hedwig.metadata.records.ranges import RangeFault, range_defects
from hedwig.metadata.store import MetadataStore
from hedwig.model import HubInfo, LedgerRanges, SubscriptionData, Topic
from hedwig.versions import Version, Versioned

__all__ = [
    "Finding",
    "FindingKind",
    "RecordPage",
    "consumed_of",
    "find_lone_subscriptions",
    "find_ranges",
    "find_unreadable",
    "pages",
]


class FindingKind(enum.StrEnum):
    """What is wrong."""

    DEAD_OWNER = "dead-owner"
    LONE_SUBSCRIPTION = "lone-subscription"
    RANGE_OVERLAP = "range-overlap"
    RANGE_GAP = "range-gap"
    UNREADABLE_RECORD = "unreadable-record"
    MISSING_LEDGER = "missing-ledger"
    ORPHAN_LEDGER = "orphan-ledger"
    UNINDEXED_SUBSCRIPTION = "unindexed-subscription"
    STRAY_INDEX_ENTRY = "stray-index-entry"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault: the record or the ledgers that have it, and `what` is wrong, in words.

    `record` is the record as it was read, with the only version at which it may be changed. `version` is that of a
    record that cannot be read. `of` is the kind of the record, and `ledger_ids` are the ledgers that the finding is
    about.
    """

    kind: FindingKind
    what: str
    key: RecordKey | None = None
    of: RecordKind[Any] | None = None
    record: Versioned[Any] | None = None
    version: Version | None = None
    ledger_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPage:
    """A page of a scan, and its topics that have a subscription without a persistence record before it."""

    items: Sequence[ScannedRecord]
    lone: Collection[Topic]

    @property
    def owners(self) -> list[tuple[RecordKey, Versioned[HubInfo]]]:
        """Return the owner records that can be read, except those that vanish together with their hub."""
        records = [(item.key, item.read()) for item in self.items if item.kind is OWNERSHIP and item.error is None]
        return [(key, record) for key, record in records if not record.value.is_fleeting]

    @property
    def ranges(self) -> list[tuple[RecordKey, Versioned[LedgerRanges]]]:
        """Return the persistence records that can be read."""
        return [(item.key, item.read()) for item in self.items if item.kind is PERSISTENCE and item.error is None]


@dataclass(slots=True)
class _ScanState:
    """Where a scan stands, from one page to the next."""

    topic: Topic | None = None
    has_ranges: bool = False
    lone: set[Topic] = field(default_factory=set)

    def page(self, items: Sequence[ScannedRecord]) -> RecordPage:
        self.lone = set()
        for item in items:
            if item.key.topic != self.topic:
                self.topic, self.has_ranges = item.key.topic, False
            if item.kind is PERSISTENCE:
                self.has_ranges = True
            elif item.kind is SUBSCRIPTIONS and not self.has_ranges:
                self.lone.add(item.key.topic)
        return RecordPage(items=items, lone=self.lone)


_NEEDED: Final[dict[FindingKind, Collection[RecordKind[Any]]]] = {
    FindingKind.DEAD_OWNER: (OWNERSHIP,),
    FindingKind.LONE_SUBSCRIPTION: (PERSISTENCE, SUBSCRIPTIONS),
    FindingKind.RANGE_OVERLAP: (PERSISTENCE,),
    FindingKind.RANGE_GAP: (PERSISTENCE,),
    FindingKind.UNREADABLE_RECORD: KINDS,
    FindingKind.MISSING_LEDGER: (PERSISTENCE,),
    FindingKind.ORPHAN_LEDGER: (PERSISTENCE,),
    FindingKind.UNINDEXED_SUBSCRIPTION: (SUBSCRIPTIONS,),
    FindingKind.STRAY_INDEX_ENTRY: (),
}
"""The kinds of records that a check has to read, by the kind of finding."""

_FAULTS: Final = {
    RangeFault.OVERLAP: FindingKind.RANGE_OVERLAP,
    RangeFault.GAP: FindingKind.RANGE_GAP,
    RangeFault.OPEN: FindingKind.RANGE_GAP,
}


async def pages(
    store: MetadataStore, wanted: Collection[FindingKind], prefix: bytes | None, advance: Callable[[int], None]
) -> AsyncGenerator[RecordPage, None]:
    """Iterate over pages of the records that a check for `wanted` has to read; `advance` receives how many.

    Raises: MetadataUnavailableError. Close it if it is left early.
    """
    kinds = [kind for kind in KINDS if any(kind in _NEEDED[each] for each in wanted)]
    state = _ScanState()
    async with aclosing(store.scan(prefix, kinds=kinds)) as scanned:
        async for items in scanned:
            yield state.page(items)
            advance(len(items))


def find_unreadable(page: RecordPage) -> list[Finding]:
    """Return the records that cannot be read: damaged, or written in a form that is not known here."""
    return [
        Finding(
            kind=FindingKind.UNREADABLE_RECORD, what=str(item.error), key=item.key, of=item.kind, version=_version(item)
        )
        for item in page.items
        if item.error is not None
    ]


def find_ranges(page: RecordPage, wanted: Collection[FindingKind]) -> list[Finding]:
    """Return the persistence records whose ranges do not follow each other, one finding for each record and kind."""
    findings = []
    for key, record in page.ranges:
        by_kind: dict[FindingKind, list[str]] = {}
        for defect in range_defects(record.value):
            by_kind.setdefault(_FAULTS[defect.fault], []).append(defect.text)
        findings += [
            Finding(kind=kind, what="; ".join(texts), key=key, of=PERSISTENCE, record=record)
            for kind, texts in by_kind.items()
            if kind in wanted
        ]
    return findings


async def find_lone_subscriptions(store: MetadataStore, page: RecordPage) -> list[Finding]:
    """Return the subscriptions on `page` whose topic does not exist, also at a second look.

    A topic may have been made after the scan passed its key.
    """
    lone = await _without_record(store, page.lone)
    findings = []
    for item in page.items:
        if item.kind is SUBSCRIPTIONS and item.error is None and item.key.topic in lone:
            record: Versioned[SubscriptionData] = item.read()
            what = f"its topic has no persistence record; its consume pointer is {record.value.consumed}"
            findings.append(
                Finding(kind=FindingKind.LONE_SUBSCRIPTION, what=what, key=item.key, of=SUBSCRIPTIONS, record=record)
            )
    return findings


def consumed_of(finding: Finding) -> int:
    """Return the consume pointer of the subscription that was found."""
    assert finding.record is not None, "it is a subscription that was read"
    data: SubscriptionData = finding.record.value
    return data.consumed


async def _without_record(store: MetadataStore, topics: Iterable[Topic]) -> set[Topic]:
    names = sorted(topics)
    if not names:
        return set()
    outcomes = await store.persistence.apply([Read(RecordKey(name)) for name in names])
    for outcome in outcomes:
        # A record that cannot be read exists.
        if not isinstance(outcome.error, CorruptRecordError):
            outcome.check()
    pairs = zip(names, outcomes, strict=True)
    return {name for name, outcome in pairs if outcome.error is None and outcome.record is None}


def _version(item: ScannedRecord) -> Version | None:
    return None if item.error is None else item.error.version
