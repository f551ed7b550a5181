"""Prove that a folder in the making belongs to one job, which deletes its own work and nobody else's."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.taskcontext import TaskContext

from hedwig.exit_codes import ExitCode
from hedwig.pipeline import interruption
from hedwig.pipeline.errors import SPARK_ERRORS, JobError
from hedwig.pipeline.frames.folder import Folder
from hedwig.pipeline.interruption import ending_queries
from hedwig.pipeline.running_tasks import PATIENCE_S, patience_of, wait_for_tasks
from hedwig.pipeline.snapshots.side_by_side import side_by_side
from tests.pipeline.support.interrupting import interrupted_once


def test_a_folder_is_claimed_while_it_is_made(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(spark, str(tmp_path / "made"))
    assert not folder.is_unfinished
    with folder.deleted_on_failure():
        assert folder.is_unfinished
        (tmp_path / "made" / "work").write_text("mine")
        for _ in range(2):
            with pytest.raises(JobError, match="is being made by another job") as caught, folder.deleted_on_failure():
                pass
            assert caught.value.code is ExitCode.USAGE
    assert [path.name for path in (tmp_path / "made").iterdir() if path.suffix != ".crc"] == ["work"]
    with pytest.raises(JobError, match="has something in it"), folder.deleted_on_failure():
        pass
    assert (tmp_path / "made" / "work").read_text() == "mine"


def test_of_jobs_that_claim_at_once_one_makes_it_at_most(spark: SparkSession, tmp_path: Path) -> None:
    made, refused = [], []
    begin, end = threading.Barrier(4), threading.Event()

    def job(number: int) -> None:
        begin.wait()
        try:
            with Folder(spark, str(tmp_path / "made")).deleted_on_failure():
                made.append(number)
                (tmp_path / "made" / f"work-{number}").write_text("mine")
                assert end.wait(60)
        except JobError:
            refused.append(number)
        if len(refused) >= 3:
            end.set()

    jobs = [threading.Thread(target=job, args=(number,)) for number in range(4)]
    for each in jobs:
        each.start()
    for each in jobs:
        each.join()
    assert sorted(made + refused) == [0, 1, 2, 3]
    assert len(made) <= 1
    left = sorted(path.name for path in (tmp_path / "made").iterdir() if path.suffix != ".crc")
    assert left == [f"work-{number}" for number in made]


def test_what_failed_is_told_also_where_nothing_can_be_deleted(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(self: Folder) -> None:
        raise JobError(f"the file system of {self.path} refuses: it went away")

    monkeypatch.setattr(Folder, "delete", refuses)
    monkeypatch.setattr("hedwig.pipeline.frames.folder._CLEAR_S", 0.1)
    with pytest.raises(ValueError, match="what failed"), Folder(spark, str(tmp_path / "made")).deleted_on_failure():
        raise ValueError("what failed")
    assert "made is not whole and could not be deleted, remove it: the file system" in capsys.readouterr().err


def test_what_was_deleted_does_not_come_back_by_tasks_that_go_on(spark: SparkSession, tmp_path: Path) -> None:
    made, begun = tmp_path / "made", tmp_path / "begun"

    def writes_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        deadline = time.monotonic() + 60
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 0:
            while not begun.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            raise ValueError("this task fails each time")
        while time.monotonic() < deadline:
            # Like a file system that has no folders, or creates those that a file needs.
            made.mkdir(exist_ok=True)
            with suppress(FileNotFoundError):
                (made / "part").touch()
            begun.touch()
            time.sleep(0.01)
        yield from batches

    with pytest.raises(SPARK_ERRORS, match="this task fails each time"), Folder(spark, str(made)).deleted_on_failure():
        spark.range(0, 2, 1, 2).mapInArrow(writes_on, "id bigint").collect()
    wait_for_tasks(spark, time.monotonic() + PATIENCE_S)
    assert begun.exists()
    assert not made.exists()


def test_what_was_interrupted_does_not_come_back_by_its_only_task(spark: SparkSession, tmp_path: Path) -> None:
    made, alive = tmp_path / "made", tmp_path / "alive"

    def writes_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Longer than Spark needs to end a Python worker, and shorter than the patience of the job.
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            made.mkdir(exist_ok=True)
            with suppress(FileNotFoundError):
                (made / "part").touch()
            alive.touch()
            time.sleep(0.01)
        yield from batches

    with (
        pytest.raises(KeyboardInterrupt),
        ending_queries(spark),
        interrupted_once(alive.exists),
        Folder(spark, str(made)).deleted_on_failure(),
    ):
        # Wait in another thread: an interrupted call to the JVM would cost this thread the session.
        side_by_side(spark, [spark.range(0, 1, 1, 1).mapInArrow(writes_on, "id bigint").collect])
    while time.time() - alive.stat().st_mtime < 1:
        time.sleep(0.05)
    assert not made.exists()


def test_tasks_that_were_waited_for_once_get_no_more_time(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr("hedwig.pipeline.frames.folder.wait_for_tasks", lambda _, until: waited.append(until))
    error = KeyboardInterrupt()
    until = patience_of(error)
    with pytest.raises(KeyboardInterrupt), Folder(spark, str(tmp_path / "made")).deleted_on_failure():
        raise error
    assert waited == [until]
    assert not (tmp_path / "made").exists()


def _fail_with_tables(folder: Folder) -> None:
    """Make what some tables and a manifest leave in a folder, and fail. By name the claim sorts in the middle."""
    with folder.deleted_on_failure():
        made = Path(folder.path)
        for name in ("OWNERS", "ledgers", "subscriptions"):
            (made / name).mkdir()
            (made / name / "_SUCCESS").touch()
        (made / "manifest.json").write_text("{}")
        raise ValueError("what failed")


def test_of_a_half_the_claim_is_deleted_last(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(spark, str(tmp_path / "made"))
    deleted: list[str] = []
    delete = Folder.delete

    def noted(self: Folder) -> None:
        deleted.append(self.path.removeprefix(folder.path))
        delete(self)

    monkeypatch.setattr(Folder, "delete", noted)
    with pytest.raises(ValueError, match="what failed"):
        _fail_with_tables(folder)
    assert sorted(deleted[:-2]) == ["/OWNERS", "/ledgers", "/manifest.json", "/subscriptions"]
    assert deleted[-2].startswith("/_UNFINISHED-")
    assert deleted[-1] == ""
    assert not folder.exists()


def test_a_half_of_which_some_stays_keeps_its_claim(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(spark, str(tmp_path / "made"))
    delete = Folder.delete

    def refuses_some(self: Folder) -> None:
        if self.path.endswith("/ledgers"):
            raise JobError(f"the file system of {self.path} refuses: it went away")
        delete(self)

    monkeypatch.setattr(Folder, "delete", refuses_some)
    monkeypatch.setattr("hedwig.pipeline.frames.folder._CLEAR_S", 0.1)
    with pytest.raises(ValueError, match="what failed"):
        _fail_with_tables(folder)
    assert (folder / "ledgers" / "_SUCCESS").exists()
    assert folder.is_unfinished
    assert "made is not whole and could not be deleted, remove it: the file system" in capsys.readouterr().err


def test_a_first_signal_while_a_half_is_deleted_is_told_once_that_is_gone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(spark, str(tmp_path / "made"))
    is_heeded: list[bool] = []
    delete = Folder.delete

    def interrupted(self: Folder) -> None:
        is_heeded.append(signal.getsignal(signal.SIGINT) is signal.SIG_DFL)
        if len(is_heeded) == 1:
            signal.raise_signal(signal.SIGINT)
        delete(self)

    monkeypatch.setattr(Folder, "delete", interrupted)
    with pytest.raises(KeyboardInterrupt), ending_queries(spark):
        _fail_with_tables(folder)
    assert not folder.exists()
    assert not is_heeded[0]
    assert all(is_heeded[1:]), "a second signal ends the process"


def test_a_second_signal_while_a_half_is_deleted_ends_the_process(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers: set[object] = set()

    def noted(self: Folder) -> None:
        handlers.update(signal.getsignal(each) for each in before)

    monkeypatch.setattr(Folder, "delete", noted)
    # The handlers as a first signal leaves them.
    before = {each: signal.signal(each, interruption._heed_not) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        with pytest.raises(ValueError, match="what failed"):
            _fail_with_tables(Folder(spark, str(tmp_path / "made")))
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert handlers == {signal.SIG_DFL}
