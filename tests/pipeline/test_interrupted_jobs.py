"""Jobs in processes of their own: a signal in the middle takes away the half, and what is set for Spark is minded."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hedwig.exit_codes import ExitCode
from hedwig.model import HubInfo, LedgerRanges, Topic
from hedwig.versions import NEW
from metadata import MetadataStore, RecordKey, Write
from pipeline.tables import Table
from tests.pipeline.stores import new_store, records, with_store

START_S = 120.0
TOPICS = 3000

pytestmark = pytest.mark.full


def _filled(folder: Path) -> str:
    url = new_store(folder, "filled")

    async def fill(store: MetadataStore) -> None:
        writes = [Write(RecordKey(Topic(b"topic-%05d" % number)), LedgerRanges(), NEW) for number in range(TOPICS)]
        for outcome in await store.persistence.apply(writes):
            outcome.check()
        await store.ownership.write_owner_info(Topic(b"topic-00000"), HubInfo(host="h", port=1), NEW)

    with_store(url, fill)
    return url


def _start(*arguments: object) -> "subprocess.Popen[str]":
    how = ("--master", "local[1]", "--conf", "spark.driver.memory=512m")
    words = [sys.executable, "-m", "pipeline", *map(str, arguments), *how]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY")}
    # A session of its own: what ends a run of the tests ends these jobs by the test alone, and not half way.
    return subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def test_a_signal_in_the_middle_of_a_snapshot_takes_it_away(tmp_path: Path) -> None:
    store = _filled(tmp_path)
    # A task for each few rows, so that there is a middle.
    how = ("--rows-per-partition", 5)
    places = {number: tmp_path / number.name for number in (signal.SIGINT, signal.SIGTERM)}
    jobs = {number: _start("snapshot", store, place, *how) for number, place in places.items()}
    try:
        deadline = time.monotonic() + START_S
        for number, job in jobs.items():
            while not list(places[number].glob("ledgers/_temporary/0/task*")):
                assert job.poll() is None, job.communicate()[1]
                assert time.monotonic() < deadline, "no task has written anything"
                time.sleep(0.05)
            job.send_signal(number)
        for number, job in jobs.items():
            _, err = job.communicate(timeout=START_S)
            assert job.returncode == 128 + number, err
            assert "interrupted; to go on, run the same job again" in err
            assert "Traceback" not in err
            assert not places[number].exists(), err
    finally:
        for job in jobs.values():
            job.kill()


def test_what_kill_9_leaves_of_a_snapshot_is_nothing_to_anybody(tmp_path: Path) -> None:
    store, place, target = _filled(tmp_path), tmp_path / "taken", new_store(tmp_path, "target")
    job = _start("snapshot", store, place, "--rows-per-partition", 5)
    try:
        deadline = time.monotonic() + START_S
        while not list(place.glob("ledgers/_temporary/0/task*")):
            assert job.poll() is None, job.communicate()[1]
            assert time.monotonic() < deadline, "no task has written anything"
            time.sleep(0.05)
    finally:
        # With the virtual machine that it has started.
        os.killpg(job.pid, signal.SIGKILL)
        job.communicate()
    assert list(place.iterdir())
    for others, code, words in (
        (("restore", place, target), ExitCode.NOT_FOUND, "no whole snapshot"),
        (("load", target, "--from", place), ExitCode.FAILED, "a snapshot that was not finished"),
        (("snapshot", store, place), ExitCode.USAGE, "or one that made it was killed"),
    ):
        other = _start(*others)
        _, err = other.communicate(timeout=START_S)
        assert (other.returncode, words in err) == (code, True), err
    assert records(target, Table.TOPICS) == {}


def test_a_signal_in_the_middle_of_a_comparison_takes_its_folder_away(tmp_path: Path) -> None:
    place = tmp_path / "differences"
    job = _start("diff", _filled(tmp_path), new_store(tmp_path), "--into", place)
    try:
        deadline = time.monotonic() + START_S
        while not (place / "ledgers").exists():
            assert job.poll() is None, job.communicate()[1]
            assert time.monotonic() < deadline, "no table was ever compared"
            time.sleep(0.05)
        job.send_signal(signal.SIGINT)
        _, err = job.communicate(timeout=START_S)
        assert job.returncode == ExitCode.INTERRUPTED, err
        assert "interrupted; to go on, run the same job again" in err
        assert not place.exists(), err
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
