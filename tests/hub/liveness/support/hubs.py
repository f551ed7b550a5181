"""Hubs with their liveness only: in this process, and in processes of their own that can be killed and stopped."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient

from hedwig.cli.dev import ServerStatus
from hedwig.hub.liveness import ClusterLiveness, LivenessOptions, Registration
from hedwig.hub.liveness.boot_clock import boot_time_s
from hedwig.model import HubInfo
from tests.faults.support.waiting import until
from tests.support.checkout import CHECKOUT

__all__ = ["SESSION_S", "Apart", "Hubs", "Member", "czxid_of", "gone_at", "hub_at", "is_leader", "proven_until"]

SESSION_S: Final = 4.0
"""The shortest session that a server with ticks of two seconds grants."""


def hub_at(number: int) -> HubInfo:
    """Return the hub of that number, without an epoch."""
    return HubInfo(host="127.0.0.1", port=4000 + number, ssl_port=5000 + number)


@dataclass
class Member:
    """A hub in this process, and the registrations that were reported to it."""

    options: LivenessOptions
    liveness: ClusterLiveness
    registered: list[Registration] = field(default_factory=list)
    lost: list[Registration] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


class Hubs:
    """Starts hubs under one prefix, and closes them at the end."""

    def __init__(self, options: LivenessOptions, stack: AsyncExitStack) -> None:
        self.options = options
        self._stack = stack

    def make(self, number: int, **changes: Any) -> Member:
        """Return a hub that is not started; `changes` are options."""
        member: Member
        options = replace(self.options, **changes)
        liveness = ClusterLiveness(
            hub_at(number),
            options,
            admin=f"127.0.0.1:{6000 + number}",
            on_registered=lambda registration: member.registered.append(registration),
            on_lost=lambda registration: member.lost.append(registration),
            on_failed=lambda why: member.failed.append(why),
        )
        member = Member(options, liveness)
        self._stack.push_async_callback(liveness.close)
        return member

    async def start(self, number: int, **changes: Any) -> Member:
        """Return a hub that is registered."""
        member = self.make(number, **changes)
        await member.liveness.start()
        return member

    async def start_apart(self, number: int, log: Path) -> "Apart":
        """Return a hub that is registered, in a process of its own."""
        apart = Apart(number, self.options, log)
        self._stack.callback(apart.end)
        await until(lambda: apart.events("registered"), f"process {number} is registered")
        return apart


class Apart:
    """A hub in a process of its own. It writes down when it was registered, proven and lost."""

    def __init__(self, number: int, options: LivenessOptions, log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(number), options.zookeeper, options.prefix],
                stdout=output,
                cwd=CHECKOUT,
            )

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return its reports of that kind, whole lines only."""
        lines = self._log.read_text().split("\n")[:-1]
        return [event for event in map(json.loads, lines) if event["event"] == kind]

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it with SIGKILL, and wait until it has ended."""
        self._process.kill()
        self._process.wait(30)

    def end(self) -> None:
        if self._process.poll() is None:
            self.kill()


def czxid_of(raw: KazooClient, options: LivenessOptions, number: int) -> int | None:
    """Return the czxid of a hub's host node, None if there is none."""
    stat = raw.exists(f"{options.prefix}/hosts/{hub_at(number).address}")
    return None if stat is None else int(stat.czxid)


async def gone_at(raw: KazooClient, options: LivenessOptions, number: int, epoch: int) -> float:
    """Wait until other hubs can see the end of an incarnation; return a time just before, when they could not yet."""
    before = [boot_time_s()]

    def gone() -> bool:
        asked_at = boot_time_s()
        if czxid_of(raw, options, number) == epoch:
            before[0] = asked_at
            return False
        return True

    await until(gone, f"the node of hub {number} is gone")
    return before[0]


async def proven_until(is_proven: Callable[[], bool]) -> float:
    """Check all the time until it is not proven; return the last time at which it was."""
    last = 0.0
    while True:
        now = boot_time_s()
        if not is_proven():
            return last
        last = now
        await asyncio.sleep(0.001)


def is_leader(server: ServerStatus) -> bool:
    """Say whether a ZooKeeper server leads a quorum."""
    with socket.create_connection((server.host, server.port), 5) as connection:
        connection.sendall(b"srvr")
        return b"Mode: leader" in b"".join(iter(lambda: connection.recv(4096), b""))


async def _serve(number: int, zookeeper: str, prefix: str) -> None:
    current: list[Registration] = []

    def say(event: str, **more: Any) -> None:
        os.write(1, json.dumps({"event": event, "at": boot_time_s(), **more}).encode() + b"\n")

    def registered(registration: Registration) -> None:
        current.append(registration)
        say("registered", epoch=registration.hub.epoch)

    options = LivenessOptions(zookeeper=zookeeper, prefix=prefix, session_timeout_s=SESSION_S)
    liveness = ClusterLiveness(
        hub_at(number),
        options,
        on_registered=registered,
        on_lost=lambda registration: say("lost", epoch=registration.hub.epoch),
    )
    await liveness.start()
    while True:
        # Ask about each registration so far, as work that began under it would.
        for registration in current:
            asked_at = boot_time_s()
            if registration.is_proven():
                os.write(1, b'{"event": "proven", "at": %f, "epoch": %d}\n' % (asked_at, registration.hub.epoch))
        await asyncio.sleep(0.002)


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
