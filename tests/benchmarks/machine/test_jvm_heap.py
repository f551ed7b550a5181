"""Prove that live data in a heap are told apart from garbage, and that a log shows a full heap."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.machine.jvm_flags import flags_of, flags_of_servers, note_flags
from hedwig.benchmarks.machine.jvm_heap import (
    full_heap,
    fullness,
    heap_max_bytes,
    live_heap_bytes,
    out_of_memory,
    used_heap_bytes,
)
from hedwig.cli.dev import DevServers

MIB = 1 << 20
HEAP_MB = 200
HELD = 40


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServers]:
    started = DevServers(tmp_path_factory.mktemp("jvm") / "servers", heap_mb={"zookeeper": HEAP_MB})
    try:
        started.up(["zookeeper"])
        yield started
    finally:
        started.down()


def test_what_lives_in_a_heap_is_what_was_stored_and_no_garbage(servers: DevServers) -> None:
    pid = servers.pid("zookeeper-1")
    before = live_heap_bytes(pid)
    client = KazooClient(hosts=servers.address("zookeeper"))
    client.start(timeout=30)
    for number in range(HELD):
        client.create(f"/node-{number}", b"x" * (MIB - 1000))
    while_at_work = used_heap_bytes(pid)
    held = live_heap_bytes(pid)
    # At most twice as much: the server keeps the last requests beside the nodes, for followers.
    assert HELD * MIB * 0.9 < held - before < HELD * MIB * 2.2
    assert held <= while_at_work
    assert full_heap(pid) is None
    for number in range(HELD):
        client.delete(f"/node-{number}")
    client.stop()
    client.close()
    assert heap_max_bytes(pid) == HEAP_MB * MIB
    assert f"-Xmx{HEAP_MB}m" in flags_of(pid)


def test_the_flags_of_all_servers_are_told_by_their_kind(servers: DevServers) -> None:
    flags = flags_of_servers(servers)
    assert list(flags) == ["zookeeper"]
    assert flags["zookeeper"][0] == f"-Xmx{HEAP_MB}m"
    own = flags_of(servers.pid("zookeeper-1"))
    # The path of its error file differs in each run.
    (where,) = set(own) - set(flags["zookeeper"])
    assert where.startswith("-XX:ErrorFile=")
    environment: dict[str, Any] = {"cpus": 2}
    note_flags(environment, "servers", {"bookie": ["-Xmx1m"], "zookeeper": []})
    note_flags(environment, "servers", flags)
    note_flags(environment, "znodes", {})
    assert environment == {"cpus": 2, "jvm_flags": {"servers": {"bookie": ["-Xmx1m"], **flags}, "znodes": {}}}


def test_a_heap_is_full_when_what_stays_leaves_no_room_to_copy_to() -> None:
    # The output of a machine whose live objects have 870 MiB.
    heap_info = """27919:
     garbage-first heap   total 1048576K, used {used}K [0x00000000c0000000, 0x0000000100000000)
      region size 1024K, 0 young (0K), 0 survivors (0K)
     Metaspace       used 9466K, committed 9664K, reserved 1114112K
      class space    used 1151K, committed 1280K, reserved 1048576K
    """
    assert fullness(heap_info.format(used=990000)) == "966 of 1,024 MiB after a collection"
    assert fullness(heap_info.format(used=891211)) is None
    assert fullness("tenured generation   total 1000K, used 1000K") is None


def test_a_machine_that_is_gone_has_no_heap(servers: DevServers) -> None:
    servers.kill("zookeeper-1")
    assert flags_of_servers(servers) == {}
    pid = 2**22 + 1  # Beyond the largest possible process id.
    assert heap_max_bytes(pid) is None
    with pytest.raises(BenchmarkError, match=r"did not run GC\.run"):
        live_heap_bytes(pid)


def test_a_full_heap_is_found_wherever_it_is_in_a_log(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    assert out_of_memory(log) == []
    full = "2026-01-01 ERROR caught java.lang.OutOfMemoryError: Java heap space\n"
    log.write_text("started\n" + full + "going on\n" * 100_000 + full)
    assert out_of_memory(log) == ["java.lang.OutOfMemoryError: Java heap space"]
