"""The data source on a real standalone cluster: executors that are killed, and tasks that Spark runs twice at once.

Properties: each row is applied once, whatever attempts there were. No row is lost. Later writes of a hub stay.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataStore, Read, RecordKey, StoreOptions, Write, format_metadata
from hedwig.metadata.zookeeper.writes.versions import identity_of
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionData, SubscriptionState, Topic
from hedwig.pipeline.frames.tables import Table
from hedwig.versions import ANY, NEW, Versioned
from tests.pipeline.support.standalone_cluster import StandaloneCluster
from tests.pipeline.support.stores import records, with_store
from tests.support.servers import RunningServers

ROWS: Final = 12_000
TASKS: Final = 2
BY_HUB: Final = frozenset(first + number for first in range(0, ROWS, ROWS // TASKS) for number in range(5))
"""Rows that a hub writes during the job, once they are written: the first ones of each task."""
WRITTEN_MIN: Final = 800
HUB_WROTE: Final = 99_999
BEFORE_S: Final = 240.0
JOB_S: Final = 180.0
SLOW_S: Final = 1.5
"""The pause before each of some 15 batches. Together they outlast the start of the other executor on a busy machine."""
DRIVER: Final = Path(__file__).with_name("support") / "standalone_driver.py"
SPECULATION: Final = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms",
}

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@pytest.fixture
def url(servers: RunningServers) -> str:
    """The URL of an empty store in ZooKeeper, where a record's version tells how often it was written."""
    made = f"zookeeper://{servers.address('zookeeper')}/hedwig/{uuid.uuid4().hex[:12]}"
    asyncio.run(format_metadata(made, StoreOptions(operation_timeout_s=60)))
    return made


@dataclass(frozen=True, slots=True)
class Work:
    """One write of all rows, and how the store shows its progress."""

    policy: str
    first: int
    """The consume pointer that it writes to the first topic. The pointer of each further topic is one more."""
    writes_before: int
    """How often each record was written before, not counting its creation."""


CREATE: Final = Work("create", 0, -1)
REPLACE: Final = Work("replace", 20_000, 0)
WORKS: Final = (CREATE, REPLACE)


def _key(number: int) -> RecordKey:
    return RecordKey(Topic(b"topic-%05d" % number), SubscriberId(b"me"))


def _data(consumed: int) -> SubscriptionData:
    return SubscriptionData(state=SubscriptionState(MessageSeqId(consumed)))


def _prepare(url: str, work: Work) -> None:
    async def fill(store: MetadataStore) -> None:
        for outcome in await store.subscriptions.apply([Write(_key(n), _data(n), NEW) for n in range(ROWS)]):
            outcome.check()

    if work is REPLACE:
        with_store(url, fill)


def _has_written_some(url: str, work: Work) -> bool:
    """Return whether both tasks have written the first of their rows, and the batch with those of BY_HUB."""
    last = [first + WRITTEN_MIN - 1 for first in range(0, ROWS, ROWS // TASKS)]

    async def read(store: MetadataStore) -> bool:
        outcomes = await store.subscriptions.apply([Read(_key(number)) for number in last])
        stored = [outcome.record for outcome in outcomes]
        return all(
            record is not None
            and record.value.state is not None
            and record.value.state.consumed.local == work.first + n
            for n, record in zip(last, stored, strict=True)
        )

    return with_store(url, read)


def _write_as_a_hub(url: str) -> None:
    async def write(store: MetadataStore) -> None:
        for outcome in await store.subscriptions.apply([Write(_key(n), _data(HUB_WROTE), ANY) for n in BY_HUB]):
            outcome.check()

    with_store(url, write)


@contextmanager
def _driver(
    cluster: StandaloneCluster, url: str, work: Work, marks: Path, **how: Any
) -> Iterator["subprocess.Popen[str]"]:
    """Run the driver. At the end it is gone, with the virtual machine that it started."""
    options = {"master": cluster.url, "url": url, "policy": work.policy, "rows": ROWS, "marks": str(marks)}
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    command = [sys.executable, str(DRIVER), json.dumps(options | how)]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, env=environment, start_new_session=True, **pipes) as driver:
        try:
            yield driver
        finally:
            with suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)


def _end(driver: "subprocess.Popen[str]") -> None:
    out, _ = driver.communicate(timeout=JOB_S)
    assert driver.returncode == 0, out[-4000:]
    assert "done" in out.splitlines()


def _wait(what: str, is_so: Callable[[], bool], driver: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + BEFORE_S
    while not is_so():
        assert driver.poll() is None, driver.communicate()[0][-4000:]
        assert time.monotonic() < deadline, f"there never were {what}"
        time.sleep(0.2)


def _check(url: str, work: Work) -> None:
    """Check that the job wrote each record once, and that the later writes of the hub are there."""
    stored: Mapping[RecordKey, Versioned[Any]] = records(url, Table.SUBSCRIPTIONS)
    assert len(stored) == ROWS
    for number in range(ROWS):
        record = stored[_key(number)]
        expected = HUB_WROTE if number in BY_HUB else work.first + number
        assert record.value.state.consumed.local == expected, number
        identity = identity_of(record.version)
        assert identity is not None
        assert identity[1] == work.writes_before + 1 + (number in BY_HUB), f"writes of {number}"


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.policy)
def test_rows_of_a_killed_executor_are_written_once(
    work: Work, cluster: StandaloneCluster, url: str, tmp_path: Path
) -> None:
    _prepare(url, work)
    with _driver(cluster, url, work, tmp_path, slow=None, pause_s=0.3, settings={}) as driver:
        _wait("rows of both tasks", lambda: _has_written_some(url, work), driver)
        _write_as_a_hub(url)
        killed = cluster.executors("127.0.0.2")
        assert killed
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        _end(driver)
    again = [mark.name for mark in tmp_path.glob("?-?") if not mark.name.endswith("-0")]
    assert again, "a task ran again"
    _check(url, work)


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.policy)
def test_rows_of_a_task_that_runs_twice_at_once_are_written_once(
    work: Work, cluster: StandaloneCluster, url: str, tmp_path: Path
) -> None:
    _prepare(url, work)
    with _driver(cluster, url, work, tmp_path, slow=[0], pause_s=SLOW_S, settings=SPECULATION) as driver:
        second = tmp_path / "0-1"
        _wait("rows of a second attempt", lambda: second.exists() and _has_written_some(url, work), driver)
        _write_as_a_hub(url)
        _end(driver)
    begun = float(second.read_text().split()[0])
    last = float((tmp_path / "0-0").read_text().split()[-1])
    assert last > begun, "the first attempt went on beside the second"
    # The losing attempt may still write after the job has ended, and must not change the result.
    time.sleep(2 * SLOW_S)
    _check(url, work)


def test_a_file_of_one_machine_is_refused(cluster: StandaloneCluster, tmp_path: Path) -> None:
    (tmp_path / "topics.tsv").write_text("a\n")
    url = f"sqlite://{tmp_path}/store.db"
    words = ["load", url, "--topics", str(tmp_path / "topics.tsv"), "--master", cluster.url]
    settings = ["--conf=spark.driver.host=127.0.0.1", "--conf=spark.driver.memory=512m"]
    ran = subprocess.run(
        [sys.executable, "-m", "hedwig.pipeline", *words, *settings],
        capture_output=True,
        text=True,
        timeout=JOB_S,
        check=False,
    )
    assert ran.returncode == ExitCode.USAGE, ran.stderr
    assert f"is a file of one machine, and the tasks of {cluster.url} run on others" in ran.stderr
    assert records(url, Table.TOPICS) == {}
