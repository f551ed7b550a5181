"""Prove that a shared log goes on while its record cannot be changed."""

import asyncio
import time
from typing import Final

import pytest

from tests.hub.cluster.support.both import on_hbase
from tests.hub.cluster.support.deployment import Deployment, bodies_of
from tests.hub.support.wire_client import eventually

_SEGMENT_BYTES: Final = 64 << 10
_TOPICS: Final = [b"t%d" % number for number in range(20)]


@on_hbase
@pytest.mark.parametrize("seconds", [3.0, pytest.param(60.0, marks=pytest.mark.full)])
async def test_segments_fill_and_no_publish_fails_while_the_metadata_are_away(
    deployment: Deployment, seconds: float
) -> None:
    deployment.write_logs(segment_bytes=_SEGMENT_BYTES, roll_pause_s=0.0)
    proxy, subject = await deployment.behind_proxy()
    hub = await deployment.start(subject=subject)
    client = await deployment.connect(hub)
    for topic in _TOPICS:
        await client.subscribed(topic, b"ann")
        await client.close_subscription(topic, b"ann")
        assert await client.publish(topic, b"0") == 1
    await deployment.begin_log(hub)
    proxy.vanish()
    try:
        until, sent = time.monotonic() + seconds, 1
        while time.monotonic() < until or sent * 1000 * len(_TOPICS) < 10 * _SEGMENT_BYTES:
            ids = await asyncio.gather(*(client.publish(topic, (b"%d" % sent).ljust(1000)) for topic in _TOPICS))
            sent += 1
            assert set(ids) == {sent}
            await asyncio.sleep(0.01)
    finally:
        await proxy.come_back()

    async def is_on_record() -> bool:
        record = await deployment.log_of(hub)
        return len(record.listed) == 2 and sum(each.records for each in record.segments) > sent * len(_TOPICS) / 2

    await eventually(is_on_record, "the full segments are sealed, and the next is listed")
    for topic in _TOPICS:
        assert await client.publish(topic, b"last") == sent + 1
        expected = [b"0", *((b"%d" % number).ljust(1000) for number in range(1, sent)), b"last"]
        assert await bodies_of(hub, topic) == expected
