"""Prove that Ctrl-C ends the queries of a job, and then the job, whatever its queries and its JVM do."""

import signal
import threading
import time
from pathlib import Path
from typing import Final

import click
import pytest
from pyspark.sql import SparkSession

from hedwig.pipeline import interruption, running_tasks
from hedwig.pipeline.command import JobGroup
from hedwig.pipeline.frames.folder import Folder
from hedwig.pipeline.interruption import ending_queries
from hedwig.pipeline.snapshots.side_by_side import side_by_side
from hedwig.pipeline.termination import Terminated
from tests.pipeline.support.interrupting import interrupted_once

FOR_EVER_S: Final = 20.0


def test_an_interruption_comes_through_where_the_jvm_gives_no_answer(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def never_ends(*_: object) -> None:
        over.wait(FOR_EVER_S)

    monkeypatch.setattr(interruption, "_end", never_ends)
    monkeypatch.setattr(running_tasks, "PATIENCE_S", 0.2)
    started = time.monotonic()
    try:
        with ending_queries(spark):
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            heeded = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    finally:
        over.set()
    assert time.monotonic() - started < FOR_EVER_S / 2
    assert heeded == [signal.SIG_DFL, signal.SIG_DFL], "a second signal ends the process"


def test_a_second_signal_does_nothing_once_the_queries_have_ended(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    monkeypatch.setattr(interruption, "_end", lambda _, until: asked.append(until))
    with ending_queries(spark):
        with pytest.raises(KeyboardInterrupt) as caught:
            signal.raise_signal(signal.SIGINT)
        # Meanwhile the job deletes what is half written.
        signal.raise_signal(signal.SIGINT)
    assert asked == [running_tasks.patience_of(caught.value)]


def test_all_who_wait_after_an_interruption_have_one_patience(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience_s = 1.5
    monkeypatch.setattr(running_tasks, "PATIENCE_S", patience_s)
    # The tasks never end, and neither does the work.
    monkeypatch.setattr(running_tasks, "_tasks", lambda _: 1)
    begun, over = threading.Event(), threading.Event()
    began: list[float] = []

    def stubborn() -> None:
        began.append(time.monotonic())
        begun.set()
        over.wait(FOR_EVER_S)

    folder = Folder(spark, str(tmp_path / "made"))
    try:
        with (
            pytest.raises(KeyboardInterrupt),
            ending_queries(spark),
            interrupted_once(begun.is_set),
            folder.deleted_on_failure(),
        ):
            side_by_side(spark, [stubborn])
        took_s = time.monotonic() - began[0]
    finally:
        over.set()
    assert patience_s <= took_s < 2 * patience_s
    assert not folder.exists()


@pytest.mark.parametrize(("raised", "code"), [(Terminated, 143), (KeyboardInterrupt, 130)])
def test_exit_code_says_which_signal_ended_a_job(
    raised: type[BaseException], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """click turns both into one error."""

    def end() -> None:
        raise raised

    group = JobGroup("jobs", example="none", commands={"job": click.Command("job", callback=end)})
    assert group.run_line(["job"]) == code
    assert capsys.readouterr().err.strip() == "interrupted; to go on, run the same job again"
