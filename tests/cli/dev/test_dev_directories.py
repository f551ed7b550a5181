"""Prove that a server directory survives quorums, two launchers, Ctrl-C, restarts on old data, and a poor machine."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from hedwig.cli.dev import DevError, DevServers, ServerState
from hedwig.cli.dev.probes.sockets import four_letter_word
from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT
from hedwig.cli.dev.servers.classpath import ClasspathCache, user_cache
from tests.cli.dev.support.conditions import wait_until
from tests.cli.dev.support.listening import listening_addresses, processes_naming

COMMAND = [sys.executable, "-c", "from hedwig.cli.main import main; main()", "dev"]
LOOPBACK_HEX = {"0100007F", "0000000000000000FFFF00000100007F"}


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A directory for servers, emptied after the test."""
    path = tmp_path / "servers"
    yield path
    DevServers(path).down()
    assert processes_naming(path) == []


def zookeeper(servers: DevServers) -> KazooClient:
    client = KazooClient(servers.address("zookeeper"), timeout=8)
    client.start(timeout=30)
    return client


def modes(servers: DevServers) -> list[str]:
    answers = [four_letter_word(one.port, "srvr") for one in servers.status() if one.state is ServerState.RUNNING]
    return sorted(word for answer in answers for word in re.findall(r"Mode: (\w+)", answer))


def test_three_zookeepers_form_a_quorum_that_outlives_its_leader(directory: Path) -> None:
    servers = DevServers(directory, heap_mb={"zookeeper": 128})
    servers.up(["zookeeper"], zookeepers=3)
    assert modes(servers) == ["follower", "follower", "leader"]
    leader = next(one.name for one in servers.status() if "Mode: leader" in four_letter_word(one.port, "srvr"))
    client = zookeeper(servers)
    try:
        client.create("/kept", b"1")
        servers.kill(leader)
        wait_until(lambda: modes(servers) == ["follower", "leader"], "a new leader is elected")
        wait_until(lambda: client.connected, "the client is connected again")
        assert client.retry(client.get, "/kept")[0] == b"1"
    finally:
        client.stop()
        client.close()
    servers.start(leader)
    assert modes(servers) == ["follower", "follower", "leader"]
    listening = listening_addresses(servers.pid(one.name) for one in servers.status())
    assert {address for address, _ in listening} <= LOOPBACK_HEX


def test_two_launchers_at_once_start_one_server(directory: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda _: command(directory, "up", "zookeeper"), range(2)))
    assert [run.returncode for run in runs] == [0, 0], [run.stderr for run in runs]
    assert len(processes_naming(directory)) == 1
    assert sorted("was running" in run.stderr for run in runs) == [False, True]


def test_an_interrupted_start_leaves_no_unknown_process(directory: Path) -> None:
    starting = subprocess.Popen(
        [*COMMAND, "up", "hbase", "--dir", str(directory)], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    state = directory / "state.json"
    wait_until(lambda: state.exists() and '"pid"' in state.read_text(), "a server is starting")
    os.killpg(starting.pid, signal.SIGINT)
    assert "interrupted" in starting.communicate(timeout=60)[1]
    assert starting.returncode == 130
    recorded = {one.pid for one in DevServers(directory).status() if one.pid is not None}
    assert recorded
    assert set(processes_naming(directory)) == recorded
    DevServers(directory).up(["zookeeper"])


def test_data_and_ports_can_outlive_the_servers(directory: Path) -> None:
    servers = DevServers(directory, zookeeper_properties={"maxSessionTimeout": "12345"})
    servers.up(["zookeeper"])
    address, client = servers.address("zookeeper"), zookeeper(servers)
    client.create("/kept", b"1")
    client.stop()
    client.close()
    servers.down(keep_data=True)
    assert [one.state for one in servers.status()] == [ServerState.STOPPED]
    # Another launcher without properties gives the server those of the first one.
    again = DevServers(directory)
    again.up(["zookeeper"])
    assert again.address("zookeeper") == address
    assert "maxSessionTimeout=12345" in four_letter_word(again.port("zookeeper-1"), "conf")
    client = zookeeper(again)
    try:
        assert client.get("/kept")[0] == b"1"
    finally:
        client.stop()
        client.close()


def test_a_server_that_cannot_start_shows_its_last_words(directory: Path) -> None:
    servers = DevServers(directory, zookeeper_properties={"tickTime": "never"})
    with pytest.raises(DevError, match=r"^zookeeper-1 died while it started: see `hedwig-admin dev logs") as caught:
        servers.up(["zookeeper"])
    assert any("NumberFormatException" in line for line in caught.value.log_tail)


@pytest.mark.parametrize(
    ("service", "bookie"),
    [("bookkeeper", "bookie-1"), pytest.param("bookkeeper43", "bookie43-1", marks=pytest.mark.full)],
)
def test_a_taken_port_stops_a_server_whose_data_name_it(directory: Path, service: str, bookie: str) -> None:
    servers = DevServers(directory)
    servers.up([service])
    servers.kill(bookie)
    port = servers.port(bookie)
    refusal = pytest.raises(DevError, match=f"cannot start {bookie}: another program has taken its port {port}")
    with socket.create_server(("127.0.0.1", port)), refusal:
        servers.up([service])
    servers.up([service])
    assert servers.port(bookie) == port


def test_a_port_on_which_nobody_listens_is_anybodys(directory: Path) -> None:
    """A record may name more ports than its server has: earlier releases named ports of peers that did not exist."""
    servers = DevServers(directory)
    servers.up(["zookeeper"])
    servers.kill("zookeeper-1")
    with socket.create_server(("127.0.0.1", 0)) as other:
        path = directory / "state.json"
        state = json.loads(path.read_text())
        state["servers"]["zookeeper-1"]["ports"]["peer"] = other.getsockname()[1]
        path.write_text(json.dumps(state))
        servers.start("zookeeper-1")
    assert "Mode: standalone" in four_letter_word(servers.port("zookeeper-1"), "srvr")


@pytest.mark.full
def test_bookies_of_both_releases_stand_side_by_side(directory: Path) -> None:
    servers = DevServers(directory, bookie_properties={"journalMaxGroupWaitMSec": "2"})
    servers.up(["bookkeeper"], bookies=2)
    servers.up(["bookkeeper43"])
    kept = {one.name: one.pid for one in servers.status()}
    assert list(kept) == ["zookeeper-1", "bookie-1", "bookie-2", "bookie43-1"]
    settings = (directory / "conf" / "bookie-1" / "bookie.conf").read_text().splitlines()
    assert {"journalMaxGroupWaitMSec=2", "journalSyncData=true"} <= set(settings)
    assert registered(servers, LEDGERS_ROOT) == {*servers.address("bookie").split(","), "readonly"}
    assert registered(servers, "/ledgers") >= {servers.address("bookie43")}
    listening = listening_addresses(servers.pid(one.name) for one in servers.status())
    assert {port for _, port in listening} == {one.port for one in servers.status()}
    assert {address for address, _ in listening} <= LOOPBACK_HEX
    servers.kill("bookie-2")
    servers.start("bookie-2")
    servers.up(["bookkeeper"], bookies=3)
    again = {one.name: one.pid for one in servers.status()}
    assert {name for name in again if again[name] != kept.get(name)} == {"bookie-2", "bookie-3"}
    wait_until(lambda: len(registered(servers, LEDGERS_ROOT)) == 4, "all bookies are registered")


def registered(servers: DevServers, root: str) -> set[str]:
    client = zookeeper(servers)
    try:
        return set(client.get_children(f"{root}/available"))
    finally:
        client.stop()
        client.close()


def test_the_original_hub_stores_messages_in_its_bookies(directory: Path) -> None:
    servers = DevServers(directory, hub_properties={"metadata_manager_based_topic_manager_enabled": "true"})
    servers.up(["java-hedwig"], bookies=2)
    settings = (directory / "conf" / "java-hedwig" / "hub.conf").read_text().splitlines()
    assert {"bk_ensemble_size=2", "bk_write_quorum_size=2", "bk_ack_quorum_size=2"} <= set(settings)
    assert "metadata_manager_based_topic_manager_enabled=true" in settings
    benchmark = servers.java_command(
        "hedwig43",
        "org.apache.hedwig.client.benchmark.HedwigBenchmark",
        [
            *("--mode", "pub", "--nTopics", "2", "--nMsgs", "40", "--npar", "4", "--msgSize", "100", "--nwarmups", "4"),
            *("--defaultHub", servers.address("java-hedwig")),
        ],
    )
    # The program has threads that keep it alive after its last line.
    with subprocess.Popen(benchmark, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        try:
            out = run.communicate(timeout=120)[0]
        finally:
            run.kill()
    assert re.search(r"Finished acked pubs: count = [1-9]\d*, .* numFailed = 0,", out), out
    client = zookeeper(servers)
    try:
        assert len(client.get_children("/ledgers/available")) == 3  # two bookies and the node for read-only ones
    finally:
        client.stop()
        client.close()
    listening = listening_addresses(servers.pid(one.name) for one in servers.status())
    assert {address for address, _ in listening} <= LOOPBACK_HEX


def test_a_missing_jdk_is_one_line_with_the_remedy(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(
        DevError, match=r"^cannot run Java servers: java is not on the PATH; run `apt-get install -y openjdk"
    ):
        DevServers(directory).up(["zookeeper"])
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    with pytest.raises(DevError, match="JAVA_HOME=/nonexistent has no bin/java"):
        DevServers(directory).up(["zookeeper"])
    assert not directory.exists()


def test_a_missing_maven_is_one_line_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(DevError, match=r"^cannot fetch the jars of hbase: Maven .* run `apt-get install -y maven`$"):
        ClasspathCache(tmp_path).classpath("hbase", print)


def test_a_class_path_whose_jars_have_gone_is_made_again(tmp_path: Path) -> None:
    said: list[str] = []
    shared = user_cache() / "classpath"
    first = ClasspathCache(shared).classpath("zookeeper", said.append)
    said.clear()
    for kept in shared.glob("zookeeper-*.txt"):
        (tmp_path / kept.name).write_text(f"/nonexistent/zookeeper.jar{os.pathsep}{first}")
    assert ClasspathCache(tmp_path).classpath("zookeeper", said.append) == first
    assert len(said) == 1
    assert ClasspathCache(tmp_path).classpath("zookeeper", said.append) == first
    assert len(said) == 1


def test_commands_speak_to_people_and_to_programs(directory: Path) -> None:
    assert command(directory, "status", "--columns", "name").stdout == "NAME\n"
    run = command(directory, "up", "zookeeper", "--heap", "zookeeper=100")
    assert re.fullmatch(r"(class path .*\n)*zookeeper-1 ready after [\d.]+ s on 127\.0\.0\.1:\d+\n", run.stderr), (
        run.stderr
    )
    (shown,) = _servers(directory)
    assert run.stdout == command(directory, "status").stdout
    assert shown == json.loads(command(directory, "status", "-o", "ndjson").stdout)
    assert (shown["name"], shown["state"], shown["host"]) == ("zookeeper-1", "running", "127.0.0.1")
    assert "-Xmx100m" in Path(f"/proc/{shown['pid']}/cmdline").read_text().split("\0")
    table = command(directory, "status").stdout.splitlines()
    assert [line.split() for line in table] == [
        ["NAME", "STATE", "PID", "ADDRESS"],
        ["zookeeper-1", "running", str(shown["pid"]), f"127.0.0.1:{shown['port']}"],
    ]
    assert command(directory, "logs", "zookeeper-1", "--lines", "2").stdout.count("\n") == 2
    assert command(directory, "pause", "zookeeper-1").stderr == "paused zookeeper-1\n"
    assert _servers(directory)[0]["state"] == "paused"
    assert command(directory, "resume", "zookeeper-1").stderr == "resumed zookeeper-1\n"
    assert command(directory, "kill", "zookeeper-1").stderr == "killed zookeeper-1\n"
    assert _servers(directory)[0]["state"] == "dead"
    assert command(directory, "start", "zookeeper-1").returncode == 0
    planned = json.loads(command(directory, "down", "--dry-run", "-o", "json").stdout)
    assert (planned["would_end"], planned["data"]) == (["zookeeper-1"], "would be removed")
    asked = command(directory, "down")
    assert asked.returncode == 2
    assert asked.stderr.startswith(f"This removes the data of zookeeper-1 in {directory} for good; go on? [y/N]")
    assert asked.stderr.splitlines()[-1].endswith("give --yes")
    assert _servers(directory)[0]["state"] == "running"
    assert command(directory, "down", "--yes").stderr == f"ended zookeeper-1; removed the data in {directory}\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["kill", "zookeeper-1"], 3, "error: there is no server 'zookeeper-1' in"),
        (["logs", "zookeeper-1"], 3, "run `hedwig-admin dev up` first"),
        (["up", "zookeper"], 2, "'zookeper' is not one of 'zookeeper', 'kdc', 'hbase'"),
        (["up", "--heap", "hub=1"], 2, "is not [KIND=]MIB with at least 16 MiB"),
        (["up", "--regionservers", "0"], 2, "0 is not in the range"),
    ],
)
def test_mistakes_are_told_in_one_line(directory: Path, arguments: list[str], code: int, message: str) -> None:
    run = command(directory, *arguments)
    assert run.returncode == code
    assert message in run.stderr.splitlines()[-1]
    assert "Traceback" not in run.stderr


def test_logs_are_followed_until_ctrl_c(directory: Path) -> None:
    servers = DevServers(directory)
    servers.up(["zookeeper"])
    following = subprocess.Popen(
        [*COMMAND, "logs", "zookeeper-1", "--lines", "1", "--follow", "--dir", str(directory)], stdout=subprocess.PIPE
    )
    assert following.stdout is not None
    try:
        assert following.stdout.readline().endswith(b"\n")
        servers.kill("zookeeper-1")
        servers.start("zookeeper-1")
        assert b"QuorumPeer" in following.stdout.readline()
        following.send_signal(signal.SIGINT)
        assert following.wait(20) == 130
    finally:
        following.kill()
        following.communicate(timeout=20)


def _servers(directory: Path) -> list[dict[str, Any]]:
    servers: list[dict[str, Any]] = json.loads(command(directory, "status", "-o", "json").stdout)["servers"]
    return servers


def command(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HEDWIG_DEV_DIR": str(directory), "XDG_CONFIG_HOME": str(directory.parent)}
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=120, env=environment
    )
