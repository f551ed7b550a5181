"""A hub with its records in ZooKeeper and its ledgers on bookies, and an orphan ledger of that hub."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT
from hedwig.client import BlockingClient, ClientOptions, HubAddress
from hedwig.clock import SystemClock
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import Ensemble, LedgerMetadata, LedgerState
from hedwig.hub.ledgers.bookkeeper.records.zookeeper_metadata import ZookeeperLedgerMetadata
from hedwig.hub.ledgers.bookkeeper.wire.digests import DigestKind
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums
from hedwig.metadata import format_metadata
from hedwig.model import SubscriberId, Topic
from tests.hub.ledgers.bookkeeper.support.sessions import session_with
from tests.hub.support.running import RunningHub
from tests.support.servers import RunningServers

__all__ = ["HubOnBookies", "hub_on_bookies"]

_LONG_AGO_S = 7200


@dataclass(frozen=True, slots=True)
class HubOnBookies:
    """A running hub: the `url` of its records and its cluster, and the `zookeeper` of these and of its ledgers."""

    url: str
    zookeeper: str

    @property
    def bookkeeper(self) -> str:
        return f"zookeeper://{self.zookeeper}{LEDGERS_ROOT}"

    @contextmanager
    def orphan(self, topic: bytes) -> Iterator[int]:
        """Make the record of a ledger that hubs of the cluster made two hours ago; delete it at the end.

        Nothing else is left, because no bookie has the ledger.
        """
        metadata = LedgerMetadata(
            quorums=Quorums(ensemble=1, write=1, ack=1),
            state=LedgerState.CLOSED,
            ensembles=(Ensemble(first_entry_id=0, bookies=("127.0.0.1:3181",)),),
            last_entry_id=4,
            digest=DigestKind.CRC32C,
            password=b"",
            created_ms=int((time.time() - _LONG_AGO_S) * 1000),
            custom={"application": b"hedwig", "deployment": self.url.encode(), "topic": topic},
        )

        async def make(ledgers: ZookeeperLedgerMetadata) -> int:
            made = await ledgers.new_ledger_id()
            assert await ledgers.create(made, metadata) is not None
            return made

        ledger_id: int = self._with_ledgers(make)

        async def delete(ledgers: ZookeeperLedgerMetadata) -> None:
            await ledgers.delete_at(ledger_id, (await ledgers.read(ledger_id)).version)

        try:
            yield ledger_id
        finally:
            self._with_ledgers(delete)

    def _with_ledgers(self, work: Callable[[ZookeeperLedgerMetadata], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            async with session_with(self.zookeeper) as session:
                return await work(await ZookeeperLedgerMetadata.open(session, LEDGERS_ROOT, SystemClock()))

        return asyncio.run(run())


@contextmanager
def hub_on_bookies(
    servers: RunningServers, directory: Path, messages: Mapping[bytes, int], *settings: str, reader: bytes
) -> Iterator[HubOnBookies]:
    """Run a hub with N `messages` published to each topic, and one subscriber, on the topic `reader`."""
    servers.address("bookkeeper")
    zookeeper = servers.address("zookeeper")
    made = HubOnBookies(f"zookeeper://{zookeeper}/hedwig/{uuid.uuid4().hex}", zookeeper)
    asyncio.run(format_metadata(made.url))
    given = (
        f"metadata={made.url}",
        f"cluster.zookeeper={made.url}",
        f"bookkeeper.zookeeper={made.bookkeeper}",
        *settings,
    )
    with RunningHub(directory, *given) as hub:
        with BlockingClient(ClientOptions(hub=HubAddress.parse(hub.address))) as client:
            client.subscribe(Topic(reader), SubscriberId(b"reader")).close()
            for topic, number in messages.items():
                for _ in range(number):
                    client.publish(Topic(topic), b"message")
        yield made
