"""The jobs on real HBase and real ZooKeeper servers: the content of one store reaches the other, whole."""

import asyncio
import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hedwig.exit_codes import ExitCode
from hedwig.metadata import RecordKey, StoreOptions, format_metadata, open_metadata
from hedwig.metadata.calls.indexed_table import entry_key
from hedwig.model import SubscriberId, Topic
from hedwig.pipeline.main import jobs
from hedwig.versions import ANY
from tests.support.checkout import CHECKOUT
from tests.support.servers import RunningServers

DATA = CHECKOUT / "examples" / "data"
OPTIONS = StoreOptions(operation_timeout_s=120.0, regions=3)


def _stores(servers: RunningServers) -> tuple[str, str]:
    """Return the URLs of an empty store in HBase and of one in ZooKeeper."""
    servers.address("hbase")
    zookeeper = servers.address("zookeeper")
    name = uuid.uuid4().hex[:12]
    urls = (f"hbase://{zookeeper}/p{name}", f"zookeeper://{zookeeper}/hedwig/{name}")
    for url in urls:
        asyncio.run(format_metadata(url, OPTIONS))
    return urls


def _run(capfd: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    capfd.readouterr()
    code = jobs.run_line([*map(str, arguments), "--json"])
    out, err = capfd.readouterr()
    assert code == ExitCode.DONE, err
    result: dict[str, Any] = json.loads(out)
    return result


@pytest.mark.full
def test_generated_metadata_go_to_hbase_and_on_to_zookeeper(
    spark: SparkSession, servers: RunningServers, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hbase, zookeeper = _stores(servers)
    made, snapshot = tmp_path / "made", tmp_path / "snapshot"
    _run(capfd, "generate", made, "--topics", 600, "--subscriptions", 1_500, "--with-history")
    assert _run(capfd, "restore", made, hbase, "--with-owners")["verified"] is True
    _run(capfd, "snapshot", hbase, snapshot, "--rows-per-partition", 200)
    assert _run(capfd, "diff", made, snapshot, "--with-owners")["differences"] == 0
    assert _run(capfd, "migrate", hbase, zookeeper, "--with-owners")["verified"] is True
    assert _run(capfd, "diff", hbase, zookeeper, "--with-owners")["differences"] == 0
    again = _run(capfd, "restore", snapshot, zookeeper)
    assert {name: counts["same"] for name, counts in again["tables"].items()} == {
        "ledgers": 600,
        "subscriptions": 1_500,
    }


def test_an_audit_finds_what_the_index_of_subscribers_lacks(
    spark: SparkSession, servers: RunningServers, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    servers.address("hbase")
    url = f"hbase://{servers.address('zookeeper')}/p{uuid.uuid4().hex[:12]}"
    asyncio.run(format_metadata(url, replace(OPTIONS, indexes_subscribers=True)))
    rows = tmp_path / "subscriptions.tsv"
    rows.write_text("".join(f"t{number}\treader\n" for number in range(50)))
    _run(capfd, "load", url, "--subscriptions", rows)
    assert _run(capfd, "audit", url, tmp_path / "before")["findings"]["unindexed-subscription"] == 0

    async def lose() -> None:
        async with await open_metadata(url) as store:
            await store.index_entries.delete(entry_key(RecordKey(Topic(b"t7"), SubscriberId(b"reader"))), ANY)

    asyncio.run(lose())
    assert _run(capfd, "audit", url, tmp_path / "after")["findings"]["unindexed-subscription"] == 1
    (found,) = spark.read.parquet(f"{tmp_path}/after/findings").where("kind = 'unindexed-subscription'").collect()
    assert (bytes(found["topic"]), bytes(found["subscriber"])) == (b"t7", b"reader")


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_the_package_graph_goes_through_every_backend(
    spark: SparkSession, servers: RunningServers, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hbase, zookeeper = _stores(servers)
    files = ("--topics", DATA / "topics.tsv.gz", "--subscriptions", DATA / "subscriptions.tsv.gz")
    loaded = _run(capfd, "load", hbase, *files)
    assert {name: counts["created"] for name, counts in loaded["tables"].items()} == {
        "topics": 63_666,
        "subscriptions": 277_181,
    }
    snapshot = tmp_path / "snapshot"
    assert _run(capfd, "snapshot", hbase, snapshot)["tables"] == {
        "ledgers": 63_666,
        "subscriptions": 277_181,
        "owners": 0,
    }
    for target in (zookeeper, f"sqlite://{tmp_path}/restored.db"):
        assert _run(capfd, "restore", snapshot, target)["verified"] is True
        assert _run(capfd, "diff", hbase, target)["differences"] == 0
    fan_outs = _run(capfd, "audit", snapshot, tmp_path / "audit")["fan_outs"]
    assert fan_outs[0] == {"topic": "libs/libc6", "subscriptions": 21_841}
