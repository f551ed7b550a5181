"""Prove that an ended bulk load continues where it stopped, and never claims more than it has done."""

import gzip
import json
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hedwig.exit_codes import ExitCode
from tests.cli.support.admin import Admin, wait_until

ROWS = 20_000


def _input(admin: Admin, rows: int = ROWS) -> Path:
    source = admin.directory / "input.tsv"
    source.write_text("".join(f"topic-{row}\n" for row in range(rows)))
    return source


def _lines(result: Path) -> list[dict[str, Any]]:
    """Return the whole lines of a result file; a running load may not have finished the last one."""
    if not result.exists():
        return []
    return [json.loads(line) for line in result.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def _checkpoints(result: Path) -> list[dict[str, Any]]:
    return [line["checkpoint"] for line in _lines(result) if "checkpoint" in line]


def _has_checkpoints(result: Path, number: int) -> bool:
    return len(_checkpoints(result)) >= number


def _ended(process: "subprocess.Popen[bytes]", number: signal.Signals) -> tuple[int, bytes]:
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert out == b""
    return process.returncode, err


# -------------------------------------------------------------------------------- killed, interrupted


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.full)],
    ids=lambda number: number.name,
)
def test_load_goes_on_after_a_signal(admin: Admin, number: signal.Signals) -> None:
    source, result = _input(admin), admin.directory / "result"
    command = ("topic", "create", "-f", str(source), "--result", str(result), "--batch-rows", "50")
    done = 0
    for wanted in (1, 40, 80):
        process = admin.start(*command)
        target = len(_checkpoints(result)) + wanted
        wait_until(partial(_has_checkpoints, result, target), f"{target} checkpoints")
        code, err = _ended(process, number)
        if number is signal.SIGINT:
            assert code == ExitCode.INTERRUPTED
            assert b"stopped after line" in err
            assert b"Traceback" not in err
        else:
            assert code == -number
        checkpoint = _checkpoints(result)[-1]
        assert done < checkpoint["line"] < ROWS
        done = checkpoint["line"]
        # The checkpoint is never ahead of the store, and at most the batches under way behind it.
        assert done <= admin.count("persistence") <= done + 50 * 5
    ran = admin.done(*command, "-o", "json")
    assert f"going on after line {done}" in ran.err
    assert (ran.json["rows"], ran.json["failed"], ran.json["resumed_after_line"]) == (ROWS, 0, done)
    assert ran.json["created"] + ran.json["existed"] == ROWS
    # Rows that were written but not yet recorded when the load ended count as existing. Ctrl-C waits until all are
    # recorded.
    assert ran.json["existed"] <= (0 if number is signal.SIGINT else 3 * 50 * 5)
    assert admin.count("persistence") == ROWS
    assert "done" in _lines(result)[-1]


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGKILL, marks=pytest.mark.full), signal.SIGINT], ids=lambda number: number.name
)
def test_load_from_a_pipe_goes_on_with_the_same_input(admin: Admin, number: signal.Signals) -> None:
    lines = [b"topic-%d\n" % row for row in range(1000)]
    result = admin.directory / "result"
    command = ("topic", "create", "-f", "-", "--result", str(result), "--batch-rows", "100", "--in-flight", "1")
    process = admin.start(*command)
    assert process.stdin is not None
    process.stdin.write(b"".join(lines[:550]))
    process.stdin.flush()
    wait_until(lambda: [each["line"] for each in _checkpoints(result)][-1:] == [500], "500 lines")
    # The load waits for more input now, which must not keep it from ending.
    code, _ = _ended(process, number)
    assert code in (ExitCode.INTERRUPTED, -signal.SIGKILL)
    ran = admin.run_apart(*command, "-o", "json", text=b"".join(lines))
    assert (ran.json["created"], ran.json["existed"], ran.json["resumed_after_line"]) == (1000, 0, 500)
    assert admin.count("persistence") == 1000


def test_two_loads_into_one_result_file_are_refused(admin: Admin) -> None:
    result = admin.directory / "result"
    command = ("topic", "create", "-f", "-", "--result", str(result))
    first = admin.start(*command)
    wait_until(lambda: _lines(result), "the first load to begin")
    second = admin.run_apart(*command, text=b"x\n")
    assert second.code == ExitCode.FAILED
    assert "another load" in second.err
    out, _ = first.communicate(b"topic\n", timeout=60)
    assert (first.returncode, out != b"") == (0, True)


# -------------------------------------------------------------------------------- what has changed since


@pytest.fixture
def stopped(admin: Admin) -> tuple[str, ...]:
    """The command of a load that was ended after 500 of 1,000 lines."""
    source, result = _input(admin, 1000), admin.directory / "result"
    # The last batch waits for input that never arrives, so the load stands at a known line.
    process = admin.start(
        "topic", "create", "-f", "-", "--result", str(result), "--batch-rows", "100", "--in-flight", "1"
    )
    assert process.stdin is not None
    process.stdin.write(b"".join(source.read_bytes().splitlines(keepends=True)[:550]))
    process.stdin.flush()
    wait_until(lambda: [each["line"] for each in _checkpoints(result)][-1:] == [500], "500 lines")
    _ended(process, signal.SIGKILL)
    return ("topic", "create", "-f", str(source), "--result", str(result))


def test_resumed_load_takes_the_rest_only(admin: Admin, stopped: tuple[str, ...]) -> None:
    ran = admin.done(*stopped, "-o", "json")
    assert (ran.json["created"], ran.json["existed"], ran.json["resumed_after_line"]) == (1000, 0, 500)


def test_same_lines_packed_with_gzip_are_the_same_input(admin: Admin, stopped: tuple[str, ...]) -> None:
    source = Path(stopped[3])
    source.write_bytes(gzip.compress(source.read_bytes()))
    assert admin.done(*stopped, "-o", "json").json["resumed_after_line"] == 500


def test_lines_that_were_added_are_loaded(admin: Admin, stopped: tuple[str, ...]) -> None:
    with Path(stopped[3]).open("a") as file:
        file.write("added\n")
    assert admin.done(*stopped, "-o", "json").json["created"] == 1001


@pytest.mark.parametrize("change", ["a line", "order", "cut short", "empty"])
def test_changed_input_is_refused(admin: Admin, stopped: tuple[str, ...], change: str) -> None:
    source = Path(stopped[3])
    lines = source.read_text().splitlines(keepends=True)
    changed = {
        "a line": [*lines[:100], "other-100\n", *lines[101:]],
        "order": [lines[1], lines[0], *lines[2:]],
        "cut short": lines[:499],
        "empty": [],
    }[change]
    source.write_text("".join(changed))
    before = Path(stopped[5]).read_bytes()
    ran = admin.run(*stopped)
    assert ran.code == ExitCode.FAILED
    assert f"the first 500 lines of {source} changed since the load" in ran.err
    assert "put them back, or begin anew with --restart" in ran.err
    # The refused attempt loses nothing.
    assert Path(stopped[5]).read_bytes() == before
    assert admin.count("persistence") == 500
    source.write_text("".join(lines))
    assert admin.done(*stopped, "-o", "json").json["created"] == 1000


def test_restart_begins_anew(admin: Admin, stopped: tuple[str, ...]) -> None:
    Path(stopped[3]).write_text("other\n")
    assert admin.done(*stopped, "--restart", "-o", "json").json["created"] == 1
    assert admin.count("persistence") == 501


def test_store_that_was_emptied_meanwhile_does_not_pass_for_loaded(admin: Admin, stopped: tuple[str, ...]) -> None:
    admin.done("metadata", "format", "--wipe", "--yes")
    ran = admin.run(*stopped)
    assert ran.code == ExitCode.FAILED
    assert "the store has no such record any more" in ran.err
    assert admin.done(*stopped, "--restart", "-o", "json").json["created"] == 1000


def test_result_file_of_another_load_is_refused(admin: Admin, stopped: tuple[str, ...], tmp_path: Path) -> None:
    other_store = admin.run(*stopped, "--metadata", f"sqlite://{tmp_path}/other.db")
    assert (other_store.code, "belongs to another load" in other_store.err) == (1, True)
    other_command = admin.run("subscription", *stopped[1:])
    assert (other_command.code, "belongs to another load" in other_command.err) == (1, True)
    poem = tmp_path / "poem"
    poem.write_text("no result file\n")
    no_result = admin.run(*stopped[:-1], str(poem))
    assert (no_result.code, "is no result file" in no_result.err) == (1, True)
    assert poem.read_text() == "no result file\n"
    assert admin.done(*stopped, "-o", "json").json["created"] == 1000


def test_other_preferences_are_another_load(admin: Admin) -> None:
    result = admin.directory / "result"
    command = ("subscription", "create", "-f", "-", "--result", str(result), "--batch-rows", "1")
    process = admin.start(*command, "--message-bound", "5")
    assert process.stdin is not None
    process.stdin.write(b"news\ta\nnews\tb\n")
    process.stdin.flush()
    wait_until(lambda: _checkpoints(result), "a row")
    _ended(process, signal.SIGINT)
    ran = admin.run_apart(*command, "--message-bound", "6", text=b"news\ta\nnews\tb\n")
    assert (ran.code, "message_bound" in ran.err) == (1, True)
    assert admin.run_apart(*command, "--message-bound", "5", text=b"news\ta\nnews\tb\n").code == 0


# -------------------------------------------------------------------------------- damaged and cut


def test_input_that_was_cut_short_stops_the_load_where_it_ends(admin: Admin) -> None:
    source = admin.directory / "input.gz"
    whole = gzip.compress(_input(admin).read_bytes())
    source.write_bytes(whole[: len(whole) // 2])
    ran = admin.run("topic", "create", "-f", str(source))
    assert ran.code == ExitCode.FAILED
    assert "damaged or cut short" in ran.err
    assert 0 < admin.count("persistence") < ROWS
    source.write_bytes(whole)
    summary = admin.done("topic", "create", "-f", str(source), "-o", "json").json
    assert (summary["created"], summary["existed"]) == (ROWS, 0)
    assert summary["resumed_after_line"] > 0


def test_store_that_stops_answering_stops_the_load(admin: Admin) -> None:
    # Enough rows that the load is still running when this test takes the lock, for which two processes contend.
    rows = 3 * ROWS
    source, result = _input(admin, rows), admin.directory / "result"
    command = ("topic", "create", "-f", str(source), "--result", str(result), "--batch-rows", "50")
    process = admin.start(*command, "--timeout", "3")
    wait_until(lambda: _checkpoints(result), "a checkpoint")
    with admin.locked():
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (ExitCode.UNAVAILABLE, b"")
    assert b"stopped after line" in err
    ran = admin.done(*command, "-o", "json")
    assert (ran.json["created"], ran.json["existed"], ran.json["failed"]) == (rows, 0, 0)


def test_load_that_never_began_leaves_no_result_file(admin: Admin) -> None:
    source = _input(admin, 10)
    assert admin.run("topic", "create", "-f", str(source), "--metadata", "tape:///x").code == ExitCode.USAGE
    assert [path.name for path in admin.directory.glob("*result*")] == []


@pytest.mark.parametrize(
    ("result", "reason"), [("no/such/result", "No such file or directory"), ("/dev/full", "is no regular file")]
)
def test_result_file_that_cannot_be_used_is_one_clear_line(admin: Admin, result: str, reason: str) -> None:
    ran = admin.run("topic", "create", "-f", str(_input(admin, 10)), "--result", str(admin.directory / result))
    assert ran.code == ExitCode.FAILED
    assert reason in ran.err
    assert len(ran.err.splitlines()) == 1


def test_result_file_is_told_from_a_large_file_without_reading_it(admin: Admin) -> None:
    large = admin.directory / "large"
    with large.open("wb") as file:
        file.truncate(10 << 30)
    ran = admin.run("topic", "create", "-f", str(_input(admin, 10)), "--result", str(large))
    assert (ran.code, "is no result file" in ran.err) == (ExitCode.FAILED, True)
