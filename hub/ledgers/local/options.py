"""The options of a local ledger store."""

from dataclasses import dataclass
from typing import Final

from hedwig.errors import ConfigurationError

__all__ = ["LocalLedgerOptions"]

_MIB: Final = 1 << 20
_RESERVE_MIN: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalLedgerOptions:
    """All the sizes and rates of a local ledger store.

    The writer ends a segment at `segment_bytes` or at `segment_records_max`. The second bounds the memory of the active
    segment's index. The upkeep rewrites a segment whose share of live bytes is at most `rewrite_below`.
    """

    segment_bytes: int = 64 * _MIB
    segment_records_max: int = 262_144
    entry_bytes_max: int = 16 * _MIB
    queue_bytes_max: int = 32 * _MIB
    group_bytes_max: int = 4 * _MIB
    group_records_max: int = 4096
    read_threads: int = 4
    reads_in_flight_max: int = 256
    rewrite_below: float = 0.5
    rewrite_bytes_per_s: int = 16 * _MIB
    upkeep_interval_s: float = 5.0
    reserve_bytes: int | None = None
    """Space kept for deleting and rewriting on a full disk; None: half a segment and 1 MiB."""

    def __post_init__(self) -> None:
        for name, least, most in (
            ("segment_bytes", 4096, 1 << 30),
            ("segment_records_max", 1, 1 << 26),
            ("entry_bytes_max", 1, 64 * _MIB),
            ("queue_bytes_max", 1, 1 << 34),
            ("group_bytes_max", 1, 256 * _MIB),
            ("group_records_max", 1, 1 << 20),
            ("read_threads", 1, 256),
            ("reads_in_flight_max", 1, 1 << 20),
            ("rewrite_bytes_per_s", 1, 1 << 40),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise ConfigurationError(f"ledgers: {name} is {value}; it must be from {least} to {most}")
        if not 0 <= self.rewrite_below <= 0.9:
            raise ConfigurationError(f"ledgers: rewrite_below is {self.rewrite_below}; it must be from 0 to 0.9")
        if not self.upkeep_interval_s > 0:
            raise ConfigurationError(f"ledgers: upkeep_interval_s is {self.upkeep_interval_s}; it must be above 0")
        if self.reserve_bytes is not None and self.reserve_bytes < _RESERVE_MIN:
            raise ConfigurationError(
                f"ledgers: reserve_bytes is {self.reserve_bytes}; it must be at least {_RESERVE_MIN}"
            )

    @property
    def reserve(self) -> int:
        return self.segment_bytes // 2 + _MIB if self.reserve_bytes is None else self.reserve_bytes
