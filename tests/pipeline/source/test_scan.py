"""Prove that plans and scans cover every record of a table once, in bounded batches."""

import sqlite3
import threading
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

import msgpack
import pytest

from hedwig.errors import ConfigurationError, CorruptRecordError, InvalidArgumentError, LayoutMissingError
from hedwig.metadata import MetadataUrl
from hedwig.pipeline.frames.input_rows import rows_of
from hedwig.pipeline.frames.schemas import UNKNOWN_FIELDS, arrow_schema
from hedwig.pipeline.frames.tables import OnCorrupt, Table
from hedwig.pipeline.source.plan import NameRange, ScanConfig, plan
from hedwig.pipeline.source.scan import scan
from tests.pipeline.support.stores import break_one, check_pauses, new_store, records, rows_of_table, scanned


@pytest.mark.parametrize("table", Table)
def test_scan_meets_every_record_once(filled: str, table: Table) -> None:
    stored = records(filled, table)
    config = ScanConfig(url=filled, table=table, rows_per_partition=30, fetch_rows=7, batch_rows=10)
    shares = scanned(config)
    assert len(shares) > 1
    batches = [batch for _, share in shares for batch in share]
    assert all(batch.schema == arrow_schema(table) and 1 <= batch.num_rows <= 10 for batch in batches)
    rows = [row for batch in batches for row in rows_of(table, batch)]
    assert len(rows) == len(stored)
    assert {row.key: row.version for row in rows} == {key: versioned.version for key, versioned in stored.items()}
    if table is not Table.TOPICS:
        assert {row.key: row.record for row in rows} == {key: versioned.value for key, versioned in stored.items()}
    assert {batch["backend"][0].as_py() for batch in batches} == {"sqlite"}


def test_empty_store_has_one_range_without_batches(tmp_path: Path) -> None:
    config = ScanConfig(url=new_store(tmp_path), table=Table.TOPICS)
    ((_, batches),) = scanned(config)
    assert batches == []


NAME_RANGES: Final[Mapping[str, NameRange]] = {
    "prefix": NameRange(prefix=b"t-00"),
    "from": NameRange(start=b"t-020"),
    "up to": NameRange(stop=b"t-020"),
    "between": NameRange(start=b"t-005", stop=b"t-0100"),
    "one": NameRange(start=b"t-005", stop=b"t-005\0"),
    "prefix and between": NameRange(prefix=b"t-00", start=b"t-003/", stop=b"t-02"),
    "nothing": NameRange(prefix=b"t-00", start=b"t-01"),
    "turned round": NameRange(start=b"t-02", stop=b"t-01"),
    "last names": NameRange(prefix=b"\xff", start=b"\xff\xff"),
}


@pytest.mark.parametrize("names", NAME_RANGES.values(), ids=NAME_RANGES)
@pytest.mark.parametrize("table", [Table.TOPICS, Table.SUBSCRIPTIONS])
def test_scan_of_some_names(filled: str, names: NameRange, table: Table) -> None:
    rows = rows_of_table(filled, table, names=names, rows_per_partition=20)
    topics = sorted(rows["topic"].to_pylist()) if rows.num_rows else []
    expected = sorted(
        key.topic
        for key in records(filled, table)
        if key.topic.startswith(names.prefix)
        and key.topic >= names.start
        and (names.stop is None or key.topic < names.stop)
    )
    assert topics == expected


def test_names_of_a_range_begin_as_its_ends_do() -> None:
    assert NameRange(start=b"abc", stop=b"abd").common == b"ab"
    assert NameRange(prefix=b"abcd", start=b"abc", stop=b"abd").common == b"abcd"
    assert NameRange(start=b"abc").common == b""
    assert NameRange(start=b"x", stop=b"x\0").common == b"x"


def test_record_that_cannot_be_read_fails_the_scan_and_is_named(filled: str) -> None:
    key = next(iter(records(filled, Table.LEDGERS)))
    break_one(filled, Table.LEDGERS, key)
    with pytest.raises(CorruptRecordError, match="persistence record of topic"):
        rows_of_table(filled, Table.LEDGERS)


def test_records_that_cannot_be_read_are_passed_over_and_told(filled: str, caplog: pytest.LogCaptureFixture) -> None:
    stored = records(filled, Table.LEDGERS)
    broken = list(stored)[::4]
    for key in broken:
        break_one(filled, Table.LEDGERS, key)
    rows = rows_of_table(filled, Table.LEDGERS, on_corrupt=OnCorrupt.SKIP)
    assert set(rows["topic"].to_pylist()) == {key.topic for key in stored} - {key.topic for key in broken}
    assert f"passed over {len(broken)} records of ledgers that cannot be read" in caplog.text


def test_pages_with_something_unusual_keep_their_place_among_others(filled: str) -> None:
    keys = list(records(filled, Table.LEDGERS))
    with_more, without_version, broken = keys[3], keys[12], keys[20]
    newer = msgpack.packb({"r": [], "newer": 1})
    with closing(sqlite3.connect(MetadataUrl.parse(filled).path)) as connection, connection:
        for column, value, key in (("record", newer, with_more), ("version", b"\x00", without_version)):
            statement = f"UPDATE {Table.LEDGERS.kind.name} SET {column} = ? WHERE topic = ?"
            assert connection.execute(statement, (value, key.topic)).rowcount == 1
    break_one(filled, Table.LEDGERS, broken)
    left = [key.topic for key in keys if key not in (without_version, broken)]
    columns = ("topic", UNKNOWN_FIELDS.name)
    # With pages of seven, three are read record by record, and one batch may hold rows of several pages.
    for batch_rows in (3, 7, 100):
        how = {"fetch_rows": 7, "batch_rows": batch_rows, "on_corrupt": OnCorrupt.SKIP}
        rows = rows_of_table(filled, Table.LEDGERS, columns=columns, **how)
        assert rows["topic"].to_pylist() == left
        assert rows.filter(rows[UNKNOWN_FIELDS.name])["topic"].to_pylist() == [with_more.topic]
        names = NameRange(start=left[1], stop=left[-1])
        assert (
            rows_of_table(filled, Table.LEDGERS, columns=columns, names=names, **how)["topic"].to_pylist() == left[1:-1]
        )


def test_scan_may_be_left_after_any_batch(filled: str) -> None:
    config = ScanConfig(url=filled, table=Table.SUBSCRIPTIONS, fetch_rows=5, batch_rows=5)
    (keys,) = plan(config)
    batches = scan(config, keys)
    assert next(batches).num_rows == 5
    del batches
    assert sum(batch.num_rows for batch in scan(config, keys)) == len(records(filled, Table.SUBSCRIPTIONS))


def test_a_reader_may_be_kept_waiting_for_longer_than_the_store_may_take(filled: str) -> None:
    # SQLite sometimes answers before the pause begins.
    check_pauses(filled, 4)


def test_nothing_of_a_scan_goes_on_after_it(filled: str) -> None:
    before = threading.active_count()
    config = ScanConfig(url=filled, table=Table.SUBSCRIPTIONS, fetch_rows=5, batch_rows=5)
    (keys,) = plan(config)
    left = scan(config, keys)
    next(left)
    left.close()
    assert threading.active_count() == before
    failing = scan(config, keys)
    next(failing)
    with pytest.raises(ValueError, match="Spark"):
        failing.throw(ValueError("Spark"))
    list(scan(config, keys))
    assert threading.active_count() == before


def test_some_columns_are_read(filled: str) -> None:
    rows = rows_of_table(filled, Table.SUBSCRIPTIONS, columns=("subscriber", "topic"))
    assert rows.column_names == ["subscriber", "topic"]
    assert rows.num_rows == len(records(filled, Table.SUBSCRIPTIONS))


def test_wrong_places_and_sizes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no metadata backend for 'mysql'"):
        plan(ScanConfig(url="mysql://host/db", table=Table.TOPICS))
    for missing in ("no/such/file.db", "none.db"):
        with pytest.raises(LayoutMissingError, match="there is no metadata store at"):
            plan(ScanConfig(url=f"sqlite://{tmp_path}/{missing}", table=Table.TOPICS))
    assert list(tmp_path.iterdir()) == [], "a store that is not there is not made"
    with pytest.raises(ConfigurationError, match="a store in memory"):
        ScanConfig(url="sqlite://", table=Table.TOPICS)
    with pytest.raises(InvalidArgumentError):
        ScanConfig(url="sqlite:///store.db", table=Table.TOPICS, batch_rows=0)
