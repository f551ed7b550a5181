"""Prove that messages as znodes are measured like those of a hub, and that each must arrive once, in order."""

import subprocess
import sys
from pathlib import Path

from hedwig.benchmarks.drivers.drivers import ZNODES
from hedwig.benchmarks.load.arrivals import Arrivals
from hedwig.benchmarks.runs.results import Result
from hedwig.benchmarks.suites.hub.sizes import DELIVER, HUB_KINDS, MEASUREMENTS, SMOKE, cases
from tests.benchmarks.support.processes import processes_over
from tests.support.checkout import CHECKOUT


def test_every_message_reaches_every_subscriber_once_and_in_order(tmp_path: Path) -> None:
    output, data = tmp_path / "result.json", tmp_path / "data"
    command = [sys.executable, "-m", "hedwig.benchmarks", "hub", "deliver", "--sizes", "smoke", "--driver", ZNODES]
    command += ["--driver", "client", "--output", str(output), "--data", str(data), "--warm", "0.2"]
    run = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=200, check=False)
    assert run.returncode == 0, run.stderr
    result = Result.read(output)
    assert result.is_complete
    assert [each.driver for each in result.measurements] == [ZNODES, "client"]
    for each in result.measurements:
        assert (each.wall, each.errors) == (None, {}), each.driver
        assert each.unexpected_deliveries == 0
        assert each.count > 0
        assert each.histograms["delivery"].count == each.count
        assert each.hub_rss_bytes_max is not None
    assert "-Xmx1024m" in result.environment["jvm_flags"][ZNODES]["zookeeper"]
    assert "one ZooKeeper 3.9.4, log forced to the disk" in result.terms[ZNODES]
    assert "our hub ÷ messages as znodes in ZooKeeper alone" in run.stdout
    assert list(data.iterdir()) == []
    assert not processes_over(data)


def test_what_comes_again_or_too_late_is_not_next() -> None:
    arrivals = Arrivals()
    assert [arrivals.is_next(1, 0, number) for number in (0, 3, 3, 2, 4)] == [True, True, False, False, True]
    assert arrivals.is_next(2, 0, 1), "another topic"
    assert arrivals.is_next(1, 1, 1), "another subscriber"


def test_znodes_deliver_and_do_nothing_else() -> None:
    planned = [each for each in cases(MEASUREMENTS, (ZNODES,), SMOKE, 1, HUB_KINDS) if each.driver == ZNODES]
    assert [(each.workload.name, each.on) for each in planned] == [(DELIVER, "embedded")] * len(SMOKE.subscribers)
