"""Prove that `check health` and `check perf` on HBase find unreachable parts, measure both drivers, and clean up."""

import asyncio
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import happybase
import pytest

from hedwig.exit_codes import ExitCode
from hedwig.metadata import StoreOptions, format_metadata
from hedwig.operations.checks.perf_terms import OPERATIONS, SIZES
from hedwig.operations.checks.verdicts import CheckExit
from tests.cli.support.admin import DEADLINE_S, Admin
from tests.support.servers import RunningServers

__all__: list[str] = []

_TIMEOUT_MS = 60_000


@pytest.fixture
def namespace(servers: RunningServers, tmp_path: Path) -> Iterator[Admin]:
    """hedwig-admin on a namespace of its own, with one topic in it."""
    servers.address("hbase")
    url = f"hbase://{servers.address('zookeeper')}/{uuid.uuid4().hex}"
    asyncio.run(format_metadata(url, StoreOptions(regions=2)))
    admin = Admin(tmp_path, url)
    admin.done("subscription", "create", "news", "reader")
    yield admin
    # Later tests must not find tables here that are disabled or damaged.
    admin.done("metadata", "format", "--wipe", "--yes")


def _records(admin: Admin) -> dict[str, int]:
    return {row["kind"]: row["count"] for row in admin.done("metadata", "stats", "-o", "json").json["records"]}


def _ask(servers: RunningServers, question: Callable[[happybase.Connection], object]) -> None:
    host, _, port = servers.address("thrift1").rpartition(":")
    with closing(happybase.Connection(host, int(port), timeout=_TIMEOUT_MS)) as connection:
        question(connection)


@pytest.mark.parametrize(
    "table", ["ownership", *(pytest.param(each, marks=pytest.mark.full) for each in ("persistence", "subscriptions"))]
)
def test_table_that_is_out_of_reach_fails(table: str, namespace: Admin, servers: RunningServers) -> None:
    name = f"{namespace.url.rpartition('/')[2]}:{table}"
    _ask(servers, lambda connection: connection.disable_table(name))
    try:
        ran = namespace.run("check", "health", "-o", "ndjson", "--timeout", "5")
    finally:
        _ask(servers, lambda connection: connection.enable_table(name))
    # A store may answer and do a compare-and-set while one of its tables does neither.
    assert [row["check"] for row in ran.rows if row["verdict"] == "FAIL"] == ["tables"], ran
    assert {"store", "layout", "compare-and-set"} < {row["check"] for row in ran.rows}
    assert ran.code == CheckExit.CRITICAL
    ran = namespace.run("check", "health", "-o", "ndjson")
    assert {row["check"]: row["verdict"] for row in ran.rows}["tables"] == "PASS", ran


@pytest.mark.parametrize("driver", ["hbase", pytest.param("hbase+thrift", marks=pytest.mark.full)])
def test_every_operation_is_measured_and_nothing_is_left(
    driver: str, namespace: Admin, servers: RunningServers
) -> None:
    url = namespace.url
    if driver == "hbase+thrift":
        url = f"hbase+thrift://{servers.address('thrift2')}/{url.rpartition('/')[2]}"
    before = _records(namespace)
    ran = namespace.run("check", "perf", "--metadata", url, "-o", "ndjson")
    assert [row["operation"] for row in ran.rows] == list(OPERATIONS), ran
    for row in ran.rows:
        # On a busy machine the check may not finish all of them in its 30 seconds.
        assert 0 < row["operations"] <= SIZES["s"].operations
        assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["max_ms"]
        is_enough = row["per_s"] >= row["per_s_min"] and row["p99_ms"] <= row["p99_ms_max"]
        assert row["verdict"] == ("PASS" if is_enough else "FAIL")
    is_good = {row["verdict"] for row in ran.rows} == {"PASS"}
    assert ran.code == (CheckExit.OK if is_good else CheckExit.CRITICAL)
    assert ("is good enough for 10,000 topics" in ran.err) == is_good
    assert _records(namespace) == before


def test_run_that_is_interrupted_cleans_up_and_one_that_is_killed_is_cleaned_up_after(namespace: Admin) -> None:
    before = _records(namespace)
    for number in (signal.SIGINT, signal.SIGKILL):
        process = namespace.start("check", "perf", "--size", "m", "-o", "ndjson")
        try:
            assert process.stdout is not None
            assert b"create topic" in process.stdout.readline()
            process.send_signal(number)
            process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
        if number is signal.SIGINT:
            assert process.returncode == ExitCode.INTERRUPTED
            assert _records(namespace) == before
    left = _records(namespace)["persistence"] - before["persistence"]
    assert left > 0
    assert namespace.done("check", "perf", "--clean", "-o", "json").json["removed"] == left
    assert _records(namespace) == before
