"""Prove that a user without permission gets one line that names whom to ask, exit code 1, and nothing half done."""

import os
import shutil
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl, make_digest_acl

from hedwig.exit_codes import ExitCode
from hedwig.operations.checks.verdicts import CheckExit
from tests.cli.support.admin import DEADLINE_S, Admin, Ran
from tests.support.servers import RunningServers

_PROGRAM: Final = (sys.executable, "-c", "from hedwig.cli.main import main; main()")
_KEEPER: Final = ("keeper", "secret")


def _run_as_anybody(admin: Admin, *arguments: str, **environment: str) -> Ran:
    """Run a command that obeys the permissions of files: root drops the capabilities that override them."""
    tool = shutil.which("setpriv")
    assert os.geteuid() or tool, "setpriv, of util-linux, is missing"
    program = _PROGRAM if os.geteuid() else (tool or "", "--bounding-set=-dac_override,-dac_read_search", *_PROGRAM)
    return admin.run_apart(*arguments, text=b"", program=program, deadline_s=DEADLINE_S, **environment)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Admin]:
    """hedwig-admin on a store with a topic, in a read-only file, in a read-only directory."""
    directory = tmp_path / "kept"
    directory.mkdir()
    admin = Admin(tmp_path, f"sqlite://{directory}/store.db")
    admin.done("topic", "create", "news")
    (directory / "store.db").chmod(0o444)
    directory.chmod(0o555)
    yield admin
    directory.chmod(0o755)


def _check_refused(ran: Ran, *words: str) -> None:
    assert (ran.code, ran.out) == (ExitCode.FAILED, ""), ran
    (line,) = ran.err.splitlines()
    assert line.startswith("error: ")
    assert "Traceback" not in line
    assert "--timeout" not in line, "waiting does not help"
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    "arguments", [("topic", "create", "weather"), ("topic", "delete", "news", "--yes")], ids=" ".join
)
def test_directory_that_may_not_be_written_is_named(kept: Admin, arguments: tuple[str, ...]) -> None:
    _check_refused(_run_as_anybody(kept, *arguments), kept.url, "ask the owner of")
    assert [row["topic"] for row in kept.done("topic", "list", "-o", "ndjson").rows] == ["news"]


def test_file_that_may_only_be_read_is_read_and_not_written(kept: Admin) -> None:
    (kept.directory / "kept").chmod(0o755)
    assert _run_as_anybody(kept, "topic", "list").out == "TOPIC\nnews\n"
    _check_refused(_run_as_anybody(kept, "topic", "create", "weather"), "readonly", kept.url)
    assert kept.count("persistence") == 1


def _look(admin: Admin) -> None:
    """Run commands that look at a store with one topic, and check that they leave nothing behind."""
    directory = admin.directory / "kept"
    before = sorted(path.name for path in directory.iterdir())
    listed = _run_as_anybody(admin, "topic", "list")
    assert (listed.code, listed.out) == (0, "TOPIC\nnews\n"), listed
    for arguments in (
        ("metadata", "stats"),
        ("metadata", "check"),
        ("metadata", "describe"),
        ("metadata", "export", str(admin.directory / "it.gz"), "--overwrite"),
        ("topic", "show", "news"),
        ("metadata", "thaw", "--dry-run"),
    ):
        ran = _run_as_anybody(admin, *arguments)
        assert ran.code == 0, ran
    assert sorted(path.name for path in directory.iterdir()) == before


@pytest.mark.parametrize(
    ("file", "directory"),
    [(0o444, 0o555), *(pytest.param(*modes, marks=pytest.mark.full) for modes in ((0o444, 0o755), (0o644, 0o555)))],
)
def test_store_that_may_not_be_written_can_be_looked_at(kept: Admin, file: int, directory: int) -> None:
    (kept.directory / "kept" / "store.db").chmod(file)
    (kept.directory / "kept").chmod(directory)
    _look(kept)


def test_store_that_others_have_open_can_be_looked_at(kept: Admin) -> None:
    (kept.directory / "kept").chmod(0o755)
    with closing(sqlite3.connect(kept.url.removeprefix("sqlite://"), isolation_level=None)) as other:
        # These changes are in the log of the file, not yet in the file.
        other.execute("UPDATE persistence SET topic = CAST('olds' AS BLOB)")
        other.execute("UPDATE persistence SET topic = CAST('news' AS BLOB)")
        for path in (kept.directory / "kept").iterdir():
            path.chmod(0o444)
        (kept.directory / "kept").chmod(0o555)
        _look(kept)
        index = kept.directory / "kept" / "store.db-shm"
        index.chmod(0)
        _check_refused(_run_as_anybody(kept, "topic", "list"), f"{index}", "ask the owner of")


def test_health_of_a_store_that_may_not_be_written_fails_on_writing(kept: Admin) -> None:
    ran = _run_as_anybody(kept, "check", "health", "-o", "json")
    assert ran.code == CheckExit.CRITICAL
    verdicts = {row["check"]: row["verdict"] for row in ran.json["checks"]}
    assert (verdicts["store"], verdicts["compare-and-set"], verdicts["tables"]) == ("PASS", "FAIL", "PASS")


def test_file_that_may_not_be_read_says_so(kept: Admin) -> None:
    (kept.directory / "kept" / "store.db").chmod(0)
    _check_refused(_run_as_anybody(kept, "topic", "list"), "Permission denied", kept.url)


def test_file_that_cannot_be_made_says_where(kept: Admin) -> None:
    directory = kept.directory / "kept"
    ran = _run_as_anybody(kept, "topic", "create", "news", HEDWIG_METADATA=f"sqlite://{directory}/other.db")
    _check_refused(ran, f"cannot be made in {directory}")
    assert [path.name for path in directory.iterdir()] == ["store.db"]


def test_directory_in_place_of_a_file_says_so(admin: Admin, tmp_path: Path) -> None:
    _check_refused(admin.run("topic", "list", "--metadata", f"sqlite://{tmp_path}"), "Is a directory")


@pytest.mark.parametrize("closed", ["data", pytest.param("data/ledgers", marks=pytest.mark.full)])
def test_data_directory_that_may_not_be_read_leaves_a_check_undone(closed: str, admin: Admin, tmp_path: Path) -> None:
    admin.done("topic", "create", "news")
    ledgers = tmp_path / "data" / "ledgers"
    ledgers.mkdir(parents=True)
    (tmp_path / closed).chmod(0)
    try:
        for given, environment in ((("--data", f"{tmp_path}/data"), {}), ((), {"HEDWIG_DATA": f"{tmp_path}/data"})):
            ran = _run_as_anybody(admin, "metadata", "check", *given, **environment)
            assert (ran.code, ran.out) == (CheckExit.UNKNOWN, ""), ran
            (line,) = ran.err.splitlines()
            assert f"{tmp_path}/data" in line
            assert "denied" in line
            repaired = _run_as_anybody(admin, "metadata", "repair", *given, **environment)
            _check_refused(repaired, f"{tmp_path}/data")
    finally:
        (tmp_path / closed).chmod(0o755)


def test_export_and_contexts_say_which_file_may_not_be_written(kept: Admin) -> None:
    (kept.directory / "kept" / "store.db").chmod(0o644)
    directory = kept.directory / "kept"
    _check_refused(
        _run_as_anybody(kept, "metadata", "export", f"{directory}/it.gz", HEDWIG_METADATA="sqlite://"),
        f"{directory}/it.gz",
        "Permission denied",
    )
    ran = _run_as_anybody(kept, "config", "context", "save", "eu", "--hub", "a:1", XDG_CONFIG_HOME=str(directory))
    _check_refused(ran, str(directory), "Permission denied")


@pytest.mark.parametrize("is_below", [False, True], ids=["file", "directory"])
@pytest.mark.parametrize(
    "command",
    [
        ("publish", "news", "--file", "INPUT"),
        ("publish", "news", "x", "--tls-ca", "INPUT"),
        ("topic", "create", "-f", "INPUT"),
        ("subscription", "create", "-f", "INPUT"),
        ("metadata", "import", "INPUT"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_input_that_may_not_be_read_is_named_and_is_no_mistake_of_the_command_line(
    admin: Admin, command: tuple[str, ...], is_below: bool
) -> None:
    directory = admin.directory / "theirs"
    directory.mkdir()
    path = directory / "input"
    path.write_text("x")
    (directory if is_below else path).chmod(0)
    try:
        ran = _run_as_anybody(admin, *(str(path) if word == "INPUT" else word for word in command))
    finally:
        directory.chmod(0o755)
    _check_refused(ran, f"failed on the file {path}: Permission denied", "ask its owner for permission")
    mistaken = admin.run(*(str(directory / "nothing") if word == "INPUT" else word for word in command))
    assert (mistaken.code, "does not exist" in mistaken.err) == (ExitCode.USAGE, True)


def test_result_file_that_may_not_be_written_says_so(admin: Admin) -> None:
    (admin.directory / "names").write_text("news\n")
    result = admin.directory / "result"
    result.write_text("")
    result.chmod(0o444)
    ran = _run_as_anybody(admin, "topic", "create", "-f", str(admin.directory / "names"), "--result", str(result))
    _check_refused(ran, str(result), "Permission denied", "ask its owner for permission")


def test_contexts_and_servers_that_may_not_be_read_say_so(admin: Admin) -> None:
    file = admin.directory / "config" / "hedwig" / "admin.toml"
    file.parent.mkdir(parents=True)
    file.write_text("")
    file.chmod(0)
    _check_refused(
        _run_as_anybody(admin, "topic", "list"), str(file), "Permission denied", "ask its owner for permission"
    )
    file.unlink()
    state = admin.directory / "servers" / "state.json"
    state.parent.mkdir()
    state.write_text("{}")
    state.chmod(0)
    ran = _run_as_anybody(admin, "dev", "status", "--dir", str(state.parent))
    _check_refused(ran, f"cannot read {state}: Permission denied; ask its owner for permission")


def test_disk_is_not_to_blame_for_what_is_not_permitted(kept: Admin) -> None:
    (kept.directory / "kept" / "store.db").chmod(0o644)
    ran = _run_as_anybody(
        kept, "metadata", "export", f"{kept.directory}/kept/it.gz", HEDWIG_METADATA="sqlite://:memory:"
    )
    _check_refused(ran, "Permission denied; ask its owner for permission, or give another path")
    ran = kept.run("metadata", "export", f"{kept.directory}/nowhere/it.gz")
    _check_refused(ran, "No such file or directory; make its directory, or give another path")


@pytest.fixture
def acl(servers: RunningServers, tmp_path: Path) -> Iterator[tuple[Admin, KazooClient]]:
    """hedwig-admin on a store in ZooKeeper with a topic, and a client that may set the ACLs of its nodes."""
    address = servers.address("zookeeper")
    admin = Admin(tmp_path, f"zookeeper://{address}/hedwig/{uuid.uuid4().hex}")
    admin.done("metadata", "format")
    admin.done("topic", "create", "news")
    keeper = KazooClient(address, auth_data=[("digest", ":".join(_KEEPER))])
    keeper.start()
    try:
        yield admin, keeper
    finally:
        keeper.stop()
        keeper.close()


def _protect(admin: Admin, keeper: KazooClient, *, read: bool) -> None:
    entries = [make_digest_acl(*_KEEPER, all=True)]
    if read:
        entries.append(make_acl("world", "anyone", read=True))

    def protect(path: str) -> None:
        for name in keeper.get_children(path):
            protect(f"{path}/{name}")
        keeper.set_acls(path, entries)

    protect("/hedwig/" + admin.url.rpartition("/")[2])


def test_access_control_list_of_zookeeper_that_forbids_writing_is_named(acl: tuple[Admin, KazooClient]) -> None:
    admin, keeper = acl
    _protect(admin, keeper, read=True)
    assert admin.done("topic", "list").out == "TOPIC\nnews\n"
    for arguments in (("topic", "create", "weather"), ("topic", "delete", "news", "--yes")):
        _check_refused(admin.run(*arguments), "access control list", admin.url)
    assert admin.done("topic", "list").out == "TOPIC\nnews\n"


def test_access_control_list_of_zookeeper_that_forbids_reading_is_named(acl: tuple[Admin, KazooClient]) -> None:
    admin, keeper = acl
    _protect(admin, keeper, read=False)
    for arguments in (("topic", "list"), ("topic", "show", "news"), ("metadata", "stats")):
        _check_refused(admin.run(*arguments), "access control list", admin.url)


def test_setpriv_takes_what_lets_root_pass_permissions_by(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    path.chmod(0)
    code = f"open({str(path)!r})"
    tool = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if not os.geteuid() else ()
    ran = subprocess.run([*tool, sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    assert b"PermissionError" in ran.stderr
