"""Prove the conventions that all commands keep: exit codes, one-line errors, streams, shared options, examples."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hedwig import errors
from hedwig.errors import OperationError, exit_code_of
from hedwig.exit_codes import ExitCode
from hedwig.model import HubInfo, LedgerRanges
from hedwig.operations.errors import explain
from hedwig.versions import Version, Versioned
from tests.cli.support.admin import Admin
from tests.cli.support.command_tree import EVERY_COMMAND, ON_THE_STORE, example_of, leaves, prepare
from tests.cli.support.screen import shown_on_terminal


@pytest.mark.parametrize("path", EVERY_COMMAND, ids=" ".join)
def test_help_ends_with_an_example_of_the_command(path: tuple[str, ...], admin: Admin) -> None:
    ran = admin.done(*path, "--help")
    last = ran.out.rstrip().split("\n\n")[-1].strip()
    assert last.startswith(f"Example: hedwig-admin {' '.join(path)}".rstrip())


@pytest.mark.parametrize("path", EVERY_COMMAND, ids=" ".join)
def test_options_fit_into_80_columns(path: tuple[str, ...], admin: Admin) -> None:
    lines = admin.done(*path, "--help").out.splitlines()
    # Examples are lines to copy, and those of completion name long paths.
    assert [line for line in lines if len(line) > 80 and "hedwig-admin" not in line] == []


@pytest.mark.parametrize("path", ON_THE_STORE, ids=" ".join)
def test_example_runs(path: tuple[str, ...], admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(admin.directory)
    prepare(admin, path)
    ran = admin.done(*example_of(path))
    assert ran.out or "would repair: nothing" in ran.err


@pytest.mark.parametrize("path", leaves(EVERY_COMMAND))
def test_every_command_takes_the_shared_options(path: tuple[str, ...]) -> None:
    options = {option for parameter in EVERY_COMMAND[path].params for option in parameter.opts}
    assert {"--metadata", "--context", "--timeout", "-o", "--columns", "--no-header", "--debug"} <= options


def test_options_work_before_and_after_the_command(admin: Admin) -> None:
    admin.done("topic", "create", "news")
    after = admin.run("topic", "list", "--metadata", admin.url, "-o", "ndjson", HEDWIG_METADATA="")
    before = admin.run("--metadata", admin.url, "-o", "ndjson", "topic", "list", HEDWIG_METADATA="")
    assert after.rows == before.rows == [{"topic": "news"}]
    last_counts = admin.run(
        "--metadata", "nonsense", "-o", "table", "topic", "list", "--metadata", admin.url, "-o", "json"
    )
    assert last_counts.json["topics"] == [{"topic": "news"}]


@pytest.mark.parametrize("path", [path for path in EVERY_COMMAND if path not in leaves(EVERY_COMMAND)], ids=" ".join)
def test_every_group_takes_the_shared_options_between_itself_and_its_command(path: tuple[str, ...]) -> None:
    options = {option for parameter in EVERY_COMMAND[path].params for option in parameter.opts}
    assert {"--metadata", "--context", "--timeout", "-o", "--columns", "--no-header", "--debug"} <= options


def test_options_work_behind_a_group_too_and_the_last_counts(admin: Admin) -> None:
    admin.done("topic", "create", "news")
    between = admin.run("topic", "--metadata", admin.url, "-o", "ndjson", "list", HEDWIG_METADATA="")
    assert between.rows == [{"topic": "news"}]
    words = ("-o", "yaml", "topic", "-o", "csv", "list", "--no-header")
    assert admin.done(*words).out == "news\n"
    assert admin.done("config", "context", "-o", "json", "list").json == {"contexts": [], "next_page_token": None}


def test_environment_chooses_store_and_format_and_options_override_it(admin: Admin, tmp_path: Path) -> None:
    other = f"sqlite://{tmp_path}/other.db"
    admin.done("topic", "create", "here")
    admin.done("topic", "create", "there", "--metadata", other)
    assert admin.run("topic", "list", HEDWIG_METADATA=other, HEDWIG_OUTPUT="ndjson").rows == [{"topic": "there"}]
    ran = admin.run(
        "topic", "list", "--metadata", admin.url, "-o", "json", HEDWIG_METADATA=other, HEDWIG_OUTPUT="ndjson"
    )
    assert ran.json["topics"] == [{"topic": "here"}]
    assert admin.run("topic", "list", HEDWIG_OUTPUT="xml").code == ExitCode.USAGE
    assert admin.run("topic", "list", HEDWIG_TIMEOUT="soon").code == ExitCode.USAGE


def test_default_store_is_a_file_in_the_users_data_directory(admin: Admin) -> None:
    assert admin.run("topic", "create", "news", HEDWIG_METADATA="").code == 0
    assert (admin.directory / "data" / "hedwig" / "metadata.db").is_file()
    # Its specification says that programs ignore a relative XDG_DATA_HOME.
    assert admin.run("topic", "create", "news", HEDWIG_METADATA="", XDG_DATA_HOME="relative").code == 0
    assert (admin.directory / ".local" / "share" / "hedwig" / "metadata.db").is_file()


def test_default_store_that_cannot_be_made_is_one_clear_line(admin: Admin) -> None:
    (admin.directory / "data").write_text("in the way")
    ran = admin.run("topic", "list", HEDWIG_METADATA="")
    assert ran.code == ExitCode.FAILED
    assert len(ran.err.splitlines()) == 1
    assert "--metadata URL" in ran.err


# ----------------------------------------------------------------------------------------------------------- exit codes

V = Version(b"s" + bytes(25))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UncertainStateError("x"), 5),
        (errors.MetadataUnavailableError("x"), 6),
        (errors.BadVersionError("x"), 4),
        (errors.TopicOwnerInfoExistsError("x"), 4),
        (errors.TopicPersistenceInfoExistsError("x"), 4),
        (errors.SubscriptionStateExistsError("x"), 4),
        (errors.NoTopicOwnerInfoError("x"), 3),
        (errors.NoTopicPersistenceInfoError("x"), 3),
        (errors.NoSubscriptionStateError("x"), 3),
        (errors.NameLimitError("x"), 2),
        (errors.ConfigurationError("x"), 2),
        (errors.LayoutMissingError("x"), 1),
        (errors.LayoutMismatchError("x"), 1),
        (errors.CorruptRecordError("x"), 1),
        (OperationError("x", ExitCode.NOT_FOUND), 3),
        (RuntimeError("x"), 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_exit_code_says_the_kind_of_error(error: Exception, code: int) -> None:
    assert exit_code_of(error) == code


def test_lost_race_shows_current_value_and_version() -> None:
    stale = errors.BadVersionError(
        "the owner record of topic 'news' is at version X", Versioned(HubInfo(host="h", port=1), V)
    )
    line = explain(stale, "sqlite://")
    assert "owner h:1 of epoch 0" in line
    assert "version X" in line
    assert "0 ledgers" in explain(errors.BadVersionError("x", Versioned(LedgerRanges(), V)), "sqlite://")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("topic", "show", "no-such"), 3, ["no-such", "hedwig-admin topic list"]),
        (("topic", "create", "news"), 4, ["'news'", "--if-not-exists", "version"]),
        (("subscription", "create", "news", "reader"), 4, ["'reader'", "--if-not-exists"]),
        (("subscription", "show", "news", "nobody"), 3, ["nobody", "hedwig-admin subscription list"]),
        (("subscription", "list", "no-such"), 3, ["no-such", "hedwig-admin topic list"]),
        (("topic", "delete", "news"), 1, ["1 subscription", "--force"]),
        (("topic", "delete", "no-such"), 3, ["no-such"]),
        (("topic", "delete", "news", "--expected-version", str(V)), 4, ["version", "0 ledgers"]),
        (("topic", "create"), 2, ["NAME", "-f FILE"]),
        (("topic", "create", "a", "-f", "-"), 2, ["NAME", "-f FILE"]),
        (("topic", "create", "a", "--restart"), 2, ["--restart", "-f"]),
        (("topic", "create", ""), 2, ["1 to 8192 bytes"]),
        (("topic", "create", "a\\b"), 2, ["backslash"]),
        (("topic", "create", "x" * 8193), 2, ["1 to 8192 bytes"]),
        (("topic", "delete", "news", "--expected-version", "!"), 2, ["'!'", "version"]),
        (("topic", "list", "--page-token", "AAAA"), 2, ["AAAA", "page token"]),
        (("message", "peek", "news", "--page-token", "X"), 2, ["'--page-token'", "'X' is not a whole number"]),
        (("message", "peek", "news", "--from", "3", "--page-token", "5"), 2, ["--from or --page-token"]),
        (("topic", "stats", "news", "--over", "soon"), 2, ["'soon' is not a number"]),
        (("topic", "create", "a\\b"), 2, ["value for 'NAME'"]),
        (("topic", "show"), 2, ["argument 'NAME'"]),
        (("subscription", "lag", "news", "reader", "--prefix", "z"), 2, ["SUBSCRIBER or the options of a listing"]),
        (("subscription", "lag", "news", "reader", "--all"), 2, ["SUBSCRIBER or the options of a listing"]),
        (("topic", "list", "--all", "--limit", "3"), 2, ["--limit or --all"]),
        (("topic", "list", "--columns", "topic,colour"), 2, ["colour", "owner"]),
        (("topic", "show", "news", "--columns", "colour"), 2, ["colour", "owner"]),
        (("subscription", "create", "news"), 2, ["TOPIC and SUBSCRIBER"]),
        (("subscription", "create", "news", "x", "--option", "k"), 2, ["KEY=VALUE"]),
        (("metadata", "format", "--dry-run"), 2, ["--wipe"]),
        (("metadata", "stats", "--metadata", "nonsense"), 2, ["nonsense", "sqlite:///"]),
        (("metadata", "stats", "--metadata", "tape:///x"), 2, ["tape", "sqlite"]),
        (("metadata", "stats", "--metadata", "sqlite:///no/such/directory/file"), 2, ["/no/such/directory"]),
        (("metadata", "stats", "--metadata", "zookeeper://127.0.0.1:1/hedwig/x", "--timeout", "1"), 6, ["127.0.0.1:1"]),
        (("metadata", "stats", "--metadata", "hbase+thrift://127.0.0.1:1/x", "--timeout", "1"), 6, ["127.0.0.1:1"]),
        (("metadata", "stats", "--metadata", "hbase://127.0.0.1:1/x", "--timeout", "1"), 6, ["Connection refused"]),
        (("metadata", "stats", "--metadata", "hbase+thrift://127.0.0.1:1/x", "--timeout", "1"), 6, ["refused"]),
        (("publish", "news", "x", "--hub", "127.0.0.1:1"), 6, ["127.0.0.1:1: Connection refused", "--hub"]),
        (("hub", "show", "--admin", "127.0.0.1:1"), 6, ["127.0.0.1:1", "Connection refused"]),
        (("topic", "frobnicate"), 2, ["frobnicate", "--help"]),
        (("topic", "list", "--frobnicate"), 2, ["--frobnicate", "topic list --help"]),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else "",
)
def test_error_is_one_line_on_standard_error(
    admin: Admin, arguments: tuple[str, ...], code: int, words: list[str]
) -> None:
    admin.done("topic", "create", "news")
    admin.done("subscription", "create", "news", "reader")
    ran = admin.run(*arguments)
    assert (ran.code, ran.out) == (code, "")
    assert len(ran.err.splitlines()) == 1, ran.err
    assert ran.err.startswith("error: ")
    assert "Errno" not in ran.err
    for word in words:
        assert word in ran.err


def test_store_that_another_program_holds_is_unavailable(admin: Admin) -> None:
    admin.done("topic", "create", "news")
    with admin.locked():
        ran = admin.run("topic", "create", "weather", "--timeout", "0.5")
    assert ran.code == ExitCode.UNAVAILABLE
    assert "--timeout" in ran.err
    assert admin.count("persistence") == 1


def test_file_of_somebody_else_is_refused(admin: Admin, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database at all, but long enough to be looked at as one" * 100)
    ran = admin.run("topic", "list", "--metadata", f"sqlite://{tmp_path}/text")
    assert ran.code == ExitCode.FAILED
    assert "not a SQLite database" in ran.err


def test_bug_is_no_users_mistake_and_shows_its_traceback_on_request(admin: Admin) -> None:
    bug = (
        "import hedwig.cli.commands.topic.group as t; t.read_topic = lambda *_: 1 / 0; "
        "from hedwig.cli.main import main; main()"
    )
    program = (sys.executable, "-c", bug)
    admin.done("metadata", "format")
    ran = admin.run_apart("topic", "show", "news", program=program)
    assert ran.code == ExitCode.FAILED
    assert ran.err.startswith("error: this is a bug in hedwig-admin: topic show: ZeroDivisionError")
    assert "run with --debug" in ran.err
    assert "Traceback" not in ran.err
    assert "Traceback" in admin.run_apart("topic", "show", "news", "--debug", program=program).err


# -------------------------------------------------------------------------------------------------- signals and streams


def test_ctrl_c_ends_a_question_cleanly(admin: Admin) -> None:
    admin.done("topic", "create", "news")
    process = admin.start("topic", "delete", "news")
    assert process.stderr is not None
    asked = b""
    while b"[y/N]" not in asked:
        byte = process.stderr.read(1)
        assert byte, asked
        asked += byte
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (ExitCode.INTERRUPTED, b"")
    assert b"Traceback" not in err
    assert admin.count("persistence") == 1


_SLOW_TO_LOAD = """
import os, sys, time

class SlowFinder:
    def find_spec(self, name, path, target=None):
        if name == os.environ["SLOW_MODULE"]:
            os.write(2, b"loading\\n")
            time.sleep(60)

sys.meta_path.insert(0, SlowFinder())
"""
"""Python runs this at its start: one module takes long to load, as from a cold disk."""


@pytest.mark.parametrize(
    "module", ["click", "hedwig.cli.program", "hedwig.cli.commands.topic.group", "hedwig.metadata"]
)
@pytest.mark.parametrize("is_caught", [True, False])
def test_ctrl_c_ends_a_command_that_is_being_loaded_cleanly(admin: Admin, module: str, is_caught: bool) -> None:
    slow = admin.directory / "slow"
    slow.mkdir()
    (slow / "sitecustomize.py").write_text(_SLOW_TO_LOAD)
    program = (sys.executable, Path(sys.executable).with_name("hedwig-admin"), "topic", "list")
    environment = admin.whole_environment(SLOW_MODULE=module)
    environment["PYTHONPATH"] = f"{slow}:{environment['PYTHONPATH']}"
    process = subprocess.Popen(
        # Like processes that a script starts in the background, which ignore Ctrl-C.
        program if is_caught else ("sh", "-c", 'trap "" INT; exec "$@"', "sh", *program),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=admin.directory,
        env=environment,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == b"loading\n"
    process.send_signal(signal.SIGINT)
    if not is_caught:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.kill()
    out, err = process.communicate(timeout=60)
    if is_caught:
        assert (process.returncode, out, err) == (ExitCode.INTERRUPTED, b"", b"interrupted\n")


def test_closed_pipe_is_quiet(admin: Admin) -> None:
    admin.insert_topics(50_000)
    process = admin.start("topic", "list", "--all")
    assert process.stdout is not None
    assert process.stdout.readline() == b"TOPIC\n"
    process.stdout.close()
    assert process.wait(60) == ExitCode.PIPE_CLOSED
    assert process.stderr is not None
    assert process.stderr.read() == b""
    for stream in (process.stderr, process.stdin):
        assert stream is not None
        stream.close()


def test_terminal_gets_lines_that_fit_and_a_pipe_gets_whole_names(admin: Admin) -> None:
    name = "a-name-that-is-longer-than-any-terminal-" * 6
    admin.done("topic", "create", name)
    assert admin.done("topic", "list", "--columns", "topic,version").out.split()[2] == name
    lines = shown_on_terminal(admin, "topic", "list").replace("\x1b[1m", "").replace("\x1b[0m", "").split()
    assert [len(line) for line in lines] == [5, 80]
    assert lines[1] == name[:79] + "…"


def test_terminal_of_another_encoding_gets_escapes_instead_of_a_crash(admin: Admin) -> None:
    admin.done("topic", "create", "grüße")
    ran = admin.run_apart("topic", "list", PYTHONIOENCODING="ascii")
    assert (ran.code, ran.out) == (0, "TOPIC\ngr\\xfc\\xdfe\n")
