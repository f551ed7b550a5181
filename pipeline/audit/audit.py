"""The audit of a store: all findings, lags and loads of one copy of its tables, as Parquet, and figures of them.

It reads a snapshot, never a live store. Three tables that were read at three times would not fit each other. Most
checks need a table more than once.

    DIR/findings/*.parquet     what is wrong (pipeline.audit.findings)
    DIR/lags/*.parquet         a row for each subscription
    DIR/topics/*.parquet       a row for each topic: positions, subscriptions, backlog
    DIR/hubs/*.parquet         a row for each incarnation of a hub
    DIR/fan_outs/*.parquet     the topics with the most subscriptions
    DIR/existing/*.parquet     the ledgers that exist, if the operator named their store
    DIR/ends/*.parquet         the last entries of open ledgers, likewise
    DIR/audit.json             the figures; written last
    DIR/audit.html             the page
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from hedwig.metadata.bulk.findings import FindingKind
from hedwig.names import show_name
from hedwig.operations.checks.ledger_census import KEPT_MS
from hedwig.pipeline.audit import findings
from hedwig.pipeline.audit import lag as standing
from hedwig.pipeline.frames.tables import Table

__all__ = ["AuditFigures", "AuditInput", "audit"]

_EACH_KIND: Final = 20
"""How many findings of each kind the page shows."""
_REASONS: Final = 5
"""How many reasons the figures give for open ledgers whose end is not known, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditInput:
    """What is audited: the tables of one snapshot, read at `read_ms` (ms since 1970).

    `living` hubs (columns host, port, ssl_port, epoch) and `existing` ledgers (those of `LedgerListing`) are None if
    the operator did not say where to ask. `existing` was listed after the records were read. `existed` was listed
    before, and is set if ledgers do not have the time when they were made. `why_no_orphans` says why orphans are not
    looked for. `ends` are the answers of `ask_open_ledgers`, None if ledgers were not asked. `prefix`: the tables have
    only topics that begin with it. `unread` counts the records that could not be read and are in none of the tables.
    `unreadable` (columns table, topic, subscriber, why) names them, or is None if their names are not known.
    `unindexed` (columns topic, subscriber) are the subscriptions that the index of subscribers lacks, None if there is
    no index to look into.
    """

    frames: Mapping[Table, DataFrame]
    read_ms: int
    living: DataFrame | None = None
    existing: DataFrame | None = None
    existed: DataFrame | None = None
    why_no_orphans: str | None = None
    ends: DataFrame | None = None
    prefix: bytes = b""
    unread: Mapping[Table, int] = field(default_factory=dict)
    unreadable: DataFrame | None = None
    unindexed: DataFrame | None = None


@dataclass(slots=True)
class AuditFigures:
    """What fits on a page: counts, the worst cases, and how values are spread."""

    rows: dict[str, int] = field(default_factory=dict)
    findings: dict[str, int] = field(default_factory=dict)
    """The number of findings by kind; 0 for a kind that was looked for and not found."""
    unchecked: dict[str, str] = field(default_factory=dict)
    """The kinds that were not looked for, and the reason, with the option to give if there is one."""
    examples: list[dict[str, Any]] = field(default_factory=list)
    hubs: list[dict[str, Any]] = field(default_factory=list)
    fan_outs: list[dict[str, Any]] = field(default_factory=list)
    backlogs: list[dict[str, Any]] = field(default_factory=list)
    lags: list[dict[str, Any]] = field(default_factory=list)
    spread: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """How often values occur, by what is counted: pairs of the least value of a class and how many are in it."""
    is_asked: bool = False
    """Whether open ledgers were asked for their last entries."""
    open_topics: int = 0
    """How many topics have an open last ledger, so that their records do not tell where they end."""
    answered_topics: int = 0
    """How many of them have a ledger that was asked for its last entry, and answered."""
    unanswered: list[dict[str, Any]] = field(default_factory=list)
    """Why the last entries of some ledgers are not known, and how many ledgers each reason applies to."""

    @property
    def skew(self) -> float | None:
        """Return the topics of the largest hub, divided by the mean of all hubs; None if no hub owns a topic."""
        return max((hub["skew"] for hub in self.hubs if hub["skew"] is not None), default=None)


def audit(spark: SparkSession, given: AuditInput, directory: str, most: int) -> AuditFigures:
    """Write the result of an audit into `directory`; return the figures. `most`: how many of the largest to report."""
    made = _Audit(spark, given, directory, most)
    made.look_for_findings()
    made.look_at_topics()
    made.look_at_hubs()
    return made.figures


class _Audit:
    def __init__(self, spark: SparkSession, given: AuditInput, directory: str, most: int) -> None:
        self.figures = AuditFigures()
        self._spark = spark
        self._given = given
        self._directory = directory
        self._most = most
        self._ledgers = given.frames[Table.LEDGERS]
        self._subscriptions = given.frames[Table.SUBSCRIPTIONS]
        self._owners = given.frames.get(Table.OWNERS)

    def look_for_findings(self) -> None:
        frames = [findings.broken_ranges(self._ledgers), findings.shared_ledgers(self._ledgers)]
        looked: list[str] = [FindingKind.RANGE_OVERLAP, FindingKind.RANGE_GAP, findings.SHARED_LEDGER]
        self._look_for_unreadable(frames, looked)
        self._look_for_lone_subscriptions(frames, looked)
        unchecked = self.figures.unchecked
        if self._owners is None:
            unchecked[FindingKind.DEAD_OWNER] = "the snapshot has no owners"
        elif self._given.living is None:
            unchecked[FindingKind.DEAD_OWNER] = "no option says which hubs are alive; give --cluster URL or --hub"
        else:
            frames.append(findings.stale_owners(self._owners, self._given.living))
            looked.append(FindingKind.DEAD_OWNER)
        if self._given.existing is None:
            for kind in (FindingKind.MISSING_LEDGER, FindingKind.ORPHAN_LEDGER):
                unchecked[kind] = "no option says where the ledgers are; give --data DIR or --bookkeeper URL"
        else:
            frames.append(findings.missing_ledgers(self._ledgers, self._ever_existing(self._given.existing)))
            looked.append(FindingKind.MISSING_LEDGER)
            why_not = self._why_no_orphans()
            if why_not is None:
                frames.append(findings.orphan_ledgers(self._ledgers, self._old_and_ours(self._given.existing)))
                looked.append(FindingKind.ORPHAN_LEDGER)
            else:
                unchecked[FindingKind.ORPHAN_LEDGER] = why_not
        if self._given.unindexed is not None:
            frames.append(findings.unindexed(self._given.unindexed))
            looked.append(FindingKind.UNINDEXED_SUBSCRIPTION)
        every = frames[0]
        for more in frames[1:]:
            every = every.unionByName(more)
        kept = self._keep("findings", every)
        counted = {row["kind"]: row["rows"] for row in _count_by(kept, "kind")}
        self.figures.findings = {str(kind): counted.get(kind, 0) for kind in looked}
        first = Window.partitionBy("kind").orderBy("topic", "subscriber", "ledger_id")
        few = kept.withColumn("rank", F.row_number().over(first)).where(F.col("rank") <= _EACH_KIND).drop("rank")
        self.figures.examples = [
            _plain(row) for row in few.orderBy("kind", "topic", "subscriber", "ledger_id").collect()
        ]

    def _look_for_unreadable(self, frames: list[DataFrame], looked: list[str]) -> None:
        unread = self._given.unread
        if not unread:
            looked.append(FindingKind.UNREADABLE_RECORD)
        elif self._given.unreadable is not None:
            frames.append(findings.unreadable_records(self._given.unreadable))
            looked.append(FindingKind.UNREADABLE_RECORD)
        else:
            counts = ", ".join(f"{number:,} records of {table}" for table, number in unread.items())
            self.figures.unchecked[FindingKind.UNREADABLE_RECORD] = (
                f"{counts} could not be read when the snapshot was taken, and it does not name them; audit the store"
            )

    def _look_for_lone_subscriptions(self, frames: list[DataFrame], looked: list[str]) -> None:
        topics = self._existing_topics()
        if topics is None:
            self.figures.unchecked[FindingKind.LONE_SUBSCRIPTION] = "topics exist whose records could not be read"
        else:
            frames.append(findings.lone_subscriptions(self._subscriptions, topics))
            looked.append(FindingKind.LONE_SUBSCRIPTION)

    def look_at_topics(self) -> None:
        ends = self._given.ends
        positions = standing.topic_positions(self._ledgers, ends)
        lags = self._keep("lags", standing.subscription_lags(self._subscriptions, positions))
        topics = self._keep("topics", standing.topic_standings(positions, lags))
        fan_outs = self._keep("fan_outs", standing.fan_outs(self._subscriptions, self._most))
        figures = self.figures
        summed = topics.agg(
            F.count(F.lit(1)).alias("topics"),
            F.sum("ledgers").alias("ledgers"),
            F.count_if(F.col("end_from") != "record").alias("open"),
            F.count_if(F.col("end_from") == "ledger").alias("answered"),
        ).first()
        assert summed is not None, "an aggregate has a row"
        figures.rows = {
            "topics": summed["topics"],
            "subscriptions": lags.count(),
            "ledger ranges": int(summed["ledgers"] or 0),
        }
        figures.open_topics, figures.answered_topics = summed["open"], summed["answered"]
        figures.is_asked = ends is not None
        if ends is not None:
            # Reasons name their ledgers. Without this, each ledger would be a reason of its own.
            reason = F.regexp_replace("why", "ledger [0-9]+", "ledger N").alias("why")
            reasons = ends.where("why is not null").groupBy(reason).agg(F.count(F.lit(1)).alias("ledgers"))
            figures.unanswered = [
                _plain(row) for row in reasons.orderBy(F.desc("ledgers"), "why").limit(_REASONS).collect()
            ]
        figures.fan_outs = [_plain(row) for row in fan_outs.orderBy(F.desc("subscriptions"), "topic").collect()]
        behind = topics.where(F.col("backlog_messages") > 0).orderBy(F.desc("backlog_messages"), "topic")
        shown = (
            "topic",
            "backlog_messages",
            "total_lag_messages",
            "subscriptions",
            "last_message",
            "is_exact",
            "end_from",
        )
        figures.backlogs = [_plain(row) for row in behind.select(*shown).limit(self._most).collect()]
        slow = lags.where(F.col("lag_messages") > 0).orderBy(F.desc("lag_messages"), "topic", "subscriber")
        figures.lags = [_plain(row) for row in slow.limit(self._most).collect()]
        for name, frame, column in (
            ("subscriptions of a topic", topics, "subscriptions"),
            ("messages that a subscription lags", lags, "lag_messages"),
            ("messages of its backlog", topics, "backlog_messages"),
            ("ledgers of a topic", topics, "ledgers"),
        ):
            classes = standing.powers_of(frame, column).collect()
            figures.spread[name] = [(int(row["from_value"]), row["rows"]) for row in classes]

    def look_at_hubs(self) -> None:
        if self._owners is None:
            return
        hubs = self._keep("hubs", standing.hub_loads(self._owners, self._given.living))
        self.figures.hubs = [_plain(row) for row in hubs.orderBy(F.desc("topics"), "hub").limit(self._most).collect()]
        self.figures.rows["owned topics"] = self._owners.count()

    def _keep(self, name: str, frame: DataFrame) -> DataFrame:
        """Write a result, and return a frame that reads it back, so that later queries do not compute it again."""
        path = f"{self._directory}/{name}"
        frame.write.parquet(path)
        return self._spark.read.parquet(path)

    def _existing_topics(self) -> DataFrame | None:
        """Return the topics that exist, also those with an unreadable record; None if these are not known."""
        topics = self._ledgers.select("topic")
        if Table.LEDGERS not in self._given.unread:
            return topics
        if self._given.unreadable is None:
            return None
        return topics.union(self._given.unreadable.where(F.col("table") == Table.LEDGERS.value).select("topic"))

    def _why_no_orphans(self) -> str | None:
        if Table.LEDGERS in self._given.unread:
            return "records that could not be read may refer to any ledger"
        if self._given.prefix:
            return (
                f"only topics that begin with '{show_name(self._given.prefix)}' are audited, and the ledgers of all "
                "others are there, too; audit the whole store"
            )
        return self._given.why_no_orphans

    def _ever_existing(self, existing: DataFrame) -> DataFrame:
        """Return the ledgers that existed before or after the records were read: one may have been deleted between."""
        if self._given.existed is None:
            return existing.select("ledger_id")
        return existing.select("ledger_id").union(self._given.existed.select("ledger_id"))

    def _old_and_ours(self, existing: DataFrame) -> DataFrame:
        """Return the ledgers of this deployment that are old enough to be on record."""
        ours = existing.where("is_ours")
        if self._given.existed is None:
            return ours.where(F.col("made_ms") < self._given.read_ms - KEPT_MS)
        return ours.join(self._given.existed.select("ledger_id"), on="ledger_id", how="left_semi")


def _count_by(frame: DataFrame, column: str) -> Sequence[Row]:
    return frame.groupBy(column).agg(F.count(F.lit(1)).alias("rows")).collect()


def _plain(row: Row) -> dict[str, Any]:
    """Return a row for JSON: names in readable form, decimals as whole numbers."""
    return {name: _plain_value(value) for name, value in row.asDict().items()}


def _plain_value(value: Any) -> Any:
    match value:
        case bytes() | bytearray():
            return show_name(bytes(value))
        case bool() | int() | float() | str() | None:
            return value
        case _:
            return int(value)
