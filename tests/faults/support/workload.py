"""Work for a store while its servers are harmed: many clients on few records, and the check afterwards."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hedwig.errors import MetadataUnavailableError
from hedwig.metadata import MetadataStore
from hedwig.metadata.testing.doors import Door
from tests.faults.support.history import Done, Saw
from tests.faults.support.recording import Recorder, RecordingClient
from tests.faults.support.waiting import until

__all__ = ["Workload"]


class Workload:
    """Clients that create, update and delete records without end, and record each call."""

    def __init__(self, store: MetadataStore, door: Door, topics: list[bytes], rng: random.Random) -> None:
        self.recorder = Recorder()
        self._store = store
        self._door = door
        self._topics = topics
        self._rng = rng
        self._enough = asyncio.Event()

    @asynccontextmanager
    async def running(self, clients: int) -> AsyncIterator[None]:
        """Run `clients` clients, each on one record at a time, which it shares with others."""
        async with asyncio.TaskGroup() as group:
            for number in range(clients):
                client = self.recorder.client(f"client {number}", self._store, self._door)
                group.create_task(self._work(client, self._topics[number % len(self._topics)]))
            try:
                yield
            finally:
                self._enough.set()

    async def more(self, writes: int, timeout_s: float = 120.0) -> None:
        """Wait until `writes` more writes were acknowledged."""
        goal = self.recorder.outcomes["Done"] + writes
        await until(lambda: self.recorder.outcomes["Done"] >= goal, f"{writes} more writes", timeout_s)

    async def _work(self, client: RecordingClient, topic: bytes) -> None:
        seen: int | None = None
        while not self._enough.is_set():
            seen = await self._write(client, topic, seen)

    async def _write(self, client: RecordingClient, topic: bytes, seen: int | None) -> int | None:
        try:
            if seen is not None and self._rng.random() < 0.1:
                outcome = await client.delete(topic, seen)
                if outcome == Done():
                    return None
            else:
                number = client.new_number()
                outcome = await client.put(topic, seen, number)
                if outcome == Done():
                    return number
            return outcome.state if isinstance(outcome, Saw) else await client.read(topic)
        except MetadataUnavailableError:
            return seen  # The read failed; the next write shows the record.

    async def judge(self, afresh: MetadataStore) -> None:
        """Read all records through `afresh`, and check all reports against them."""
        for topic in self._topics:
            await self.recorder.client("afresh", afresh, self._door).read(topic)
        print(dict(self.recorder.outcomes))
        self.recorder.check()
