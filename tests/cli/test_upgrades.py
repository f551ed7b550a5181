"""Prove `metadata upgrade` on what hubs of the releases 4.0 and 4.1 left, and on stores with nothing older."""

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from kazoo.client import KazooClient

from hedwig.cli.errors import ExitCode
from hedwig.cli.output.format_names import FORMATS
from hedwig.metadata import format_metadata
from hedwig.model import SubscriberId, Topic
from hedwig.wire import pubsub_pb2 as pb
from tests.cli.admin import DEADLINE_S, Admin, wait_until
from tests.cli.agreement import check_agreement
from tests.cli.store_contents import contents
from tests.java_hedwig.older_releases import OlderStore, read_older_stores
from tests.java_hedwig.znodes import make_tree, read_tree
from tests.servers import RunningServers

__all__: list[str] = []

_LAYOUT: Final = "/managers/METADATA/LAYOUT"
_MANY: Final = 1000
_PER_TOPIC: Final = 50


class OlderPlace:
    """A store of an older release in this run's ZooKeeper; `raw` reads and writes it past the code under test."""

    def __init__(self, directory: Path, zookeeper: str, raw: KazooClient) -> None:
        self.root = f"/hedwig/{uuid.uuid4().hex}"
        self.raw = raw
        self.admin = Admin(directory, f"zookeeper://{zookeeper}{self.root}")

    def nodes(self) -> dict[str, tuple[bytes, int]]:
        """Return content and data version of every node."""
        return {node.path: (node.data, node.version) for node in read_tree(self.raw, self.root)}


@pytest.fixture
def place(servers: RunningServers, tmp_path: Path) -> Iterator[OlderPlace]:
    zookeeper = servers.address("zookeeper")
    raw = KazooClient(zookeeper)
    raw.start(DEADLINE_S)
    try:
        yield OlderPlace(tmp_path, zookeeper, raw)
    finally:
        raw.stop()
        raw.close()


@contextmanager
def _unchanged(place: OlderPlace) -> Iterator[None]:
    before = place.nodes()
    yield
    assert place.nodes() == before


def _check_upgraded(place: OlderPlace, store: OlderStore) -> None:
    """Fail unless every subscription says what it said, in the present form, and all else is as it was but stamped."""
    nodes = place.nodes()
    assert b"ZkMetadataManagerFactory" in nodes[_LAYOUT][0]
    for (topic, subscriber), (consumed, bound) in store.subscriptions.items():
        data = pb.SubscriptionData.FromString(nodes[f"/topics/{topic}/subscribers/{subscriber}"][0])
        assert data.IsInitialized()
        assert data.state.msgId.localComponent == consumed
        assert not data.state.HasField("messageBound")
        assert data.HasField("preferences")
        assert (data.preferences.messageBound if data.preferences.HasField("messageBound") else None) == bound
    for node in store.nodes:
        if "/subscribers/" not in node.path:
            assert nodes[node.path][0] == node.data
    found = contents(place.admin.url)
    for (topic, subscriber), (consumed, bound) in store.subscriptions.items():
        record = found["subscriptions", Topic(topic.encode()), SubscriberId(subscriber.encode())]
        assert (record.state.consumed.local, record.preferences.message_bound) == (consumed, bound)


# ------------------------------------------------------------------------------------------------ of the older releases


@pytest.mark.parametrize("store", read_older_stores(), ids=lambda store: store.release)
def test_what_an_older_hub_left_is_brought_up_to_date(store: OlderStore, place: OlderPlace) -> None:
    make_tree(place.raw, place.root, store.nodes)
    admin, number = place.admin, len(store.subscriptions)
    with _unchanged(place):
        # Nobody but this command takes it for a store, above all none that would wipe it without a question.
        for other in (("topic", "list"), ("metadata", "format"), ("metadata", "format", "--wipe", "--yes")):
            refused = admin.run(*other)
            assert (refused.code, refused.out, len(refused.err.splitlines())) == (ExitCode.FAILED, "", 1), refused
            assert "hedwig-admin metadata upgrade" in refused.err
        planned = {output: admin.done("metadata", "upgrade", "--dry-run", "-o", output).out for output in FORMATS}
        check_agreement(planned)
        planned_rows = admin.done("metadata", "upgrade", "--dry-run", "-o", "json").json["steps"]
        assert [(row["step"], row["records"]) for row in planned_rows] == [("subscriptions", number), ("layout", 1)]
        assert admin.run("metadata", "upgrade", text="n\n").code == ExitCode.FAILED
    done = admin.done("metadata", "upgrade", "--yes", "-o", "json")
    rows = [(row["step"], row["records"], row["result"]) for row in done.json["steps"]]
    assert rows == [("subscriptions", number, "done"), ("layout", 1, "done")]
    assert "zookeeper, format 1.0 now" in done.err
    _check_upgraded(place, store)
    with _unchanged(place):
        again = admin.done("metadata", "upgrade")
        assert "nothing to upgrade" in again.err
    assert admin.done("metadata", "check").code == 0


def test_older_forms_behind_a_layout_record_are_brought_up_to_date(place: OlderPlace) -> None:
    # A hub of release 4.2 or 4.3 records the layout as it starts, and leaves what it is not asked to change.
    store = read_older_stores()[-1]
    make_tree(place.raw, place.root, store.nodes)
    place.raw.create(
        place.root + _LAYOUT,
        b'managerImpl: "org.apache.hedwig.server.meta.ZkMetadataManagerFactory"\nmanagerVersion: 1\n',
        makepath=True,
    )
    before = contents(place.admin.url)
    done = place.admin.done("metadata", "upgrade", "--yes", "-o", "json").json["steps"]
    assert [row["records"] for row in done] == [len(store.subscriptions), 0]
    _check_upgraded(place, store)
    assert before.keys() == contents(place.admin.url).keys()


def test_hub_that_is_registered_has_to_be_stopped_first(place: OlderPlace) -> None:
    make_tree(place.raw, place.root, read_older_stores()[0].nodes)
    place.raw.create(f"{place.root}/hosts/10.0.0.5:4080:9876", b"0", ephemeral=True)
    with _unchanged(place):
        refused = place.admin.run("metadata", "upgrade", "--yes")
        assert (refused.code, len(refused.err.splitlines())) == (ExitCode.FAILED, 1)
        assert "10.0.0.5:4080:9876" in refused.err
        assert place.admin.done("metadata", "upgrade", "--dry-run").code == 0
    place.raw.delete(f"{place.root}/hosts/10.0.0.5:4080:9876")
    place.admin.done("metadata", "upgrade", "--yes")


def test_upgrade_that_was_killed_goes_on_and_writes_nothing_twice(place: OlderPlace) -> None:
    place.raw.ensure_path(f"{place.root}/hosts")
    paths = [f"/topics/t{number // _PER_TOPIC}/subscribers/s{number}" for number in range(_MANY)]
    for first in range(0, _MANY, _PER_TOPIC):
        place.raw.ensure_path(place.root + paths[first].rpartition("/")[0])
        transaction = place.raw.transaction()
        for number in range(first, first + _PER_TOPIC):
            transaction.create(
                place.root + paths[number], pb.SubscriptionState(msgId=_seq_id(number)).SerializeToString()
            )
        assert all(isinstance(result, str) for result in transaction.commit())
    process = place.admin.start("metadata", "upgrade", "--yes")
    try:
        wait_until(lambda: place.raw.get(place.root + paths[_PER_TOPIC])[1].version == 1, "records are rewritten")
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE_S)
    nodes = place.nodes()
    rewritten = sum(nodes[path][1] for path in paths)
    assert 0 < rewritten < _MANY
    assert _LAYOUT not in nodes
    done = place.admin.done("metadata", "upgrade", "--yes", "-o", "json").json["steps"]
    # What was under way when it was killed may still have been done.
    assert 0 < done[0]["records"] <= _MANY - rewritten
    nodes = place.nodes()
    for number, path in enumerate(paths):
        data, version = nodes[path]
        assert (pb.SubscriptionData.FromString(data).state.msgId.localComponent, version) == (number, 1)
    assert _LAYOUT in nodes


def _seq_id(local: int) -> pb.MessageSeqId:
    return pb.MessageSeqId(localComponent=local)


# ------------------------------------------------------------------------------------------------ with nothing older


def test_store_of_ours_has_nothing_to_upgrade(servers: RunningServers, admin: Admin) -> None:
    servers.address("hbase")
    hbase = f"hbase://{servers.address('zookeeper')}/{uuid.uuid4().hex}"
    zookeeper = f"zookeeper://{servers.address('zookeeper')}/hedwig/{uuid.uuid4().hex}"
    for url in (admin.url, hbase, zookeeper):
        asyncio.run(format_metadata(url))
        ran = admin.done("metadata", "upgrade", "--metadata", url)
        assert "format 1.0: nothing to upgrade" in ran.err
        admin.done("subscription", "create", "news", "reader", "--metadata", url)
        before = contents(url)
        assert "nothing to upgrade" in admin.done("metadata", "upgrade", "--yes", "--metadata", url).err
        assert contents(url) == before


def test_newer_layouts_and_those_of_others_are_one_clear_line(place: OlderPlace, admin: Admin) -> None:
    admin.done("topic", "create", "news")
    admin.query("UPDATE layout SET major = 2")
    newer = admin.run("metadata", "upgrade", "--yes")
    asyncio.run(format_metadata(place.admin.url))
    place.raw.set(
        place.root + _LAYOUT,
        b'managerImpl: "org.apache.hedwig.server.meta.ZkMetadataManagerFactory"\nmanagerVersion: 2\n',
    )
    newer_still = place.admin.run("metadata", "upgrade", "--yes")
    for ran in (newer, newer_still):
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (ExitCode.FAILED, "", 1), ran
        assert "newer: upgrade this software" in ran.err
    place.raw.set(
        place.root + _LAYOUT,
        b'managerImpl: "org.apache.hedwig.server.meta.MsMetadataManagerFactory"\nmanagerVersion: 1\n',
    )
    other = place.admin.run("metadata", "upgrade", "--yes")
    assert (other.code, len(other.err.splitlines())) == (ExitCode.FAILED, 1)
    assert "MsMetadataManagerFactory" in other.err


def test_place_with_nothing_in_it_is_one_clear_line_and_stays_empty(place: OlderPlace, tmp_path: Path) -> None:
    missing = tmp_path / "missing.db"
    for url in (place.admin.url, f"sqlite://{missing}"):
        ran = place.admin.run("metadata", "upgrade", "--yes", "--metadata", url)
        assert (ran.code, len(ran.err.splitlines())) == (ExitCode.FAILED, 1), ran
        assert "hedwig-admin metadata format" in ran.err
    assert place.raw.exists(place.root) is None
    assert not missing.exists()
