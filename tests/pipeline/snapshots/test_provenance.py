"""Prove that rows replace records only in the store that they were read from, however its URL is spelled."""

from pathlib import Path

import pytest

from hedwig.exit_codes import ExitCode
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.snapshots.provenance import is_same_store
from tests.pipeline.conftest import Run
from tests.pipeline.support.stores import new_store, records


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sqlite:///data/hedwig.db", "sqlite:////data/hedwig.db?create=false"),
        ("sqlite:///data/x/../hedwig.db", "sqlite:///data/hedwig.db"),
        ("zookeeper://zk1:2181,zk2:2181/hedwig/eu", "zookeeper://ZK2,zk3/hedwig/eu/?children_max=5"),
        ("hbase://zk:2181/hedwig", "hbase://zk/hedwig"),
    ],
)
def test_one_store_has_several_names(one: str, other: str) -> None:
    assert is_same_store(one, other)
    assert is_same_store(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sqlite:///data/hedwig.db", "sqlite:///data/other.db"),
        ("zookeeper://zk1:2181/hedwig/eu", "zookeeper://zk1:2181/hedwig/us"),
        ("zookeeper://zk1:2181/hedwig/eu", "zookeeper://zk9:2181/hedwig/eu"),
        ("zookeeper://zk1:2181/hedwig/eu", "zookeeper://zk1:2182/hedwig/eu"),
        ("zookeeper://zk:2181/hedwig", "hbase://zk:2181/hedwig"),
        ("generated: seed 1, zipf 0.9", "sqlite:///data/hedwig.db"),
    ],
)
def test_other_stores_are_other_ones(one: str, other: str) -> None:
    assert not is_same_store(one, other)
    assert not is_same_store(other, one)


def test_a_relative_name_is_that_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_same_store("sqlite:///./hedwig.db", f"sqlite://{tmp_path}/hedwig.db")


def test_a_snapshot_replaces_in_its_own_store_only(run: Run, tmp_path: Path) -> None:
    (tmp_path / "topics.tsv").write_text("a\nb\n")
    first, second = new_store(tmp_path, "first"), new_store(tmp_path, "second")
    for store in (first, second):
        run("load", store, "--topics", tmp_path / "topics.tsv")
    snapshot, replace = tmp_path / "snapshot", ("--policy", "replace")
    run("snapshot", first, snapshot)
    run("audit", first, tmp_path / "audit")
    before = records(second, Table.LEDGERS)
    for job in (("restore", snapshot, second), ("load", second, "--from", snapshot)):
        said = run(*job, *replace, code=ExitCode.USAGE)
        assert f"these versions belong to {first}, so rows can replace records only there" in said
    assert "versions mean something in one store" in run("migrate", first, second, *replace, code=ExitCode.USAGE)
    assert records(second, Table.LEDGERS) == before
    for source in (snapshot, tmp_path / "audit" / "snapshot"):
        ledgers = run("restore", source, f"{first}?create=false", *replace)["tables"]["ledgers"]
        assert ledgers["replaced"] + ledgers["same"] == 2
