"""Prove that requests that are costly to decode do not end the registration of a hub."""

import asyncio
from typing import Final

from hedwig.status import StatusCode
from tests.faults.support.waiting import until
from tests.hub.cluster.support.deployment import Deployment, liveness_of
from tests.hub.neighbours.support.clients import crowded

CONNECTIONS: Final = 40


async def test_hub_keeps_its_registration_and_its_topics_under_forty_crowded_frames(deployment: Deployment) -> None:
    """Decoded in full, one after the other, these frames hold a hub up for longer than its session."""
    raw = deployment.raw()
    hub, other = deployment.apart(), await deployment.start()
    await asyncio.to_thread(hub.start)
    await until(lambda: len(liveness_of(other).live) == 2, "the hubs know each other")
    before = deployment.registered_at(raw, hub.port)
    assert before is not None
    client = await deployment.connect(hub)
    await client.subscribed(b"t", b"ann")
    assert await client.publish(b"t", b"first") == 1
    attackers = [await deployment.connect(hub) for _ in range(CONNECTIONS)]
    body = crowded("options")
    for attacker in attackers:
        attacker.send_frame(body)
    for attacker in attackers:
        assert (await attacker.answer(1)).status is StatusCode.MALFORMED_REQUEST
    # The hub and the channel are still those from before the frames.
    assert await client.publish(b"t", b"second") == 2
    assert await client.delivered(2) == [1, 2]
    assert deployment.registered_at(raw, hub.port) == before
    assert await deployment.owner(b"t") == before
