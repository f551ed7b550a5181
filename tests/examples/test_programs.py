"""Prove that the example programs do what they say, also when one of their processes is killed."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

import pytest

from examples.outbox import TABLES, order
from hedwig import BlockingClient
from tests.hub.support.running import RunningHub
from tests.support.checkout import CHECKOUT

DEVICES: Final = 200
JOBS: Final = 12
ORDERS: Final = 60
PATIENCE_S: Final = 120.0


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with RunningHub(tmp_path_factory.mktemp("examples")) as running:
        yield running.address


class Running:
    """An example program that runs."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.printed: list[str] = []

    def line(self) -> str:
        """Return the next line that it prints."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"it ended: {self.printed}"
        self.printed.append(line.rstrip("\n"))
        return self.printed[-1]

    def until(self, line: str) -> None:
        """Read up to a line."""
        while self.line() != line:
            pass

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def interrupt(self) -> None:
        """End it with Ctrl-C, which it takes without a word."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=PATIENCE_S)
        assert err == "", out


@contextmanager
def running(name: str, *arguments: str) -> Iterator[Running]:
    pipe = subprocess.PIPE
    command = [sys.executable, str(CHECKOUT / "examples" / name), *arguments]
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        try:
            yield Running(process)
        finally:
            process.kill()


def printed_by(name: str, *arguments: str) -> list[str]:
    """Return what a program prints that ends by itself."""
    with running(name, *arguments) as program:
        out, err = program.process.communicate(timeout=PATIENCE_S)
        assert (program.process.returncode, err) == (0, "")
        return out.splitlines()


def test_devices_have_their_states_also_after_a_gateway_was_killed(hub: str) -> None:
    fleet = ("device_shadows.py", "--hub", hub, "--devices", str(DEVICES))
    with running(*fleet, "gateway") as first, running(*fleet, "gateway") as second:
        for gateway in (first, second):
            gateway.until("the gateway takes part")
        (line,) = printed_by(*fleet, "set", "temperature=21")
        assert line.startswith(f"{DEVICES} devices have temperature=21 after ")
        first.kill()
        (line,) = printed_by(*fleet, "set", "temperature=5")
        assert line.startswith(f"{DEVICES} devices have temperature=5 after ")
        second.interrupt()


def test_jobs_are_done_once_also_after_their_worker_was_killed(hub: str) -> None:
    queue = ("work_queue.py", "--hub", hub)
    assert printed_by(*queue, "submit", str(JOBS)) == [f"{JOBS} jobs are submitted"]
    with running(*queue, "work", "ann", "--seconds", "0.05") as ann:
        ann.until("ann works")
        with running(*queue, "work", "bob", "--seconds", "0.05") as bob:
            bob.until("bob is number 1 in the line")
            ann.until("ann begins job 4")
            ann.kill()
            *results, end = printed_by(*queue, "results", str(JOBS))
            assert results == [f"{number} squared is {number * number}" for number in range(1, JOBS + 1)]
            assert end.startswith("all results are here after ")
            bob.interrupt()
    with BlockingClient(hub) as client, client.subscribe("results", "boss") as subscription:
        assert subscription.receive(0.5) is None, "no job has a second result"


def test_guests_hear_what_they_want(hub: str) -> None:
    with ExitStack() as stack:
        chat = ("chat.py", "--hub", hub, "join", "lobby")
        guests = {
            name: stack.enter_context(running(*chat, name, *more))
            for name, more in {
                "ann": (),
                "bob": ("--only", 'lang in ("de", "fr") or to = "bob"'),
                "eve": ("--lang", "de"),
            }.items()
        }
        for name, guest in guests.items():
            guest.until(f"{name} is in the lobby")
        for line in ("good morning", "@bob hello", "@eve hello"):
            guests["ann"].say(line)
        assert [guests["eve"].line() for _ in range(3)] == ["ann: good morning", "ann: hello", "ann: hello"]
        guests["eve"].say("guten Tag")
        assert guests["ann"].line() == "eve: guten Tag"
        assert [guests["bob"].line() for _ in range(2)] == ["ann: hello", "eve: guten Tag"]
        for guest in guests.values():
            guest.say("")
            out, err = guest.process.communicate(timeout=PATIENCE_S)
            assert (guest.process.returncode, out, err) == (0, "", "")


def test_orders_are_published_once_also_if_the_relay_is_killed_again_and_again(hub: str, tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as database:
        database.executescript(TABLES)
        for number in range(ORDERS):
            order(database, number, "pears")
    with BlockingClient(hub) as client, client.subscribe("orders", "test") as subscription:
        for lines in (1, 5, 2, 9, 1, 12):
            with running("outbox.py", "--hub", hub, str(file), "relay") as relay:
                for _ in range(lines):
                    assert relay.line().startswith("row ")
                relay.kill()
        with running("outbox.py", "--hub", hub, str(file), "relay") as relay:
            while not relay.line().startswith(f"row {ORDERS} is "):
                pass
            assert printed_by("outbox.py", str(file), "order", "3", "plums") == []
            assert relay.line().startswith(f"row {ORDERS + 1} is message {ORDERS + 1} of orders")
            relay.interrupt()
        received = [message.body.decode() for message in subscription.messages(idle_s=0.5)]
    assert received == [*(f"{number} pears" for number in range(ORDERS)), "3 plums"]
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT count(*) FROM outbox").fetchone() == (0,)
