"""Stores that the original's releases 4.0 and 4.1 filled: no layout record, and subscriptions of an older form.

Release 4.2 brought the layout record, and preferences of subscriptions. Its hubs, like ours, read what was there
before, and write a record in the present form when they next change it; so old ones may be left where a layout record
is, too.

Ledger ranges of these releases do not say with which message they begin. That the hub finds out that takes the topic,
since ledgers have to be read for it.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, cast

from kazoo.exceptions import NoNodeError

from hedwig.clock import Deadline
from hedwig.errors import BadVersionError, LayoutMissingError, MetadataUnavailableError, NoRecordError
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.contract.kinds import SUBSCRIPTIONS, RecordKind
from hedwig.metadata.contract.layout import Layout, check_layout
from hedwig.metadata.contract.operations import Write
from hedwig.metadata.contract.url import MetadataUrl
from hedwig.metadata.migration.upgrades import UpgradeStep
from hedwig.metadata.zookeeper.layout import KIND, has_topics, read_layout, write_layout
from hedwig.metadata.zookeeper.records.paths import Paths
from hedwig.metadata.zookeeper.records.records import SUBSCRIPTION, is_before_preferences
from hedwig.metadata.zookeeper.requests import children
from hedwig.metadata.zookeeper.tables import ZnodeTable
from hedwig.metadata.zookeeper.writes.delete_batches import DeleteBatches
from hedwig.metadata.zookeeper.writes.guarded_read import answer, reading
from hedwig.metadata.zookeeper.writes.mutation import TableContext
from hedwig.metadata.zookeeper.writes.tokens import Tokens
from hedwig.model import SubscriptionData, SubscriptionPreferences
from hedwig.zookeeper import Bridge

__all__ = ["ZookeeperUpgrade"]

_SUBSCRIPTIONS: Final = UpgradeStep(
    name="subscriptions", does="write subscriptions of releases 4.0 and 4.1 in the form of 4.2"
)
_LAYOUT: Final = UpgradeStep(name="layout", does="record the layout, by which a store is known and opened")
_PASSES: Final = 5
"""How often others may write older forms anew before it is given up."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A subscription, and whether it is of the form before the preferences."""

    data: SubscriptionData
    is_old: bool


class _FormCodec:
    """Reads subscriptions together with their form. Nothing is written by it."""

    def encode(self, record: _Seen) -> bytes:
        return SUBSCRIPTION.encode(record.data)

    def merge(self, stored: bytes, record: _Seen) -> bytes:
        return SUBSCRIPTION.merge(stored, record.data)

    def decode(self, data: bytes) -> _Seen:
        return _Seen(SUBSCRIPTION.decode(data), is_before_preferences(data))

    def fleeting(self, record: _Seen) -> _Seen:
        return record

    def stamp(self, body: bytes, token: bytes, previous: bytes) -> bytes:
        return SUBSCRIPTION.stamp(body, token, previous)

    def token(self, data: bytes) -> bytes:
        return SUBSCRIPTION.token(data)

    def previous(self, data: bytes) -> bytes:
        return SUBSCRIPTION.previous(data)


class ZookeeperUpgrade:
    """The upgrade of one store, over a session of its own."""

    def __init__(
        self, bridge: Bridge, places: Paths, options: StoreOptions, url: MetadataUrl, layout: Layout | None
    ) -> None:
        self.layout = layout
        self.steps: Sequence[UpgradeStep] = (_SUBSCRIPTIONS, _LAYOUT)
        self._bridge = bridge
        self._places = places
        self._options = options
        self._url = url
        tokens = Tokens(options.random)
        self._lanes = DeleteBatches(bridge, tokens)
        ground = TableContext(bridge, self._lanes, places, options, tokens, SUBSCRIPTIONS, SUBSCRIPTION)
        self._table = ZnodeTable(ground, places.subscription, "subscribers")
        kind = cast("RecordKind[_Seen]", SUBSCRIPTIONS)
        seen = TableContext(bridge, self._lanes, places, options, tokens, kind, _FormCodec())
        self._seen = ZnodeTable(seen, places.subscription, "subscribers")

    @classmethod
    async def open(cls, bridge: Bridge, places: Paths, options: StoreOptions, url: MetadataUrl) -> Self:
        """Look at what is there. Raises as OffersUpgrades.open_upgrade; the caller closes `bridge` then."""
        is_there = await has_topics(bridge, places, options)
        found = await read_layout(bridge, places, options)
        if found is None and not is_there:
            raise LayoutMissingError(
                f"there is no metadata at {url.text}, also none of the original's; a new store is made with: "
                f"hedwig-admin metadata format --metadata '{url.text}'"
            )
        if found is not None:
            check_layout(found, kind=KIND, url=url.text)
        return cls(bridge, places, options, url, found)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._bridge.close()
        await self._lanes.close()

    async def hubs(self) -> Sequence[str]:
        path = f"{self._places.prefix}/hosts"

        async def attempt(deadline: Deadline) -> Sequence[str]:
            (names,) = await self._bridge.send(deadline, children(path))
            return () if isinstance(answer(names, NoNodeError), NoNodeError) else sorted(names)

        return await reading(self._options, f"looking for hubs at {path}", attempt)

    async def count(self, step: UpgradeStep, advance: Callable[[int], None]) -> int:
        if step is _LAYOUT:
            return int(self.layout is None)
        async with aclosing(self._old(advance)) as pages:
            return sum([len(page) async for page in pages])

    async def carry_out(self, step: UpgradeStep, advance: Callable[[int], None]) -> int:
        if step is _LAYOUT:
            return await self._record_layout()
        changed = 0
        for _ in range(_PASSES):
            found = 0
            async with aclosing(self._old(advance)) as pages:
                async for page in pages:
                    found += len(page)
                    changed += await self._rewrite(page)
            if not found:
                return changed
        raise MetadataUnavailableError(
            f"something goes on writing subscriptions of the older form at {self._url.text}; stop the hubs of the "
            "original's releases 4.0 and 4.1, and give the command again"
        )

    async def _record_layout(self) -> int:
        await write_layout(self._bridge, self._places, self._options)
        was_missing = self.layout is None
        self.layout = check_layout(
            await read_layout(self._bridge, self._places, self._options), kind=KIND, url=self._url.text
        )
        return int(was_missing)

    async def _old(self, advance: Callable[[int], None]) -> AsyncGenerator[list[Write[SubscriptionData]], None]:
        """Iterate over pages of the writes that are to be done. What cannot be read is left to `metadata check`."""
        records: Any = self._seen.records(None, None)
        async with aclosing(records):
            async for page in records:
                yield [
                    # The rest is merged in from what is stored, fields that we do not know included.
                    Write(
                        key,
                        SubscriptionData(preferences=record.value.data.preferences or SubscriptionPreferences()),
                        record.version,
                        merge=True,
                    )
                    for key, record in ((key, outcome.record) for key, outcome in page)
                    if record is not None and record.value.is_old
                ]
                advance(len(page))

    async def _rewrite(self, writes: Sequence[Write[SubscriptionData]]) -> int:
        done = 0
        for outcome in await self._table.apply(writes):
            # Who was faster is looked at in the next pass.
            if not isinstance(outcome.error, BadVersionError | NoRecordError):
                outcome.check()
                done += 1
        return done
