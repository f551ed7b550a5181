"""The options of one run, as its seed decides. Bounds are small, so that a short run reaches rare cases."""

from collections.abc import Collection
from dataclasses import dataclass
from random import Random
from typing import Final, Self

from hedwig.hub.ledgers.bookkeeper.cluster import BookieClusterOptions as BookieBounds
from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.bookkeeper.wire.digests import DigestKind
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.options.cluster_options import BookieOptions, ClusterOptions
from hedwig.hub.options.options import HubOptions
from hedwig.model import SubscriptionPreferences

__all__ = ["LEFT_OUT", "Faults", "bookkeeper_options", "hub_options", "log_options", "preferences"]

LEFT_OUT: Final[frozenset[str]] = frozenset()
"""What runs leave out, since a known defect that is not fixed yet makes it fail."""

_ZOOKEEPER: Final = "zookeeper://model:2181/hedwig/model"
_QUORUMS: Final = ((1, 1, 1), (2, 2, 1), (3, 2, 2), (3, 3, 2), (3, 3, 2))


@dataclass(frozen=True, slots=True)
class Faults:
    """What may go wrong in a run. Runs with few kinds of faults get further than runs with all of them."""

    hubs: bool
    """Hubs crash, stop, or lose their session."""
    zombies: bool
    """Hubs go on for a while after they are declared dead."""
    network: bool
    metadata: bool
    bookies: bool
    moves: bool
    """Topics are released, handed over, and drained."""
    cancels: bool
    """Operators give up waiting at the moment when a request is answered."""

    @classmethod
    def draw(cls, random: Random) -> Self:
        return cls(*(random.random() < share for share in (0.5, 0.3, 0.5, 0.6, 0.5, 0.7, 0.5)))


def hub_options(random: Random, left_out: Collection[str], *, takes_over: bool) -> HubOptions:
    """`takes_over`: hubs take over the topics of dead hubs without being asked."""
    return HubOptions(
        metadata="hbase://model:2181/model",
        region="model",
        cluster=ClusterOptions(
            zookeeper=_ZOOKEEPER,
            owners_kept_s=random.choice((0.0, 2.0)),
            takeover_rate=5_000 if takes_over else 0,
        ),
        # The simulation opens the ledger stores itself. Its pauses of shared logs fit into its shortest operations.
        bookkeeper=BookieOptions(ledgers="per-topic"),
        operation_timeout_s=random.choice((1.0, 4.0)),
        topic_idle_s=random.choice((2.0, 30.0)),
        topic_age_s=random.choice((0.0, 0.0, 5.0)),
        topic_sweep_s=1.0,
        consume_interval=random.choice((1, 3, 50)),
        consume_flush_s=random.choice((0.2, 1.0)),
        retention_interval_s=random.choice((0.3, 1.0, 3.0)),
        repeat_window_s=random.choice((0.0, 20.0, 20.0, 300.0)),
        repeat_window_messages=random.choice((3, 30, 10_000)),
        repeat_bytes_max=random.choice((1 << 10, 1 << 20)),
        ledger_messages_max=random.choice((2, 5, 20, 0)),
        cache_bytes=random.choice((0, 400, 1 << 20)),
        read_messages_max=random.choice((1, 3, 128)),
        read_retry_s=0.2,
        message_window=random.choice((0, 0, 0, 5)) if "windows" not in left_out else 0,
        channel_unsent_bytes=random.choice((200, 1 << 18)),
        shutdown_s=5.0,
    )


def bookkeeper_options(random: Random) -> BookkeeperOptions:
    ensemble, write, ack = random.choice(_QUORUMS)
    bounds = BookieBounds(
        add_timeout_s=1.0,
        read_timeout_s=1.0,
        append_timeout_s=random.choice((1.5, 4.0)),
        speculative_read_s=0.3,
        suspicion_s=random.choice((0.5, 5.0)),
        read_ahead=4,
    )
    return BookkeeperOptions(
        quorums=Quorums(ensemble=ensemble, write=write, ack=ack),
        digest=DigestKind.CRC32,
        password=b"model",
        cluster=bounds,
    )


def log_options(random: Random) -> SharedLogOptions | None:
    """Return how hubs write their shared logs; None if topics have ledgers of their own."""
    if random.random() < 0.3:
        return None
    return SharedLogOptions(
        segment_bytes=random.choice((200, 2000, 64 << 20)),
        segment_s=random.choice((0.5, 5.0, 600.0)),
        # A topic that is released waits for the roll, for as long as an operation may take.
        roll_pause_s=random.choice((0.05, 0.2)),
        queue_bytes_max=random.choice((500, 64 << 20)),
        cache_bytes_max=random.choice((1, 64 << 20)),
        upkeep_interval_s=random.choice((0.1, 1.0)),
        grace_s=random.choice((0.0, 2.0, 60.0)),
        merge_bytes_per_s=random.choice((2000, 16 << 20)),
        sweep_interval_s=random.choice((0.5, 5.0, 3600.0)),
    )


def preferences(random: Random, left_out: Collection[str]) -> SubscriptionPreferences:
    kind = random.random()
    has_window = kind < 0.35 and "windows" not in left_out
    return SubscriptionPreferences(
        message_window_size=random.choice((1, 2, 4)) if has_window else None,
        message_bound=random.choice((1, 5)) if 0.35 <= kind < 0.42 else None,
        message_filter="even" if 0.42 <= kind < 0.55 else None,
    )
