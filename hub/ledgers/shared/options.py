"""How a hub writes its shared log, and keeps it up."""

from dataclasses import dataclass

from hedwig.metadata.logs.sweep_turn import SWEEP_INTERVAL_S

__all__ = ["SharedLogOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLogOptions:
    """How a hub writes its shared log.

    A segment ends at `segment_bytes`, or `segment_s` seconds after its first record. A topic that closes its ledger may
    ask for an earlier end, but only once in `roll_pause_s` seconds. Up to `queue_bytes_max` bytes of records wait or
    are under way; more are refused. `record_bytes_max` bounds one payload: it must fit into a frame of a bookie.

    Every `upkeep_interval_s` seconds the hub looks for segments that can go, or be merged. Merging reads up to
    `merge_bytes_per_s` bytes a second. The ledgers of merged segments stay for `grace_s` seconds.
    One of all hubs looks for what other logs can free every `sweep_interval_s` seconds.
    """

    segment_bytes: int = 64 << 20
    segment_s: float = 600.0
    roll_pause_s: float = 1.0
    queue_bytes_max: int = 64 << 20
    record_bytes_max: int = (5 << 20) - 2048
    cache_bytes_max: int = 64 << 20
    upkeep_interval_s: float = 1.0
    grace_s: float = 60.0
    merge_bytes_per_s: int = 16 << 20
    sweep_interval_s: float = SWEEP_INTERVAL_S
