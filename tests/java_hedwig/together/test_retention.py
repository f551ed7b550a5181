"""Prove that consumed ledgers that one hub deleted do not disturb the other hub."""

from functools import partial
from typing import Final

from hedwig.wire import pubsub_pb2 as pb
from tests.java_hedwig.support.hub_client import HubClient, RefusedByHubError
from tests.java_hedwig.support.stack import eventually
from tests.java_hedwig.together.support.deployment import MESSAGES_PER_LEDGER, Deployment
from tests.java_hedwig.together.support.members import Member

__all__: list[str] = []

S: Final = b"reader"
LEDGERS: Final = 3


def test_ids_go_on_after_ledgers_that_either_hub_deleted(deployment: Deployment, topic: bytes) -> None:
    """Our hub deletes even the last ledger when it releases the topic, and keeps its range, which holds no message."""
    deployment.give(topic, deployment.ours)
    last = _publish_and_consume(deployment.ours, topic, 0)
    _release(deployment, topic, last)
    deployment.give(topic, deployment.original)
    before, last = last, _publish_and_consume(deployment.original, topic, last)
    eventually("the original deletes what is consumed", partial(_begins_behind, deployment, topic, before))
    deployment.original.stop()
    deployment.wait_unregistered(deployment.original)
    last = _publish_and_consume(deployment.ours, topic, last)
    _release(deployment, topic, last)


def _release(deployment: Deployment, topic: bytes, last: int) -> None:
    """Make our hub release the topic, whose messages are consumed up to `last`."""
    deployment.release(topic)
    [emptied] = deployment.ranges(topic).ranges
    assert (emptied.startSeqIdIncluded, emptied.endSeqIdIncluded.localComponent) == (last + 1, last)


def _begins_behind(deployment: Deployment, topic: bytes, last: int) -> bool:
    """Return whether the first of the ledgers filled after `last` is gone."""
    return deployment.ranges(topic).ranges[0].startSeqIdIncluded > last + MESSAGES_PER_LEDGER


def _has_subscribed(client: HubClient, topic: bytes) -> bool:
    """Subscribe, and return whether it succeeded. A hub learns a moment late that the owner of the topic is gone."""
    try:
        client.subscribe(topic, S)
    except RefusedByHubError as exc:
        if exc.status != pb.NOT_RESPONSIBLE_FOR_TOPIC:
            raise
        return False
    return True


def _publish_and_consume(owner: Member, topic: bytes, last: int) -> int:
    """Publish a bit more than several ledgers take, and consume all of it; return the last id."""
    end = last + LEDGERS * MESSAGES_PER_LEDGER + 2
    wanted = [(number, b"m%d" % number) for number in range(last + 1, end + 1)]
    with HubClient(owner.port) as client:
        eventually(f"{owner.name} takes the topic", partial(_has_subscribed, client, topic))
        for number, body in wanted:
            assert client.publish(topic, body) == number
        assert client.deliveries(len(wanted)) == wanted
        client.consume(topic, S, end)
        client.close_subscription(topic, S)
    return end
