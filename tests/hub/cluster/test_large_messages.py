"""Prove that messages that are too large for bookies are refused one by one, and their topics continue."""

from typing import Final

import pytest

from hedwig.hub.ledgers.bookkeeper.wire.codec import PAYLOAD_BYTES_MAX
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.model import Topic
from hedwig.status import StatusCode
from hedwig.wire import Message, Publish
from tests.hub.cluster.support.both import on_both_ledgers
from tests.hub.cluster.support.deployment import Deployment

_MIB: Final = 1 << 20


@on_both_ledgers
async def test_message_that_no_bookie_takes_is_refused_and_its_topic_kept(
    deployment: Deployment, caplog: pytest.LogCaptureFixture
) -> None:
    hub = await deployment.start(frame_bytes_max=8 * _MIB)
    assert any(f"bookies take messages of at most {PAYLOAD_BYTES_MAX}" in line for line in caplog.messages)
    client = await deployment.connect(hub)
    assert await client.publish(b"t", bytes(5_000_000)) == 1
    topic = hub.topics.get(Topic(b"t"))
    assert topic is not None
    (stored,) = await topic.log.read(1, messages_max=1, bytes_max=1)
    most = SharedLogOptions().record_bytes_max if deployment.ledgers == "shared" else PAYLOAD_BYTES_MAX
    # This is the largest message that is accepted.
    body = bytes(most - (len(stored) - 5_000_000))
    assert await client.publish(b"t", body) == 2
    (stored,) = await topic.log.read(2, messages_max=1, bytes_max=1)
    assert len(stored) == most
    sent = [client.send(b"t", Publish(Message(each))) for each in (b"a", body + b"x", b"b", bytes(6 * _MIB), b"c")]
    first, *others = [await client.answer(number) for number in sent]
    assert client.published(first) == 3
    for refused in others[::2]:
        assert refused.status is StatusCode.MALFORMED_REQUEST
        assert f"bookies take {most}" in (refused.text or "")
    assert [client.published(each) for each in others[1::2]] == [4, 5]
    assert hub.topics.get(Topic(b"t")) is topic


async def test_topic_whose_first_message_is_too_large_takes_the_next(deployment: Deployment) -> None:
    hub = await deployment.start(frame_bytes_max=8 * _MIB)
    client = await deployment.connect(hub)
    answer = await client.request(b"t", Publish(Message(bytes(6 * _MIB))))
    assert answer.status is StatusCode.MALFORMED_REQUEST
    assert await client.publish(b"t", b"a") == 1
    assert hub.topics.released == 0


async def test_hub_whose_requests_all_fit_says_nothing(
    deployment: Deployment, caplog: pytest.LogCaptureFixture
) -> None:
    await deployment.start()
    assert not any("bookies take messages" in line for line in caplog.messages)
