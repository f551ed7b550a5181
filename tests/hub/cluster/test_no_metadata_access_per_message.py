"""Prove what a cluster does not ask: the store for a message, ZooKeeper for a topic, bookies for an idle topic."""

import asyncio
from collections import Counter
from random import Random
from typing import Final

import pytest
from kazoo.client import KazooClient

from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT
from hedwig.clock import SystemClock
from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.bookkeeper.records.zookeeper_metadata import ZookeeperLedgerMetadata
from hedwig.hub.ledgers.bookkeeper.store import BookkeeperLedgerStore
from hedwig.model import Topic
from tests.faults.support.proxy import Proxy
from tests.faults.support.waiting import until
from tests.faults.support.wires import ZooKeeperWire
from tests.hub.cluster.support.both import on_both, on_both_ledgers, on_hbase, on_per_topic
from tests.hub.cluster.support.deployment import Deployment
from tests.hub.cluster.test_looking_owners_up import seen
from tests.hub.cluster.test_one_owner import is_owner
from tests.hub.ledgers.bookkeeper.support.sessions import session_with

_BEATS: Final = 6
_OTHERS_ROOTS: Final = ("/hbase", "/bookkeeper", "/zookeeper")


@on_both
async def test_publishes_and_deliveries_do_not_ask_the_metadata_store(deployment: Deployment) -> None:
    proxy, subject = await deployment.behind_proxy()
    hub = await deployment.start(subject=subject)
    await deployment.begin_log(hub)
    publisher, subscriber = await deployment.connect(hub), await deployment.connect(hub)
    await subscriber.subscribed(b"t", b"ann")
    assert await publisher.publish(b"t", b"opens the ledger") == 1
    assert await subscriber.delivered(1) == [1]
    before = seen(proxy)
    ids = await publisher.publish_many(b"t", *(b"%d" % number for number in range(500)))
    assert ids == list(range(2, 502))
    assert await subscriber.delivered(500) == ids
    assert seen(proxy) == before
    assert before.total() > 0


@on_both_ledgers
async def test_idle_topics_have_no_ledger(deployment: Deployment) -> None:
    hub = await deployment.start()
    client = await deployment.connect(hub)
    for number in range(50):
        await client.subscribed(b"topic-%d" % number, b"ann")
    assert len(hub.topics) == 50
    assert (await hub.ledgers.stats()).open_ledgers == 0
    assert await client.publish(b"topic-7", b"first") == 1
    assert (await hub.ledgers.stats()).open_ledgers == 1
    for number in range(50):
        record = await deployment.store.persistence.read(Topic(b"topic-%d" % number))
        assert record is not None
        assert len(record.value.ranges) == (1 if number == 7 else 0)


@on_both_ledgers
async def test_topic_that_was_taken_over_and_is_idle_has_no_ledger_more(deployment: Deployment) -> None:
    one, other = [await deployment.start() for _ in range(2)]
    to_one, to_other = [await deployment.connect(hub) for hub in (one, other)]
    assert await to_one.publish(b"t", b"first") == 1
    topic = one.topics.get(Topic(b"t"))
    assert topic is not None
    await one.topics.release(topic)
    assert is_owner(await deployment.ask(to_other, b"t"))
    assert (await other.ledgers.stats()).open_ledgers == 0
    record = await deployment.store.persistence.read(Topic(b"t"))
    assert record is not None
    assert len(record.value.ranges) == 1


@on_per_topic
async def test_ledger_says_whose_it_is(deployment: Deployment) -> None:
    hub = await deployment.start()
    client = await deployment.connect(hub)
    name = b"a/topic \xff"
    assert await client.publish(name, b"first") == 1
    record = await deployment.store.persistence.read(Topic(name))
    assert record is not None
    (ledger,) = record.value.ranges
    async with session_with(deployment.zookeeper, deployment.stores_file) as session:
        records = await ZookeeperLedgerMetadata.open(session, LEDGERS_ROOT, SystemClock())
        custom = (await records.read(ledger.ledger_id)).value.custom
        assert custom == {
            "application": b"hedwig",
            "deployment": f"zookeeper://{deployment.zookeeper}{deployment.prefix}".encode(),
            "topic": name,
        }
        store = await BookkeeperLedgerStore.open(session, LEDGERS_ROOT, BookkeeperOptions(), SystemClock(), Random())
        try:
            assert ledger.ledger_id in {each async for each in store.ledgers()}
        finally:
            await store.aclose()


# ------------------------------------------------------------------------------------------------ ZooKeeper's own load


def _nodes(raw: KazooClient, path: str) -> int:
    return 1 + sum(_nodes(raw, f"{path}/{name}") for name in raw.get_children(path))


def _nodes_of_hubs(raw: KazooClient, deployment: Deployment) -> tuple[int, frozenset[str]]:
    """Return the number of the deployment's nodes, and the top nodes that are not HBase's or BookKeeper's."""
    tops = frozenset(f"/{name}" for name in raw.get_children("/"))
    return _nodes(raw, deployment.prefix), tops - set(_OTHERS_ROOTS)


async def _during_beats(proxy: Proxy) -> Counter[str]:
    """Return the requests that a hub sends during some proofs of life."""
    before = seen(proxy)
    await until(lambda: proxy.seen["set"] >= before["set"] + _BEATS, "the hub proves that it lives")
    return seen(proxy) - before


@pytest.mark.full
@on_hbase
async def test_zookeeper_has_the_same_to_do_for_a_hundred_topics_and_for_ten_thousand(deployment: Deployment) -> None:
    raw = deployment.raw()
    proxy = await deployment.proxy_to_zookeeper(ZooKeeperWire)
    # The session is long, for a busy machine: everything runs in this process.
    hub = await deployment.start(zookeeper=proxy.address, cluster={"claims_rate": 0, "session_timeout_s": 20.0})
    client = await deployment.connect(hub)

    async def own(numbers: range) -> None:
        for start in range(numbers.start, numbers.stop, 250):
            lot = range(start, min(start + 250, numbers.stop))
            answers = await asyncio.gather(*(deployment.ask(client, b"topic-%d" % number) for number in lot))
            assert all(is_owner(answer) for answer in answers)

    await own(range(100))
    nodes, requests = _nodes_of_hubs(raw, deployment), await _during_beats(proxy)
    before = seen(proxy)
    await own(range(100, 10_000))
    meanwhile = seen(proxy) - before
    assert len(hub.topics) == 10_000
    assert _nodes_of_hubs(raw, deployment) == nodes
    later = await _during_beats(proxy)
    # The counts may differ by one look at the loads of the hubs. It costs a listing and a read of one hub.
    assert all(abs(later[name] - requests[name]) <= 2 for name in {*later, *requests}), (requests, later)
    # The claims sent no requests. The counted ones are proofs of life and looks at the loads meanwhile.
    assert set(meanwhile) <= {"set", "children", "get"}, meanwhile
    assert meanwhile.total() < 200, meanwhile
