"""Prove that a hub which others have shut out of its log, though it lives, registers anew and loses no message."""

from typing import Final

from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from hedwig.metadata.logs.record import LogState
from hedwig.metadata.logs.records import KeptLogRecords
from tests.faults.support.waiting import until
from tests.hub.cluster.support.both import on_zookeeper_first
from tests.hub.cluster.support.deployment import Deployment
from tests.hub.cluster.support.traffic import Traffic
from tests.hub.cluster.test_one_owner import is_owner

TOPICS: Final = [b"topic-%d" % number for number in range(10)]


@on_zookeeper_first
async def test_hub_that_was_shut_out_of_its_log_registers_anew_and_serves_again(deployment: Deployment) -> None:
    """ZooKeeper may tell another hub that this one is dead, although an answer to this one is still on its way."""
    raw = deployment.raw()
    hub, other = [await deployment.start() for _ in range(2)]
    client = await deployment.connect(hub)
    for topic in TOPICS:
        assert is_owner(await deployment.ask(client, topic))
    async with Traffic(f"127.0.0.1:{hub.port}", TOPICS) as traffic:
        await until(lambda: traffic.published > 100, "messages are published")
        before, log = hub.me, (await deployment.log_of(hub)).number
        assert isinstance(other.ledgers, SharedLedgerStore)
        await other.ledgers.shut_out(log)
        await until(lambda: hub.me != before and hub.shape.is_proven(), "it registers anew")
        assert deployment.epoch_of(raw, before.address) == hub.me.epoch
        published = traffic.published
        await until(lambda: traffic.published > published + 100, "messages are published again")
        traffic.check_going_on()
        assert is_owner(await deployment.ask(await deployment.connect(hub), b"new"))
        assert (await deployment.log_of(hub)).number != log
        record = await KeptLogRecords(deployment.store.named_records).read(log)
        assert record is not None
        assert record.state is LogState.CLOSED
        await traffic.settle()
