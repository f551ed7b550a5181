"""Prove that a later run takes nothing of a `hedwig-bench metadata` run for its own, however that one ended."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest

from hedwig.benchmarks.runs.results import Result
from hedwig.benchmarks.stores.dataset import wide_count
from hedwig.benchmarks.stores.servers import StoreServers
from hedwig.benchmarks.suites.metadata.sizes import SMOKE, stages
from hedwig.benchmarks.suites.metadata.workloads import workload_files
from hedwig.cli.dev import DevError, DevServers
from hedwig.cli.dev.locks import locked
from hedwig.cli.dev.servers.java import find_java
from hedwig.metadata import open_metadata
from hedwig.model import LedgerRanges, Topic
from hedwig.versions import NEW
from tests.benchmarks.support.processes import processes_over
from tests.support.checkout import CHECKOUT
from tests.support.signals import born_with

INTERRUPTED = 130
FEW = ("claim", "consume", "recreate")
(STAGE,) = stages(workload_files(), FEW, SMOKE, 1)
PLANTED = Topic(b"planted")


def _command(directory: Path, *arguments: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "hedwig.benchmarks",
        "metadata",
        *arguments,
        "--sizes",
        "smoke",
        "--run",
        str(directory),
    ]


def _started(command: list[str], **given: Any) -> AbstractContextManager["subprocess.Popen[str]"]:
    return subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **given)


def _await(run: "subprocess.Popen[str]", words: str) -> list[str]:
    """Return the lines that a run wrote until one of them had these words."""
    assert run.stderr is not None
    said = []
    for line in run.stderr:
        said.append(line)
        if words in line:
            return said
    raise AssertionError(f"it never said {words!r}: {said}")


def _children(pid: int) -> list[int]:
    listed = Path("/proc", str(pid), "task").glob("*/children")
    return [int(child) for path in listed for child in path.read_text().split()]


def _is_gone(pid: int) -> bool:
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


async def _topics(store: Path, *, plant: bool = False) -> list[Topic]:
    async with await open_metadata(f"sqlite://{store}") as opened:
        if plant:
            await opened.persistence.write(PLANTED, LedgerRanges(), NEW)
        return [topic async for topic in opened.topics()]


def test_a_run_that_was_killed_leaves_nothing_that_is_measured_later(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    store = directory / "servers" / "synced-2" / "metadata.sqlite"
    command = _command(directory, *FEW, "--backend", "sqlite")
    with _started(command) as run:
        _await(run, "sqlite, consume")
        clients = _children(run.pid)
        assert clients
        run.kill()
        run.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while not all(map(_is_gone, clients)):
        assert time.monotonic() < deadline, "its client goes on"
        time.sleep(0.05)
    kept = len(Result.read(directory / "result.json").measurements)
    assert kept > 1
    assert PLANTED in asyncio.run(_topics(store, plant=True))
    with _started(command) as run:
        said = _await(run, "waiting until all servers are idle")
        # Its workloads delete topics and create them again.
        run.send_signal(signal.SIGSTOP)
        topics = asyncio.run(_topics(store))
        run.send_signal(signal.SIGCONT)
        out, err = run.communicate(timeout=280)
    assert run.returncode == 0, (out, err)
    assert any("removing what an earlier run left in" in line for line in said), said
    assert PLANTED not in topics
    assert len(topics) == STAGE.steps[0].topics + sum(map(wide_count, STAGE.wide))
    result = Result.read(directory / "result.json")
    assert result.is_complete
    assert len(result.measurements) == sum(1 + len(step.workloads) for step in STAGE.steps)
    fills = [each for each in result.measurements if each.workload.name == "fill"]
    assert [each.values["from_topics"] for each in fills] == [step.before for step in STAGE.steps]
    assert [each.count for each in fills] == [each.offered for each in fills]
    assert not (directory / "servers").exists()


@pytest.mark.full
def test_what_is_left_of_a_stage_that_is_done_is_removed_too(tmp_path: Path) -> None:
    command = _command(tmp_path / "run", "claim", "--backend", "sqlite", "--topics", "20")
    for _ in range(2):
        left = tmp_path / "run" / "servers" / "synced-2"
        left.mkdir(parents=True)
        (left / "metadata.sqlite").write_bytes(b"left")
        run = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False)
        assert run.returncode == 0, run.stderr
        assert not (tmp_path / "run" / "servers").exists()


def test_a_second_run_in_the_same_place_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    command = _command(directory, "claim", "--backend", "sqlite", "--topics", "20")
    with locked(directory / "servers" / "lock", 0.0):
        run = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 1
    assert f"another run is at work in {directory / 'servers'}: wait for it, or give another --run" in run.stderr


@pytest.mark.full
def test_who_loses_the_terminal_ends_the_run_as_ctrl_c_does(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with ExitStack() as stack:
        # The tests themselves may run under nohup.
        with born_with(signal.SIG_DFL, signal.SIGHUP):
            run = stack.enter_context(_started(_command(directory, "--backend", "sqlite")))
        _await(run, "sqlite, consume")
        run.send_signal(signal.SIGHUP)
        _, err = run.communicate(timeout=120)
    assert run.returncode == INTERRUPTED, err
    assert "interrupted; what was measured is kept" in err
    assert "Traceback" not in err
    assert not (directory / "servers").exists()
    assert not processes_over(directory)


def test_a_run_that_nohup_started_outlives_its_terminal(tmp_path: Path) -> None:
    command = _command(tmp_path / "run", "claim", "consume", "--backend", "sqlite", "--topics", "20")
    with _started(["nohup", *command], stdin=subprocess.DEVNULL) as run:
        _await(run, "sqlite, claim")
        run.send_signal(signal.SIGHUP)
        _, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert Result.read(tmp_path / "run").is_complete


def test_a_full_disk_ends_the_run_and_its_servers_and_keeps_what_was_written(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with _started(_command(directory, "claim", "--backend", "zookeeper", "--topics", "20")) as run:
        _await(run, "zookeeper, claim")
        assert processes_over(directory), "it has no servers"
        (directory / "result.json.partial").symlink_to("/dev/full")
        _, err = run.communicate(timeout=120)
    assert run.returncode == 1, err
    assert f"cannot write the result {directory / 'result.json'}: No space left on device; make room" in err
    assert "Traceback" not in err
    assert not processes_over(directory)
    assert [each.name for each in directory.iterdir()] == ["result.json"]
    kept = Result.read(directory)
    assert [each.workload.name for each in kept.measurements] == ["fill"]
    assert not kept.is_complete


@pytest.mark.full
def test_a_server_that_does_not_start_is_a_wall_and_the_run_goes_on(tmp_path: Path) -> None:
    """A Java that cannot run ZooKeeper, in two stages; the other backend has all its cases."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    real = Path(find_java()).resolve()
    java.write_text(f'#!/bin/sh\ncase "$*" in *QuorumPeerMain*) echo no; exit 1;; esac\nexec {real} "$@"\n')
    java.chmod(0o755)
    java.with_name("jcmd").symlink_to(real.with_name("jcmd"))
    directory = tmp_path / "run"
    backends = ["--backend", "zookeeper", "--backend", "sqlite"]
    run = subprocess.run(
        _command(directory, "claim", *backends, "--topics", "20", "--unsynced-topics", "20"),
        cwd=CHECKOUT,
        env={**os.environ, "JAVA_HOME": str(java.parents[1])},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    result = Result.read(directory)
    assert result.is_complete
    for durability in ("synced", "unsynced"):
        own = [each for each in result.measurements if each.on == durability]
        (wall,) = [each for each in own if each.driver == "zookeeper"]
        assert wall.workload.name == "fill"
        assert wall.wall is not None
        assert wall.wall.startswith("it did not come up: zookeeper-1 ")
        others = [each for each in own if each.driver == "sqlite"]
        assert {each.workload.name for each in others} == {"fill", "claim"}
        assert [each.wall for each in others] == [None] * len(others)
    assert "it did not come up" in (directory / "report.html").read_text()


# ------------------------------------------------------------------------------------------------------- servers


def _stores(directory: Path) -> StoreServers:
    return StoreServers(
        directory,
        ["zookeeper", "hbase"],
        heap_mb=1024,
        durability="synced",
        topics_max=20,
        progress=lambda _: None,
    )


def _note_ends(monkeypatch: pytest.MonkeyPatch, trouble: Callable[[], None]) -> list[str]:
    """Make the end of the first servers cause trouble; return the names of ended servers."""
    ended: list[str] = []

    def down(servers: DevServers) -> None:
        ended.append(servers.directory.name)
        if len(ended) == 1:
            trouble()

    monkeypatch.setattr(DevServers, "down", down)
    return ended


def test_servers_that_do_not_end_keep_no_others_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise DevError("it did not end")

    ended = _note_ends(monkeypatch, fail)
    directory = tmp_path / "servers"
    directory.mkdir()
    with pytest.raises(DevError, match="it did not end"), _stores(directory):
        pass
    assert sorted(ended) == ["hbase", "zookeeper"]
    assert directory.exists(), "by what is in it they are found the next time"


def test_ctrl_c_waits_until_all_servers_have_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = _note_ends(monkeypatch, lambda: signal.raise_signal(signal.SIGINT))
    directory = tmp_path / "servers"
    directory.mkdir()
    # Spark, for example, leaves a handler of its own in the process.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), _stores(directory):
            pass
    finally:
        signal.signal(signal.SIGINT, before)
    assert sorted(ended) == ["hbase", "zookeeper"]
    assert not directory.exists()


def test_servers_that_another_backend_needs_are_not_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = _note_ends(monkeypatch, lambda: None)
    stores = StoreServers(
        tmp_path / "servers",
        ["sqlite", "hbase", "hbase+thrift"],
        heap_mb=1024,
        durability="synced",
        topics_max=20,
        progress=lambda _: None,
    )
    stores.end("sqlite")
    stores.end("hbase")
    assert ended == []
    stores.end("hbase+thrift")
    assert ended == ["hbase"]
