"""Audits that ask real servers: which hubs ZooKeeper registers, and which ledgers a hub and real bookies have."""

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode
from hedwig.hub.liveness import ClusterLiveness, LivenessOptions
from hedwig.metadata import MetadataStore
from hedwig.metadata.contract.url import zookeeper_address
from hedwig.model import HubInfo, Topic
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.living_hubs import living_incarnations
from hedwig.versions import ANY, NEW
from tests.cli.support.hub_and_admin import HubAndAdmin
from tests.cli.support.planted import ranges, set_ranges
from tests.pipeline.conftest import Run
from tests.pipeline.support.hub_on_bookies import hub_on_bookies
from tests.pipeline.support.stores import new_store, with_store
from tests.support.servers import RunningServers

HUB = HubInfo(host="127.0.0.1", port=4081, ssl_port=5081)


@contextmanager
def _registered(zookeeper: str, prefix: str) -> Iterator[HubInfo]:
    """A hub that is only registered. Its session lives in threads of the client."""
    with asyncio.Runner() as runner:
        options = LivenessOptions(zookeeper=zookeeper, prefix=prefix, session_timeout_s=10.0)

        async def make() -> ClusterLiveness:
            return ClusterLiveness(HUB, options, admin="127.0.0.1:6081")

        liveness = runner.run(make())
        try:
            yield runner.run(liveness.start()).hub
        finally:
            runner.run(liveness.close())


def _alive(cluster: str) -> list[HubInfo] | None:
    return living_incarnations(Deployment(command="audit", timeout_s=30.0, cluster=cluster))


def _own(url: str, owners: dict[bytes, HubInfo]) -> None:
    async def own(store: MetadataStore) -> None:
        for topic, hub in owners.items():
            await store.ownership.write(Topic(topic), hub, NEW)

    with_store(url, own)


def test_owners_are_held_against_the_hubs_of_a_cluster(run: Run, servers: RunningServers, tmp_path: Path) -> None:
    zookeeper, name = servers.address("zookeeper"), uuid.uuid4().hex
    cluster, store = f"zookeeper://{zookeeper}/hedwig/{name}", new_store(tmp_path)
    with _registered(zookeeper, f"/hedwig/{name}") as hub:
        assert _alive(cluster) == [hub]
        before = HubInfo(host=hub.host, port=hub.port, ssl_port=hub.ssl_port, epoch=hub.epoch - 1)
        _own(store, {b"served": hub, b"left": before})
        result = run("audit", store, tmp_path / "audit", "--cluster", cluster)
        assert result["findings"]["dead-owner"] == 1
        assert {each["hub"]: each["is_alive"] for each in result["hubs"]} == {
            f"{hub.address} epoch {hub.epoch}": True,
            f"{hub.address} epoch {before.epoch}": False,
        }
    assert _alive(cluster) == [], "its node is there, and no hub"
    mistyped = run("audit", store, tmp_path / "mistyped", "--cluster", f"{cluster}x", code=ExitCode.NOT_FOUND)
    assert f"no hub was ever registered at {cluster}x: give --cluster to the letter" in mistyped
    with pytest.raises(OperationError, match="no hub was ever registered"):
        _alive(f"zookeeper://{zookeeper}/hedwig")


@pytest.mark.full
def test_ledgers_of_a_standalone_hub_are_held_against_its_records(run: Run, tmp_path: Path) -> None:
    with HubAndAdmin(tmp_path) as pair:
        for topic in ("eu/news", "us/news", "us/forgotten"):
            pair.publish(topic, b"message")
        pair.hub.stop()
        store, data = pair.admin.url, pair.hub.data

    async def forget(opened: MetadataStore) -> None:
        await opened.persistence.delete(Topic(b"us/forgotten"), ANY)

    with_store(store, forget)
    set_ranges(store, "eu/lost", ranges((1 << 63, 1, 5)))
    result = run("audit", store, tmp_path / "audit", "--data", data)
    assert (result["findings"]["missing-ledger"], result["findings"]["orphan-ledger"]) == (1, 1)
    run("snapshot", store, tmp_path / "part", "--prefix", "eu/")
    for name, source, why in (
        ("of a part", tmp_path / "part", "only topics that begin with 'eu/' are audited"),
        ("of a snapshot", tmp_path / "audit" / "snapshot", "does not record when it makes a ledger"),
    ):
        result = run("audit", source, tmp_path / name, "--data", data)
        assert why in result["unchecked"]["orphan-ledger"]
        assert "orphan-ledger" not in result["findings"]
        assert result["findings"]["missing-ledger"] == 1


@pytest.mark.full
def test_open_ledgers_of_a_running_hub_say_how_far_they_go(run: Run, tmp_path: Path) -> None:
    with HubAndAdmin(tmp_path) as pair:
        pair.subscribe("eu/news", "reader")
        pair.publish("eu/news", *(b"message %d" % number for number in range(9)))
        pair.publish("us/news", b"message")
        pair.read("eu/news", "reader", 4)
        result = run("audit", pair.admin.url, tmp_path / "asked", "--data", pair.hub.data)
        assert result["open_ledgers"] == {"open": 2, "told": 2, "untold": []}
        (behind,) = result["backlogs"]
        assert (behind["topic"], behind["last_message"], behind["end_from"]) == ("eu/news", 9, "ledger")
        assert 5 <= behind["backlog_messages"] <= 9, "consume pointers are written now and then"
        result = run("audit", pair.admin.url, tmp_path / "not asked")
        assert result["open_ledgers"] == {"open": 2, "told": 0, "untold": []}
        assert result["backlogs"] == []
        pair.publish("eu/news", b"later")
    # The killed hub closed nothing. Only the earlier snapshot has its records.
    result = run("audit", tmp_path / "asked" / "snapshot", tmp_path / "later", "--data", pair.hub.data)
    assert [each["last_message"] for each in result["backlogs"]] == [10]


@pytest.mark.full
@pytest.mark.parametrize("kind", ["per-topic", "shared"])
def test_ledgers_on_bookies_are_held_against_the_records_of_a_cluster(
    run: Run, servers: RunningServers, tmp_path: Path, kind: str
) -> None:
    messages = {b"eu/news": 9, b"us/news": 1}
    ledgers = f"bookkeeper.ledgers={kind}"
    with (
        hub_on_bookies(servers, tmp_path / "hub", messages, ledgers, reader=b"eu/news") as hub,
        hub.orphan(b"eu/news") as orphan,
    ):
        given = ("--cluster", hub.url, "--bookkeeper", hub.bookkeeper)
        result = run("audit", hub.url, tmp_path / "audit", *given)
        assert result["rows"]["owned topics"] == 2
        assert result["open_ledgers"] == {"open": 2, "told": 2, "untold": []}
        (behind,) = result["backlogs"]
        # The end that a writer tells readers is late by at least one entry.
        assert (behind["topic"], behind["end_from"], behind["is_exact"]) == ("eu/news", "ledger", False)
        assert 8 <= behind["backlog_messages"] <= 9
        assert {kind: count for kind, count in result["findings"].items() if count} == {"orphan-ledger": 1}
        assert f"no topic refers to ledger {orphan}" in (tmp_path / "audit" / "audit.html").read_text()
        again = run("audit", tmp_path / "audit" / "snapshot", tmp_path / "again", *given)
        assert again["findings"] == result["findings"]
        # A snapshot has no store that knows the logs as they are now.
        assert again["open_ledgers"]["told"] == (0 if kind == "shared" else 2)
        raw = KazooClient(hub.zookeeper)
        raw.start(30)
        raw.create(f"{zookeeper_address(hub.url)[1]}-other/hosts", makepath=True)
        raw.stop()
        raw.close()
        other = run("audit", hub.url, tmp_path / "other", "--cluster", f"{hub.url}-other", *given[2:])
        assert other["findings"]["dead-owner"] == 2
        assert "ledgers there was made by hubs of" in other["unchecked"]["orphan-ledger"]
