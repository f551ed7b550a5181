"""Prove the verdicts and exit codes of `check health` and `check perf`, on healthy and on faulty stores and hubs."""

import asyncio
import signal
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from hedwig.cli.output.format_names import FORMATS
from hedwig.exit_codes import ExitCode
from hedwig.metadata import format_metadata
from hedwig.operations.checks.perf_terms import OPERATIONS, SIZES, PerfSize
from hedwig.operations.checks.verdicts import CheckExit, CheckStatus, exit_of
from tests.cli.commands.hub.test_hubs_of_a_cluster import Pair
from tests.cli.support.admin import DEADLINE_S, Admin, Ran, wait_until
from tests.cli.support.agreement import check_agreement
from tests.cli.support.command_tree import example_of
from tests.cli.support.hub_and_admin import HubAndAdmin
from tests.cli.support.screen import shown_on_terminal
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.running import RunningHub
from tests.support.servers import RunningServers


def _verdicts(ran: Ran) -> dict[str, str]:
    """Return the verdict by check. If several checks share a name, the last one counts."""
    return {row["check"]: row["verdict"] for row in ran.rows}


def _health(admin: Admin, *arguments: str, **environment: str) -> Ran:
    return admin.run("check", "health", "-o", "ndjson", *arguments, **environment)


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ((), CheckExit.OK),
        ((CheckStatus.PASS, CheckStatus.SKIP), CheckExit.OK),
        ((CheckStatus.PASS, CheckStatus.WARN), CheckExit.WARNING),
        ((CheckStatus.UNKNOWN, CheckStatus.WARN), CheckExit.WARNING),
        ((CheckStatus.UNKNOWN, CheckStatus.PASS), CheckExit.UNKNOWN),
        ((CheckStatus.WARN, CheckStatus.FAIL, CheckStatus.UNKNOWN), CheckExit.CRITICAL),
    ],
)
def test_exit_code_is_that_of_the_worst_verdict(verdicts: tuple[CheckStatus, ...], code: CheckExit) -> None:
    assert exit_of(verdicts) == code


# ---------------------------------------------------------------------------------------------------- health: the store


def test_a_store_that_is_well_passes(admin: Admin) -> None:
    admin.done("topic", "create", "news")
    ran = _health(admin)
    assert ran.code == CheckExit.OK
    assert _verdicts(ran) == {
        "store": "PASS",
        "layout": "PASS",
        "compare-and-set": "PASS",
        "tables": "PASS",
        "liveness": "SKIP",
        "hubs": "SKIP",
    }
    assert admin.done("check", "health").out.splitlines()[0].split() == ["VERDICT", "CHECK", "DETAIL"]


def test_a_check_leaves_topics_alone_and_can_be_repeated(admin: Admin) -> None:
    admin.done("topic", "create", "news")
    before = admin.done("topic", "show", "news", "-o", "json").json
    for _ in range(3):
        assert _health(admin).code == CheckExit.OK
    assert admin.done("topic", "show", "news", "-o", "json").json == before
    assert admin.done("metadata", "stats", "-o", "json").json["records"][1]["count"] == 1


def test_nothing_is_made_by_looking(admin: Admin) -> None:
    assert _health(admin, HEDWIG_METADATA="").code == CheckExit.OK
    assert not (admin.directory / "data").exists()
    missing = admin.directory / "missing.db"
    ran = _health(admin, "--metadata", f"sqlite://{missing}")
    assert (ran.code, _verdicts(ran)["layout"]) == (CheckExit.CRITICAL, "FAIL")
    assert "hedwig-admin metadata format" in ran.out
    assert not missing.exists()


@pytest.mark.parametrize(
    ("url", "code", "check", "verdict"),
    [
        ("zookeeper://127.0.0.1:1/hedwig/x", CheckExit.CRITICAL, "store", "FAIL"),
        ("hbase+thrift://127.0.0.1:1/x", CheckExit.CRITICAL, "store", "FAIL"),
        ("tape:///x", CheckExit.UNKNOWN, "store", "UNKNOWN"),
    ],
)
def test_a_store_that_does_not_answer_fails_and_one_that_cannot_be_is_unknown(
    admin: Admin, url: str, code: CheckExit, check: str, verdict: str
) -> None:
    ran = _health(admin, "--metadata", url, "--timeout", "1")
    assert (ran.code, _verdicts(ran)[check]) == (code, verdict)


def test_a_store_of_a_later_release_is_a_warning_and_of_another_format_a_failure(admin: Admin) -> None:
    admin.done("topic", "create", "news")
    admin.query("UPDATE layout SET minor = 99")
    ran = _health(admin)
    assert (ran.code, _verdicts(ran)["layout"]) == (CheckExit.WARNING, "WARN")
    admin.query("UPDATE layout SET major = 99")
    ran = _health(admin)
    assert (ran.code, _verdicts(ran)["layout"]) == (CheckExit.CRITICAL, "FAIL")


def test_a_store_that_somebody_else_holds_fails(admin: Admin) -> None:
    admin.done("topic", "create", "news")
    assert _health(admin).code == CheckExit.OK
    with admin.locked():
        ran = _health(admin, "--timeout", "0.5")
    assert (ran.code, _verdicts(ran)["store"]) == (CheckExit.CRITICAL, "FAIL")


def test_a_command_line_that_makes_no_sense_is_no_verdict(admin: Admin) -> None:
    ran = admin.run("check", "health", "--columns", "colour")
    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert "colour" in ran.err


def test_a_terminal_is_told_in_full_what_is_wrong(admin: Admin) -> None:
    admin.done("topic", "create", "news")
    shown = shown_on_terminal(admin, "check", "health")
    assert "compare-and-set" in shown


# ----------------------------------------------------------------------------------------------------- health: the hubs


def test_a_hub_whose_store_was_moved_is_not_to_be_started(tmp_path: Path) -> None:
    with HubAndAdmin(tmp_path) as running:
        admin = running.admin
        running.hub.stop()
        assert "start it" in admin.run("check", "health").out
        target = f"sqlite://{tmp_path}/target.db"
        admin.done("metadata", "migrate", "--from", admin.url, "--to", target, "--yes")
        checks = {row["check"]: row for row in admin.run("check", "health", "-o", "json").json["checks"]}
    assert [checks[each]["verdict"] for each in ("store", "freeze", "hub")] == ["PASS", "FAIL", "FAIL"]
    assert "start it" not in checks["hub"]["detail"]
    for each in ("freeze", "hub"):
        assert f"moved to {target}" in checks[each]["detail"]


def test_a_standalone_hub_is_asked_whether_it_is_ready(tmp_path: Path) -> None:
    with HubAndAdmin(tmp_path) as both:
        assert _verdicts(_health(both.admin))["hub"] == "PASS"
        assert _health(both.admin).code == CheckExit.OK
        AdminClient(both.hub.admin).ask("POST", "/read-only?state=on")
        ran = _health(both.admin)
        assert (ran.code, _verdicts(ran)["hub"]) == (CheckExit.CRITICAL, "FAIL")
        assert "read-only" in ran.out
        elsewhere = _health(both.admin, "--admin", "127.0.0.1:1")
        assert (elsewhere.code, _verdicts(elsewhere)["hub"]) == (CheckExit.UNKNOWN, "UNKNOWN")
        both.hub.kill()
        ran = _health(both.admin)
        assert (ran.code, _verdicts(ran)["hub"]) == (CheckExit.CRITICAL, "FAIL")
        assert "nothing listens" in ran.out


@pytest.fixture(scope="module")
def pair(servers: RunningServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two hubs of a cluster that keeps its metadata in its own ZooKeeper."""
    with Pair(servers, tmp_path_factory.mktemp("checked")) as started:
        started.admin.environment |= {"HEDWIG_METADATA": started.cluster}
        yield started


def test_a_cluster_that_is_well_passes_with_all_its_hubs_and_bookies(pair: Pair) -> None:
    ran = _health(pair.admin)
    assert ran.code == CheckExit.OK, ran
    assert {row["check"] for row in ran.rows if row["verdict"] == "PASS"} == {
        "store",
        "layout",
        "compare-and-set",
        "tables",
        "liveness",
        "hub",
        "bookies",
    }
    assert sum(row["check"] == "hub" for row in ran.rows) == 2
    check_agreement({output: pair.admin.done("check", "health", "-o", output).out for output in FORMATS})


def test_one_hub_that_is_not_ready_is_a_warning_and_all_are_a_failure(pair: Pair) -> None:
    one, other = (AdminClient(hub.admin) for hub in pair.hubs)
    one.ask("POST", "/read-only?state=on")
    try:
        ran = _health(pair.admin)
        assert (ran.code, sorted(row["verdict"] for row in ran.rows if row["check"] == "hub")) == (
            CheckExit.WARNING,
            ["PASS", "WARN"],
        )
        other.ask("POST", "/read-only?state=on")
        ran = _health(pair.admin)
        assert (ran.code, {row["verdict"] for row in ran.rows if row["check"] == "hub"}) == (
            CheckExit.CRITICAL,
            {"FAIL"},
        )
    finally:
        for hub in (one, other):
            hub.ask("POST", "/read-only?state=off")


def test_a_drained_hub_is_a_warning(pair: Pair) -> None:
    name = pair.hubs[0].address
    pair.admin.done("hub", "drain", name, "--wait")
    try:
        wait_until(lambda: _health(pair.admin).code == CheckExit.WARNING, "it announces that it is drained")
        assert f"undrain {name}" in _health(pair.admin).out
    finally:
        pair.admin.done("hub", "undrain", name)
    wait_until(lambda: _health(pair.admin).code == CheckExit.OK, "it announces that it serves")


def test_too_few_bookies_and_no_hub_fail(pair: Pair) -> None:
    nowhere = f"zookeeper://{pair.zookeeper}/no-bookies-here"
    ran = _health(pair.admin, "--bookkeeper", nowhere)
    assert (ran.code, _verdicts(ran)["bookies"]) == (CheckExit.CRITICAL, "FAIL")
    ran = _health(pair.admin, "--cluster", f"{pair.cluster}/nobody")
    assert (ran.code, _verdicts(ran)["hubs"]) == (CheckExit.CRITICAL, "FAIL")
    ran = _health(pair.admin, "--cluster", "zookeeper://127.0.0.1:1/x", "--timeout", "1")
    assert _verdicts(ran)["liveness"] == "FAIL"
    ran = _health(pair.admin, "--cluster", "nonsense")
    assert _verdicts(ran)["liveness"] == "UNKNOWN"


def test_a_standalone_hub_on_a_store_in_zookeeper_is_looked_at(servers: RunningServers, tmp_path: Path) -> None:
    url = f"zookeeper://{servers.address('zookeeper')}/hedwig/{uuid.uuid4().hex}"
    asyncio.run(format_metadata(url))
    admin = Admin(tmp_path, url)
    ran = _health(admin)
    assert (ran.code, _verdicts(ran)["hubs"]) == (CheckExit.CRITICAL, "FAIL")
    assert "--cluster" in ran.out
    with RunningHub(tmp_path / "hub", f"metadata={url}") as hub:
        ran = _health(admin, "--admin", hub.admin)
        assert (ran.code, _verdicts(ran)["hub"]) == (CheckExit.OK, "PASS"), ran


# ----------------------------------------------------------------------------------------------------------------- perf


def _records(admin: Admin) -> dict[str, int]:
    listed = admin.done("metadata", "stats", "-o", "json").json["records"]
    return {row["kind"]: row["count"] for row in listed}


def test_example_measures_every_operation_and_leaves_nothing(admin: Admin) -> None:
    admin.done("topic", "create", "news")
    before = _records(admin)
    ran = admin.run(*example_of(("check", "perf")), "-o", "ndjson")
    assert [row["operation"] for row in ran.rows] == list(OPERATIONS)
    for row in ran.rows:
        assert row["operations"] == SIZES["s"].operations
        assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["max_ms"]
        is_enough = row["per_s"] >= row["per_s_min"] and row["p99_ms"] <= row["p99_ms_max"]
        assert row["verdict"] == ("PASS" if is_enough else "FAIL")
    is_good = {row["verdict"] for row in ran.rows} == {"PASS"}
    assert ran.code == (CheckExit.OK if is_good else CheckExit.CRITICAL)
    assert ("is good enough for 10,000 topics" in ran.err) == is_good
    assert _records(admin) == before


def test_what_no_store_reaches_fails(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIZES, "m", PerfSize(topics=10**15, operations=50, callers=4))
    results = {output: admin.run("check", "perf", "--size", "m", "-o", output) for output in FORMATS}
    assert {ran.code for ran in results.values()} == {CheckExit.CRITICAL}
    check_agreement({output: ran.out for output, ran in results.items()})
    assert [row["verdict"] for row in results["ndjson"].rows] == ["FAIL"] * len(OPERATIONS)
    assert "6 operations too slow" in results["json"].err


@pytest.mark.parametrize("load", [0.0, 1000.0])
def test_a_machine_that_is_too_busy_to_measure_is_named(
    load: float, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SIZES, "m", PerfSize(topics=10**15, operations=50, callers=4))
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    ran = admin.run("check", "perf", "--size", "m")
    assert ran.code == CheckExit.CRITICAL
    assert ("this machine has a load of 1000 on" in ran.err) == (load > 0)


def test_ctrl_c_removes_what_was_made(admin: Admin) -> None:
    admin.done("topic", "create", "news")
    before = _records(admin)
    process = admin.start("check", "perf", "--size", "l", "-o", "ndjson")
    try:
        assert process.stdout is not None
        assert b"create topic" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
    assert process.returncode == ExitCode.INTERRUPTED
    assert _records(admin) == before


def test_what_a_killed_run_left_is_removed_on_request(admin: Admin) -> None:
    admin.done("topic", "create", "news")
    before = _records(admin)
    process = admin.start("check", "perf", "--size", "l", "-o", "ndjson")
    try:
        assert process.stdout is not None
        assert b"create topic" in process.stdout.readline()
        assert b"claim" in process.stdout.readline()
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE_S)
    left = _records(admin)["persistence"] - 1
    assert left > 0
    assert admin.done("check", "perf", "--clean", "-o", "json").json["removed"] == left
    assert _records(admin) == before


def test_a_store_that_cannot_be_measured_is_unknown(admin: Admin) -> None:
    ran = admin.run("check", "perf", "--metadata", "zookeeper://127.0.0.1:1/x", "--timeout", "1")
    assert (ran.code, ran.out) == (CheckExit.UNKNOWN, "")
    assert len(ran.err.splitlines()) == 1
    assert admin.run("check", "perf", "--size", "xxl").code == ExitCode.USAGE


def test_zookeeper_keeps_no_node_of_a_run(servers: RunningServers, tmp_path: Path) -> None:
    zookeeper, prefix = servers.address("zookeeper"), f"/hedwig/{uuid.uuid4().hex}"
    url = f"zookeeper://{zookeeper}{prefix}"
    asyncio.run(format_metadata(url))
    admin = Admin(tmp_path, url)
    admin.done("topic", "create", "news")
    ran = admin.run("check", "perf", "-o", "ndjson")
    assert [row["operation"] for row in ran.rows] == list(OPERATIONS)
    raw = KazooClient(zookeeper)
    raw.start(30)
    with closing(raw):
        assert raw.get_children(f"{prefix}/topics") == ["news"]
        raw.stop()


def test_errors_of_libraries_are_not_shown_beside_ours(admin: Admin) -> None:
    ran = admin.run_apart("check", "perf", "--metadata", "zookeeper://127.0.0.1:1/x", "--timeout", "1")
    assert (ran.code, len(ran.err.splitlines())) == (CheckExit.UNKNOWN, 1), ran.err
