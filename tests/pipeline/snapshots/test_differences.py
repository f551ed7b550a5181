"""Prove that a folder of differences is claimed before anything is read, and deleted however the comparison ends."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hedwig.exit_codes import ExitCode
from hedwig.pipeline.errors import JobError
from hedwig.pipeline.frames.folder import Folder
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.snapshots.differences import Differences
from hedwig.pipeline.snapshots.snapshot import Snapshot
from tests.pipeline.conftest import Run
from tests.pipeline.support.frames import ledgers
from tests.pipeline.support.stores import new_store


def _visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_a_folder_of_differences_belongs_to_one_comparison(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "differences"
    with Differences(spark, str(folder), 5) as differences:
        assert Folder(spark, str(folder)).is_unfinished
        with pytest.raises(JobError, match="is being made by another job"), Differences(spark, str(folder), 5):
            pass
        differences.compare(Table.LEDGERS, ledgers(spark, {b"a": [], b"b": []}), ledgers(spark, {b"b": []}))
    assert differences.result()["tables"] == {"ledgers": {"added": 0, "removed": 1, "changed": 0}}
    assert _visible(folder) == ["ledgers"]


def test_an_interruption_stays_one_whatever_becomes_of_the_folder(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "differences"
    with pytest.raises(KeyboardInterrupt), Differences(spark, str(folder), 5):
        raise KeyboardInterrupt
    assert not folder.exists()

    def refuses(self: Folder) -> None:
        raise JobError(f"the file system of {self.path} refuses: it went away")

    monkeypatch.setattr(Folder, "delete", refuses)
    monkeypatch.setattr("hedwig.pipeline.frames.folder._CLEAR_S", 0.1)
    with pytest.raises(KeyboardInterrupt), Differences(spark, str(folder), 5):
        raise KeyboardInterrupt


def test_a_folder_of_differences_is_claimed_before_snapshots_are_read(
    run: Run, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, snapshot, folder = new_store(tmp_path), tmp_path / "snapshot", tmp_path / "differences"
    run("snapshot", store, snapshot)
    seen = []

    def verified(_: Snapshot) -> None:
        seen.append(Folder(spark, str(folder)).is_unfinished)

    monkeypatch.setattr(Snapshot, "verify", verified)
    run("diff", snapshot, store, "--into", folder)
    assert seen == [True]
    folder.joinpath("notes").write_text("mine")
    assert "nothing is overwritten" in run("diff", snapshot, store, "--into", folder, code=ExitCode.USAGE)
    assert seen == [True]
    assert (folder / "notes").read_text() == "mine"
