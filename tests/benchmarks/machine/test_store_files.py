"""Prove which files of a store count: those that a start reads, and no others."""

from pathlib import Path

from kazoo.client import KazooClient

from hedwig.benchmarks.machine.store_files import disk_bytes, kept_files, occupied
from hedwig.cli.dev import DevServers

NODES = 400
SNAPSHOT_EVERY = 20


def _content(number: int) -> bytes:
    return b"%d" % number


def _nodes(address: str) -> KazooClient:
    client = KazooClient(hosts=address)
    client.start(timeout=30)
    return client


def test_zookeeper_has_all_records_from_the_files_that_count(tmp_path: Path) -> None:
    """A server that snapshots all the time leaves many old files. It starts without them, with all its records."""
    servers = DevServers(tmp_path / "servers", zookeeper_properties={"snapCount": str(SNAPSHOT_EVERY)})
    try:
        servers.up(["zookeeper"])
        client = _nodes(servers.address("zookeeper"))
        for number in range(NODES):
            client.create(f"/node-{number}", _content(number))
        client.stop()
        client.close()
        servers.kill("zookeeper-1")
        data = servers.directory / "data"
        files = [file for file in data.rglob("*") if file.is_file()]
        kept = set(kept_files(data))
        past = [file for file in files if file not in kept]
        assert {file.name.partition(".")[0] for file in past} == {"snapshot", "log"}
        assert disk_bytes(data) == sum(map(occupied, kept)) < sum(map(occupied, files))
        for file in past:
            file.unlink()
        servers.start("zookeeper-1")
        client = _nodes(servers.address("zookeeper"))
        assert [client.get(f"/node-{number}")[0] for number in range(NODES)] == list(map(_content, range(NODES)))
        client.stop()
        client.close()
    finally:
        servers.down()


def test_a_snapshot_that_was_not_written_to_its_end_makes_nothing_old(tmp_path: Path) -> None:
    whole = b"ZKSN content \0\0\0\1/"
    for name, content in (
        ("snapshot.0", whole),
        ("snapshot.10", whole),
        ("snapshot.ff", b"ZKSN con"),
        ("log.1", b"l"),
        ("log.f", b"l"),
        ("log.11", b"l"),
        ("log.100", b"l"),
        ("acceptedEpoch", b"1"),
        ("log.txt", b"not a log of transactions"),
    ):
        (tmp_path / name).write_bytes(content)
    assert {file.name for file in kept_files(tmp_path)} == {
        "snapshot.10",
        "snapshot.ff",
        "log.f",
        "log.11",
        "log.100",
        "acceptedEpoch",
        "log.txt",
    }


def test_what_hbase_has_discarded_does_not_count(tmp_path: Path) -> None:
    for path in (
        "root/data/t/f",
        "root/WALs/s/l",
        "root/oldWALs/l",
        "root/archive/data/f",
        "root/MasterData/oldWALs/l",
    ):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * 10_000)
    assert [str(file.relative_to(tmp_path)) for file in kept_files(tmp_path)] == ["root/WALs/s/l", "root/data/t/f"]
    assert disk_bytes(tmp_path / "no-such") == 0
