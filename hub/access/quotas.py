"""Quotas: counts how much the users of this hub do and have, and refuses what is beyond their limits.

Each limit has a bucket of tokens that fills with its rate, and holds what comes in a second. A message takes one token,
or one for each byte. A message that is larger than the bucket needs a full one, and what it takes too much is owed.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from hedwig.access import Limit, Principal
from hedwig.clock import Clock
from hedwig.errors import QuotaExceededError

__all__ = ["Connections", "Counted", "Quotas"]

_BURST_S: Final = 1.0
"""How many seconds of its rate a bucket holds."""
_CONNECTION_S: Final = 1.0
"""When to come again with a connection that is one too many. Nobody knows when another one ends."""
_BUCKETS_MAX: Final = 20_000
"""Beyond, full buckets are forgotten: they are as new ones. The others are of those who published a moment ago."""


@dataclass(slots=True)
class _Bucket:
    """The tokens of one kind of one limit."""

    rate: float
    at: float
    level: float = field(init=False)

    def __post_init__(self) -> None:
        self.level = self._most

    @property
    def _most(self) -> float:
        return max(1.0, self.rate * _BURST_S)

    def fill(self, now: float) -> None:
        """Add what has come since the last call."""
        self.level = min(self._most, self.level + (now - self.at) * self.rate)
        self.at = now

    def wait_s(self, cost: float) -> float:
        """Return 0 if the cost can be paid now, else when to come again."""
        return max(0.0, min(cost, self._most) - self.level) / self.rate

    @property
    def is_full(self) -> bool:
        return self.level >= self._most


class Counted(Protocol):
    """A connection. `counted_as` says whose it is in the counts; empty while it is not counted."""

    counted_as: tuple[str, ...]


class Connections:
    """How many connections each user has, and the users of each group together."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def take(self, connection: Counted, principal: Principal, limits: Iterable[Limit]) -> None:
        """Count a connection for a principal, and no longer for another one.

        Raises: QuotaExceededError - a limit allows no more of them; it is not counted.
        """
        self.leave(connection)
        self._check(principal, limits)
        connection.counted_as = principal.known_as[:-1]  # Nobody counts those of everybody.
        self._counts.update(connection.counted_as)

    def _check(self, principal: Principal, limits: Iterable[Limit]) -> None:
        for limit in limits:
            who = limit.counted_for(principal)
            if limit.connections is not None and self._counts[who] >= limit.connections:
                raise QuotaExceededError(f"over the limit of {who}: {limit}", _CONNECTION_S)

    def leave(self, connection: Counted) -> None:
        """Count it no longer."""
        for who in connection.counted_as:
            self._counts[who] -= 1
            if not self._counts[who]:
                del self._counts[who]
        connection.counted_as = ()


class Quotas:
    """The counts of messages of this hub."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: dict[tuple[Limit, str], tuple[_Bucket | None, _Bucket | None]] = {}
        self._forget_at = _BUCKETS_MAX

    def take(self, limits: tuple[Limit, ...], principal: Principal, size: int) -> None:
        """Count a message of a size. Raises: QuotaExceededError - a limit does not allow it now; nothing is counted."""
        now = self._clock.monotonic()
        paid: list[tuple[_Bucket, float]] = []
        for limit in limits:
            messages, volume = self._of(limit, principal, now)
            for bucket, cost in ((messages, 1.0), (volume, float(size))):
                if bucket is None:
                    continue
                bucket.fill(now)
                if wait_s := bucket.wait_s(cost):
                    who = limit.counted_for(principal)
                    raise QuotaExceededError(f"over the limit of {who}: {limit}", wait_s)
                paid.append((bucket, cost))
        for bucket, cost in paid:
            bucket.level -= cost

    def _of(self, limit: Limit, principal: Principal, now: float) -> tuple[_Bucket | None, _Bucket | None]:
        key = limit, limit.counted_for(principal)
        found = self._buckets.get(key)
        if found is None:
            if len(self._buckets) >= self._forget_at:
                self._forget_full(now)
                self._forget_at = max(_BUCKETS_MAX, 2 * len(self._buckets))  # So that a look pays off.
            rates = limit.publishes_per_s, limit.publish_bytes_per_s
            messages, volume = (None if rate is None else _Bucket(rate, now) for rate in rates)
            found = self._buckets[key] = messages, volume
        return found

    def _forget_full(self, now: float) -> None:
        for key, buckets in list(self._buckets.items()):
            for bucket in buckets:
                if bucket is not None:
                    bucket.fill(now)
            if all(bucket is None or bucket.is_full for bucket in buckets):
                del self._buckets[key]
