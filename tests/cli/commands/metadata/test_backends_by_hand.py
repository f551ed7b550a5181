"""Prove that the commands do the same on real ZooKeeper and HBase servers as on the embedded store."""

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hedwig.exit_codes import ExitCode
from tests.cli.support.admin import DEADLINE_S, Admin, wait_until
from tests.cli.support.package_graph import check_package_graph
from tests.support.servers import RunningServers


@dataclass(frozen=True, slots=True)
class Backend:
    """A backend as its users reach it: the servers it needs, the one that answers, and the URL of an unused path."""

    name: str
    services: tuple[str, ...]
    server: str
    url: Callable[[RunningServers], str]


def _zookeeper(servers: RunningServers) -> str:
    return f"zookeeper://{servers.address('zookeeper')}/hedwig/{uuid.uuid4().hex}"


def _hbase(servers: RunningServers) -> str:
    return f"hbase+thrift://{servers.address('thrift2')}/c{uuid.uuid4().hex[:12]}"


BACKENDS = (
    Backend("zookeeper", ("zookeeper",), "zookeeper-1", _zookeeper),
    Backend("hbase+thrift", ("hbase", "thrift2"), "thrift2", _hbase),
)


@pytest.fixture(params=BACKENDS, ids=lambda backend: backend.name)
def backend(request: pytest.FixtureRequest, servers: RunningServers) -> Backend:
    chosen: Backend = request.param
    for service in chosen.services:
        servers.address(service)
    return chosen


@pytest.fixture
def remote(backend: Backend, servers: RunningServers, tmp_path: Path) -> Admin:
    """hedwig-admin on a formatted store of the backend."""
    return _formatted(backend, servers, tmp_path)


def _formatted(backend: Backend, servers: RunningServers, directory: Path) -> Admin:
    admin = Admin(directory, backend.url(servers))
    # Creating tables takes its time on a busy machine.
    admin.done("metadata", "format", "--regions", "3", "--timeout", "120")
    return admin


def _topics(admin: Admin) -> set[str]:
    return {row["topic"] for row in admin.done("topic", "list", "--all", "-o", "ndjson").rows}


def _counts(admin: Admin) -> dict[str, int]:
    return {row["kind"]: row["count"] for row in admin.done("metadata", "stats", "-o", "ndjson").rows}


def test_store_that_was_not_formatted_says_how(backend: Backend, servers: RunningServers, tmp_path: Path) -> None:
    admin = Admin(tmp_path, backend.url(servers))
    ran = admin.run("topic", "list")
    assert ran.code == ExitCode.FAILED
    assert f"hedwig-admin metadata format --metadata '{admin.url}'" in ran.err


def test_topics_and_subscriptions_by_hand(remote: Admin) -> None:
    names = ["news", "a/b", "raw\\xff\\x00", "grüße"]
    created = remote.done("topic", "create", *names, "-o", "ndjson").rows
    assert [row["topic"] for row in created] == names
    assert remote.run("topic", "create", "news").code == ExitCode.VERSION_CONFLICT
    listed = remote.done("topic", "list", "-o", "ndjson", "--columns", "topic,version").rows
    assert sorted(row["topic"] for row in listed) == sorted(names)
    assert {row["topic"]: row["version"] for row in listed} == {row["topic"]: row["version"] for row in created}

    remote.done("subscription", "create", "news", "reader/1", "--message-bound", "9", "--option", "k=\\xff")
    remote.done("subscription", "create", "news", "\\xff")
    shown = remote.done("subscription", "show", "news", "reader/1", "-o", "json").json
    assert (shown["message_bound"], shown["consumed"], shown["options"]["k"]) == (9, 0, "\\xff")
    subscribers = remote.done("subscription", "list", "news", "-o", "ndjson", "--limit", "1").rows
    assert subscribers[0]["subscriber"] == "reader/1"
    rest = remote.done(
        "subscription", "list", "news", "--page-token", subscribers[1]["next_page_token"], "-o", "ndjson"
    )
    assert [row["subscriber"] for row in rest.rows] == ["\\xff"]
    assert _counts(remote) == {"ownership": 0, "persistence": 4, "subscriptions": 2}

    assert remote.run("topic", "delete", "news", "--yes").code == ExitCode.FAILED
    assert (
        remote.done("topic", "delete", "news", "--yes", "--force", "--offline", "-o", "json").json["subscriptions"] == 2
    )
    assert remote.run("topic", "show", "news").code == ExitCode.NOT_FOUND
    assert _counts(remote) == {"ownership": 0, "persistence": 3, "subscriptions": 0}
    assert "backend" in remote.done("metadata", "describe", "-o", "json").json


def test_pages_fit_together(remote: Admin) -> None:
    names = {f"page/t{n}" for n in range(40)} | {f"page\\x00{n}" for n in range(10)}
    remote.done("topic", "create", "--", *names)
    listed: list[str] = []
    token: list[str] = []
    while True:
        page = remote.done("topic", "list", "--limit", "7", "-o", "json", *token).json
        listed += [row["topic"] for row in page["topics"]]
        if page["next_page_token"] is None:
            break
        token = ["--page-token", page["next_page_token"]]
    assert len(listed) == len(set(listed))
    assert set(listed) == names


def test_bulk_load_counts_match_and_wipe_empties(remote: Admin) -> None:
    topics, subscriptions = remote.directory / "topics", remote.directory / "subscriptions"
    topics.write_text("".join(f"section/t{n}\t{n}\n" for n in range(500)) + "section/t7\n\n")
    subscriptions.write_text("".join(f"section/t{n % 50}\ts{n}\n" for n in range(500)) + "new\ts\n")
    loaded = remote.run("topic", "create", "-f", str(topics), "-o", "json")
    assert (loaded.json["created"], loaded.json["existed"], loaded.json["failed"]) == (500, 1, 1)
    loaded = remote.run("subscription", "create", "-f", str(subscriptions), "-o", "json")
    assert (loaded.json["created"], loaded.json["topics_created"], loaded.json["failed"]) == (501, 1, 0)
    again = remote.run("subscription", "create", "-f", str(subscriptions), "-o", "json")
    assert (again.json["created"], again.json["existed"]) == (0, 501)
    assert _counts(remote) == {"ownership": 0, "persistence": 501, "subscriptions": 501}
    assert remote.done("topic", "show", "section/t7", "-o", "json").json["subscription_count"] == 10
    assert len(remote.done("topic", "list", "--all", "--prefix", "section/", "-o", "ndjson").rows) == 500
    assert remote.run("metadata", "format", "--wipe", text="no\n").code == ExitCode.FAILED
    remote.done("metadata", "format", "--wipe", "--yes", "--regions", "3", "--timeout", "120")
    assert _counts(remote) == {"ownership": 0, "persistence": 0, "subscriptions": 0}


@pytest.fixture
def harmed(backend: Backend, servers: RunningServers, tmp_path: Path) -> Iterator[RunningServers]:
    """Servers of which one may be paused. ZooKeeper is a second one: HBase of this run dies without the first."""
    if backend.server != "zookeeper-1":
        yield servers
        return
    own = RunningServers(tmp_path / "servers")
    try:
        yield own
    finally:
        own.launcher.down()


def test_server_that_does_not_answer_stops_a_load_that_can_go_on(
    backend: Backend, harmed: RunningServers, tmp_path: Path
) -> None:
    remote = _formatted(backend, harmed, tmp_path)
    source = remote.directory / "input"
    source.write_text("".join(f"t{n}\n" for n in range(20_000)))
    result = remote.directory / "result"
    command = ("topic", "create", "-f", str(source), "--result", str(result), "--timeout", "3")
    load = remote.start(*command, "--batch-rows", "50")
    wait_until(lambda: result.exists() and result.read_bytes().count(b"checkpoint") > 2, "the load to be under way")
    harmed.launcher.pause(backend.server)
    try:
        _, err = load.communicate(timeout=DEADLINE_S)
    finally:
        harmed.launcher.resume(backend.server)
    assert load.returncode in (ExitCode.OUTCOME_UNKNOWN, ExitCode.UNAVAILABLE)
    assert b"stopped after line" in err
    # The test shortens the rest of the input: it only proves where the load continues.
    checkpoints = [line for line in result.read_text().splitlines() if line.startswith('{"checkpoint"')]
    done = int(json.loads(checkpoints[-1])["checkpoint"]["line"])
    source.write_text("".join(f"t{n}\n" for n in range(done + 500)))
    ran = remote.run_apart(*command[:-2], "-o", "json")
    assert (ran.code, ran.json["rows"], ran.json["failed"]) == (0, done + 500, 0), ran.err
    assert ran.json["resumed_after_line"] == done
    # A batch that was under way when the load stopped may have written topics beyond the shortened input.
    assert {f"t{n}" for n in range(done + 500)} <= _topics(remote)


@pytest.mark.full
@pytest.mark.timeout(2400)
def test_package_graph_loads_and_reads_back(remote: Admin) -> None:
    check_package_graph(remote)
