"""Prove that a hub that missed the request to freeze writes nothing on its return, until the freeze is over."""

from random import Random

from hedwig.clock import SystemClock
from hedwig.hub.hub import Hub
from hedwig.metadata.freezing import StoreFreeze
from hedwig.status import StatusCode
from hedwig.wire import Message, Publish
from tests.faults.support.waiting import until
from tests.faults.support.wires import ZooKeeperWire
from tests.hub.cluster.support.deployment import Deployment


def _freeze_of(hub: Hub) -> StoreFreeze:
    """Return a freeze of the store of `hub` whose lease does not run out in this test."""
    records = hub.metadata.named_records
    return StoreFreeze(records, b"m-1", "sqlite:///next.db", lease_s=3600.0, clock=SystemClock(), random=Random())


async def test_hub_that_registers_anew_in_a_freeze_is_frozen(deployment: Deployment) -> None:
    """The hub was not registered when the migration listed the hubs, so it received no request to freeze."""
    proxy = await deployment.proxy_to_zookeeper(ZooKeeperWire)
    cut_off = await deployment.start(zookeeper=proxy.address)
    # Else that hub might have the topic first, after the freeze.
    other = await deployment.start(cluster={"takeover_rate": 0})
    client = await deployment.connect(cut_off)
    assert await client.publish(b"t", b"a") == 1
    before = cut_off.me
    proxy.vanish()
    await client.closed_by_hub()
    freeze = _freeze_of(other)
    await freeze.begin()
    await proxy.come_back()
    await until(lambda: cut_off.me != before and cut_off.shape.is_proven(), "it is registered again")
    client = await deployment.connect(cut_off)
    for topic in (b"t", b"new"):
        answer = await client.request(topic, Publish(Message(b"x")), should_claim=True)
        assert answer.status is StatusCode.SERVICE_DOWN
    await until(lambda: cut_off.freezing.why is not None, "it has seen the freeze")
    assert await deployment.owner(b"t") == before, "it has claimed nothing"
    assert await deployment.owner(b"new") is None
    await freeze.lift()
    await until(lambda: cut_off.freezing.why is None, "it goes on by itself")
    assert await client.publish(b"t", b"b") == 2
    assert await deployment.owner(b"t") == cut_off.me


async def test_frozen_hub_stays_so_under_its_next_registration(deployment: Deployment) -> None:
    raw = deployment.raw()
    hub = await deployment.start()
    client = await deployment.connect(hub)
    assert await client.publish(b"t", b"a") == 1
    freeze = _freeze_of(hub)
    await freeze.begin()
    await hub.freezing.freeze(hub.incarnation)
    before = hub.me
    raw.delete(f"{deployment.prefix}/hosts/{before.address}")
    await client.closed_by_hub()
    await until(lambda: hub.me != before and hub.shape.is_proven(), "it is registered again")
    client = await deployment.connect(hub)
    answer = await client.request(b"t", Publish(Message(b"x")), should_claim=True)
    assert answer.status is StatusCode.SERVICE_DOWN
    assert await deployment.owner(b"t") == before
    await freeze.lift()
    await until(lambda: hub.freezing.why is None, "it goes on by itself")
    assert await client.publish(b"t", b"b") == 2


async def test_no_log_begins_in_a_freeze(deployment: Deployment) -> None:
    raw, names = deployment.raw(), deployment.store.named_records
    hub = await deployment.start()
    client = await deployment.connect(hub)
    assert await client.publish(b"t", b"a") == 1
    freeze = _freeze_of(hub)
    await freeze.begin()
    frozen = [(name, await names.read(name)) for name in (*await names.names("log"), "sweep-of-logs")]
    before = hub.me
    raw.delete(f"{deployment.prefix}/hosts/{before.address}")
    await client.closed_by_hub()
    await until(lambda: hub.me != before and hub.shape.is_proven(), "it is registered again")
    for each in (hub, await deployment.start()):
        answer = await (await deployment.connect(each)).request(b"new", Publish(Message(b"x")), should_claim=True)
        assert answer.status is StatusCode.SERVICE_DOWN
        assert each.freezing.why is not None
    assert [(name, await names.read(name)) for name in (*await names.names("log"), "sweep-of-logs")] == frozen
    await freeze.lift()
    await until(lambda: hub.freezing.why is None, "it goes on by itself")
    client = await deployment.connect(hub)
    assert await client.publish(b"t", b"b") == 2
