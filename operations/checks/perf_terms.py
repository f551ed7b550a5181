"""What a store must do for a deployment of a size, and where each number comes from.

Nothing here was measured. Each threshold follows from the number of topics, and from what a hub does with a topic.
docs/reference/admin.md shows the same derivation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["OPERATIONS", "SIZES", "PerfSize", "Threshold"]

OPERATIONS: Final = ("create topic", "claim", "read owner", "subscribe", "move pointer", "list")
"""The operations in the order of the measurement. Each uses the records of those before it."""

_FILL_S: Final = 3600
"""All topics of a deployment, with a subscription each, can be loaded within an hour."""
_LOST_SHARE: Final = 10
_TAKEOVER_S: Final = 300
"""When a cluster of ten loses one hub, the others claim its topics within five minutes."""
_READS_PER_CLAIM: Final = 2
"""After a topic moved, the hub that a client asks first reads its owner record, and so does the next hub."""
_ACTIVE_SHARE: Final = 200
_FLUSH_S: Final = 5
"""One of 200 subscriptions is reading. Its hub stores its pointer every 5 s, the default of consume_flush_s."""
_LIST_S: Final = 600
"""All topics can be listed within ten minutes."""
_P99_MS: Final = 100.0
"""A client's first publish to a topic waits for these operations in turn. People do not notice up to 0.1 s."""
_PAGE_P99_MS: Final = 1000.0
"""For a page of 1,000 names, for which people wait, too."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """What an operation must reach: a rate per second, and a time in milliseconds for 99 of 100 calls."""

    per_s: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class PerfSize:
    """A size of deployment, in topics with one subscription each, and how a run tries it.

    Each operation runs at most `operations` times, from `callers` callers at once.
    """

    topics: int
    operations: int
    callers: int

    def thresholds(self) -> Mapping[str, Threshold]:
        """Return what each operation must reach."""
        claims = self.topics / _LOST_SHARE / _TAKEOVER_S
        return {
            "create topic": Threshold(self.topics / _FILL_S, _P99_MS),
            "claim": Threshold(claims, _P99_MS),
            "read owner": Threshold(claims * _READS_PER_CLAIM, _P99_MS),
            "subscribe": Threshold(self.topics / _FILL_S, _P99_MS),
            "move pointer": Threshold(self.topics / _ACTIVE_SHARE / _FLUSH_S, _P99_MS),
            "list": Threshold(self.topics / _LIST_S, _PAGE_P99_MS),
        }


SIZES: Final[Mapping[str, PerfSize]] = {
    "s": PerfSize(topics=10_000, operations=1_000, callers=8),
    "m": PerfSize(topics=100_000, operations=4_000, callers=16),
    "l": PerfSize(topics=1_000_000, operations=16_000, callers=64),
    "xl": PerfSize(topics=10_000_000, operations=64_000, callers=128),
}
"""By the names that --size takes."""
