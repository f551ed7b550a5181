"""Prove that the state of a directory is written whole, read back equal, and never shared by two launchers."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hedwig.cli.dev.errors import DevError
from hedwig.cli.dev.locks import locked
from hedwig.cli.dev.processes import ProcessIdentity
from hedwig.cli.dev.server_directory import ServerDirectory
from hedwig.cli.dev.services import KINDS
from hedwig.cli.dev.state import DirectorySettings, DirectoryState, ServerRecord, read_state, write_state
from tests.cli.dev.support.conditions import wait_until

HOLD_LOCK = """
import sys, time
from pathlib import Path
from hedwig.cli.dev.locks import locked
with locked(Path(sys.argv[1]), 5):
    print("held", flush=True)
    time.sleep(600)
"""


def test_state_comes_back_as_it_was_written(tmp_path: Path) -> None:
    state = DirectoryState(
        {
            "zookeeper-1": ServerRecord("zookeeper-1", "zookeeper", {"client": 1, "peer": 2}, ProcessIdentity(7, "99")),
            "thrift2": ServerRecord("thrift2", "thrift2", {"thrift": 3}),
        },
        DirectorySettings(heap_mb={"thrift2": 64}, hub_properties={"a": "b"}, java_flags={"thrift2": "-Xint"}),
    )
    write_state(tmp_path / "state.json", state)
    assert read_state(tmp_path / "state.json") == state
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]


def test_no_file_is_an_empty_state(tmp_path: Path) -> None:
    assert read_state(tmp_path / "state.json") == DirectoryState()


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"format": 1}', '{"format": 1, "servers": {"a": {}}, "settings": {}}']
)
def test_a_damaged_state_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "state.json").write_text(content)
    with pytest.raises(DevError, match=r"^cannot read .*state\.json: .* delete the directory$"):
        read_state(tmp_path / "state.json")


def test_the_state_of_another_release_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"format": 2}')
    with pytest.raises(DevError, match=r"its format is 2, not 1"):
        read_state(tmp_path / "state.json")


def test_later_settings_win_over_earlier_ones() -> None:
    earlier = DirectorySettings(
        heap_mb={"thrift2": 64, "thrift1": 64}, hbase_properties={"a": "1"}, java_flags={"c": "3"}
    )
    later = DirectorySettings(heap_mb={"thrift2": 128}, hub_properties={"b": "2"}, bookie_properties={"d": "4"})
    both = earlier.overridden_by(later)
    assert both == DirectorySettings(
        heap_mb={"thrift2": 128, "thrift1": 64},
        hbase_properties={"a": "1"},
        bookie_properties={"d": "4"},
        hub_properties={"b": "2"},
        java_flags={"c": "3"},
    )


def test_a_lock_names_its_holder_and_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLD_LOCK, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(DevError, match=rf"\(pid {holder.pid}\) is at work in"), locked(path, 0.2):
            pass
        holder.kill()
    with locked(path, 5):
        assert path.read_text() == str(os.getpid())


def test_a_removed_lock_file_excludes_as_well(tmp_path: Path) -> None:
    """A launcher that waits for the lock while `down` removes the directory must not share the new one with others."""
    path, inside, entered = tmp_path / "lock", threading.Event(), threading.Event()

    def wait_for_lock() -> None:
        with locked(path, 20):
            entered.set()
            inside.wait(20)

    with locked(path, 5):
        waiter = threading.Thread(target=wait_for_lock)
        waiter.start()
        path.unlink()
    assert entered.wait(20)
    with pytest.raises(DevError, match="is at work"), locked(path, 0.2):
        pass
    inside.set()
    waiter.join(20)


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DevError, match="it holds other files"), ServerDirectory(tmp_path).locked(5):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("name", ["two words", "a:b", "a,b", "50%", "größe"])
def test_a_name_that_java_programs_cannot_take_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DevError, match="give a --dir of plain letters"), ServerDirectory(tmp_path / name).locked(5):
        pass
    assert list(tmp_path.iterdir()) == []


def test_removal_spares_files_that_came_later(tmp_path: Path) -> None:
    directory = ServerDirectory(tmp_path / "servers")
    with directory.locked(5):
        directory.write(DirectoryState())
        directory.site(DirectoryState()).data("zookeeper-1")
        (directory.root / "notes.txt").write_text("mine")
        directory.remove()
    assert [entry.name for entry in directory.root.iterdir()] == ["notes.txt"]


def test_ports_of_a_directory_never_collide(tmp_path: Path) -> None:
    directory, state = ServerDirectory(tmp_path), DirectoryState()
    for number in range(1, 30):
        state = state.with_server(directory.new_record(f"zookeeper-{number}", KINDS["zookeeper"], 29, state))
    ports = [port for record in state.servers.values() for port in record.ports.values()]
    assert len(set(ports)) == len(ports) == 29 * 3


def test_no_server_names_a_port_on_which_it_will_not_listen(tmp_path: Path) -> None:
    """Another program would find such a port free and take it, and the server could not start again."""
    directory = ServerDirectory(tmp_path)
    assert set(directory.new_record("zookeeper-1", KINDS["zookeeper"], 1, DirectoryState()).ports) == {"client"}
    assert set(directory.new_record("zookeeper-1", KINDS["zookeeper"], 3, DirectoryState()).ports) == {
        "client",
        "peer",
        "election",
    }


def test_servers_of_a_kind_come_in_numerical_order(tmp_path: Path) -> None:
    state = DirectoryState()
    for number in (10, 2, 1):
        state = state.with_server(ServerRecord(f"regionserver-{number}", "regionserver", {"rpc": number}))
    assert [record.number for record in state.of_kind("regionserver")] == [1, 2, 10]


def test_log_tail_gives_whole_lines_of_a_long_log(tmp_path: Path) -> None:
    directory = ServerDirectory(tmp_path)
    lines = [f"{number} " + "x" * 5_000 for number in range(100)]
    directory.site(DirectoryState()).log("thrift2").write_text("\n".join(lines) + "\n")
    assert directory.log_tail("thrift2", 40) == tuple(lines[-40:])
    assert directory.log_tail("thrift2", 1_000) == tuple(lines)
    assert directory.log_tail("thrift2", 0) == ()
    assert directory.log_tail("thrift1", 10) == ()


def test_a_wait_fails_when_its_condition_never_holds() -> None:
    with pytest.raises(AssertionError, match="the impossible: not within 0 s"):
        wait_until(lambda: False, "the impossible", timeout_s=0.1)


def test_the_directory_is_its_owners(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with ServerDirectory(tmp_path / "servers").locked(5):
            assert (tmp_path / "servers").stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)
