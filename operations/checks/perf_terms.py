"""What a store must do for a deployment of a size, and where each number comes from.

Nothing here was measured: each threshold follows from how many topics there are, and from what a hub does with them.
docs/reference/admin.md shows the same derivation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["OPERATIONS", "SIZES", "PerfSize", "Threshold"]

OPERATIONS: Final = ("create topic", "claim", "read owner", "subscribe", "move pointer", "list")
"""What is measured, in this order: each finds what those before it left."""

_FILL_S: Final = 3600
"""All topics of a deployment, with a subscription each, can be loaded within an hour."""
_LOST_SHARE: Final = 10
_TAKEOVER_S: Final = 300
"""When one hub of ten is lost, others claim its topics within five minutes."""
_READS_PER_CLAIM: Final = 2
"""A topic that moved is looked up by the hub that is asked first and by the one that is asked next."""
_ACTIVE_SHARE: Final = 200
_FLUSH_S: Final = 5
"""Of 200 subscriptions one is reading, and its hub stores its pointer every 5 s: the default of consume_flush_s."""
_LIST_S: Final = 600
"""All topics can be listed within ten minutes."""
_P99_MS: Final = 100.0
"""A client's first publish to a topic waits for these one after the other: up to 0.1 s seems at once to people."""
_PAGE_P99_MS: Final = 1000.0
"""A page of 1,000 names, which people wait for, too."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """What an operation must reach: so many a second, and 99 of 100 within so many milliseconds."""

    per_s: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class PerfSize:
    """A size of deployment, in topics with a subscription each, and how it is tried out.

    Each operation is carried out up to `operations` times, by `callers` at once.
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
"""By the name that --size gives them."""
