"""Prove that the original hub's metadata in ZooKeeper moves to another store whole, and what the hub must do for it."""

import uuid
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from hedwig.exit_codes import ExitCode
from hedwig.model import Topic
from tests.cli.support.admin import Admin
from tests.cli.support.store_contents import contents
from tests.java_hedwig.support.fixture import Stage, read_fixture
from tests.java_hedwig.support.stack import JavaStack
from tests.java_hedwig.support.znodes import make_tree
from tests.support.servers import RunningServers

__all__: list[str] = []

_CONNECT_S = 30.0


@pytest.mark.parametrize("stage", read_fixture(), ids=lambda stage: stage.name)
def test_nodes_of_the_original_move_whole(stage: Stage, servers: RunningServers, tmp_path: Path) -> None:
    root = f"/hedwig/{uuid.uuid4().hex}"
    client = KazooClient(servers.address("zookeeper"), timeout=_CONNECT_S)
    client.start(timeout=_CONNECT_S)
    try:
        make_tree(client, root, stage.nodes)
        source = f"zookeeper://{servers.address('zookeeper')}{root}"
        admin = Admin(tmp_path, f"sqlite://{tmp_path}/moved.db")
        admin.done("metadata", "migrate", "--from", source, "--to", admin.url, "--with-owners", "--hubs-down", "--yes")
        assert contents(admin.url) == contents(source)
    finally:
        client.stop()
        client.close()
    moved = contents(admin.url)
    for topic, records in stage.topics.items():
        assert moved.get(("persistence", topic, None)) == records.ranges
        assert moved.get(("ownership", topic, None)) == records.owner
        for subscriber, data in records.subscriptions.items():
            assert moved["subscriptions", topic, subscriber] == data


def test_running_original_is_copied_from_and_must_be_down_in_the_end(stack: JavaStack, tmp_path: Path) -> None:
    with stack.client() as client:
        client.publish(b"moved-while-it-runs", b"one")
    admin = Admin(tmp_path, f"sqlite://{tmp_path}/moved.db")
    command = ("metadata", "migrate", "--from", stack.metadata_url, "--to", admin.url)
    copied = admin.done(*command, "--no-pause", "-o", "json").json
    assert (copied["verified"], copied["copied"] > 0) == (False, True)
    assert ("persistence", Topic(b"moved-while-it-runs"), None) in contents(admin.url)
    refused = admin.run(*command, "--yes")
    assert refused.code == ExitCode.FAILED
    assert "announces no admin endpoint" in refused.err
    assert "stop it" in refused.err
