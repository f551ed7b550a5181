"""Prove that the launcher runs real servers, and that they live, die, freeze and return as it reports."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import happybase
import pytest
from kazoo.client import KazooClient

from hedwig.cli.dev import DevError, DevServers, NotAnsweringError, ServerState, UnknownServerError
from hedwig.cli.dev.errors import NotReadyError
from hedwig.cli.dev.probes.thrift import thrift2_has_table
from hedwig.cli.dev.probes.zookeeper import children_of, registered_under
from tests.cli.dev.support.conditions import wait_until
from tests.cli.dev.support.listening import listening_addresses, processes_naming

SERVERS = ["zookeeper-1", "hbase-master", "regionserver-1", "thrift2", "thrift1"]
LOOPBACK_HEX = {"0100007F", "0000000000000000FFFF00000100007F"}


@dataclass(slots=True)
class Cluster:
    """The servers under test, and the output of their launcher."""

    servers: DevServers
    lines: list[str]

    def state(self, name: str) -> ServerState:
        return next(one.state for one in self.servers.status() if one.name == name)

    def pids(self) -> dict[str, int | None]:
        return {one.name: one.pid for one in self.servers.status()}

    def rows(self) -> closing[happybase.Connection]:
        return closing(happybase.Connection("127.0.0.1", self.servers.port("thrift1"), timeout=60_000))

    def bring_back(self) -> None:
        """Start the servers that a test has ended."""
        self.servers.up(["thrift2", "thrift1"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    lines: list[str] = []
    servers = DevServers(tmp_path_factory.mktemp("dev") / "servers", progress=lines.append)
    try:
        servers.up(["thrift2", "thrift1"])
        yield Cluster(servers, lines)
    finally:
        servers.down()
        assert processes_naming(servers.directory) == []


def test_a_service_brings_those_it_needs(cluster: Cluster) -> None:
    assert [one.name for one in cluster.servers.status()] == SERVERS
    assert {one.state for one in cluster.servers.status()} == {ServerState.RUNNING}


def test_every_server_answers_clients_of_others(cluster: Cluster) -> None:
    client = KazooClient(cluster.servers.address("zookeeper"), timeout=4)
    client.start(timeout=20)
    try:
        assert len(client.get_children("/hbase/rs")) == 1
    finally:
        client.stop()
        client.close()
    with cluster.rows() as connection:
        connection.create_table("dev_answers", {"f": {}})
        connection.table("dev_answers").put(b"row", {b"f:q": b"value"})
        assert connection.table("dev_answers").row(b"row") == {b"f:q": b"value"}
    assert thrift2_has_table(cluster.servers.port("thrift2"), "default", "dev_answers", 20)
    assert not thrift2_has_table(cluster.servers.port("thrift2"), "default", "dev_absent", 20)


def test_nothing_listens_beyond_loopback(cluster: Cluster) -> None:
    listening = listening_addresses(pid for pid in cluster.pids().values() if pid is not None)
    assert {port for _, port in listening} == {one.port for one in cluster.servers.status()}
    assert {address for address, _ in listening} <= LOOPBACK_HEX


def test_a_second_up_finds_what_runs_and_needs_no_maven(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    before, java = cluster.pids(), cluster.servers.java_command("zookeeper", "Main", [])[0]
    monkeypatch.setenv("JAVA_HOME", str(Path(java).resolve().parent.parent))
    monkeypatch.setenv("PATH", "/nonexistent")
    cluster.lines.clear()
    DevServers(cluster.servers.directory, progress=cluster.lines.append).up(["thrift2", "thrift1"])
    assert cluster.pids() == before
    assert [line.split()[:3] for line in cluster.lines] == [[name, "was", "running"] for name in SERVERS]


def test_an_acknowledged_write_survives_the_kill_of_its_region_server(cluster: Cluster) -> None:
    servers, name = cluster.servers, "regionserver-1"
    old_pid, port = servers.pid(name), servers.port(name)
    with cluster.rows() as connection:
        connection.create_table("dev_survives", {"f": {}})
        table = connection.table("dev_survives")
        for number in range(200):
            table.put(b"%03d" % number, {b"f:q": b"%d" % number})
        servers.kill(name)
    assert cluster.state(name) is ServerState.DEAD
    with pytest.raises(DevError, match="does not run: run `hedwig-admin dev start regionserver-1`"):
        servers.pid(name)
    servers.start(name)
    assert servers.pid(name) != old_pid
    assert servers.port(name) == port
    with cluster.rows() as connection:
        rows = dict(connection.table("dev_survives").scan())
    assert rows == {b"%03d" % number: {b"f:q": b"%d" % number} for number in range(200)}


def test_a_paused_server_answers_again_when_resumed(cluster: Cluster) -> None:
    servers = cluster.servers
    pid = servers.pid("thrift2")
    servers.pause("thrift2")
    try:
        wait_until(lambda: cluster.state("thrift2") is ServerState.PAUSED, "thrift2 is paused")
        with pytest.raises(NotReadyError):
            thrift2_has_table(servers.port("thrift2"), "hbase", "namespace", 1)
        with pytest.raises(DevError, match=r"thrift2 is paused, .* `hedwig-admin dev resume thrift2`"):
            servers.up(["thrift2"])
    finally:
        servers.resume("thrift2")
    wait_until(lambda: cluster.state("thrift2") is ServerState.RUNNING, "thrift2 goes on")
    assert thrift2_has_table(servers.port("thrift2"), "hbase", "namespace", 20)
    assert servers.pid("thrift2") == pid


_REGISTER = """
import sys
from kazoo.client import KazooClient
client = KazooClient(sys.argv[1], timeout=30)
client.start()
client.create(sys.argv[2], ephemeral=True, makepath=True)
print("registered", flush=True)
sys.stdin.read()
"""


def test_a_node_of_a_session_without_a_connection_is_no_registration(cluster: Cluster) -> None:
    port = cluster.servers.port("zookeeper-1")
    assert registered_under([port], "/dev_registered") == []
    command = [sys.executable, "-c", _REGISTER, f"127.0.0.1:{port}", "/dev_registered/server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "registered\n"
        assert registered_under([port], "/dev_registered") == ["server"]
        process.kill()
        process.wait()
    wait_until(lambda: not registered_under([port], "/dev_registered"), "ZooKeeper sees the end of the connection")
    assert children_of(port, "/dev_registered") == ["server"]


def test_up_starts_only_what_is_missing(cluster: Cluster) -> None:
    before = cluster.pids()
    cluster.servers.kill("thrift1")
    cluster.servers.stop("thrift2")
    assert cluster.state("thrift2") is ServerState.STOPPED
    cluster.bring_back()
    after = cluster.pids()
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"thrift1", "thrift2"}


def test_a_reused_pid_is_not_taken_for_the_server(cluster: Cluster) -> None:
    servers = cluster.servers
    servers.kill("thrift1")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        write_pid(servers, "thrift1", stranger.pid)
        assert cluster.state("thrift1") is ServerState.DEAD
        for act in (servers.kill, servers.pause, servers.stop):
            with pytest.raises(DevError, match="thrift1 does not run"):
                act("thrift1")
        servers.start("thrift1")
        assert servers.pid("thrift1") != stranger.pid
        assert stranger.poll() is None
        assert stranger.stdin is not None
        stranger.stdin.close()


def test_a_server_that_nobody_recorded_is_found_again(cluster: Cluster) -> None:
    pid = cluster.servers.pid("thrift1")
    write_pid(cluster.servers, "thrift1", None)
    assert cluster.state("thrift1") is ServerState.STOPPED
    cluster.bring_back()
    assert cluster.servers.pid("thrift1") == pid


def test_a_taken_port_is_named_by_start_and_avoided_by_up(cluster: Cluster) -> None:
    servers = cluster.servers
    servers.kill("thrift1")
    port = servers.port("thrift1")
    with socket.create_server(("127.0.0.1", port)):
        with pytest.raises(
            DevError, match=f"cannot start thrift1: another program has taken its port {port}; stop that"
        ):
            servers.start("thrift1")
        cluster.lines.clear()
        cluster.bring_back()
    assert servers.port("thrift1") != port
    moved = f"thrift1: another program has taken port {port}, moved to {servers.port('thrift1')}"
    assert moved in cluster.lines
    with cluster.rows() as connection:
        assert isinstance(connection.tables(), list)


def test_a_deadline_is_kept_and_says_what_is_missing(cluster: Cluster) -> None:
    servers = cluster.servers
    servers.kill("thrift2")
    with pytest.raises(
        NotAnsweringError, match=r"thrift2 does not answer after 0 s: .*`hedwig-admin dev logs thrift2`"
    ) as caught:
        servers.start("thrift2", timeout_s=0.01)
    assert isinstance(caught.value.log_tail, tuple)
    cluster.bring_back()


def test_unknown_names_are_refused_with_the_known_ones(cluster: Cluster) -> None:
    with pytest.raises(UnknownServerError, match=r"no server 'thrift9' in .*: choose from zookeeper-1, hbase-master"):
        cluster.servers.kill("thrift9")
    with pytest.raises(DevError, match="no service 'hbas': choose from zookeeper, kdc, hbase"):
        cluster.servers.up(["hbas"])
    with pytest.raises(DevError, match="thrift2 runs already"):
        cluster.servers.start("thrift2")
    with pytest.raises(DevError, match="has 1 ZooKeeper servers, not 3"):
        cluster.servers.up(["zookeeper"], zookeepers=3)


def test_region_servers_can_be_added(cluster: Cluster) -> None:
    before = cluster.pids()
    cluster.servers.up(["hbase"], regionservers=2)
    after = cluster.pids()
    assert {name: after[name] for name in before} == before
    assert after["regionserver-2"] is not None
    assert cluster.servers.address("regionserver") == ",".join(
        f"127.0.0.1:{cluster.servers.port(name)}" for name in ("regionserver-1", "regionserver-2")
    )


def test_tools_run_on_the_class_path_and_configuration(cluster: Cluster) -> None:
    tool = cluster.servers.java_command(
        "hbase", "org.apache.hadoop.hbase.util.GetJavaProperty", ["java.net.preferIPv4Stack"]
    )
    assert subprocess.run(tool, capture_output=True, text=True, check=True, timeout=60).stdout.strip() == "true"
    configured = cluster.servers.java_command(
        "hbase", "org.apache.hadoop.hbase.util.HBaseConfTool", ["hbase.zookeeper.quorum"]
    )
    shown = subprocess.run(configured, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert shown[-1] == cluster.servers.address("zookeeper")


def test_down_leaves_nothing_behind(cluster: Cluster) -> None:
    """The last test of the module: it ends all servers, one of them paused, one dead."""
    servers = cluster.servers
    ports = [one.port for one in servers.status()]
    servers.pause("zookeeper-1")
    servers.kill("thrift1")
    servers.down()
    assert processes_naming(servers.directory) == []
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 5).close()
    assert not servers.directory.exists()
    assert servers.status() == []
    servers.down()


def write_pid(servers: DevServers, name: str, pid: int | None) -> None:
    """Falsify the recorded process of a server, as a crash or a reboot at the wrong time would."""
    path = servers.directory / "state.json"
    state = json.loads(path.read_text())
    state["servers"][name]["process"] = None if pid is None else {"pid": pid, "started": "1"}
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(state))
    partial.replace(path)
