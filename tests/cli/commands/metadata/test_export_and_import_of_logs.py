"""Prove that an export has the shared logs that its records name, and that an import brings them in first."""

from pathlib import Path

import pytest

from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataStore, NamedRecords
from hedwig.metadata.bulk.export_file import verify
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.model import HubInfo
from tests.cli.support.admin import Admin
from tests.cli.support.logs_of_stores import HUBS, change_log, fill_logs, logs, with_store
from tests.cli.support.store_contents import contents


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "hedwig.metadata.gz"


@pytest.fixture
def other(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/other.db"


def test_logs_go_with_the_records_that_name_them(admin: Admin, file: Path, other: str) -> None:
    with_store(admin.url, fill_logs)
    assert admin.done("metadata", "export", str(file), "-o", "json").json["logs"] == 3
    planned = admin.done("metadata", "import", str(file), "--metadata", other, "--dry-run", "-o", "json").json
    assert (planned["logs"], planned["would_write_logs"], planned["format"]) == (3, 2, "2.0")
    ran = admin.done("metadata", "import", str(file), "--metadata", other, "-o", "json").json
    assert ran["logs_written"] == 2
    assert [(log.number, log.hub) for log in logs(other)] == list(enumerate(HUBS[:2])), "no owner, so none of its log"
    ran = admin.done("metadata", "import", str(file), "--with-owners", "--metadata", other, "-o", "json").json
    assert (ran["logs_written"], ran["equal"], ran["created"]) == (1, 2, 1)
    assert contents(other) == contents(admin.url)
    assert admin.done("metadata", "describe", "--metadata", other, "-o", "json").json["format"] == "2.0"


def test_a_prefix_takes_only_the_logs_that_its_topics_name(admin: Admin, file: Path, other: str) -> None:
    with_store(admin.url, fill_logs)
    assert admin.done("metadata", "export", str(file), "--prefix", "b", "-o", "json").json["logs"] == 1
    admin.done("metadata", "export", str(file), "--overwrite")
    admin.done("metadata", "import", str(file), "--prefix", "b", "--metadata", other)
    assert [log.number for log in logs(other)] == [1]


def test_an_import_goes_on_with_the_logs_of_its_own_store(admin: Admin, file: Path) -> None:
    with_store(admin.url, fill_logs)
    admin.done("metadata", "export", str(file))

    change_log(admin.url, 0, (70,))
    change_log(admin.url, 1, None)
    ran = admin.done("metadata", "import", str(file), "-o", "json").json
    assert ran["logs_written"] == 1
    after = logs(admin.url)
    assert [each.listed for each in after] == [(70,), (), (), ()]
    assert [each.imports for each in after] == [1, 1, 1, 1]


def test_logs_of_another_deployment_end_an_import_before_it_begins(admin: Admin, file: Path, other: str) -> None:
    with_store(admin.url, fill_logs)
    admin.done("metadata", "export", str(file))

    async def begin(store: MetadataStore) -> None:
        await KeptLogRecords(store.named_records).create(HubInfo(host="foreign", port=4080, epoch=1))

    with_store(other, begin)
    before = logs(other)
    for more in ((), ("--dry-run",)):
        ran = admin.run("metadata", "import", str(file), "--metadata", other, *more)
        assert ran.code == ExitCode.FAILED
        assert "two deployments" in ran.err
        assert "hub foreign:4080" in ran.err
        assert ran.err.count("\n") == 1
    assert logs(other) == before
    assert contents(other) == {}


def test_a_log_that_is_gone_is_left_out(admin: Admin, file: Path) -> None:
    """Its last range was deleted after the export had read it, so that the sweep has removed the log."""
    with_store(admin.url, fill_logs)

    change_log(admin.url, 0, None)
    admin.done("metadata", "export", str(file))
    assert [log.number for log in verify(file).logs] == [1, 2]


def test_a_first_log_during_an_export_ends_it(admin: Admin, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The header says already that the file has none, and an older release would read it."""
    with_store(admin.url, fill_logs)

    async def none_yet(records: NamedRecords) -> bool:
        return False

    monkeypatch.setattr("hedwig.cli.commands.metadata.exporting.has_logs", none_yet)
    ran = admin.run("metadata", "export", str(file))
    assert ran.code == ExitCode.FAILED
    assert "give the command again" in ran.err
    assert not file.exists()


def test_logs_come_back_to_the_store_that_they_left(admin: Admin, file: Path, other: str) -> None:
    """Hubs have used the other store meanwhile. What the first still has of their logs is older."""
    with_store(admin.url, fill_logs)
    admin.done("metadata", "export", str(file))
    admin.done("metadata", "import", str(file), "--metadata", other)
    change_log(other, 0, (70,))
    admin.done("metadata", "export", str(file), "--metadata", other, "--overwrite")
    for expected in (1, 0):
        ran = admin.done("metadata", "import", str(file), "-o", "json").json
        assert ran["logs_written"] == expected
        assert [each.listed for each in logs(admin.url)] == [(70,), (), (), ()]
