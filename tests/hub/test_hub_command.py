"""Prove how the hub's process starts and ends: its output, signals, exit codes, and the files that it leaves."""

import asyncio
import re
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hedwig.client import BlockingClient, ClientOptions, HubAddress
from hedwig.exit_codes import ExitCode
from hedwig.metadata import open_metadata
from hedwig.model import SubscriberId, Topic
from tests.cli.support.admin import Admin
from tests.client.support.tls import make_certificate
from tests.faults.support.waiting import until_blocking
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.running import RunningHub
from tests.support.checkout import CHECKOUT
from tests.support.signals import born_with

TOPIC = Topic(b"news")
READER = SubscriberId(b"reader")
_DEADLINE_S = 60.0


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[RunningHub]:
    """A hub that is not started yet, and is killed at the end of the test."""
    prepared = RunningHub(tmp_path / "hub")
    try:
        yield prepared
    finally:
        prepared.kill()


@contextmanager
def client(hub: RunningHub) -> Iterator[BlockingClient]:
    with BlockingClient(ClientOptions(hub=HubAddress.parse(hub.address))) as opened:
        yield opened


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Keep the hub from writing its metadata."""
    with closing(sqlite3.connect(file, timeout=_DEADLINE_S, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield
        holder.execute("ROLLBACK")


@contextmanager
def silent_server() -> Iterator[socket.socket]:
    """A server that accepts connections and never sends anything."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(_DEADLINE_S)
        yield listener


def failed_start(hub: RunningHub) -> str:
    """Return the last line of a start that must fail, without a traceback."""
    hub.begin()
    assert hub.wait() != 0
    assert "Traceback" not in hub.log
    return hub.log.splitlines()[-1]


def run(*arguments: str, directory: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "hedwig.hub.main", *arguments]
    sources = str(CHECKOUT)
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        cwd=directory,
        env={"PYTHONPATH": sources, "HOME": str(directory)},
        check=False,
    )


def last_owner(hub: RunningHub) -> Any:
    """Return the owner of the topic in the metadata, read without the hub."""

    async def read() -> Any:
        async with await open_metadata(f"sqlite://{hub.data / 'metadata.db'}") as store:
            return await store.ownership.read(TOPIC)

    return asyncio.run(read())


# ------------------------------------------------------------------------------------------------------- serving


def test_it_says_in_one_line_that_it_serves(hub: RunningHub) -> None:
    hub.start()
    said = [line for line in hub.log.splitlines() if line.startswith("hedwig-hub: ")]
    assert said == [f"hedwig-hub: serving {hub.address}, admin {hub.admin}, data {hub.data}"]
    with socket.create_connection(("127.0.0.1", hub.port), _DEADLINE_S):
        pass
    assert AdminClient(hub.admin).get("/ready") == {"ready": True, "hindrances": []}


def test_without_an_admin_endpoint_it_says_so_too(tmp_path: Path) -> None:
    with RunningHub(tmp_path, "admin_port=-1") as hub:
        assert f"hedwig-hub: serving {hub.address}, data {hub.data}\n" in hub.log


def test_first_steps_are_two_commands_that_work(tmp_path: Path) -> None:
    admin = Admin(tmp_path, "")
    with RunningHub(tmp_path / "hub", arguments=["--first-steps"]) as hub:
        until_blocking(lambda: "Ctrl-C ends the hub" in hub.log, "it says what to try")
        assert f"kept in {hub.data}" in hub.log
        proposed = [line.strip() for line in hub.log.splitlines() if "hedwig-admin " in line]
        subscribe, publish = (shlex.split(line.partition("hedwig-admin ")[2]) for line in proposed)
        with admin.start(*subscribe) as reading:
            try:
                AdminClient(hub.admin).wait(
                    "/lag?topic=news",
                    lambda lag: any(each["attached"] for each in lag["subscriptions"]),
                    "the first command subscribes",
                )
                ran = admin.run_apart(*publish)
                assert (ran.code, ran.err) == (0, "")
                assert reading.stdout is not None
                lines = iter(reading.stdout.readline, b"")
                assert any(b"hello, world" in line for line in lines)
            finally:
                reading.terminate()


def test_first_steps_keep_the_data_where_hedwig_admin_looks(tmp_path: Path) -> None:
    ran = run("--first-steps", "--check-config", directory=tmp_path)
    assert f'data_directory = "{tmp_path}/.local/share/hedwig"  # flag --first-steps\n' in ran.stdout
    ran = run("--first-steps", "--check-config", "--data", "mine", directory=tmp_path)
    assert 'data_directory = "mine"  # flag --data\n' in ran.stdout


# -------------------------------------------------------------------------------------------------------- ending


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGTERM, ExitCode.DONE),
        (signal.SIGINT, ExitCode.INTERRUPTED),
        pytest.param(signal.SIGHUP, ExitCode.DONE, marks=pytest.mark.full),
    ],
)
def test_a_signal_ends_it_in_order(tmp_path: Path, number: signal.Signals, code: ExitCode) -> None:
    # Neither the number of consumes nor the time stores the pointer: only the end does. The process that runs this test
    # may ignore the signal.
    with ExitStack() as stack:
        with born_with(signal.SIG_DFL, number):
            hub = stack.enter_context(RunningHub(tmp_path, "consume_interval=1000000", "consume_flush_s=1 d"))
        with client(hub) as connected:
            subscription = connected.subscribe(TOPIC, READER, auto_consume=False)
            ids = [connected.publish(TOPIC, b"%d" % index).local for index in range(20)]
            assert ids == list(range(1, 21))
            delivered = [next(subscription).seq_id for _ in ids]
            assert delivered[11] is not None
            subscription.consume(delivered[11])
            AdminClient(hub.admin).wait(
                "/lag?topic=news", lambda lag: lag["subscriptions"][0]["consumed"] == 12, "the consume arrives"
            )
            assert last_owner(hub) is not None
            assert hub.end(number) == code
        _, announced, ending = hub.log.partition(f"{number.name}: shutting down, 1 topics are to be released\n")
        assert announced
        assert "WARNING" not in ending
        assert last_owner(hub) is None
        hub.start()
        with client(hub) as connected:
            subscription = connected.subscribe(TOPIC, READER)
            assert [next(subscription).body for _ in range(8)] == [b"%d" % index for index in range(12, 20)]
            assert connected.publish(TOPIC, b"next").local == 21


def test_ctrl_c_ends_it_also_where_a_shell_had_it_ignored(hub: RunningHub) -> None:
    with born_with(signal.SIG_IGN, signal.SIGINT):
        hub.start()
    assert hub.end(signal.SIGINT) == ExitCode.INTERRUPTED
    assert "SIGINT: shutting down" in hub.log


def test_the_end_of_a_terminal_does_not_end_it_under_nohup(hub: RunningHub) -> None:
    with born_with(signal.SIG_IGN, signal.SIGHUP):
        hub.start()
    assert hub.process is not None
    hub.process.send_signal(signal.SIGHUP)
    assert hub.end(signal.SIGTERM) == ExitCode.DONE
    assert "SIGTERM: shutting down" in hub.log
    assert "SIGHUP" not in hub.log


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_two_signals_at_once_are_one(hub: RunningHub, second: signal.Signals) -> None:
    with born_with(signal.SIG_DFL, second):
        hub.start()
    with client(hub) as connected:
        assert connected.publish(TOPIC, b"kept").local == 1
    process = hub.process
    assert process is not None
    with locked(hub.data / "metadata.db"):
        process.send_signal(signal.SIGTERM)
        until_blocking(lambda: "SIGTERM: shutting down" in hub.log, "the first signal is taken")
        process.send_signal(second)
        until_blocking(lambda: f"{second.name} too: already shutting down" in hub.log, "the second one is taken")
    assert hub.wait() == ExitCode.DONE
    assert last_owner(hub) is None


def test_a_second_signal_ends_it_at_once(hub: RunningHub) -> None:
    hub.start()
    with client(hub) as connected:
        assert connected.publish(TOPIC, b"kept").local == 1
    process = hub.process
    assert process is not None

    def ended_by_another() -> bool:
        process.send_signal(signal.SIGTERM)
        return process.poll() is not None

    with locked(hub.data / "metadata.db"):
        process.send_signal(signal.SIGTERM)
        until_blocking(lambda: "SIGTERM: shutting down" in hub.log, "the first signal is taken")
        # A signal within a second counts as the same one.
        until_blocking(ended_by_another, "a later one ends it")
        assert hub.wait() == 128 + signal.SIGTERM
    assert "SIGTERM again: ending at once" in hub.log
    hub.start()
    with client(hub) as connected:
        assert connected.publish(TOPIC, b"next").local == 2


def test_what_cannot_be_released_in_time_is_left_to_the_next_start(tmp_path: Path) -> None:
    with RunningHub(tmp_path, "shutdown_s=100 ms") as hub:
        with client(hub) as connected:
            assert connected.publish(TOPIC, b"kept").local == 1
        with locked(hub.data / "metadata.db"):
            assert hub.process is not None
            hub.process.send_signal(signal.SIGTERM)
            until_blocking(lambda: "not released within 0.1 s" in hub.log, "it gives up")
        assert hub.wait() == ExitCode.DONE
        assert last_owner(hub) is not None
        hub.start()
        with client(hub) as connected:
            assert connected.publish(TOPIC, b"next").local == 2


def test_a_signal_ends_a_start_that_takes_long(hub: RunningHub) -> None:
    with silent_server() as listener:
        hub.arguments = ("--metadata", f"zookeeper://127.0.0.1:{listener.getsockname()[1]}/hedwig/standalone")
        process = hub.begin()
        connection, _ = listener.accept()
        with connection:
            assert hub.end(signal.SIGTERM) == ExitCode.DONE
    assert process.returncode == 0
    assert "serving" not in hub.log
    assert "Traceback" not in hub.log


# ------------------------------------------------------------------------------------------------ starts that fail


@pytest.mark.parametrize("option", ["port", pytest.param("admin_port", marks=pytest.mark.full)])
def test_a_taken_port_is_said_in_one_line(tmp_path: Path, option: str) -> None:
    with silent_server() as listener:
        port = listener.getsockname()[1]
        hub = RunningHub(tmp_path, f"{option}={port}")
        line = failed_start(hub)
    assert line.startswith(f"error: cannot listen on 127.0.0.1:{port}")
    assert re.search("address already in use", line, re.IGNORECASE)
    assert hub.wait() == ExitCode.USAGE
    # The failed attempt leaves nothing that would stop the next one.
    RunningHub(tmp_path).start().kill()


def test_a_data_directory_of_another_process_is_said_in_one_line(hub: RunningHub, tmp_path: Path) -> None:
    hub.start()
    other = RunningHub(tmp_path / "other")
    other.data = hub.data
    line = failed_start(other)
    assert line.startswith("error: ")
    assert str(hub.data) in line
    assert str(hub.pid) in line
    assert other.wait() == ExitCode.FAILED
    assert AdminClient(hub.admin).get("/ready")["ready"]


def test_a_store_of_another_standalone_hub_is_said_in_one_line(hub: RunningHub, tmp_path: Path) -> None:
    hub.start()
    hub.stop()
    url = f"sqlite://{hub.data / 'metadata.db'}"
    with RunningHub(tmp_path / "own") as other:  # The store gets its id here.
        other.stop()
        other.arguments = ("--metadata", url)
        line = failed_start(other)
        assert line.startswith("error: ")
        assert hub.address in line
        assert "--replace-standalone" in line
        assert other.wait() == ExitCode.FAILED
        other.arguments = ("--metadata", url, "--replace-standalone")
        other.start()
        other.stop()
    assert hub.address.partition(":")[0] in failed_start(hub)


def test_a_store_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    with silent_server() as listener:
        port = listener.getsockname()[1]
    hub = RunningHub(tmp_path, f"metadata=zookeeper://127.0.0.1:{port}/hedwig/standalone", "operation_timeout_s=1")
    line = failed_start(hub)
    assert line.startswith("error: ")
    assert f"127.0.0.1:{port}" in line
    assert hub.wait() == ExitCode.UNAVAILABLE


def test_a_data_directory_that_cannot_be_made_is_said_in_one_line(tmp_path: Path) -> None:
    hub = RunningHub(tmp_path)
    hub.data = tmp_path / "file" / "data"
    hub.data.parent.write_text("not a directory")
    assert failed_start(hub).startswith(f"error: cannot make the data directory {hub.data}: ")
    assert hub.wait() == ExitCode.USAGE


def test_a_key_with_a_password_is_refused_and_not_asked_for(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, "hub", "IP:127.0.0.1")
    locked_key = tmp_path / "locked.pem"
    locking = ["openssl", "rsa", "-aes256", "-passout", "pass:secret", "-in", str(key), "-out", str(locked_key)]
    subprocess.run(locking, check=True, capture_output=True, timeout=_DEADLINE_S)
    line = failed_start(RunningHub(tmp_path, "tls_port=0", f"tls_certificate={certificate}", f"tls_key={locked_key}"))
    assert line.startswith(f"error: cannot use the TLS certificate {certificate}")
    assert "no password" in line


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--port", "x"], "flag --port: port: 'x' is not a whole number"),
        (["--port", "1", "--set", "port=2"], "port is given by flag --port and by --set"),
        (["--set", "prot=1"], "did you mean 'port'?"),
        (["--bogus"], "--bogus"),
        (["more"], "more"),
        (["--config", "none.toml"], "cannot read the file none.toml"),
        (["--set", "filters.a=no_such_module:x"], "the message filter 'a' cannot be loaded"),
        (["--set", "tls_port=0", "--set", "tls_certificate=none.pem"], "cannot use the TLS certificate none.pem"),
        (["--set", "stores_file=none.toml"], "cannot read the stores file none.toml"),
        (["--metadata", "nowhere"], "the metadata URL 'nowhere' has no scheme"),
        (["--log-level", "loud"], "--log-level"),
    ],
)
def test_a_wrong_command_line_is_said_in_one_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    ran = run("--check-config", *arguments, directory=tmp_path)
    assert (ran.returncode, ran.stdout) == (ExitCode.USAGE, "")
    (line,) = ran.stderr.splitlines()
    assert line.startswith("error: ")
    assert says in line


# ------------------------------------------------------------------------------------------------------- looking


def test_check_config_shows_the_options_in_force_and_touches_nothing(tmp_path: Path) -> None:
    (tmp_path / "hub.toml").write_text('cache_bytes = "1 MiB"\n')
    ran = run("--config", "hub.toml", "--port", "1", "--check-config", directory=tmp_path)
    assert (ran.returncode, ran.stderr) == (ExitCode.DONE, "")
    assert "port = 1  # flag --port\n" in ran.stdout
    assert 'cache_bytes = "1 MiB"  # file hub.toml\n' in ran.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["hub.toml"]


def test_help_ends_with_an_example_that_runs(tmp_path: Path) -> None:
    ran = run("--help", directory=tmp_path)
    assert ran.returncode == ExitCode.DONE
    example = ran.stdout.strip().splitlines()[-1].partition("Example: hedwig-hub ")[2]
    ran = run(*shlex.split(example), "--check-config", directory=tmp_path)
    assert ran.returncode == ExitCode.DONE, ran.stderr
    assert 'topic_idle_s = "10 min"' in ran.stdout
