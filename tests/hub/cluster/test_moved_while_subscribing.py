"""Prove the answer for a subscription that was stored as its topic left the hub: it is never a definite refusal."""

import asyncio
from typing import Any, Final

import pytest

from hedwig.hub.hub import Hub
from hedwig.model import SubscriberId, Topic
from hedwig.status import StatusCode
from hedwig.wire import pubsub_pb2 as pb
from tests.faults.support.waiting import until
from tests.hub.cluster.support.deployment import Deployment, liveness_of

_TOPIC: Final = Topic(b"t")
_S: Final = SubscriberId(b"s")


def _leave_once_stored(hub: Hub, patch: pytest.MonkeyPatch) -> list[asyncio.Task[None]]:
    """Have a hub release the topic just after it stores a subscription of it; return the tasks that do so."""
    leaving: list[asyncio.Task[None]] = []
    manager = hub.incarnation.subscriptions
    create = manager.create

    async def create_and_leave(*args: Any) -> Any:
        version = await create(*args)
        owned = hub.topics.get(_TOPIC)
        assert owned is not None
        leaving.append(asyncio.create_task(hub.topics.leave(owned)))
        await until(lambda: not owned.is_serving, "the topic is on its way out")
        return version

    patch.setattr(manager, "create", create_and_leave)
    return leaving


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        # The hub redirects the client to the next owner, where it attaches to the stored subscription.
        (pb.SubscribeRequest.CREATE_OR_ATTACH, StatusCode.NOT_RESPONSIBLE_FOR_TOPIC),
        # The next owner would answer that the subscription exists already.
        (pb.SubscribeRequest.CREATE, StatusCode.UNCERTAIN_STATE),
    ],
)
async def test_client_is_not_told_that_it_was_refused(
    mode: pb.SubscribeRequest.CreateOrAttach,
    expected: StatusCode,
    deployment: Deployment,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub, other = [await deployment.start() for _ in range(2)]
    await until(lambda: len(liveness_of(hub).live) == 2, "it knows the other")
    leaving = _leave_once_stored(hub, monkeypatch)
    client = await deployment.connect(hub)
    sent = client.send_raw(
        topic=_TOPIC,
        type=pb.SUBSCRIBE,
        shouldClaim=True,
        # This hub released the topic, so it does not claim it for a client that returns. Only the other hub is left.
        triedServers=list(hub.me.names_in_requests),
        subscribeRequest=pb.SubscribeRequest(subscriberId=_S, createOrAttach=mode),
    )
    answer = await client.answer(sent)
    await asyncio.gather(*leaving)
    assert leaving
    assert answer.status is expected
    if expected is StatusCode.NOT_RESPONSIBLE_FOR_TOPIC:
        assert answer.text == other.me.address
    assert await deployment.store.subscriptions.read(_TOPIC, _S) is not None
