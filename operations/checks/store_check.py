"""One pass over a store that finds what is wrong with it. It changes nothing, and holds one page of records at a time.

Hubs may run meanwhile. A hub may make a topic, delete a ledger or register after the scan passed its position. So the
check reads each suspect again before it reports it.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from hedwig.errors import CorruptRecordError, LedgerStoreUnavailableError
from hedwig.metadata import MetadataStore, Outcome, Read, RecordKey
from hedwig.metadata.bulk.findings import (
    Finding,
    FindingKind,
    RecordPage,
    consumed_of,
    find_lone_subscriptions,
    find_ranges,
    find_unreadable,
    pages,
)
from hedwig.metadata.bulk.subscriber_index import unindexed
from hedwig.metadata.contract.backend import IndexState
from hedwig.metadata.contract.kinds import BY_SUBSCRIBER, OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS
from hedwig.metadata.records.ranges import held_ledgers, mend_ranges, without_lost
from hedwig.model import HubInfo, LedgerRange, LedgerRanges, Topic
from hedwig.operations.checks.ledger_census import KEPT_MS, KnownLedgers
from hedwig.operations.checks.ledger_ids import LedgerIdSet
from hedwig.operations.checks.log_orphans import LogOrphans
from hedwig.operations.checks.lost_ledgers import lost_text, why_lost
from hedwig.operations.checks.reported import SEVERITY, Reported, Severity
from hedwig.operations.checks.unreferenced import look_at_logs
from hedwig.operations.deployment.hub_verdicts import HubState, HubVerdicts
from hedwig.versions import Version, Versioned

if TYPE_CHECKING:
    from hedwig.hub.ledgers.census import LedgerEntry

__all__ = ["StoreCheck"]

_PAGE: Final = 1000
_OF_THE_INDEX: Final = frozenset({FindingKind.UNINDEXED_SUBSCRIPTION, FindingKind.STRAY_INDEX_ENTRY})
_STRAY_S: Final = 3600.0
"""An entry is written before its subscription. Whoever wrote it so long ago has made the subscription, or gave up."""


class StoreCheck:
    """A check for findings of the kinds `wanted`, on topics that begin with `prefix`.

    `known` are the ledgers, or the reason why they are not known. `advance` receives the number of records just read.
    """

    def __init__(
        self,
        store: MetadataStore,
        verdicts: HubVerdicts,
        known: KnownLedgers | str,
        wanted: Collection[FindingKind],
        prefix: bytes | None,
        advance: Callable[[int], None],
    ) -> None:
        self._store = store
        self._verdicts = verdicts
        self._known = known if isinstance(known, KnownLedgers) else None
        self._prefix = prefix
        self._advance = advance
        self.unchecked: dict[FindingKind, str] = {}
        """The kinds that the check cannot look for, or not everywhere, and why."""
        for kind in wanted:
            if isinstance(known, str) and kind in (FindingKind.MISSING_LEDGER, FindingKind.ORPHAN_LEDGER):
                self.unchecked[kind] = known
            elif kind in _OF_THE_INDEX and store.index_state is IndexState.KEPT:
                self.unchecked[kind] = "the index of subscribers is not whole yet; metadata index --build fills it"
        self._wanted = frozenset(wanted) - self.unchecked.keys()
        if store.index_state is not IndexState.WHOLE:
            # Nothing can be wrong with an index that nobody keeps.
            self._wanted -= _OF_THE_INDEX
        self._on_record = LedgerIdSet()
        self._log_orphans = LogOrphans(store)
        self._refers: bool | None = None
        self.records = 0
        self.existing_ledgers = 0
        """How many ledgers on record exist, of those that were looked up."""

    async def findings(self) -> AsyncGenerator[list[Reported], None]:
        """Iterate over the findings, one page of records after the other, and then over the orphan ledgers.

        Raises: MetadataUnavailableError, LedgerStoreUnavailableError, OperationError - the store, the ledgers or the
            hubs' ZooKeeper do not answer. Close it if you stop early.
        """
        async with aclosing(pages(self._store, self._wanted, self._prefix, self._count)) as scanned:
            async for page in scanned:
                if reported := await self._on_page(page):
                    yield reported
        if unreadable := await self._unreadable_logs():
            yield unreadable
        if FindingKind.STRAY_INDEX_ENTRY in self._wanted:
            async with aclosing(self._store.stray_entries(_STRAY_S)) as strays:
                async for entries in strays:
                    if found := [_stray(*entry) for entry in entries if entry[0].topic.startswith(self._prefix or b"")]:
                        yield found
        if FindingKind.ORPHAN_LEDGER in self._wanted:
            async with aclosing(self._orphans()) as orphans:
                async for reported in orphans:
                    yield reported

    def _count(self, records: int) -> None:
        self.records += records
        self._advance(records)

    async def _on_page(self, page: RecordPage) -> list[Reported]:
        findings: list[Reported] = []
        wanted = self._wanted
        if FindingKind.UNREADABLE_RECORD in wanted:
            findings += map(_unreadable, find_unreadable(page))
        if wanted & {FindingKind.RANGE_OVERLAP, FindingKind.RANGE_GAP}:
            findings += await self._ranges(page)
        if FindingKind.MISSING_LEDGER in wanted:
            findings += await self._missing_ledgers(page)
        if FindingKind.LONE_SUBSCRIPTION in wanted:
            findings += await self._lone_subscriptions(page)
        if FindingKind.UNINDEXED_SUBSCRIPTION in wanted:
            keys = [item.key for item in page.items if item.kind is SUBSCRIPTIONS]
            findings += map(_unindexed, await unindexed(self._store, keys))
        if FindingKind.DEAD_OWNER in wanted:
            findings += await self._dead_owners(page)
        if FindingKind.ORPHAN_LEDGER in wanted:
            self._on_record.update(each.ledger_id for _, record in page.ranges for each in record.value.ranges)
        return findings

    async def _unreadable_logs(self) -> list[Reported]:
        if FindingKind.UNREADABLE_RECORD not in self._wanted or self._prefix is not None:
            return []
        findings = []
        async for _, found in look_at_logs(self._store):
            if isinstance(found, CorruptRecordError):
                finding = Finding(kind=FindingKind.UNREADABLE_RECORD, what=str(found))
                remedy = "none: no other record has the segments of the log; a newer release may read it"
                findings.append(_reported(finding, remedy, is_repairable=False))
        return findings

    # --------------------------------------------------------------------------------------------------------- owners

    async def _dead_owners(self, page: RecordPage) -> list[Reported]:
        states = await self._verdicts.of_all(record.value for _, record in page.owners)
        findings = []
        for key, record in page.owners:
            owner = record.value
            state = states[owner.address, owner.epoch]
            if state is HubState.UNKNOWN:
                self.unchecked[FindingKind.DEAD_OWNER] = self._verdicts.why_unknown
            if state is not HubState.DEAD:
                continue
            what = f"its owner {owner.host}:{owner.port} of epoch {owner.epoch} is not alive"
            finding = Finding(kind=FindingKind.DEAD_OWNER, what=what, key=key, of=OWNERSHIP, record=record)
            remedy = "writes the ledger ranges anew, as a takeover does, and deletes the owner record"
            why_not = self._verdicts.why_no_repair(owner)
            findings.append(_reported(finding, why_not or remedy, is_repairable=why_not is None))
        return findings

    async def _owner_states(self, topics: Iterable[Topic]) -> dict[Topic, HubState]:
        """Return the state of the owner of each topic: DEAD if it has none, UNKNOWN if that cannot be known."""
        names = sorted(set(topics))
        if not names:
            return {}
        outcomes = await self._store.ownership.apply([Read(RecordKey(name)) for name in names])
        states = dict.fromkeys(names, HubState.DEAD)
        owners = {}
        for name, outcome in zip(names, outcomes, strict=True):
            if _is_unreadable(outcome):
                states[name] = HubState.UNKNOWN
            elif outcome.record is not None:
                owners[name] = outcome.record.value
        verdicts = await self._verdicts.of_all(owners.values())
        return states | {name: verdicts[owner.address, owner.epoch] for name, owner in owners.items()}

    # -------------------------------------------------------------------------------------------------- subscriptions

    async def _lone_subscriptions(self, page: RecordPage) -> list[Reported]:
        lone = await find_lone_subscriptions(self._store, page)
        states = await self._owner_states(finding.key.topic for finding in lone if finding.key is not None)
        findings = []
        for finding in lone:
            assert finding.key is not None, "it is a record's"
            why_not = _why_left(states[finding.key.topic])
            remedy = "keeps it: sets its consume pointer to 0, and makes the topic"
            # As in the original, a topic has no record before its first publish. So this is only a warning.
            severity = None if consumed_of(finding) else Severity.WARNING
            findings.append(_reported(finding, why_not or remedy, is_repairable=why_not is None, severity=severity))
        return findings

    # --------------------------------------------------------------------------------------------------------- ranges

    async def _ranges(self, page: RecordPage) -> list[Reported]:
        broken = find_ranges(page, self._wanted)
        states = await self._owner_states(finding.key.topic for finding in broken if finding.key is not None)
        findings = []
        for finding in broken:
            assert finding.key is not None, "it is a record's"
            assert finding.record is not None, "it was read"
            why_not = _why_left(states[finding.key.topic])
            mended = None if why_not else mend_ranges(finding.record.value, await self._last_entries(finding.record))
            if mended is None and why_not is None:
                why_not = (
                    "none: the ledgers do not prove which messages each holds; look at them with: ledger list"
                    if self._known is not None
                    else "none while the ledgers are not known: give --data DIR or --bookkeeper URL"
                )
            remedy = "writes the ranges with the ends that their closed ledgers have"
            findings.append(_reported(finding, why_not or remedy, is_repairable=why_not is None, ranges=mended))
        return findings

    async def _last_entries(self, record: Versioned[LedgerRanges]) -> dict[int, int]:
        """Return the last entry of each closed ledger of a record."""
        if self._known is None:
            return {}
        entries = await self._known.census.find([each.ledger_id for each in record.value.ranges])
        return {
            entry.ledger_id: entry.last_entry_id
            for entry in entries
            if entry is not None and entry.lost is None and entry.last_entry_id is not None
        }

    # -------------------------------------------------------------------------------------------------------- ledgers

    async def _missing_ledgers(self, page: RecordPage) -> list[Reported]:
        suspects = await self._missing(each for _, record in page.ranges for each in held_ledgers(record.value))
        topics = [
            key.topic
            for key, record in page.ranges
            if any(each.ledger_id in suspects for each in held_ledgers(record.value))
        ]
        if not topics:
            return []
        # A hub takes a ledger off the record before it deletes it. So read the records again, and then look up the
        # suspects again. A ledger that is on record and did not exist then is missing.
        outcomes = await self._store.persistence.apply([Read(RecordKey(topic)) for topic in topics])
        records = {
            topic: outcome.record
            for topic, outcome in zip(topics, outcomes, strict=True)
            if not _is_unreadable(outcome) and outcome.record is not None
        }
        held = {topic: held_ledgers(record.value) for topic, record in records.items()}
        missing = await self._missing(each for ranges in held.values() for each in ranges if each.ledger_id in suspects)
        states = await self._owner_states(topics)
        findings = []
        for topic, ranges in held.items():
            lost = {each.ledger_id: missing[each.ledger_id] for each in ranges if each.ledger_id in missing}
            if lost:
                findings.append(self._lost(topic, records[topic], lost, states[topic]))
        return findings

    async def _missing(self, ranges: Iterable[LedgerRange]) -> dict[int, str]:
        """Return the ledgers of ranges that lack messages, each with the reason."""
        assert self._known is not None, "else it is not looked for"
        wanted = {each.ledger_id: each for each in ranges}
        entries = await self._known.census.find(sorted(wanted))
        whys = {
            ledger_id: why_lost(wanted[ledger_id], entry)
            for ledger_id, entry in zip(sorted(wanted), entries, strict=True)
        }
        missing = {ledger_id: why for ledger_id, why in whys.items() if why is not None}
        self.existing_ledgers += len(wanted) - len(missing)
        return missing

    def _lost(
        self, topic: Topic, record: Versioned[LedgerRanges], lost: Mapping[int, str], owner: HubState
    ) -> Reported:
        assert self._known is not None, "else it is not looked for"
        finding = Finding(
            kind=FindingKind.MISSING_LEDGER,
            what=lost_text(lost, self._known.where),
            key=RecordKey(topic),
            of=PERSISTENCE,
            record=record,
            ledger_ids=tuple(lost),
        )
        why_not = _why_left(owner)
        kept = None if why_not else without_lost(record.value, lost)
        if kept is None and why_not is None:
            why_not = "none: without them the ranges would have a gap, or would not say which message comes next"
        remedy = "with --kind missing-ledger: takes them off the record, so that the topic goes on without"
        return _reported(finding, why_not or remedy, is_repairable=why_not is None, ranges=kept)

    async def _orphans(self) -> AsyncGenerator[list[Reported], None]:
        assert self._known is not None, "else it is not looked for"
        unnamed = LedgerIdSet()
        now_ms: int | None = None
        async for entries in self._known.census.pages():
            self._advance(len(entries))
            suspects = [entry for entry in entries if entry.ledger_id not in self._on_record]
            if not self._known.is_shared:
                unnamed.update(entry.ledger_id for entry in suspects)
                continue
            if suspects and now_ms is None:
                # Read the time once: an old ledger stays old. The clock of this machine may be wrong, so do not use it.
                try:
                    now_ms = await self._known.census.now_ms()
                except LedgerStoreUnavailableError as exc:
                    self.unchecked[FindingKind.ORPHAN_LEDGER] = f"the age of ledgers is not known: {exc}"
                    return
            if findings := await self._shared_orphans([entry for entry in suspects if not _is_young(entry, now_ms)]):
                yield findings
        # A ledger in a directory names neither its topic nor its age. So a scan of some topics cannot find orphans.
        if unnamed and self._prefix is None:
            async for findings in self._local_orphans(unnamed):
                yield findings

    async def _shared_orphans(self, old: Sequence["LedgerEntry"]) -> list[Reported]:
        """Return the orphan ledgers on bookies."""
        assert self._known is not None, "else it is not looked for"
        topics = {entry.ledger_id: self._known.owner.topic_of(entry) for entry in old}
        names = sorted({topic for topic in topics.values() if topic is not None})
        outcomes = await self._store.persistence.apply([Read(RecordKey(name)) for name in names]) if names else []
        records = dict(zip(names, outcomes, strict=True))
        findings = []
        for entry in old:
            topic = topics[entry.ledger_id]
            if topic is None:
                if self._prefix is None:
                    findings.append(await self._of_no_topic(entry))
            elif topic.startswith(self._prefix or b"") and not _refers(records[topic], entry.ledger_id):
                findings.append(self._orphan(entry, topic, records[topic], is_believed=await self._refers_to_any()))
        return findings

    async def _refers_to_any(self) -> bool:
        """Say whether the store refers to any ledger. If it does not, it may be the wrong store. Looks only once."""
        if not self._on_record and self._prefix is not None and self._refers is None:
            async with aclosing(pages(self._store, {FindingKind.ORPHAN_LEDGER}, None, self._advance)) as scanned:
                async for page in scanned:
                    if any(record.value.ranges for _, record in page.ranges):
                        self._refers = True
                        break
                else:
                    self._refers = False
        return bool(self._on_record) or self._refers is True

    def _orphan(
        self, entry: "LedgerEntry", topic: Topic, record: Outcome[LedgerRanges], *, is_believed: bool
    ) -> Reported:
        finding = Finding(
            kind=FindingKind.ORPHAN_LEDGER,
            what=f"ledger {entry.ledger_id} was made for the topic, which does not refer to it",
            ledger_ids=(entry.ledger_id,),
        )
        why_not = None
        if _is_unreadable(record):
            why_not = "none: the persistence record of its topic cannot be read, and may refer to it"
        elif entry.made_ms is None:
            why_not = "none: its record does not say when it was made"
        elif not is_believed:
            why_not = "none: the store refers to no ledger at all; see that --metadata is right"
        remedy = "deletes it, after a third look"
        return _reported(
            finding,
            why_not or remedy,
            is_repairable=why_not is None,
            entry=entry,
            topic=topic,
        )

    async def _of_no_topic(self, entry: "LedgerEntry") -> Reported:
        assert self._known is not None, "else it is not looked for"
        log = self._known.owner.log_of(entry)
        if log is None:
            return self._foreign(entry)
        finding = Finding(
            kind=FindingKind.ORPHAN_LEDGER,
            what=f"ledger {entry.ledger_id} was made for log {log}, whose record does not name it",
            ledger_ids=(entry.ledger_id,),
        )
        why_not = await self._log_orphans.why_kept(log)
        severity = None if why_not is None else Severity.NOTE
        if why_not is None and entry.made_ms is None:
            why_not = "none: its record does not say when it was made"
        elif why_not is None and not await self._refers_to_any():
            why_not = "none: the store refers to no ledger at all; see that --metadata is right"
        remedy = why_not or "deletes it, after a third look"
        return _reported(finding, remedy, is_repairable=why_not is None, severity=severity, entry=entry)

    def _foreign(self, entry: "LedgerEntry") -> Reported:
        assert self._known is not None, "else it is not looked for"
        why = self._known.owner.why_not_ours(entry)
        finding = Finding(
            kind=FindingKind.ORPHAN_LEDGER,
            what=f"no topic refers to ledger {entry.ledger_id}; {why}",
            ledger_ids=(entry.ledger_id,),
        )
        return _reported(
            finding, "none: it may belong to other hubs or programs", is_repairable=False, severity=Severity.NOTE
        )

    async def _local_orphans(self, unnamed: LedgerIdSet) -> AsyncIterator[list[Reported]]:
        """Iterate over the ledgers in a directory that a second pass does not find on record either."""
        assert self._known is not None, "else it is not looked for"
        on_record = LedgerIdSet()
        why_not = None
        registered = await self._store.standalone_hub()
        if registered is None or registered.hub_id != self._known.hub_id:
            why_not = "none: their hub is not the one that is registered in the store; see that --metadata is right"
        async with aclosing(pages(self._store, {FindingKind.ORPHAN_LEDGER}, None, self._advance)) as scanned:
            async for page in scanned:
                on_record.update(each.ledger_id for _, record in page.ranges for each in record.value.ranges)
                if find_unreadable(page):
                    why_not = "none: a persistence record cannot be read, and may refer to it"
        starts = 0 if registered is None else registered.starts
        is_over = False
        if registered is not None and why_not is None:
            last_start = HubInfo.at(registered.address, epoch=starts)
            is_over = await self._verdicts.of(last_start) is HubState.DEAD
        for ledger_ids in unnamed.pages(_PAGE):
            orphans = [ledger_id for ledger_id in ledger_ids if ledger_id not in on_record]
            if findings := [_local_orphan(ledger_id, why_not, starts, is_over=is_over) for ledger_id in orphans]:
                yield findings


def _is_young(entry: "LedgerEntry", now_ms: int | None) -> bool:
    """Say whether a ledger is so new that its hub may still be about to write it into the record of its topic."""
    return entry.made_ms is not None and (now_ms is None or now_ms - entry.made_ms < KEPT_MS)


def _local_orphan(ledger_id: int, why_not: str | None, starts: int, *, is_over: bool) -> Reported:
    """Return the finding about a ledger in the directory of a hub that, by its metadata, has started `starts` times.

    `is_over`: the last start has ended.
    """
    from hedwig.hub.ledgers.local.starts import start_of

    finding = Finding(
        kind=FindingKind.ORPHAN_LEDGER, what=f"no topic refers to ledger {ledger_id}", ledger_ids=(ledger_id,)
    )
    start = start_of(ledger_id)
    if why_not is None and start > starts:
        why_not = (
            f"none: start {start} of its hub made it, and the store knows of {starts} starts: the store was wiped, or "
            "is older"
        )
    # The running hub may still be about to write a new ledger into a record.
    severity = Severity.NOTE if why_not is not None or (start == starts and not is_over) else None
    remedy = why_not or "deletes it, after a third look"
    return _reported(finding, remedy, is_repairable=why_not is None, severity=severity)


def _reported(
    finding: Finding, remedy: str, *, is_repairable: bool, severity: Severity | None = None, **plan: Any
) -> Reported:
    severity = SEVERITY[finding.kind] if severity is None else severity
    return Reported(finding=finding, remedy=remedy, is_repairable=is_repairable, severity=severity, **plan)


def _unindexed(key: RecordKey) -> Reported:
    what = "the index of subscribers has no entry for it"
    finding = Finding(kind=FindingKind.UNINDEXED_SUBSCRIPTION, what=what, key=key, of=SUBSCRIPTIONS)
    return _reported(finding, "enters it into the index", is_repairable=True)


def _stray(key: RecordKey, version: Version) -> Reported:
    what = "it is in the index of subscribers, but does not exist"
    finding = Finding(kind=FindingKind.STRAY_INDEX_ENTRY, what=what, key=key, of=BY_SUBSCRIBER, version=version)
    return _reported(finding, "removes the entry", is_repairable=True)


def _unreadable(finding: Finding) -> Reported:
    if finding.version is None:
        return _reported(finding, "none: not even its version can be read", is_repairable=False)
    if finding.of not in (OWNERSHIP, SUBSCRIPTIONS):
        remedy = "none: no other record has the ledgers of the topic; a newer release may read it"
        return _reported(finding, remedy, is_repairable=False)
    lost = "it" if finding.of is OWNERSHIP else "it, and with it the subscription"
    return _reported(finding, f"with --kind {FindingKind.UNREADABLE_RECORD}: deletes {lost}", is_repairable=True)


def _why_left(owner: HubState) -> str | None:
    """Say why a repair leaves the records of a topic alone; None if no hub has them in memory."""
    match owner:
        case HubState.ALIVE:
            return "none while a hub serves the topic from its memory: run topic release, then repair"
        case HubState.UNKNOWN:
            return "none: it has an owner, and it is not known whether that hub is alive; give --cluster URL"
        case HubState.DEAD:
            return None


def _is_unreadable(outcome: Outcome[Any]) -> bool:
    """Say whether there is a record that cannot be read. Raises any other error."""
    if isinstance(outcome.error, CorruptRecordError):
        return True
    outcome.check()
    return False


def _refers(outcome: Outcome[LedgerRanges], ledger_id: int) -> bool:
    if _is_unreadable(outcome) or outcome.record is None:
        return False
    return any(each.ledger_id == ledger_id for each in outcome.record.value.ranges)
