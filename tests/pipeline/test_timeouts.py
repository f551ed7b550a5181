"""Prove that every job uses the user's timeout for each request to a store."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from hedwig.metadata import StoreOptions
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.source.apply import ApplyConfig
from tests.pipeline.conftest import Run
from tests.pipeline.support.stores import new_store


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> set[float]:
    """The timeouts of each store that was read, written or opened."""
    from hedwig.pipeline.snapshots import copying, store_snapshot
    from hedwig.pipeline.snapshots import inputs as sides
    from hedwig.pipeline.source import store_tables

    timeouts: set[float] = set()

    def noted(read: Any) -> Any:
        def reading(spark: SparkSession, url: str, table: Table, options: Mapping[str, str]) -> Any:
            timeouts.add(float(options.get("timeoutSeconds", 30)))
            return read(spark, url, table, options)

        return reading

    for module, name in (
        (store_snapshot, "read_table_to_copy"),
        (copying, "read_table"),
        (sides, "read_table"),
    ):
        monkeypatch.setattr(module, name, noted(getattr(module, name)))
    write = store_tables.write_table

    def writing(frame: DataFrame, config: ApplyConfig, rows: int | None) -> Any:
        timeouts.add(config.operation_timeout_s)
        return write(frame, config, rows)

    monkeypatch.setattr(copying, "write_table", writing)

    def options(**how: Any) -> StoreOptions:
        timeouts.add(how.get("operation_timeout_s", 30))
        return StoreOptions(**how)

    for module_name in ("metadata", "pipeline.snapshots.preflight"):
        monkeypatch.setattr(f"hedwig.{module_name}.StoreOptions", options)
    return timeouts


@pytest.mark.full
def test_jobs_give_stores_as_long_as_they_were_told(run: Run, tmp_path: Path, seen: set[float]) -> None:
    (tmp_path / "topics.tsv").write_text("a\nb\n")
    first, second, third = (new_store(tmp_path, name) for name in ("first", "second", "third"))
    snapshot = tmp_path / "snapshot"
    for job in (
        ("load", first, "--topics", tmp_path / "topics.tsv"),
        ("snapshot", first, snapshot),
        ("restore", snapshot, second),
        ("migrate", first, third),
        ("diff", first, second),
        ("audit", first, tmp_path / "audit"),
    ):
        seen.clear()
        run(*job, "--timeout", 77)
        assert seen == {77}, job[0]
