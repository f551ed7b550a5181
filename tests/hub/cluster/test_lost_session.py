"""Prove that a hub that cannot prove that it is alive serves no client, and starts again without any topic."""

import asyncio
import functools

import pytest

from hedwig.errors import ServiceDownError
from hedwig.status import StatusCode
from hedwig.wire import Message, Publish
from tests.faults.support.waiting import until
from tests.faults.support.wires import ZooKeeperWire
from tests.hub.cluster.support.both import on_each_kind
from tests.hub.cluster.support.deployment import SESSION_S, Deployment, liveness_of
from tests.hub.cluster.test_one_owner import is_owner
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.wire_client import ChannelClosedError, WireClient


async def _publish_until_closed(client: WireClient, topic: bytes) -> list[int]:
    """Publish one message after the other; return their ids once the hub has closed the channel.

    The hub refuses the requests that it has not begun when it closes the channel.
    """
    ids: list[int] = []
    while True:
        try:
            answer = await client.request(topic, Publish(Message(b"message")))
        except (ChannelClosedError, OSError):
            return ids
        if answer.status is not StatusCode.SERVICE_DOWN:
            ids.append(client.published(answer))


@on_each_kind
async def test_hub_that_is_cut_off_from_zookeeper_stops_and_starts_from_nothing(deployment: Deployment) -> None:
    raw = deployment.raw()
    proxy = await deployment.proxy_to_zookeeper(ZooKeeperWire)
    cut_off = await deployment.start(zookeeper=proxy.address)
    other = await deployment.start()
    subscriber, publisher, to_other = [await deployment.connect(hub) for hub in (cut_off, cut_off, other)]
    await subscriber.subscribed(b"t", b"ann")
    before = cut_off.me
    publishing = asyncio.create_task(_publish_until_closed(publisher, b"t"))
    await until(lambda: len(subscriber.undelivered) > 20, "messages are delivered")
    proxy.vanish()
    ids = await publishing
    # That this is before ZooKeeper removes it, tests/hub/liveness/test_proof.py proves, with the hub's own times.
    assert not cut_off.shape.is_proven()
    await subscriber.closed_by_hub()
    assert ids == list(range(1, len(ids) + 1))
    async with await WireClient.connect(cut_off.port) as again:
        # The hub cannot say now whether it or another hub owns a topic.
        for should_claim in (True, False):
            assert (await deployment.ask(again, b"t", should_claim=should_claim)).status is StatusCode.SERVICE_DOWN
            answer = await again.request(b"new", Publish(Message(b"x")), should_claim=should_claim)
            assert answer.status is StatusCode.SERVICE_DOWN
        assert "cannot prove" in (answer.text or "") or "could not prove" in (answer.text or "")
        await deployment.gone(raw, before, other)
        await to_other.subscribed(b"t", b"ann")
        next_id = await to_other.publish(b"t", b"after")
        # One message may be stored whose publisher received no answer.
        assert next_id in (len(ids) + 1, len(ids) + 2)
        assert await to_other.delivered(next_id) == list(range(1, next_id + 1))
        await proxy.come_back()
        await until(lambda: deployment.epoch_of(raw, before.address) is not None, "it registers again")
        await until(cut_off.shape.is_proven, "it serves again")
        assert cut_off.me.epoch not in (0, before.epoch)
        assert len(cut_off.topics) == 0
        answer = await deployment.ask(again, b"t")
        assert answer.text == other.me.address
        assert is_owner(await deployment.ask(again, b"new"))
        assert await again.publish(b"new", b"first") == 1
        assert await deployment.owner(b"new") == cut_off.me


async def test_hub_that_finds_its_topics_on_record_as_its_own_of_before_takes_them_over(deployment: Deployment) -> None:
    """Its session ended, but no client asked another hub for them. The records have its address and another epoch."""
    proxy = await deployment.proxy_to_zookeeper(ZooKeeperWire)
    hub = await deployment.start(zookeeper=proxy.address, cluster={"takeover_rate": 0})
    client = await deployment.connect(hub)
    assert await client.publish_many(b"t", b"a", b"b") == [1, 2]
    before = hub.me
    proxy.vanish()
    await client.closed_by_hub()
    await proxy.come_back()
    await until(lambda: hub.me != before and hub.shape.is_proven(), "it serves again")
    client = await deployment.connect(hub)
    assert await deployment.owner(b"t") == before
    assert await client.publish(b"t", b"c") == 3
    assert await deployment.owner(b"t") == hub.me
    assert hub.me.address == before.address


async def test_hub_whose_node_is_deleted_by_hand_registers_anew(deployment: Deployment) -> None:
    raw = deployment.raw()
    hub = await deployment.start(cluster={"session_timeout_s": SESSION_S})
    client = await deployment.connect(hub)
    assert await client.publish(b"t", b"a") == 1
    before = hub.me
    raw.delete(f"{deployment.prefix}/hosts/{before.address}")
    await client.closed_by_hub()
    await until(lambda: hub.me != before and hub.shape.is_proven(), "it serves again")
    client = await deployment.connect(hub)
    assert await client.publish(b"t", b"b") == 2


async def test_hub_that_registers_anew_keeps_what_it_was_told_and_what_it_counted(deployment: Deployment) -> None:
    raw = deployment.raw()
    hub = await deployment.start(admin_port=0, cluster={"session_timeout_s": SESSION_S})
    admin = AdminClient(f"127.0.0.1:{hub.admin_port}")
    client = await deployment.connect(hub)
    assert await client.publish_many(b"t", b"a", b"b", b"c") == [1, 2, 3]
    await asyncio.to_thread(admin.post, "/read-only?state=on")
    before = hub.me
    raw.delete(f"{deployment.prefix}/hosts/{before.address}")
    await until(lambda: hub.me != before and hub.shape.is_proven(), "it serves again")
    assert (await asyncio.to_thread(admin.get, "/read-only"))["read_only"]
    load = await asyncio.to_thread(admin.get, "/load")
    assert load["since_start"]["published_messages"] == 3
    assert min(load["rates_per_s"].values()) >= 0
    await asyncio.to_thread(admin.post, "/read-only?state=off")
    client = await deployment.connect(hub)
    assert await client.publish(b"t", b"d") == 4
    load = await asyncio.to_thread(admin.get, "/load")
    assert load["since_start"]["published_messages"] == 4


@pytest.mark.parametrize("work", ["_beat", "_live_set._read"])
async def test_hub_whose_liveness_meets_a_defect_ends_and_leaves_its_topics_to_others(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    other, hub = await deployment.start(), await deployment.start()
    client, to_other = await deployment.connect(hub), await deployment.connect(other)
    assert await client.publish(b"t", b"a") == 1

    async def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    *path, name = work.split(".")
    monkeypatch.setattr(functools.reduce(getattr, path, liveness_of(hub)), name, fail)
    error = await asyncio.wait_for(hub.failed, 30)
    assert isinstance(error, ServiceDownError)
    assert "the log says why" in str(error)
    # The process does the same before it ends.
    await hub.close()
    assert await deployment.owner(b"t") is None
    assert await to_other.publish(b"t", b"b") == 2
