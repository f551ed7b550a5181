"""Prove that an interrupted run keeps its measurements in a valid file, ends its processes, and can continue."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hedwig.benchmarks.runs.results import Result
from tests.benchmarks.support.processes import processes_over
from tests.support.checkout import CHECKOUT

INTERRUPTED = 130


@pytest.mark.full
def test_what_was_measured_is_kept(tmp_path: Path) -> None:
    output, data = tmp_path / "result.json", tmp_path / "data"
    arguments = ["publish", "subscribe", "--sizes", "smoke", "--driver", "raw", "--rate", "0"]
    # The second measurement runs until the test interrupts it.
    arguments += ["--subscriptions", "10000000", "--data", str(data), "--output", str(output)]
    command = [sys.executable, "-m", "hedwig.benchmarks", "hub", *arguments]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        said = []
        for line in run.stderr:
            said.append(line)
            if line.startswith("[2/"):
                break
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=120)
    assert run.returncode == INTERRUPTED, (said, err)
    assert "interrupted; what was measured is kept" in err
    assert "Traceback" not in err
    result = Result.read(output)
    assert not result.is_complete
    (measurement,) = result.measurements
    assert measurement.count > 0
    assert "the run was not finished" in out
    assert list(data.iterdir()) == []
    assert not processes_over(data)


def test_a_run_that_was_ended_goes_on_later(tmp_path: Path) -> None:
    output, data = tmp_path / "result.json", tmp_path / "data"
    arguments = ["publish", "deliver", "--sizes", "smoke", "--driver", "raw", "--rate", "0"]
    arguments += ["--data", str(data), "--output", str(output)]
    command = [sys.executable, "-m", "hedwig.benchmarks", "hub", *arguments]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if line.startswith("[2/2"):
                break
        run.send_signal(signal.SIGTERM)
        _, err = run.communicate(timeout=120)
    assert run.returncode == INTERRUPTED, err
    assert not processes_over(data)
    (first,) = Result.read(output).measurements
    again = subprocess.run(
        [*command, "--resume"], cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False
    )
    assert again.returncode == 0, again.stderr
    after = Result.read(output)
    assert after.is_complete
    assert [each.workload.name for each in after.measurements] == ["publish", "deliver"]
    assert after.measurements[0].to_json() == first.to_json()
    assert after.measurements[1].wall is None
    assert after.measurements[1].count > 0
