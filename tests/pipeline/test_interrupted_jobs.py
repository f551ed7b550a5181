"""Jobs in processes of their own: a signal deletes what is half done, and the jobs obey settings of Spark."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

import hedwig.pipeline
from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataStore, RecordKey, Write
from hedwig.model import HubInfo, LedgerRanges, Topic
from hedwig.pipeline.frames.tables import Table
from hedwig.versions import NEW
from tests.pipeline.support.stores import new_store, records, with_store

START_S = 120.0
TOPICS = 3000

pytestmark = pytest.mark.full


def _filled(folder: Path) -> str:
    url = new_store(folder, "filled")

    async def fill(store: MetadataStore) -> None:
        writes = [Write(RecordKey(Topic(b"topic-%05d" % number)), LedgerRanges(), NEW) for number in range(TOPICS)]
        for outcome in await store.persistence.apply(writes):
            outcome.check()
        await store.ownership.write(Topic(b"topic-00000"), HubInfo(host="h", port=1), NEW)

    with_store(url, fill)
    return url


def _start(*arguments: object, temporary: Path | None = None) -> "subprocess.Popen[str]":
    how = ("--master", "local[1]", "--conf", "spark.driver.memory=512m")
    words = [sys.executable, "-m", "hedwig.pipeline", *map(str, arguments), *how]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY")}
    if temporary is not None:
        environment["TMPDIR"] = str(temporary)
    # A session of its own: the end of a test run does not signal the jobs. Only the test ends them, not half way.
    return subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def _has_files_of_tasks(snapshot: Path) -> bool:
    return bool(list(snapshot.glob("ledgers/_temporary/0/task*")))


def test_a_signal_in_the_middle_of_a_snapshot_takes_it_away(tmp_path: Path) -> None:
    store = _filled(tmp_path)
    # One task for every few rows, so that there is a middle.
    how = ("--rows-per-partition", 5)
    folders = {number: tmp_path / number.name for number in (signal.SIGINT, signal.SIGTERM)}
    jobs = {number: _start("snapshot", store, folder, *how) for number, folder in folders.items()}
    try:
        deadline = time.monotonic() + START_S
        for number, job in jobs.items():
            while not _has_files_of_tasks(folders[number]):
                assert job.poll() is None, job.communicate()[1]
                assert time.monotonic() < deadline, "no task has written anything"
                time.sleep(0.05)
            job.send_signal(number)
        for number, job in jobs.items():
            _, err = job.communicate(timeout=START_S)
            assert job.returncode == 128 + number, err
            assert "interrupted; to go on, run the same job again" in err
            assert "Traceback" not in err
            assert not folders[number].exists(), err
    finally:
        for job in jobs.values():
            job.kill()


def test_what_kill_9_leaves_of_a_snapshot_is_nothing_to_anybody(tmp_path: Path) -> None:
    store, folder, target = _filled(tmp_path), tmp_path / "taken", new_store(tmp_path, "target")
    job = _start("snapshot", store, folder, "--rows-per-partition", 5)
    _kill_9_once(job, partial(_has_files_of_tasks, folder), "no task has written anything")
    assert list(folder.iterdir())
    for others, code, words in (
        (("restore", folder, target), ExitCode.NOT_FOUND, "no whole snapshot"),
        (("load", target, "--from", folder), ExitCode.FAILED, "a snapshot that was not finished"),
        (("snapshot", store, folder), ExitCode.USAGE, "or one that made it was killed"),
    ):
        other = _start(*others)
        _, err = other.communicate(timeout=START_S)
        assert (other.returncode, words in err) == (code, True), err
    assert records(target, Table.TOPICS) == {}


def _kill_9_once(job: "subprocess.Popen[str]", is_so: Callable[[], bool], what: str) -> None:
    """Kill a job, with the virtual machine that it started, once the condition holds."""
    try:
        _wait_until(job, is_so, what)
    finally:
        _kill_all_of(job)


def _wait_until(job: "subprocess.Popen[str]", is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + START_S
    while not is_so():
        assert job.poll() is None, job.communicate()[1]
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def _kill_all_of(job: "subprocess.Popen[str]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(job.pid, signal.SIGKILL)
    job.communicate()


def test_a_job_whose_virtual_machine_was_killed_says_so_in_a_line(tmp_path: Path) -> None:
    """A machine that is short of memory kills the largest process in the same way."""
    folder = tmp_path / "half"
    job = _start("snapshot", _filled(tmp_path), folder, "--rows-per-partition", 5)
    try:
        _wait_until(job, partial(_has_files_of_tasks, folder), "no task has written anything")
        os.kill(_virtual_machine_of(job.pid), signal.SIGKILL)
        _, err = job.communicate(timeout=START_S)
    finally:
        _kill_all_of(job)
    assert job.returncode == ExitCode.FAILED, err
    # PySpark's accumulator server may print a traceback of its own connection.
    assert f"{Path(hedwig.pipeline.__file__).parent}{os.sep}" not in err, "no traceback of ours"
    *_, warned, last = err.splitlines()
    assert warned.startswith(f"warning: {folder} is not whole and could not be deleted, remove it: ")
    assert last.startswith("error: Spark's Java process has ended: it was killed, ")
    assert last.endswith(" run the same job again")


def test_ctrl_c_that_ends_the_virtual_machine_too_is_ctrl_c(tmp_path: Path) -> None:
    """Under spark-submit a terminal sends Ctrl-C to both processes; the virtual machine ends at once."""
    folder = tmp_path / "half"
    job = _start("snapshot", _filled(tmp_path), folder, "--rows-per-partition", 5)
    try:
        _wait_until(job, partial(_has_files_of_tasks, folder), "no task has written anything")
        os.kill(_virtual_machine_of(job.pid), signal.SIGKILL)
        job.send_signal(signal.SIGINT)
        _, err = job.communicate(timeout=START_S)
    finally:
        _kill_all_of(job)
    assert job.returncode == ExitCode.INTERRUPTED, err
    assert f"{Path(hedwig.pipeline.__file__).parent}{os.sep}" not in err, "no traceback of ours"
    assert f"warning: {folder} is not whole and could not be deleted, remove it: " in err
    assert err.endswith("interrupted; to go on, run the same job again\n")


def _virtual_machine_of(job: int) -> int:
    children = map(int, Path(f"/proc/{job}/task/{job}/children").read_text().split())
    (java,) = (child for child in children if Path(f"/proc/{child}/comm").read_text() == "java\n")
    return java


@pytest.mark.parametrize("keeps", [True, False], ids=["with its snapshot", "without it"])
def test_a_migration_that_was_killed_as_it_wrote_is_ended_by_the_next(tmp_path: Path, keeps: bool) -> None:
    store, target = _filled(tmp_path), new_store(tmp_path, "target")
    way = ("--through", tmp_path / "through") if keeps else ()
    words = ("migrate", store, target, *way)
    slowly = ("--batch-rows", 1, "--connections", 1)
    job = _start(*words, *slowly, temporary=tmp_path)
    _kill_9_once(job, lambda: len(records(target, Table.TOPICS)) > TOPICS // 10, "nothing was ever written")
    before = records(target, Table.TOPICS)
    assert len(before) < TOPICS, "it was killed in the middle"
    out, err = (again := _start(*words, "--json", temporary=tmp_path)).communicate(timeout=START_S)
    assert again.returncode == 0, out + err
    result = json.loads(out)
    counts = result["tables"]["ledgers"]
    assert (counts["same"], counts["created"]) == (len(before), TOPICS - len(before))
    assert result["verified"]
    goes_on = [warning for warning in result["warnings"] if warning.startswith("this goes on with")]
    assert len(goes_on) == keeps
    after = records(target, Table.TOPICS)
    assert set(after) == set(records(store, Table.TOPICS))
    assert {key: after[key] for key in before} == before, "no row is written twice"


def test_a_migration_that_was_killed_as_it_read_has_written_nothing(tmp_path: Path) -> None:
    store, target, through = _filled(tmp_path), new_store(tmp_path, "target"), tmp_path / "through"
    words = ("migrate", store, target, "--through", through)
    slowly = ("--rows-per-partition", 5)
    _kill_9_once(_start(*words, *slowly), partial(_has_files_of_tasks, through), "no task has written anything")
    assert records(target, Table.TOPICS) == {}
    again = _start(*words)
    _, err = again.communicate(timeout=START_S)
    assert (again.returncode, "or one that made it was killed" in err) == (ExitCode.USAGE, True), err
    shutil.rmtree(through)
    again = _start(*words)
    _, err = again.communicate(timeout=START_S)
    assert again.returncode == 0, err
    assert set(records(target, Table.TOPICS)) == set(records(store, Table.TOPICS))


def test_a_signal_in_the_middle_of_a_comparison_takes_its_folder_away(tmp_path: Path) -> None:
    folder = tmp_path / "differences"
    job = _start("diff", _filled(tmp_path), new_store(tmp_path), "--into", folder)
    try:
        deadline = time.monotonic() + START_S
        while not (folder / "ledgers").exists():
            assert job.poll() is None, job.communicate()[1]
            assert time.monotonic() < deadline, "no table was ever compared"
            time.sleep(0.05)
        job.send_signal(signal.SIGINT)
        _, err = job.communicate(timeout=START_S)
        assert job.returncode == ExitCode.INTERRUPTED, err
        assert "interrupted; to go on, run the same job again" in err
        assert not folder.exists(), err
    finally:
        job.kill()


def test_speculation_is_warned_of_where_the_result_is(tmp_path: Path) -> None:
    how = ("--topics", 1, "--subscriptions", 0, "--conf", "spark.speculation=true", "--json")
    out, err = _start("generate", tmp_path / "made", *how).communicate(timeout=START_S)
    (warning,) = json.loads(out)["warnings"]
    assert warning.startswith("spark.speculation is on")
    assert "speculation" not in err


def test_speculation_of_the_session_refuses_overwriting(tmp_path: Path) -> None:
    (tmp_path / "topics.tsv").write_text("a\n")
    (tmp_path / "subscriptions.tsv").write_text("a\tme\n")
    store = new_store(tmp_path)
    files = ("--topics", tmp_path / "topics.tsv", "--subscriptions", tmp_path / "subscriptions.tsv")
    how = ("--policy", "overwrite", "--hubs-stopped", "--conf", "spark.speculation=true")
    job = _start("load", store, *files, *how)
    _, err = job.communicate(timeout=START_S)
    assert job.returncode == ExitCode.USAGE, err
    assert "needs a session without speculation" in err
    assert records(store, Table.TOPICS) == records(store, Table.SUBSCRIPTIONS) == {}
