"""The sizes of a takeover storm."""

from dataclasses import dataclass

from hedwig.benchmarks.machine.heaps import STORM_HEAP_MB_MIN, storm_heaps

__all__ = ["TakeoverSizes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverSizes:
    """The sizes of a storm.

    topics: the number of topics that the hubs own. used: the number of those that the client publishes to, in turn.
    attached: the number of used topics that have a subscriber. rate_per_s: messages a second, over all used topics.
    ask: the share of the killed hub's other topics that the client asks for as well, once, right after the kill.
    before_s, after_s: how long the load runs before the kill, and after all topics are served again.
    served_max_s: how long to wait until they are.
    metadata: the store of the metadata. stored: the number of topics in it before the storm, at least `topics`.
    writes_owners: write the owner records of topics that are not in use, as if hubs had claimed them. That takes a
        small part of the time of a request for each topic, which is the other way.
    is_synced: the logs of ZooKeeper and HBase are forced to the disk.
    heap_mb: the heap of all servers of the metadata together, the ZooKeeper of liveness and ledgers included.
    """

    hubs: int = 4
    topics: int = 80_000
    used: int = 800
    attached: int = 200
    rate_per_s: float = 400.0
    message_bytes: int = 100
    ask: float = 0.0
    session_timeout_s: float = 10.0
    before_s: float = 20.0
    after_s: float = 20.0
    served_max_s: float = 300.0
    rounds: int = 1
    metadata: str = "hbase"
    stored: int = 0
    writes_owners: bool = False
    is_synced: bool = True
    heap_mb: int = 2048

    def __post_init__(self) -> None:
        if not 1 <= self.used <= self.topics or not 0 <= self.attached <= self.used:
            raise ValueError("the used topics must be from 1 to all, and the attached ones at most the used ones")
        if self.hubs < 2:
            raise ValueError("no hub is left to take topics over: start at least 2")
        if self.heap_mb < STORM_HEAP_MB_MIN:
            raise ValueError(f"{self.heap_mb} MiB of heap are too few for HBase: give {STORM_HEAP_MB_MIN} at least")

    @property
    def topics_stored(self) -> int:
        """Return the number of topics in the store before the storm. Topics must exist before a hub can own them."""
        return max(self.stored, self.topics)

    @property
    def heaps(self) -> dict[str, int]:
        """Return the heap of each server of the metadata in MiB, by kind of server."""
        return storm_heaps(self.heap_mb, metadata=self.metadata)
