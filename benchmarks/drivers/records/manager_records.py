"""Records through the public metadata managers, opened as a hub opens them."""

from typing import Self

from hedwig.benchmarks.drivers.records.record_clients import DATA, SUBSCRIBER
from hedwig.errors import BadVersionError, NoRecordError
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.store import MetadataStore, open_metadata
from hedwig.model import SubscriptionData, Topic
from hedwig.versions import Version

__all__ = ["ManagerRecords"]

_STATE_ONLY = SubscriptionData(state=DATA.state)


class ManagerRecords:
    """A RecordClient over any backend."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._subscriptions = store.subscriptions

    @classmethod
    async def open(cls, url: str) -> Self:
        """Open the store at `url`, which is formatted. Raises as `open_metadata`."""
        return cls(await open_metadata(url, StoreOptions(gather=True)))

    def key(self, topic: bytes) -> Topic:
        return Topic(topic)

    async def read(self, key: Topic) -> Version | None:
        stored = await self._subscriptions.read(key, SUBSCRIBER)
        return None if stored is None else stored.version

    async def create(self, key: Topic) -> Version | None:
        try:
            return await self._subscriptions.create(key, SUBSCRIBER, DATA)
        except BadVersionError:
            return None

    async def update(self, key: Topic, version: Version, *, part: bool) -> tuple[bool, Version | None]:
        manager = self._subscriptions
        try:
            if part:
                return True, await manager.update(key, SUBSCRIBER, _STATE_ONLY, version)
            return True, await manager.replace(key, SUBSCRIBER, DATA, version)
        except BadVersionError as exc:
            return False, exc.current_version
        except NoRecordError:
            return False, None

    async def close(self) -> None:
        await self._store.close()
