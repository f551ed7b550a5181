"""Prove that a store returns unchanged from its export, in any backend, and that half an export is refused."""

import gzip
import os
import signal
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from hedwig.exit_codes import ExitCode
from tests.cli.support.admin import DEADLINE_S, Admin, wait_until
from tests.cli.support.store_contents import contents, fill
from tests.cli.support.terminal import Terminal
from tests.support.servers import RunningServers


def _zookeeper(servers: RunningServers) -> str:
    return f"zookeeper://{servers.address('zookeeper')}/hedwig/{uuid.uuid4().hex}"


def _hbase(servers: RunningServers) -> str:
    servers.address("hbase")
    return f"hbase://{servers.address('zookeeper')}/e{uuid.uuid4().hex[:12]}"


BACKENDS: Final = (_zookeeper, _hbase)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "hedwig.metadata.gz"


@pytest.fixture
def other(tmp_path: Path) -> str:
    """The URL of a second store, which nobody has used yet."""
    return f"sqlite://{tmp_path}/other.db"


def test_store_comes_back_from_its_export(admin: Admin, file: Path, other: str) -> None:
    fill(admin.url, 200)
    exported = admin.done("metadata", "export", str(file), "-o", "json").json
    stored = contents(admin.url)
    assert exported["records"] == len(stored)
    assert exported["owners"] == sum(kind == "ownership" for kind, *_ in stored)
    assert exported["topics"] == sum(kind == "persistence" for kind, *_ in stored)
    assert exported["subscriptions"] == sum(kind == "subscriptions" for kind, *_ in stored)
    assert exported["bytes"] == file.stat().st_size
    assert gzip.decompress(file.read_bytes()).startswith(b"HEDWIG-METADATA\n")
    ran = admin.done("metadata", "import", str(file), "--metadata", other, "--with-owners", "-o", "json").json
    assert (ran["created"], ran["records"], ran["owners_left_out"]) == (len(stored), len(stored), 0)
    assert contents(other) == stored


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.__name__.strip("_"))
def test_export_moves_between_backends(
    backend: Callable[[RunningServers], str], servers: RunningServers, admin: Admin, file: Path, other: str
) -> None:
    fill(admin.url, 120)
    remote = backend(servers)
    admin.done("metadata", "export", str(file))
    admin.done("metadata", "format", "--regions", "3", "--metadata", remote, "--timeout", "120")
    admin.done("metadata", "import", str(file), "--metadata", remote, "--with-owners")
    assert contents(remote) == contents(admin.url)
    admin.done("metadata", "export", str(file), "--metadata", remote, "--overwrite")
    admin.done("metadata", "import", str(file), "--metadata", other, "--with-owners")
    assert contents(other) == contents(admin.url)


def test_owners_are_left_out_unless_asked_for(admin: Admin, file: Path, other: str) -> None:
    fill(admin.url, 30)
    admin.done("metadata", "export", str(file))
    ran = admin.done("metadata", "import", str(file), "--metadata", other, "-o", "json").json
    assert ran["owners_left_out"] == sum(kind == "ownership" for kind, *_ in contents(admin.url)) > 0
    assert contents(other) == contents(admin.url, owners=False)


def test_prefix_chooses_on_both_ways(admin: Admin, file: Path, tmp_path: Path) -> None:
    fill(admin.url, 60)
    stored = contents(admin.url, owners=False)
    for number, (export, take) in enumerate([("weather/", ""), ("", "weather/"), ("weather/", "weather/1")]):
        url = f"sqlite://{tmp_path}/part-{number}.db"
        admin.done("metadata", "export", str(file), "--prefix", export, "--overwrite")
        admin.done("metadata", "import", str(file), "--prefix", take, "--metadata", url)
        wanted = max(export, take).encode()
        assert contents(url) == {key: value for key, value in stored.items() if key[1].startswith(wanted)}


# --------------------------------------------------------------------------------------------------- records that exist


def test_equal_records_are_passed_over(admin: Admin, file: Path) -> None:
    fill(admin.url, 30)
    before = admin.query("SELECT * FROM subscriptions")
    admin.done("metadata", "export", str(file))
    ran = admin.done("metadata", "import", str(file), "-o", "json").json
    assert (ran["created"], ran["equal"]) == (0, len(contents(admin.url, owners=False)))
    assert admin.query("SELECT * FROM subscriptions") == before


@pytest.fixture
def changed(admin: Admin, file: Path) -> dict[object, object]:
    """Export a store and change two of its records; return the changed contents."""
    fill(admin.url, 30)
    admin.done("metadata", "export", str(file))
    for topic, consumed in (("weather/2", "77"), ("weather/3", "78")):
        admin.done("topic", "delete", topic, "--force", "--offline", "--yes")
        admin.done("subscription", "create", topic, "s-0\\xff", "--consumed", consumed)
    return contents(admin.url)


def test_different_records_end_an_import_unless_told_otherwise(
    admin: Admin, file: Path, changed: dict[object, object]
) -> None:
    ran = admin.run("metadata", "import", str(file))
    assert ran.code == ExitCode.VERSION_CONFLICT
    assert "exists already, and differs" in ran.err
    assert "--if-exists skip" in ran.err
    assert "records were created" in ran.err
    left = contents(admin.url)
    assert {key: left[key] for key in changed} == changed


def test_different_records_are_kept(admin: Admin, file: Path, changed: dict[object, object]) -> None:
    ran = admin.done("metadata", "import", str(file), "--if-exists", "skip", "-o", "json").json
    assert (ran["kept"], ran["replaced"]) == (4, 0)
    left = contents(admin.url)
    assert {key: left[key] for key in changed} == changed


def test_different_records_are_replaced_after_asking(
    admin: Admin, file: Path, changed: dict[object, object], other: str
) -> None:
    refused = admin.run("metadata", "import", str(file), "--if-exists", "replace", text="n\n")
    assert refused.code == ExitCode.FAILED
    held = admin.run("metadata", "import", str(file), "--dry-run", "-o", "json").json
    assert f"up to {held['topics'] + held['subscriptions']} records" in refused.err, "owners are left out"
    assert contents(admin.url) == changed
    ran = admin.done("metadata", "import", str(file), "--if-exists", "replace", "--yes", "-o", "json").json
    assert (ran["kept"], ran["replaced"]) == (0, 4)
    admin.done("metadata", "import", str(file), "--metadata", other)
    assert contents(admin.url, owners=False) == contents(other)


# --------------------------------------------------------------------------------------------------- nothing half done


def test_broken_file_is_refused_before_anything_is_written(admin: Admin, file: Path, other: str) -> None:
    fill(admin.url, 50)
    admin.done("metadata", "export", str(file))
    file.write_bytes(file.read_bytes()[:-20])
    ran = admin.run("metadata", "import", str(file), "--metadata", other)
    assert ran.code == ExitCode.FAILED
    assert len(ran.err.splitlines()) == 1
    assert "cut short" in ran.err
    assert contents(other) == {}


def test_dry_run_says_what_a_file_holds_and_writes_nothing(admin: Admin, file: Path, other: str) -> None:
    fill(admin.url, 20)
    admin.done("metadata", "export", str(file), "--prefix", "weather")
    shown = admin.done("metadata", "import", str(file), "--metadata", other, "--dry-run", "-o", "json").json
    assert (shown["backend"], shown["prefix"], shown["exported_from"]) == ("sqlite", "weather", admin.url)
    assert shown["records"] == shown["owners"] + shown["topics"] + shown["subscriptions"] > 0
    assert contents(other) == {}


def test_dry_run_says_what_would_become_of_each_record(
    admin: Admin, file: Path, changed: dict[object, object], other: str
) -> None:
    def planned(*arguments: str) -> tuple[int, list[int]]:
        ran = admin.run("metadata", "import", str(file), "--dry-run", "-o", "json", *arguments)
        names = ("would_create", "equal", "would_replace", "would_keep", "would_refuse")
        return ran.code, [ran.json[name] for name in names]

    code, (create, equal, *rest) = planned()
    assert (code, rest) == (ExitCode.VERSION_CONFLICT, [0, 0, 4])
    assert planned("--if-exists", "skip") == (0, [create, equal, 0, 4, 0])
    assert planned("--if-exists", "replace") == (0, [create, equal, 4, 0, 0])
    assert planned("--metadata", other) == (0, [create + equal + 4, 0, 0, 0, 0])
    assert not Path(other.removeprefix("sqlite://")).exists()
    assert contents(admin.url) == changed
    done = admin.done("metadata", "import", str(file), "--if-exists", "skip", "-o", "json").json
    assert (done["created"], done["equal"], done["kept"]) == (create, equal, 4)


@pytest.mark.parametrize(
    ("url", "code"),
    [("foo://x", ExitCode.USAGE), ("zookeeper://127.0.0.1:1/hedwig/x", ExitCode.UNAVAILABLE)],
    ids=["nonsense", "down"],
)
def test_dry_run_looks_at_the_store(admin: Admin, file: Path, url: str, code: ExitCode) -> None:
    admin.done("topic", "create", "news")
    admin.done("metadata", "export", str(file))
    ran = admin.run("metadata", "import", str(file), "--dry-run", "--metadata", url, "--timeout", "2")
    assert (ran.code, ran.out) == (code, ""), ran


def test_store_that_was_moved_takes_no_import_and_says_nothing_else(admin: Admin, file: Path, other: str) -> None:
    admin.done("topic", "create", "news")
    admin.done("metadata", "export", str(file))
    admin.done("metadata", "migrate", "--from", admin.url, "--to", other, "--yes")
    for more in ((), ("--dry-run",)):
        ran = admin.run("metadata", "import", str(file), *more)
        assert (ran.code, len(ran.err.splitlines())) == (ExitCode.FAILED, 1), ran
        assert f"moved to {other}" in ran.err


def test_what_can_be_read_only_once_is_no_file_to_import(admin: Admin, file: Path) -> None:
    os.mkfifo(file)
    for arguments in ((str(file),), (str(file), "--dry-run"), ("/dev/stdin",)):
        ran = admin.run_apart("metadata", "import", *arguments, text=b"anything")
        assert (ran.code, "is no regular file" in ran.err) == (ExitCode.USAGE, True), ran


def test_export_never_takes_the_place_of_a_file_unasked(admin: Admin, file: Path) -> None:
    file.write_text("mine")
    ran = admin.run("metadata", "export", str(file))
    assert (ran.code, file.read_text()) == (ExitCode.FAILED, "mine")
    assert "--overwrite" in ran.err


def test_export_takes_the_place_of_nothing_but_a_file(admin: Admin, file: Path) -> None:
    os.mkfifo(file)
    ran = admin.run("metadata", "export", str(file), "--overwrite")
    assert ran.code == ExitCode.USAGE
    assert "is no regular file" in ran.err
    assert file.is_fifo()


def test_export_goes_to_standard_output(admin: Admin, file: Path, other: str) -> None:
    fill(admin.url, 30)
    with admin.start("metadata", "export", "-", "--prefix", "weather") as process:
        piped, said = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, said
    file.write_bytes(piped)
    done = admin.done("metadata", "import", str(file), "--metadata", other, "--with-owners", "-o", "json").json
    assert f"exported {done['records']} records" in said.decode()
    assert done["created"] == done["records"] > 0
    assert not (admin.directory / "-").exists()
    # `./-` names a file that is called `-`.
    assert admin.run_apart("metadata", "export", "./-").code == 0
    assert (admin.directory / "-").is_file()


def test_export_is_nothing_for_a_terminal(admin: Admin) -> None:
    admin.done("topic", "create", "news")
    with Terminal(admin, "metadata", "export", "-") as terminal:
        screen = terminal.wait_for_line(f"ended {ExitCode.USAGE:d}")
    assert "is a terminal" in " ".join(screen)


def test_export_that_fails_leaves_no_file(admin: Admin, file: Path) -> None:
    fill(admin.url, 20)
    admin.query("UPDATE persistence SET record = x'c1' WHERE topic = CAST('weather/12' AS BLOB)")
    ran = admin.run("metadata", "export", str(file))
    assert ran.code == ExitCode.FAILED
    assert "'weather/12'" in ran.err
    assert "--skip-unreadable" in ran.err
    assert list(file.parent.glob(f"{file.name}*")) == []
    left_out = admin.done("metadata", "export", str(file), "--skip-unreadable", "-o", "json").json
    assert left_out["unreadable"] == 1
    nowhere = admin.run("metadata", "export", "/no/such/directory/file")
    assert nowhere.code == ExitCode.FAILED
    assert "/no/such/directory" in nowhere.err


def test_killed_export_leaves_no_file_that_looks_whole(admin: Admin, file: Path) -> None:
    fill(admin.url, 1_500)
    part = file.with_name(f"{file.name}.part")
    process = admin.start("metadata", "export", str(file))
    wait_until(lambda: part.exists(), "the export has begun")
    process.kill()
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode in (-signal.SIGKILL, 0)
    if process.returncode:
        assert not file.exists()
    admin.done("metadata", "export", str(file), "--overwrite")
    assert not part.exists()
    assert admin.done("metadata", "import", str(file), "--dry-run", "-o", "json").json["records"] == len(
        contents(admin.url)
    )


@pytest.mark.parametrize(
    "end",
    [pytest.param(signal.SIGKILL, id="killed"), pytest.param(signal.SIGINT, id="interrupted", marks=pytest.mark.full)],
)
def test_import_goes_on_where_it_was_ended(end: signal.Signals, admin: Admin, file: Path, tmp_path: Path) -> None:
    fill(admin.url, 1_000)
    admin.done("metadata", "export", str(file))
    target = Admin(tmp_path, f"sqlite://{tmp_path}/target.db")
    target.done("metadata", "format")
    process = target.start("metadata", "import", str(file))
    wait_until(lambda: target.count("subscriptions"), "the import has begun")
    process.send_signal(end)
    _, said = process.communicate(timeout=DEADLINE_S)
    assert process.returncode in (-signal.SIGKILL, ExitCode.INTERRUPTED, 0)
    if process.returncode == ExitCode.INTERRUPTED:
        assert b"give the same command again" in said
    ran = target.done("metadata", "import", str(file), "-o", "json").json
    assert ran["created"] + ran["equal"] == ran["records"]
    assert ran["equal"] > 0
    assert contents(target.url) == contents(admin.url, owners=False)
