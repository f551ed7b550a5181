"""Findings, lags and backlogs on small tables with every planted fault, and the whole audit of them."""

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from hedwig.errors import InvalidArgumentError
from hedwig.metadata.bulk.findings import FindingKind
from hedwig.model import HubInfo
from hedwig.pipeline.audit import findings
from hedwig.pipeline.audit import lag as standing
from hedwig.pipeline.audit.audit import AuditInput, audit
from hedwig.pipeline.audit.audit_page import audit_html
from hedwig.pipeline.audit.incarnations import hubs_frame, named_hub
from hedwig.pipeline.audit.open_ledgers import open_ledgers
from hedwig.pipeline.frames.tables import Table
from tests.pipeline.support.frames import ledgers, owners, subscriptions

SOUND = [(1, 1, 10), (2, 11, 20), (3, 21, None)]


def _identities(frame: DataFrame) -> set[tuple[str, bytes | None, int | None]]:
    return {
        (
            row["kind"],
            None if row["topic"] is None else bytes(row["topic"]),
            None if row["ledger_id"] is None else int(row["ledger_id"]),
        )
        for row in frame.collect()
    }


def test_owners_are_stale_unless_this_very_incarnation_is_alive(spark: SparkSession) -> None:
    records = owners(spark, {b"a": ("one", 7), b"b": ("one", 6), b"c": ("two", 7), b"d": ("three", 1 << 63)})
    living = hubs_frame(
        spark, [HubInfo(host="one", port=4080, epoch=7), HubInfo(host="three", port=4080, epoch=1 << 63)]
    )
    stale = findings.stale_owners(records, living)
    assert _identities(stale) == {(FindingKind.DEAD_OWNER, b"b", None), (FindingKind.DEAD_OWNER, b"c", None)}
    assert {row["hub"] for row in stale.collect()} == {"one:4080:-1 epoch 6", "two:4080:-1 epoch 7"}
    with_tls = hubs_frame(spark, [HubInfo(host="one", port=4080, ssl_port=9876, epoch=7)])
    assert findings.stale_owners(records, with_tls).count() == 4, "another listener is another address"


def test_ranges_that_overlap_or_leave_messages_out_are_found(spark: SparkSession) -> None:
    frame = ledgers(
        spark,
        {
            b"sound": SOUND,
            b"empty": [],
            b"old": [(4, None, 5), (5, None, None)],
            b"overlap": [(6, 1, 10), (7, 9, 20)],
            b"gap": [(8, 1, 10), (9, 12, None)],
            b"open": [(10, 1, None), (11, 5, None)],
        },
    )
    assert _identities(findings.broken_ranges(frame)) == {
        (FindingKind.RANGE_OVERLAP, b"overlap", 7),
        (FindingKind.RANGE_GAP, b"gap", 9),
        (FindingKind.RANGE_GAP, b"open", 11),
    }


def test_a_ledger_that_two_topics_name_is_found_on_both(spark: SparkSession) -> None:
    frame = ledgers(spark, {b"a": [(1, 1, None)], b"b": [(1, 1, 5), (2, 6, None)], b"c": [(3, 1, 1), (3, 1, 1)]})
    assert _identities(findings.shared_ledgers(frame)) == {("shared-ledger", b"a", 1), ("shared-ledger", b"b", 1)}


def test_subscriptions_without_a_topic_are_found(spark: SparkSession) -> None:
    frame = subscriptions(spark, {(b"there", b"s"): 0, (b"gone", b"s"): 3, (b"gone", b"t"): 0})
    lone = findings.lone_subscriptions(frame, ledgers(spark, {b"there": []}))
    assert _identities(lone) == {(FindingKind.LONE_SUBSCRIPTION, b"gone", None)}
    assert {bytes(row["subscriber"]): row["what"] for row in lone.collect()} == {
        b"s": "its topic has no persistence record; its consume pointer is 3",
        b"t": "its topic has no persistence record; its consume pointer is 0",
    }


def test_ledgers_are_held_against_those_that_exist(spark: SparkSession) -> None:
    # Ledger 4 is empty: it begins behind its own end. So it may be gone.
    frame = ledgers(spark, {b"a": [(1, 1, 10), (2, 11, None)], b"b": [(4, 8, 7)]})
    existing = spark.createDataFrame(
        [(Decimal(1), None), (Decimal(9), bytearray(b"lost"))], "ledger_id decimal(20,0), topic binary"
    )
    assert _identities(findings.missing_ledgers(frame, existing)) == {(FindingKind.MISSING_LEDGER, b"a", 2)}
    assert _identities(findings.orphan_ledgers(frame, existing)) == {(FindingKind.ORPHAN_LEDGER, b"lost", 9)}


def test_lag_and_backlog_are_told_as_far_as_closed_ledgers_tell(spark: SparkSession) -> None:
    topics: dict[bytes, Sequence[tuple[int, int | None, int | None]]] = {
        b"closed": [(1, 1, 10), (2, 11, 20)],
        b"open": SOUND,
        b"empty": [],
        b"trimmed": [(5, 31, 40)],
    }
    positions = standing.topic_positions(ledgers(spark, topics))
    consumed = {
        (b"closed", b"a"): 20,
        (b"closed", b"b"): 5,
        (b"open", b"a"): 25,
        (b"trimmed", b"a"): 35,
        (b"no", b"a"): 1,
    }
    lags = standing.subscription_lags(subscriptions(spark, consumed), positions)
    lag_rows = {
        (bytes(row["topic"]), bytes(row["subscriber"])): (row["lag_messages"], row["is_exact"])
        for row in lags.collect()
    }
    assert lag_rows == {
        (b"closed", b"a"): (0, True),
        (b"closed", b"b"): (15, True),
        # It has consumed more of the open ledger than is known to exist.
        (b"open", b"a"): (0, False),
        (b"trimmed", b"a"): (5, True),
        (b"no", b"a"): (None, None),
    }
    rows = {bytes(row["topic"]): row for row in standing.topic_standings(positions, lags).collect()}
    assert {
        topic: (row["first_message"], row["last_message"], row["kept_messages"]) for topic, row in rows.items()
    } == {
        b"closed": (1, 20, 20),
        b"open": (1, 20, 20),
        b"empty": (None, 0, 0),
        b"trimmed": (31, 40, 10),
    }
    assert (rows[b"closed"]["subscriptions"], rows[b"closed"]["backlog_messages"]) == (2, 15)
    assert rows[b"closed"]["total_lag_messages"] == 15
    assert (rows[b"empty"]["subscriptions"], rows[b"empty"]["backlog_messages"]) == (0, None)


def _ends(spark: SparkSession, *answers: tuple[bytes, int, int | None, bool, str | None]) -> DataFrame:
    """Answers of open ledgers: topic, ledger id, last entry, whether it was closed since, why nothing was learned."""
    rows = [(bytearray(topic), Decimal(ledger_id), *rest) for topic, ledger_id, *rest in answers]
    columns = "topic binary, ledger_id decimal(20,0), last_entry_id bigint, is_closed boolean, why string"
    return spark.createDataFrame(rows, columns)


def test_only_the_last_ledger_of_a_topic_is_asked_for_and_only_if_it_says_where_it_begins(spark: SparkSession) -> None:
    topics: dict[bytes, Sequence[tuple[int, int | None, int | None]]] = {
        b"closed": [(1, 1, 10)],
        b"open": SOUND,
        b"empty": [],
        b"old": [(4, None, 5), (5, None, None)],
        b"broken": [(6, 1, None), (7, 5, 9)],
    }
    rows = open_ledgers(ledgers(spark, topics)).collect()
    assert [(bytes(row["topic"]), int(row["ledger_id"])) for row in rows] == [(b"open", 3)]


def test_open_ledgers_that_were_asked_say_where_topics_end(spark: SparkSession) -> None:
    topics: dict[bytes, Sequence[tuple[int, int | None, int | None]]] = {
        b"closed": [(9, 1, 10)],
        b"open": SOUND,
        b"ended": SOUND,
        b"nothing in it": SOUND,
        b"gone": SOUND,
        b"not asked": SOUND,
        b"far": [(8, (1 << 63) + 1, None)],
    }
    ends = _ends(
        spark,
        (b"open", 3, 4, False, None),
        (b"ended", 3, 4, True, None),
        (b"nothing in it", 3, -1, False, None),
        (b"gone", 3, None, False, "it does not exist"),
        (b"far", 8, (1 << 62), False, None),
    )
    positions = standing.topic_positions(ledgers(spark, topics), ends)
    assert {
        bytes(row["topic"]): (int(row["last_message"]), row["is_exact"], row["end_from"]) for row in positions.collect()
    } == {
        b"closed": (10, True, "record"),
        b"open": (25, False, "ledger"),
        b"ended": (25, True, "ledger"),
        b"nothing in it": (20, False, "ledger"),
        b"gone": (20, False, "nobody"),
        b"not asked": (20, False, "nobody"),
        b"far": ((1 << 63) + 1 + (1 << 62), False, "ledger"),
    }
    consumed = {(topic, b"s"): 18 for topic in topics}
    lags = standing.subscription_lags(subscriptions(spark, consumed), positions)
    behind = {bytes(row["topic"]): (int(row["lag_messages"]), row["is_exact"]) for row in lags.collect()}
    assert behind[b"open"] == (7, False)
    assert behind[b"ended"] == (7, True)
    assert behind[b"gone"] == (2, False)


@pytest.mark.full
def test_why_ledgers_did_not_say_is_told_once_for_each_reason(spark: SparkSession, tmp_path: Path) -> None:
    topics: dict[bytes, Sequence[tuple[int, int | None, int | None]]] = {
        b"topic %d" % number: [(number, 1, None)] for number in range(1, 6)
    }
    frames = {Table.LEDGERS: ledgers(spark, topics), Table.SUBSCRIPTIONS: subscriptions(spark, {})}
    ends = _ends(
        spark,
        (b"topic 1", 1, 7, False, None),
        *((b"topic %d" % number, number, None, False, f"too few say of ledger {number}") for number in (2, 3)),
        (b"topic 4", 4, None, False, "it does not exist"),
    )
    figures = audit(spark, AuditInput(frames=frames, read_ms=1, ends=ends), str(tmp_path / "asked"), 5)
    assert (figures.open_topics, figures.answered_topics) == (5, 1)
    assert figures.unanswered == [
        {"why": "too few say of ledger N", "ledgers": 2},
        {"why": "it does not exist", "ledgers": 1},
    ]
    page = audit_html(figures, [])
    assert "2 ledgers gave no answer: too few say of ledger N." in page
    assert "Ledgers were not asked" not in page
    figures = audit(spark, AuditInput(frames=frames, read_ms=1), str(tmp_path / "not asked"), 5)
    assert (figures.open_topics, figures.answered_topics, figures.unanswered) == (5, 0, [])
    assert "Ledgers were not asked" in audit_html(figures, [])


def test_hubs_are_told_by_what_they_own_and_idle_ones_too(spark: SparkSession) -> None:
    records = owners(spark, {b"a": ("one", 1), b"b": ("one", 1), b"c": ("one", 1), b"d": ("two", 1)})
    living = hubs_frame(spark, [HubInfo(host="one", port=4080, epoch=1), HubInfo(host="new", port=4080, epoch=9)])
    rows = standing.hub_loads(records, living).collect()
    assert [(row["hub"], row["topics"], row["is_alive"]) for row in rows] == [
        ("one:4080:-1 epoch 1", 3, True),
        ("two:4080:-1 epoch 1", 1, False),
        ("new:4080:-1 epoch 9", 0, True),
    ]
    assert rows[0]["share"] == pytest.approx(0.75)
    assert rows[0]["skew"] == pytest.approx(3 / (4 / 3))
    assert [row["is_alive"] for row in standing.hub_loads(records, None).collect()] == [None, None]


def test_fan_outs_and_classes_of_sizes(spark: SparkSession) -> None:
    consumed = {(b"big", b"s%d" % number): 0 for number in range(5)} | {(b"small", b"s"): 0, (b"middle", b"a"): 0}
    frame = subscriptions(spark, consumed | {(b"middle", b"b"): 0})
    assert [(bytes(row["topic"]), row["subscriptions"]) for row in standing.fan_outs(frame, 2).collect()] == [
        (b"big", 5),
        (b"middle", 2),
    ]
    numbers = spark.createDataFrame([(0,), (1,), (2,), (3,), (4,), (7,), (8,), (None,)], "number int")
    classes = {int(row["from_value"]): row["rows"] for row in standing.powers_of(numbers, "number").collect()}
    assert classes == {0: 1, 1: 1, 2: 2, 4: 2, 8: 1}


def _listed(spark: SparkSession, *ledgers: tuple[int, int | None, bool, bytes | None]) -> DataFrame:
    rows = [(Decimal(ledger_id), *rest) for ledger_id, *rest in ledgers]
    return spark.createDataFrame(rows, "ledger_id decimal(20,0), made_ms bigint, is_ours boolean, topic binary")


def _planted(spark: SparkSession) -> dict[str, Any]:
    frames = {
        Table.LEDGERS: ledgers(spark, {b"fine": SOUND, b"gap <b>": [(8, 1, 10), (9, 12, 30)], b"\xff": []}),
        Table.SUBSCRIPTIONS: subscriptions(spark, {(b"gap <b>", b"s"): 4, (b"gone", b"s"): 0, (b"fine", b"s"): 20}),
        Table.OWNERS: owners(spark, {b"fine": ("one", 1), b"\xff": ("two", 2)}),
    }
    return {"frames": frames, "read_ms": 100_000_000}


def test_an_audit_finds_what_was_planted_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    given = AuditInput(
        **_planted(spark),
        living=hubs_frame(spark, [HubInfo(host="one", port=4080, epoch=1)]),
        existing=_listed(
            spark,
            *((number, None, True, None) for number in (1, 2, 3, 8)),
            (77, 1, True, b"t"),
            (78, 99_999_999, True, b"t"),
            (79, 1, False, b"t"),
            (80, None, True, b"t"),
        ),
    )
    figures = audit(spark, given, str(tmp_path / "audit"), 5)
    assert figures.findings == {
        "range-overlap": 0,
        "range-gap": 1,
        "shared-ledger": 0,
        "unreadable-record": 0,
        "lone-subscription": 1,
        "dead-owner": 1,
        # 9 is on record, 78 is too young to judge, 79 is another deployment's, and the age of 80 is unknown.
        "missing-ledger": 1,
        "orphan-ledger": 1,
    }
    assert figures.unchecked == {}
    assert {(each["kind"], each["topic"], each["ledger_id"]) for each in figures.examples} == {
        ("range-gap", "gap <b>", 9),
        ("lone-subscription", "gone", None),
        ("dead-owner", "\\xff", None),
        ("missing-ledger", "gap <b>", 9),
        ("orphan-ledger", "t", 77),
    }
    assert figures.rows == {"topics": 3, "subscriptions": 3, "ledger ranges": 5, "owned topics": 2}
    assert [(each["topic"], each["backlog_messages"]) for each in figures.backlogs] == [("gap <b>", 26)]
    (slowest,) = figures.lags
    assert (slowest["topic"], slowest["subscriber"], slowest["lag_messages"]) == ("gap <b>", "s", 26)
    assert (figures.open_topics, figures.answered_topics, figures.unanswered) == (1, 0, [])
    json.dumps([figures.examples, figures.hubs, figures.backlogs, figures.lags, figures.fan_outs])
    kept = spark.read.parquet(str(tmp_path / "audit" / "findings"))
    assert kept.count() == 5


def test_ledgers_without_an_age_are_orphans_if_they_were_there_before_the_records_were_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    before, after = ([(each, None, True, None) for each in ids] for ids in ((1, 2, 3, 8, 9, 77), (1, 2, 3, 8, 77, 78)))
    given = AuditInput(**_planted(spark), existed=_listed(spark, *before), existing=_listed(spark, *after))
    figures = audit(spark, given, str(tmp_path / "audit"), 5)
    # While the records were read, ledger 78 was made and ledger 9 deleted.
    assert [each["ledger_id"] for each in figures.examples if each["kind"] == "orphan-ledger"] == [77]
    assert figures.findings["missing-ledger"] == 0


@pytest.mark.full
def test_orphans_are_not_looked_for_in_a_part_of_the_topics(spark: SparkSession, tmp_path: Path) -> None:
    listed = _listed(spark, (77, 1, True, b"t"))
    given = AuditInput(**_planted(spark), existing=listed, existed=listed, prefix=b"eu/\xff")
    figures = audit(spark, given, str(tmp_path / "audit"), 5)
    assert "orphan-ledger" not in figures.findings
    assert "only topics that begin with 'eu/\\xff' are audited" in figures.unchecked["orphan-ledger"]
    assert figures.findings["missing-ledger"] == 5


@pytest.mark.full
def test_hubs_that_own_nothing_and_a_store_with_nothing_in_it(spark: SparkSession, tmp_path: Path) -> None:
    frames = {
        Table.LEDGERS: ledgers(spark, {}),
        Table.SUBSCRIPTIONS: subscriptions(spark, {}),
        Table.OWNERS: owners(spark, {}),
    }
    one = hubs_frame(spark, [HubInfo(host="one", port=4080, epoch=1)])
    for name, living, hubs in (("idle", one, [(0, None, None)]), ("nobody", None, [])):
        given = AuditInput(frames=frames, read_ms=100_000_000, living=living)
        figures = audit(spark, given, str(tmp_path / name), 5)
        assert [(hub["topics"], hub["share"], hub["skew"]) for hub in figures.hubs] == hubs
        assert figures.skew is None
        assert sum(figures.findings.values()) == 0
        page = audit_html(figures, [])
        assert ("None of them owns a topic." in page) == bool(hubs)


def test_the_page_needs_nothing_else_and_shows_names_as_text(spark: SparkSession, tmp_path: Path) -> None:
    figures = audit(spark, AuditInput(**_planted(spark)), str(tmp_path / "audit"), 5)
    assert set(figures.unchecked) == {"dead-owner", "missing-ledger", "orphan-ledger"}
    page = audit_html(figures, [("source", "a <store>")])
    assert "gap &lt;b&gt;" in page
    assert "a &lt;store&gt;" in page
    assert "Not looked for: dead-owner; no option says which hubs are alive; give --cluster URL or --hub." in page
    assert page.count('src="data:image/png;base64,') == 6
    assert "Subscriptions that lag most" in page
    assert "http" not in page, "nothing is fetched from elsewhere"


def test_hubs_are_named_with_their_epochs() -> None:
    assert named_hub("one:4080:-1@7") == HubInfo(host="one", port=4080, epoch=7)
    assert named_hub("one:4080@7") == HubInfo(host="one", port=4080, epoch=7)
    for text in ("one:4080:-1", "one@7", "one:4080@x"):
        with pytest.raises(InvalidArgumentError):
            named_hub(text)
