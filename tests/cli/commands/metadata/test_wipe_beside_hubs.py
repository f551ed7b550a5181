"""Prove that `format --wipe` refuses a store that a living hub uses, unless the operator insists."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from hedwig.exit_codes import ExitCode
from tests.cli.support.admin import Admin, Ran
from tests.cli.support.hub_and_admin import HubAndAdmin
from tests.cli.support.store_contents import contents, fill
from tests.support.servers import RunningServers

_WIPE = ("metadata", "format", "--wipe")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[HubAndAdmin]:
    """A hub that owns a topic."""
    with HubAndAdmin(tmp_path) as hub:
        hub.publish("news", b"one")
        yield hub


def _check_refused(running: HubAndAdmin, ran: Ran) -> None:
    assert ran.code == ExitCode.FAILED, ran
    assert running.hub.address in ran.err
    assert "--force" in ran.err
    assert running.admin.count("persistence") == 1


def test_store_of_a_living_hub_is_not_wiped(running: HubAndAdmin) -> None:
    admin = running.admin
    _check_refused(running, admin.run(*_WIPE, "--yes"))
    _check_refused(running, admin.run(*_WIPE, text=admin.url + "\n"))
    rehearsed = admin.run(*_WIPE, "--dry-run", "-o", "json")
    _check_refused(running, rehearsed)
    assert rehearsed.json["hubs"] == [running.hub.address]
    assert rehearsed.json["would_delete"]["persistence"] == 1
    # The hub still has what it acknowledged.
    running.subscribe("news", "reader")
    running.publish("news", b"two")
    assert running.read("news", "reader", 1) == [2]


def test_console_does_not_wipe_it_either(running: HubAndAdmin) -> None:
    _check_refused(running, running.admin.run("console", "-c", "format -force"))
    _check_refused(running, running.admin.run("console", text="format\n"))


def test_whoever_insists_is_told_of_the_hub_and_asked(running: HubAndAdmin) -> None:
    admin = running.admin
    asked = admin.run(*_WIPE, "--force", text="no\n")
    assert asked.code == ExitCode.FAILED
    assert f"1 hub alive: {running.hub.address}" in " ".join(asked.err.split())
    assert admin.count("persistence") == 1
    assert admin.done(*_WIPE, "--force", "--dry-run", "-o", "json").json["hubs"] == [running.hub.address]
    assert admin.count("persistence") == 1
    admin.done(*_WIPE, "--force", "--yes")
    assert admin.count("persistence") == 0


def test_hub_that_has_ended_is_no_hindrance(running: HubAndAdmin) -> None:
    running.hub.kill()
    admin = running.admin
    assert admin.count("ownership") == 1
    assert admin.done(*_WIPE, "--dry-run", "-o", "json").json["hubs"] == []
    admin.done(*_WIPE, "--yes")
    assert admin.count("persistence") == 0


@contextmanager
def _registered(servers: RunningServers, root: str) -> Iterator[None]:
    """Register a hub in the cluster below `root`, as hubs announce themselves."""
    client = KazooClient(servers.address("zookeeper"))
    client.start()
    try:
        client.create(f"{root}/hosts/10.0.0.5:4080:9876", b"0", ephemeral=True, makepath=True)
        yield
    finally:
        client.stop()
        client.close()


def test_hub_of_a_cluster_that_keeps_its_metadata_where_it_is_registered_is_named(
    servers: RunningServers, admin: Admin
) -> None:
    root = f"/hedwig/{uuid.uuid4().hex}"
    store = Admin(admin.directory, f"zookeeper://{servers.address('zookeeper')}{root}")
    store.done("metadata", "format")
    store.done("topic", "create", "news")
    with _registered(servers, root):
        ran = store.run(*_WIPE, "--yes")
        assert (ran.code, "10.0.0.5:4080" in ran.err) == (ExitCode.FAILED, True), ran
        assert len(contents(store.url)) == 1
    store.done(*_WIPE, "--yes")
    assert contents(store.url) == {}


def test_whoever_owns_topics_in_hbase_must_be_looked_for(servers: RunningServers, admin: Admin) -> None:
    servers.address("hbase")
    root = f"/hedwig/{uuid.uuid4().hex}"
    cluster = f"zookeeper://{servers.address('zookeeper')}{root}"
    store = Admin(admin.directory, f"hbase://{servers.address('zookeeper')}/w{uuid.uuid4().hex[:12]}")
    store.done("metadata", "format", "--regions", "2", "--timeout", "120")
    fill(store.url, 10)
    untold = store.run(*_WIPE, "--yes")
    assert (untold.code, "--cluster" in untold.err) == (ExitCode.FAILED, True), untold
    with _registered(servers, root):
        alive = store.run(*_WIPE, "--yes", "--cluster", cluster)
    assert (alive.code, "10.0.0.5:4080" in alive.err) == (ExitCode.FAILED, True), alive
    assert contents(store.url) != {}
    store.done(*_WIPE, "--yes", "--cluster", cluster, "--regions", "2", "--timeout", "120")
    assert contents(store.url) == {}


def test_regions_that_nothing_has_are_not_passed_over_in_silence(admin: Admin) -> None:
    for option, value in (("--regions", "3"), ("--topics", "10M")):
        ran = admin.done("metadata", "format", option, value)
        assert f"{option} changes nothing here" in ran.err
    assert admin.done("metadata", "format").err == ""


def test_regions_follow_from_the_topics_to_come(servers: RunningServers, admin: Admin) -> None:
    servers.address("hbase")
    store = Admin(admin.directory, f"hbase://{servers.address('zookeeper')}/w{uuid.uuid4().hex[:12]}")
    store.done("metadata", "format", "--topics", "2501k", "--timeout", "120")
    (facts,) = store.done("metadata", "describe", "-o", "ndjson").rows
    tables = [fact for fact in facts.values() if "HBase regions" in str(fact)]
    assert [str(fact).split()[0] for fact in tables].count("8") == 4, facts


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--topics", "10M", "--regions", "3"], "--topics and --regions exclude each other"),
        (["--topics", "0"], "0 is not in the range from 1 to 5,000,000,000"),
        (["--topics", "5001M"], "5,001,000,000 is not in the range"),
        (["--topics", "many"], "'many' is not a whole number such as 1000, 500k or 10M"),
    ],
)
def test_topics_that_give_no_number_of_regions_are_refused(admin: Admin, options: list[str], why: str) -> None:
    ran = admin.run("metadata", "format", *options)
    assert (ran.code, why in ran.err) == (ExitCode.USAGE, True), ran


def test_force_without_wipe_makes_no_sense(admin: Admin) -> None:
    assert admin.run("metadata", "format", "--force").code == ExitCode.USAGE
