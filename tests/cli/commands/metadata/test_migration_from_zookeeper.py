"""Prove that a migration from ZooKeeper compares only changed records in its pause, and that a cut loses nothing."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from kazoo.client import KazooClient

from hedwig.cli.dev import DevServers
from hedwig.client import BlockingClient, ClientOptions, HubAddress
from hedwig.errors import ServiceDownError
from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataUrl, open_metadata
from hedwig.model import LedgerRanges, Topic
from hedwig.versions import NEW
from tests.cli.support.admin import Admin, Ran, wait_until
from tests.cli.support.store_contents import contents, fill
from tests.faults.support.proxy import PASS, Action, Exchange, Proxy, Step
from tests.faults.support.wires import ZooKeeperWire
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.running import RunningHub
from tests.support.servers import UNSYNCED, RunningServers

__all__: list[str] = []

_TOPICS: Final = 60
_WATCH: Final = "106"


class Move:
    """A store in ZooKeeper, a target, and the command that migrates the one to the other, through a proxy if asked."""

    def __init__(self, directory: Path, address: str) -> None:
        self.address = address
        self.source = f"zookeeper://{address}/hedwig/{uuid.uuid4().hex}"
        self.target = Admin(directory, f"sqlite://{directory}/target.db")
        self.target.done("metadata", "format")
        self.target.done("metadata", "format", "--metadata", self.source)
        fill(self.source, _TOPICS)

    def run(self, *more: str, source: str | None = None) -> Ran:
        command = ("metadata", "migrate", "--from", source or self.source, "--to", self.target.url)
        return self.target.run(*command, *more, "--yes", "-o", "json")

    def run_cut(self, plan: Callable[[Exchange], Step], *more: str) -> Ran:
        """Run the command through a proxy that treats its requests as `plan` says."""

        async def run() -> Ran:
            async with Proxy(self.address, ZooKeeperWire, plan) as proxy:
                source = self.source.replace(self.address, proxy.address)
                return await asyncio.to_thread(self.run, *more, source=source)

        return asyncio.run(run())

    def check(self, ran: Ran) -> Any:
        """Check that a migration ended well, and return its report."""
        assert ran.code == 0, ran
        assert ran.json["verified"]
        assert contents(self.target.url) == contents(self.source, owners=False)
        return ran.json

    async def create(self, name: bytes) -> None:
        """Create a topic in the source past the proxy."""
        async with await open_metadata(self.source) as store:
            await store.persistence.write(Topic(name), LedgerRanges(), NEW)


@pytest.fixture
def move(servers: RunningServers, tmp_path: Path) -> Move:
    return Move(tmp_path, servers.address("zookeeper"))


@pytest.fixture
def hub(move: Move, tmp_path: Path) -> Iterator[RunningHub]:
    """A standalone hub on the source."""
    with RunningHub(tmp_path / "hub", f"metadata={move.source}") as hub:
        yield hub


def _is_frozen(hub: RunningHub) -> bool:
    return bool(AdminClient(hub.admin).get("/freeze")["frozen"])


def _publish(hub: RunningHub, topic: bytes, answer_timeout_s: float = 30.0) -> None:
    options = ClientOptions(hub=HubAddress.parse(hub.address), answer_timeout_s=answer_timeout_s)
    with BlockingClient(options) as client:
        client.publish(Topic(topic), b"body")


def _once(is_time: Callable[[Exchange], bool], meanwhile: Callable[[], Awaitable[Any]]) -> Callable[[Exchange], Step]:
    """Return a plan that cuts the connection once, the first time that `is_time` holds."""
    is_done = False

    def plan(exchange: Exchange) -> Step:
        nonlocal is_done
        if is_done or not is_time(exchange):
            return PASS
        is_done = True
        return Step(Action.CUT_REQUEST, meanwhile=meanwhile)

    return plan


def _after(name: str, number: int, then: str) -> Callable[[Exchange], bool]:
    """Return a condition: `number` requests called `name` were seen, and this one is called `then`."""
    seen = 0

    def is_time(exchange: Exchange) -> bool:
        nonlocal seen
        seen += exchange.name == name
        return seen >= number and exchange.name == then

    return is_time


def test_what_nobody_changes_is_not_compared_in_the_pause(move: Move) -> None:
    assert move.run("--hubs-down", "--dry-run").json["compares_in_pause"] == "what changed last"
    report = move.check(move.run("--hubs-down"))
    assert (report["compared_in_pause"], report["changed_in_pause"]) == (0, 0)


def test_hub_goes_on_while_everything_is_compared(move: Move, hub: RunningHub) -> None:
    _publish(hub, b"before")
    report = move.check(move.run("--hub-admin", hub.admin))
    assert report["compared_in_pause"] < _TOPICS
    assert _is_frozen(hub)


def test_cut_while_everything_is_compared_has_it_compared_once_more(move: Move) -> None:
    """No server reports changes that happen without a connection. The migration finds them all the same."""
    plan = _once(_after(_WATCH, 2, "get"), lambda: move.create(b"while-it-was-cut"))
    ran = move.run_cut(plan, "--hubs-down")
    report = move.check(ran)
    assert ran.err.count("everything is compared once more") == 1
    assert report["compared_in_pause"] == 0
    assert ("persistence", b"while-it-was-cut", None) in contents(move.target.url)


def test_cut_in_the_copy_costs_nothing_but_time(move: Move) -> None:
    plan = _once(_after(_WATCH, 1, "get"), lambda: move.create(b"while-it-was-cut"))
    ran = move.run_cut(plan, "--hubs-down")
    assert move.check(ran)["compared_in_pause"] == 0
    assert "once more" not in ran.err


def test_cut_in_the_pause_lets_hubs_go_on_while_everything_is_compared(move: Move, hub: RunningHub) -> None:
    freezes = 0

    def is_time(exchange: Exchange) -> bool:
        return exchange.name == "multi" and _is_frozen(hub)

    async def meanwhile() -> None:
        nonlocal freezes
        freezes += 1
        with pytest.raises(ServiceDownError, match="frozen"):
            await asyncio.to_thread(_publish, hub, b"refused", 2.0)
        await move.create(b"while-it-was-cut")

    ran = move.run_cut(_once(is_time, meanwhile), "--hub-admin", hub.admin)
    report = move.check(ran)
    assert freezes == 1
    assert ran.err.count("everything is compared once more") == 1
    assert report["compared_in_pause"] < _TOPICS
    assert ("persistence", b"while-it-was-cut", None) in contents(move.target.url)
    assert _is_frozen(hub)


def test_cuts_in_every_pause_end_in_one_clear_line_and_the_hub_goes_on(move: Move, hub: RunningHub) -> None:
    pauses = 0
    was_frozen = False

    def plan(exchange: Exchange) -> Step:
        nonlocal pauses, was_frozen
        if exchange.name != "multi":
            return PASS
        is_new, was_frozen = not was_frozen, _is_frozen(hub)
        if not (is_new and was_frozen):
            return PASS
        pauses += 1
        return Step(Action.CUT_REQUEST)

    ran = move.run_cut(plan, "--hub-admin", hub.admin)
    assert pauses > 1
    assert ran.code == ExitCode.UNAVAILABLE, ran
    last = ran.err.splitlines()[-1]
    assert last.startswith("error: ")
    assert "stop the hubs" in last
    wait_until(lambda: not _is_frozen(hub), "the hub goes on")
    _publish(hub, b"afterwards")
    move.check(move.run("--hub-admin", hub.admin))


def test_cut_where_hubs_are_down_has_everything_compared_in_the_pause(move: Move) -> None:
    """Hubs are down, so nobody waits for the end of that pause."""
    record = f"{MetadataUrl.parse(move.source).path}/managers/METADATA/freeze"
    raw = KazooClient(hosts=move.address)
    raw.start()
    try:
        plan = _once(
            lambda exchange: exchange.name == "multi" and raw.exists(record) is not None,
            lambda: move.create(b"while-it-was-cut"),
        )
        ran = move.run_cut(plan, "--hubs-down")
    finally:
        raw.stop()
        raw.close()
    report = move.check(ran)
    assert "everything is compared in the pause" in ran.err
    assert report["compared_in_pause"] >= sum(report["records"].values())
    assert ("persistence", b"while-it-was-cut", None) in contents(move.target.url)


def test_releases_that_tell_no_changes_are_compared_in_the_pause(tmp_path: Path) -> None:
    servers = DevServers(
        tmp_path / "servers", heap_mb={"zookeeper": 128}, classpaths={"zookeeper": "hedwig43"}, **UNSYNCED
    )
    try:
        servers.up(["zookeeper"])
        move = Move(tmp_path, servers.address("zookeeper"))
        assert move.run("--hubs-down", "--dry-run").json["compares_in_pause"] == "everything"
        ran = move.run("--hubs-down")
        report = move.check(ran)
        assert report["compared_in_pause"] == sum(report["records"].values())
        assert "everything is compared in the pause" in ran.err
    finally:
        servers.down()
