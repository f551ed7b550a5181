"""Prove what a hub does in ZooKeeper: two nodes for the original's one, and requests that do not grow with topics."""

import json
from dataclasses import replace

import pytest
from kazoo.client import KazooClient

from hedwig.errors import ConfigurationError, ServiceDownError
from hedwig.hub.liveness import DRAINING_LOAD, ClusterLiveness, LivenessOptions, read_hubs
from hedwig.hub.liveness.live_hub import Endpoint, decode_load, encode_load
from hedwig.hub.topics.ownership import Liveness
from hedwig.model import HubInfo
from hedwig.zookeeper import Bridge, BridgeOptions
from tests.faults.support.proxy import Proxy
from tests.faults.support.waiting import until
from tests.faults.support.wires import ZooKeeperWire
from tests.hub.liveness.support.hubs import SESSION_S, Hubs, czxid_of, hub_at
from tests.support.checkout import CHECKOUT

VECTORS = CHECKOUT / "tests" / "java_hedwig" / "support" / "java-hedwig-4.3.2.json"


def _java_host_nodes() -> list[bytes]:
    stages = json.loads(VECTORS.read_text())["stages"]
    nodes = [node for stage in stages for node in stage["nodes"] if node["path"].startswith("/hosts/")]
    return [bytes.fromhex(node["hex"]) for node in nodes]


def test_loads_are_the_originals_bytes() -> None:
    written = _java_host_nodes()
    assert [encode_load(decode_load(data)) for data in written] == written
    assert {decode_load(data) for data in written} == {0, 2}


@pytest.mark.parametrize(
    ("data", "load"),
    [(b"17", 17), (b"numTopics: 4", 4), (b"numTopics: 4\nmore: 1\n", 4), (b"", 0), (b"\xff", 0), (b"what?", 0)],
)
def test_loads_of_other_releases_are_read(data: bytes, load: int) -> None:
    assert decode_load(data) == load


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"[]", b'{"admin": 5, "process": {"pid": "x"}, "shared_logs": 1}', b"null", b'{"listeners": [1]}'],
)
def test_endpoints_that_cannot_be_read_say_nothing(data: bytes) -> None:
    assert Endpoint.decode(data) == Endpoint(None, None, reads_shared_logs=False)


def test_an_endpoint_says_where_named_listeners_are() -> None:
    listeners = {"java": "hub.example:4090:-1", "apps": "10.0.0.7:4443:4443"}
    assert Endpoint.decode(Endpoint(None, None, True, listeners).encode()).listeners == listeners
    odd = b'{"listeners": {"java": "hub.example:4090:-1", "apps": 7, "web": "nowhere", "old": {}}}'
    assert Endpoint.decode(odd).listeners == {"java": "hub.example:4090:-1"}


async def test_the_host_node_is_the_originals_and_its_creation_is_the_epoch(
    hubs: Hubs, raw: KazooClient, options: LivenessOptions
) -> None:
    member = await hubs.start(1)
    data, stat = raw.get(f"{options.prefix}/hosts/127.0.0.1:4001:5001")
    assert decode_load(data) == 0
    assert stat.ephemeralOwner != 0
    assert member.liveness.registration.me == replace(hub_at(1), epoch=stat.czxid)
    (endpoint,) = raw.get_children(f"{options.prefix}/endpoints")
    data, its_stat = raw.get(f"{options.prefix}/endpoints/{endpoint}")
    assert Endpoint.decode(data).admin == "127.0.0.1:6001"
    assert (its_stat.ephemeralOwner, its_stat.czxid) == (stat.ephemeralOwner, stat.czxid)


async def test_closing_removes_both_nodes_at_once(hubs: Hubs, raw: KazooClient, options: LivenessOptions) -> None:
    member = await hubs.start(1)
    registration = member.liveness.registration
    await member.liveness.close()
    assert raw.get_children(f"{options.prefix}/hosts") == raw.get_children(f"{options.prefix}/endpoints") == []
    assert not registration.is_proven()
    with pytest.raises(ServiceDownError, match="closing"):
        _ = member.liveness.registration
    assert member.lost == []
    await member.liveness.close()


async def test_it_is_the_liveness_that_ownership_asks_for(hubs: Hubs) -> None:
    member = await hubs.start(1)
    asked: Liveness = member.liveness.registration
    assert asked.choose() == asked.me
    assert await asked.is_alive(asked.me)


async def test_hubs_are_listed_with_their_admin_endpoints(hubs: Hubs, options: LivenessOptions) -> None:
    first, second = await hubs.start(1), await hubs.start(2)
    first.liveness.set_load(12)
    second.liveness.set_load(DRAINING_LOAD)
    bridge = Bridge(options.zookeeper, BridgeOptions())
    await bridge.connect()
    await until(lambda: [hub.load for hub in first.liveness.live] == [12, DRAINING_LOAD], "loads are announced")
    listed = await read_hubs(bridge, options.prefix)
    assert [(hub.info, hub.load, hub.admin) for hub in listed] == [
        (first.liveness.registration.me, 12, "127.0.0.1:6001"),
        (second.liveness.registration.me, DRAINING_LOAD, "127.0.0.1:6002"),
    ]
    assert [hub.is_draining for hub in listed] == [False, True]
    assert [hub.reads_shared_logs for hub in listed] == [True, True]
    assert await first.liveness.read_hubs() == listed
    assert first.liveness.registration.choose() == first.liveness.registration.me
    assert await read_hubs(bridge, "/hedwig/nobody") == ()
    await bridge.close()


async def test_requests_and_nodes_do_not_grow_with_topics(
    hubs: Hubs, raw: KazooClient, options: LivenessOptions
) -> None:
    """Between the same two beats, ten thousand changes of the load cost no more requests than none."""
    asked: list[dict[str, int]] = []
    async with Proxy(options.zookeeper, ZooKeeperWire) as proxy:
        member = await hubs.start(1, zookeeper=proxy.address, refresh_s=600.0)
        host = f"{options.prefix}/hosts/{hub_at(1).address}"
        # The hub has seen its own registration.
        await until(lambda: member.liveness.live and proxy.seen["set"] >= 2, "it is at rest")
        for changes in (0, 10_000):
            before, beats = proxy.seen.copy(), proxy.seen["set"] + 2
            for load in range(changes):
                member.liveness.set_load(load)
            await until(lambda: proxy.seen["set"] >= beats, "two beats")  # noqa: B023 (waited for here)
            asked.append(dict(proxy.seen - before))
        await until(lambda: decode_load(raw.get(host)[0]) == 9_999, "the load is announced")
        await member.liveness.close()
    assert asked == [{"set": 2}, {"set": 2}]
    tree = [raw.get_children(f"{options.prefix}{below}") for below in ("", "/hosts", "/endpoints")]
    assert [sorted(names) for names in tree] == [["endpoints", "hosts"], [], []]


async def test_a_load_is_announced_within_a_beat(hubs: Hubs, raw: KazooClient, options: LivenessOptions) -> None:
    member = await hubs.start(1)
    member.liveness.set_load(3)
    host = f"{options.prefix}/hosts/{hub_at(1).address}"
    await until(lambda: raw.get(host)[0] == b"numTopics: 3\n", "the load", timeout_s=SESSION_S / 2)
    assert czxid_of(raw, options, 1) == member.liveness.registration.me.epoch


async def test_an_address_that_names_no_node_is_refused(options: LivenessOptions) -> None:
    with pytest.raises(ConfigurationError, match="slash"):
        ClusterLiveness(HubInfo(host="a/b", port=1), options)


@pytest.mark.parametrize("prefix", ["", "/", "hedwig", "/hedwig/", "/zookeeper/x", "//"])
def test_a_prefix_that_names_no_node_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigurationError, match="prefix"):
        LivenessOptions(zookeeper="127.0.0.1:2181", prefix=prefix)
