"""Jobs on a real standalone cluster that lose an executor, killed or stopped: another one finishes its work.

Users run these jobs. So `apply_rows` writes the rows, into a real HBase. The jobs read them from there and from a real
ZooKeeper, whose shares list their names.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from hedwig.metadata import MetadataStore, RecordKey, StoreOptions, Write, format_metadata
from hedwig.metadata.testing.subject import Subject
from hedwig.model import LedgerRange, LedgerRanges, MessageSeqId, Topic
from hedwig.pipeline.frames.tables import Table
from hedwig.versions import ANY, NEW, Version
from tests.metadata.support.backends import BACKENDS, Surroundings
from tests.pipeline.support.standalone_cluster import StandaloneCluster
from tests.pipeline.support.stores import new_store, records, with_store
from tests.support.servers import RunningServers

ROWS: Final = 30_000
SOME: Final = 6_000
"""Enough that both executors have written by then, also if one started some seconds after the other."""
NAMES: Final = [b"topic-%05d" % number for number in range(ROWS)]
BEFORE_S: Final = 900.0
JOB_S: Final = 900.0
KILLED: Final = "127.0.0.2"
TWICE: Final = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.minTaskRuntime": "100ms",
    # Spark soon makes the shuffle data of the stopped executor anew, and does not wait for them.
    "spark.shuffle.io.connectionTimeout": "5s",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "1s",
}
HUB_WROTE: Final = LedgerRanges((LedgerRange(ledger_id=1, start=1, end=MessageSeqId(7)),))
ZOMBIE_S: Final = 5.0

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]


@pytest.fixture
def subject(request: pytest.FixtureRequest, servers: RunningServers, tmp_path: Path) -> Iterator[Subject]:
    """An empty store in HBase, or on the servers that a test names."""
    label = getattr(request, "param", "hbase")
    (row,) = (row for row in BACKENDS if row.label == label)
    with row.subject(Surroundings(servers, tmp_path)).formatted() as made:
        yield made


@contextmanager
def _job(
    cluster: StandaloneCluster, *words: object, more: Mapping[str, str] = MappingProxyType({})
) -> "Iterator[subprocess.Popen[str]]":
    """Run a job on the cluster. At the end it is gone, with the virtual machine that it started."""
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        # Otherwise Spark gives so few bytes to one task, or to two tasks in a row where the bytes were read. Then one
        # of the executors has nothing to do.
        "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1b",
        "spark.locality.wait": "0s",
        **more,
    }
    how = [f"--conf={name}={value}" for name, value in settings.items()]
    command = [sys.executable, "-m", "hedwig.pipeline", *map(str, words), "--master", cluster.url, *how, "--json"]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, start_new_session=True, **pipes) as job:
        try:
            yield job
        finally:
            with suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)


def _wait(what: str, is_so: Callable[[], bool], job: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + BEFORE_S
    while not is_so():
        assert job.poll() is None, job.communicate()[1][-4000:]
        assert time.monotonic() < deadline, f"there never were {what}"
        time.sleep(0.1)


def _kill(cluster: StandaloneCluster) -> None:
    killed = cluster.executors(KILLED)
    assert killed
    for pid in killed:
        os.kill(pid, signal.SIGKILL)


def _result(job: "subprocess.Popen[str]") -> Any:
    out, err = job.communicate(timeout=JOB_S)
    assert job.returncode == 0, err[-4000:]
    return json.loads(out)


def _versions(url: str) -> Mapping[bytes, Version]:
    return {key.topic: stored.version for key, stored in records(url, Table.TOPICS).items()}


def _folder_of_rows(tmp_path: Path) -> Path:
    folder = tmp_path / "made" / "topics"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"topic": pa.array(NAMES, pa.binary())}), folder / "topics.parquet")
    (folder / "_SUCCESS").touch()
    return folder.parent


def _snapshot_of_rows(tmp_path: Path) -> Path:
    """Return a snapshot of a store with these rows, taken on this machine alone."""
    store, taken = new_store(tmp_path), tmp_path / "taken"
    with_store(store, _fill)
    command = [sys.executable, "-m", "hedwig.pipeline", "snapshot", store, str(taken)]
    subprocess.run(command, check=True, capture_output=True, timeout=JOB_S)
    return taken


def _zookeeper_of_rows(servers: RunningServers) -> str:
    """Return the URL of a store with these rows in a real ZooKeeper. A file of SQLite belongs to one machine."""
    url = f"zookeeper://{servers.address('zookeeper')}/hedwig/{uuid.uuid4().hex}"
    asyncio.run(format_metadata(url, StoreOptions(operation_timeout_s=60)))
    with_store(url, _fill)
    return url


async def _fill(store: MetadataStore) -> None:
    for outcome in await store.persistence.apply([Write(_key(name), LedgerRanges(), NEW) for name in NAMES]):
        outcome.check()


@pytest.mark.parametrize(
    ("work", "table"),
    [("load", "topics"), ("restore", "ledgers"), ("migrate", "ledgers")],
    ids=["loaded", "restored", "migrated"],
)
def test_rows_that_a_job_writes_are_written_once(
    work: str, table: str, cluster: StandaloneCluster, subject: Subject, servers: RunningServers, tmp_path: Path
) -> None:
    words: tuple[object, ...]
    match work:
        case "load":
            words = (work, subject.url, "--from", _folder_of_rows(tmp_path))
        case "restore":
            words = (work, _snapshot_of_rows(tmp_path), subject.url)
        case _:
            words = (work, _zookeeper_of_rows(servers), subject.url, "--through", tmp_path / "through")
    # Small batches, one after the other, so that there is a middle.
    how = ("--batch-rows", 5, "--connections", 1)
    with _job(cluster, *words, *how) as job:
        _wait("rows in the store", lambda: len(_versions(subject.url)) >= SOME, job)
        _kill(cluster)
        before = _versions(subject.url)
        assert len(before) < ROWS, "the executor was killed in the middle"
        counts = _result(job)["tables"][table]
    assert counts["created"] + counts["same"] == ROWS
    assert counts["same"] > 0, "a task ran again, and found what it had written before"
    after = _versions(subject.url)
    assert set(after) == set(NAMES)
    assert {name: after[name] for name in before} == before, "no row is written twice"


def test_what_a_stopped_executor_writes_after_its_double_changes_nothing(
    cluster: StandaloneCluster, subject: Subject, tmp_path: Path
) -> None:
    """Spark gives its task to the other executor. It wakes when all is done and hubs have written since."""
    how = ("--batch-rows", 5, "--connections", 1)
    stopped: list[int] = []
    with _job(cluster, "load", subject.url, "--from", _folder_of_rows(tmp_path), *how, more=TWICE) as job:
        _wait("rows in the store", lambda: len(_versions(subject.url)) >= SOME, job)
        try:
            for pid in cluster.executors(KILLED):
                os.kill(pid, signal.SIGSTOP)
                stopped.append(pid)
            assert stopped
            before = _versions(subject.url)
            assert len(before) < ROWS, "it was stopped in the middle"
            by_hub = sorted(before)[:: len(before) // 20]
            with_store(subject.url, partial(_write_as_a_hub, names=by_hub))
            counts = _result(job)["tables"]["topics"]
            after = records(subject.url, Table.TOPICS)
        finally:
            for pid in stopped:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        time.sleep(ZOMBIE_S)
    assert counts["created"] + counts["same"] == ROWS
    assert counts["same"] > 0, "the double found what the stopped one had written"
    assert {key.topic for key in after} == set(NAMES)
    assert records(subject.url, Table.TOPICS) == after, "it changed nothing once it went on"
    for key, stored in after.items():
        if key.topic in by_hub:
            assert stored.value == HUB_WROTE
        elif key.topic in before:
            assert stored.version == before[key.topic], "no row is written twice"


async def _write_as_a_hub(store: MetadataStore, names: Collection[bytes]) -> None:
    for outcome in await store.persistence.apply([Write(_key(name), HUB_WROTE, ANY) for name in names]):
        outcome.check()


@pytest.mark.parametrize("subject", ["hbase", "zookeeper"], indirect=True)
def test_rows_that_a_snapshot_reads_are_there_once(
    cluster: StandaloneCluster, subject: Subject, tmp_path: Path
) -> None:
    with_store(subject.url, _fill)
    taken = tmp_path / "taken"
    with _job(cluster, "snapshot", subject.url, taken, "--rows-per-partition", 100) as job:
        _wait("files of tasks", lambda: any(taken.glob("ledgers/_temporary/0/task*")), job)
        _kill(cluster)
        assert not (taken / "ledgers" / "_SUCCESS").exists(), "the executor was killed in the middle"
        result = _result(job)
    assert result["tables"] == {"ledgers": ROWS, "subscriptions": 0, "owners": 0}
    files = [str(file) for file in (taken / "ledgers").glob("*.parquet")]
    assert sorted(ds.dataset(files).to_table(columns=["topic"])["topic"].to_pylist()) == NAMES


def _key(name: bytes) -> RecordKey:
    return RecordKey(Topic(name))
