"""Prove that all callers waiting for a hub learn at once that it died, on asyncio's event loop and on uvloop's.

The two loops report the end of a transport in different steps. What a client sends between these steps is a case of its
own.
"""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.errors import ClientClosedError, UncertainAnswerError
from hedwig.model import MessageSeqId, Topic
from tests.hub.support.running import RunningHub

PATIENCE_S = 30.0


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_whatever_is_asked_of_a_hub_that_dies_ends_at_once(
    tmp_path: Path, topic: Topic, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    with RunningHub(tmp_path / "hub") as hub, asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_ask_until_it_has_died(hub, topic))


async def _ask_until_it_has_died(hub: RunningHub, topic: Topic) -> None:
    # The answer timeout is longer than this test, so no caller ends by it.
    options = ClientOptions(hub=HubAddress.parse(hub.address), answer_timeout_s=10 * PATIENCE_S)
    async with HedwigClient(options) as client, asyncio.timeout(PATIENCE_S):
        assert (await client.publish(topic, b"before")).local == 1
        assert hub.process is not None
        # The hub no longer reads, so the system resets its connections when it is killed.
        hub.process.send_signal(signal.SIGSTOP)
        publishes: list[asyncio.Task[MessageSeqId]] = []

        async def publish_in_each_step(until: Callable[[], bool]) -> None:
            while not until():
                publishes.append(asyncio.create_task(client.publish(topic, b"meanwhile")))
                await asyncio.sleep(0)

        await publish_in_each_step(lambda: len(publishes) >= 10)
        hub.kill()
        # One publish is sent in the very step in which only the transport knows of the end.
        await publish_in_each_step(lambda: not client._channels._open)
        await client.close()  # This ends those that wait for another hub, and none that were sent.
        outcomes = await asyncio.gather(*publishes, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} <= {UncertainAnswerError, ClientClosedError}
    assert isinstance(outcomes[0], UncertainAnswerError)
