"""The records of counts: how many topics or subscriptions there are, where a limit says how many there may be.

A hub takes a part of what is left before it makes anything: a lease. It gives back what it has not made. So a count is
never too low. It may be too high: what was deleted elsewhere, and what a killed hub had left, stays in it until
somebody counts anew.
"""

import enum
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final

import msgpack

from hedwig.access import Pattern
from hedwig.errors import CorruptRecordError, InvalidArgumentError
from hedwig.metadata.contract.kinds import SUBSCRIPTIONS
from hedwig.metadata.contract.named_records import NamedRecords, replace_surely
from hedwig.metadata.contract.write_gate import WriteGate, passing
from hedwig.metadata.store import MetadataStore
from hedwig.model import HubInfo, Topic

__all__ = ["Count", "CountKey", "CountRecords", "Counted", "count_of"]

_PREFIX: Final = "access-count-"
_FORMAT: Final = 1
_TOKEN_BYTES: Final = 8
_NAME_DIGITS: Final = 40
_LEASE_MAX: Final = 1000
_LEASE_PART: Final = 10
"""A hub takes at most one N-th of what is left, so that the others find some too."""
_LEASES_MAX: Final = 1000
"""With more hubs, the oldest leases count as those of a hub that lives for ever."""
_OTHERS: Final = ""


class Counted(enum.StrEnum):
    """What is counted."""

    TOPICS = "topics"
    SUBSCRIPTIONS = "subscriptions"


@dataclass(frozen=True, slots=True)
class CountKey:
    """What is counted, and for which topics. The pattern names no user."""

    counted: Counted
    topics: Pattern

    def __str__(self) -> str:
        return f"{self.counted} {self.topics}"


@dataclass(frozen=True, slots=True)
class Count:
    """How many there are at most, with all that hubs may still make.

    `leases` says how many each hub may still make at most, by its address, its epoch and the limit. `granted` is the
    sum of all leases ever, `times` says how often it was counted, and `counted_at` when it was last, in seconds since
    1970.
    """

    number: int
    leases: Mapping[str, int] = field(default_factory=dict)
    granted: int = 0
    times: int = 0
    counted_at: int = 0


class CountRecords:
    """The counts of a store. Errors of all methods: MetadataError."""

    def __init__(self, records: NamedRecords, gate: WriteGate | None = None) -> None:
        """`gate`: that of all writes of this process, if it has one."""
        self._records = records
        self._gate = gate

    async def read(self, key: CountKey) -> Count | None:
        """Return a count; None if nobody has counted. Raises: CorruptRecordError."""
        return _decoded(_name_of(key), await self._records.read(_name_of(key)))[1]

    async def all(self) -> Mapping[CountKey, Count]:
        """Return all counts. Raises: CorruptRecordError."""
        found: dict[CountKey, Count] = {}
        for name in await self._records.names(_PREFIX):
            key, count = _decoded(name, await self._records.read(name))
            if key is not None and count is not None:
                found[key] = count
        return found

    async def lease(self, key: CountKey, hub: HubInfo, *, has: int, most: int) -> int:
        """Take some of what is left of `most` for a hub that may make `has` of it; return how many, 0 if none are left.

        If the outcome is not known, the hub may make none of them.

        Raises: UncertainStateError.
        """
        taken = 0

        def take(count: Count) -> Count:
            nonlocal taken
            left = most - count.number
            taken = min(_LEASE_MAX, max(1, left // _LEASE_PART)) if left > 0 else 0
            if not taken:
                return count
            leases = {**count.leases, _name(hub, most): has + taken}
            if len(leases) > _LEASES_MAX:
                oldest = next(each for each in leases if each != _OTHERS)
                leases[_OTHERS] = leases.get(_OTHERS, 0) + leases.pop(oldest)
            return replace(count, number=count.number + taken, granted=count.granted + taken, leases=leases)

        await self._change(key, take)
        return taken

    async def give_back(self, key: CountKey, hub: HubInfo, most: int, given: int, *, kept: int = 0) -> None:
        """Give back what a hub has not made, but for those `kept`. It must not make more, whatever comes of this."""

        def give(count: Count) -> Count:
            name = _name(hub, most)
            leases = {each: left for each, left in count.leases.items() if each != name}
            if kept:
                leases[name] = kept
            left = max(0, count.leases.get(name, 0) - kept)
            return replace(count, number=count.number - min(given, left), leases=leases)

        await self._change(key, give)

    async def count_anew(
        self,
        key: CountKey,
        count: Callable[[], Awaitable[int]],
        is_alive: Callable[[HubInfo], Awaitable[bool]],
        now_s: float,
    ) -> Count:
        """Store what `count` returns and what living hubs may still make; return what is stored then.

        Raises: what `count` and `is_alive` raise; UncertainStateError.
        """
        before = await self.read(key) or Count(0)
        kept: dict[str, int] = {}
        for name, left in before.leases.items():
            # Whether a hub is alive is asked before the count, so that all is in the count that a dead one has made.
            if name == _OTHERS or await is_alive(_hub(name)):
                kept[name] = left
        number = await count()

        def counted(now: Count) -> Count:
            # What was taken meanwhile is in the count, or not.
            since = now.granted - before.granted
            leases = {name: left for name, left in now.leases.items() if name in kept or name not in before.leases}
            made = Count(number + sum(kept.values()) + since, leases, now.granted, now.times + 1, int(now_s))
            # Somebody else may have counted meanwhile, and has not seen more than there is.
            return made if now.times == before.times or made.number < now.number else now

        return await self._change(key, counted, or_else=before)

    async def _change(self, key: CountKey, function: Callable[[Count], Count], or_else: Count | None = None) -> Count:
        """Replace a count, or `or_else` if there is none, by what `function` makes of it."""
        name = _name_of(key)
        async with passing(self._gate):
            while True:
                stored = await self._records.read(name)
                present = _decoded(name, stored)[1]
                if present is None and or_else is None:
                    raise CorruptRecordError(f"there is no count of {key}")
                wanted = function(present or or_else or Count(0))
                if wanted == present:
                    return wanted
                if await replace_surely(self._records, name, stored, _encoded(key, wanted)):
                    return wanted


async def count_of(store: MetadataStore, key: CountKey, advance: Callable[[int], None] = lambda _: None) -> int:
    """Count what there is in a store now. `advance` is called with the number that each step has counted."""
    (name,) = key.topics.parts
    number = 0
    if not key.topics.is_prefix:
        topic = Topic(name)
        if key.counted is Counted.TOPICS:
            return int(await store.has_topic(topic))
        return await store.subscriptions.count_subscriptions(topic)
    if key.counted is Counted.TOPICS:
        async for _ in store.topics(name or None):
            number += 1
            advance(1)
        return number
    async with aclosing(store.scan(name or None, kinds=(SUBSCRIPTIONS,))) as pages:
        async for page in pages:
            number += len(page)
            advance(len(page))
    return number


def _name_of(key: CountKey) -> str:
    return _PREFIX + sha256(str(key).encode()).hexdigest()[:_NAME_DIGITS]


def _name(hub: HubInfo, most: int) -> str:
    return f"{hub.address} {hub.epoch} {most}"


def _hub(lease: str) -> HubInfo:
    address, epoch, _ = lease.rsplit(" ", 2)
    return HubInfo.at(address, epoch=int(epoch))


def _encoded(key: CountKey, count: Count) -> bytes:
    plain = (count.number, dict(count.leases), count.granted, count.times, count.counted_at)
    # No two states have the same bytes, also if two hubs make the same change at a time.
    return bytes(msgpack.packb((_FORMAT, secrets.token_bytes(_TOKEN_BYTES), str(key.counted), str(key.topics), plain)))


def _decoded(name: str, stored: bytes | None) -> tuple[CountKey | None, Count | None]:
    """Decode a record. Raises: CorruptRecordError."""
    if stored is None:
        return None, None
    try:
        fields: list[Any] = msgpack.unpackb(stored)
        known, _, counted, topics, plain = fields
        if known != _FORMAT:
            raise CorruptRecordError(f"the record {name!r} has the format {known}, and this program knows {_FORMAT}")
        number, leases, granted, times, counted_at = map(_checked, plain)
        return CountKey(Counted(counted), Pattern.parse(topics)), Count(number, leases, granted, times, counted_at)
    except (ValueError, TypeError, InvalidArgumentError, msgpack.UnpackException) as exc:
        raise CorruptRecordError(f"the record {name!r} cannot be read: {exc}") from exc


def _checked(value: Any) -> Any:
    if not isinstance(value, int | dict):
        raise TypeError(f"{value!r} is no number")
    return value
