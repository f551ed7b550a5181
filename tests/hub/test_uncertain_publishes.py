"""Prove that the client gets no definite refusal for a publish whose outcome the hub does not know."""

import errno
import os
from pathlib import Path

import pytest

from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.errors import UncertainAnswerError
from hedwig.model import Topic
from tests.hub.conftest import StartHub
from tests.hub.ledgers.support.faulty_disk import FaultyDisk

T = Topic(b"t")


async def test_publish_whose_sync_failed_is_uncertain_to_the_client(start_hub: StartHub) -> None:
    disk = FaultyDisk()
    hub = await start_hub(disk=disk)
    async with HedwigClient(ClientOptions(hub=HubAddress("127.0.0.1", hub.port))) as client:
        assert (await client.publish(T, b"stored")).local == 1

        def fail(_: Path) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        disk.on_sync = fail
        with pytest.raises(UncertainAnswerError, match="UNCERTAIN_STATE") as caught:
            await client.publish(T, b"maybe stored")
        assert caught.value.happened == "unknown"
