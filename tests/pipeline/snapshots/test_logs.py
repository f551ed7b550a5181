"""Prove that a snapshot has the shared logs that its records name, and that they are brought back before these."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hedwig.errors import InvalidArgumentError
from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataStore, NamedRecords
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.metadata.logs.sweep_turn import SweepTurn
from hedwig.metadata.logs.transfer import LogConflictError
from hedwig.metadata.logs.virtual_ids import virtual_id
from hedwig.model import HubInfo
from hedwig.pipeline.audit.findings import missing_ledgers
from hedwig.pipeline.frames.checksum import checksum_columns, content_columns
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.snapshots.logs import bringing_logs
from tests.cli.support.logs_of_stores import HUBS, change_log, fill_logs, logs
from tests.pipeline.conftest import Run
from tests.pipeline.support.frames import ledgers, owners
from tests.pipeline.support.stores import new_store, records, with_store

FOREIGN = HubInfo(host="foreign", port=4080, epoch=1)


def _filled(folder: Path) -> str:
    url = new_store(folder)
    with_store(url, fill_logs)
    return url


def _contents(url: str) -> dict[object, object]:
    return {
        (table, key): stored.value
        for table in (Table.LEDGERS, Table.OWNERS)
        for key, stored in records(url, table).items()
    }


def test_logs_go_and_come_back_with_the_records_that_name_them(run: Run, tmp_path: Path) -> None:
    source, target, snapshot = _filled(tmp_path), new_store(tmp_path, "target"), tmp_path / "snapshot"
    assert run("snapshot", source, snapshot)["logs"] == 3
    assert json.loads((snapshot / "manifest.json").read_text())["format"] == 2
    restored = run("restore", snapshot, target)
    assert (restored["logs_written"], restored["verified"]) == (2, True)
    assert [(log.number, log.hub) for log in logs(target)] == list(enumerate(HUBS[:2])), "no owner, so none of its log"
    assert run("load", target, "--from", snapshot, "--with-owners")["logs_written"] == 1
    assert _contents(target) == _contents(source)
    assert [stored.value.log for stored in records(target, Table.OWNERS).values()] == [2]
    change_log(target, 0, (7, 8))
    assert run("migrate", target, source, "--with-owners")["logs_written"] == 1
    assert [log.listed for log in logs(source)] == [(7, 8), (), (), ()], "what the source still had was older"


def test_a_part_has_the_logs_of_its_topics(run: Run, tmp_path: Path) -> None:
    source, snapshot = _filled(tmp_path), tmp_path / "snapshot"
    assert run("snapshot", source, snapshot, "--prefix", "b")["logs"] == 1
    assert "logs" not in run("snapshot", source, tmp_path / "nothing", "--prefix", "z")
    assert json.loads((tmp_path / "nothing" / "manifest.json").read_text())["format"] == 1
    (line,) = (snapshot / "logs.jsonl").read_text().splitlines()
    assert json.loads(line)["log"] == 1
    (snapshot / ".logs.jsonl.crc").unlink(missing_ok=True)
    (snapshot / "logs.jsonl").write_text(line.replace("hub", "bus"))
    assert "is not the file that the manifest describes" in run(
        "restore", snapshot, new_store(tmp_path, "target"), code=ExitCode.FAILED
    )


def test_logs_of_another_deployment_end_a_restore_before_it_begins(run: Run, tmp_path: Path) -> None:
    source, target, snapshot = _filled(tmp_path), new_store(tmp_path, "target"), tmp_path / "snapshot"

    async def begin(store: MetadataStore) -> None:
        await KeptLogRecords(store.named_records).create(FOREIGN)

    with_store(target, begin)
    run("snapshot", source, snapshot)
    before = logs(target)
    assert "two deployments" in run("restore", snapshot, target, code=ExitCode.FAILED)
    assert (logs(target), _contents(target)) == (before, {})


def test_no_hub_sweeps_while_logs_are_brought(tmp_path: Path) -> None:
    source, target = _filled(tmp_path), new_store(tmp_path, "target")

    def takes_turn() -> bool:
        async def take(store: MetadataStore) -> bool:
            return await SweepTurn(store.named_records, FOREIGN).take()

        return with_store(target, take)

    async def turn(records: NamedRecords) -> bytes | None:
        return await records.read("sweep-of-logs")

    with bringing_logs(target, logs(source), 30.0) as written:
        assert written == 4
        assert not takes_turn()
        held = with_store(target, lambda store: turn(store.named_records))
    assert not takes_turn()
    assert with_store(target, lambda store: turn(store.named_records)) != held, "it was still held at the end"
    with pytest.raises(InvalidArgumentError, match="the job"), bringing_logs(target, [], 30.0):
        raise InvalidArgumentError("the job")
    foreign = [log.changed(hub=FOREIGN) for log in logs(source)]
    with pytest.raises(LogConflictError), bringing_logs(target, foreign, 30.0):
        pytest.fail("the body runs only once the logs are there")


def test_an_owner_without_a_log_has_the_checksum_of_earlier_releases(spark: SparkSession) -> None:
    frame = owners(spark, {b"a": ("one", 7), b"b": ("one", 6)})
    before = [name for name in content_columns(Table.OWNERS) if name != "log"]
    now, then = [
        frame.agg(*checksum_columns(frame, columns)).first() for columns in (content_columns(Table.OWNERS), before)
    ]
    assert now == then
    named = frame.selectExpr("* except (log)", "cast(3 as decimal(20,0)) as log")
    assert named.agg(*checksum_columns(named, content_columns(Table.OWNERS))).first() != now


def test_a_ledger_in_a_log_is_not_missing_where_it_never_was(spark: SparkSession) -> None:
    frame = ledgers(spark, {b"a": [(1, 1, 10), (virtual_id(3, 7), 11, 20), (1 << 63, 21, 30)]})
    existing = spark.createDataFrame([(Decimal(1),)], "ledger_id decimal(20,0)")
    assert [int(row["ledger_id"]) for row in missing_ledgers(frame, existing).collect()] == [1 << 63]
