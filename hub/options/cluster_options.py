"""The options of a hub of a cluster: how it finds the other hubs, and where its messages go."""

import math
from dataclasses import dataclass
from typing import Final

from hedwig.errors import ConfigurationError
from hedwig.hub.options.field import check_ranges, option
from hedwig.metadata.contract.url import zookeeper_address

__all__ = ["BookieOptions", "ClusterOptions", "hosts_and_path"]

_PLACEMENTS: Final = ("load", "uniform")
_COMPATIBLE: Final = ("", "4.3")
_PER_TOPIC: Final = "per-topic"
_SHARED: Final = "shared"
_LEDGERS: Final = ("", _PER_TOPIC, _SHARED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """How a hub takes part in a cluster.

    Raises: ConfigurationError - a value is out of its range.
    """

    zookeeper: str = option(
        "",
        "where the hubs of a cluster find each other: zookeeper://host:port[,…]/hedwig/REGION; empty: a standalone hub",
    )
    session_timeout_s: float = option(10.0, "how long other hubs take a killed hub for alive")
    placement: str = option("load", "how a hub is chosen for a topic without owner: by `load`, or `uniform`")
    claims_rate: int = option(2_000, "topics that this hub claims a second; others wait their turn; 0: no limit")
    takeover_rate: int = option(
        5_000, "topics of a dead hub that this hub takes over a second before they are asked for; 0: none"
    )
    owners_kept_max: int = option(100_000, "topics of other hubs whose owner this hub remembers, to save reads")
    owners_kept_s: float = option(10.0, "how long this hub remembers such an owner; a dead hub is forgotten at once")
    rebalance_interval_s: float = option(300.0, "how often a hub looks whether it has too many topics; 0: never")
    rebalance_tolerance: float = option(0.1, "allowed share above the mean")
    rebalance_topics_max: int = option(50, "topics that a hub gives up each time")

    drain_rate: int = option(1_000, "topics that a drained hub gives up a second")

    def __post_init__(self) -> None:
        if self.zookeeper:
            hosts_and_path("cluster.zookeeper", self.zookeeper)
        if self.placement not in _PLACEMENTS:
            raise ConfigurationError(f"cluster: placement is {self.placement!r}; it must be load or uniform")
        bounds = (
            ("claims_rate", 0, 1_000_000),
            ("takeover_rate", 0, 1_000_000),
            ("owners_kept_max", 1, 100_000_000),
            ("rebalance_topics_max", 1, 1_000_000),
            ("drain_rate", 1, 1_000_000),
        )
        check_ranges(self, bounds, "cluster")
        if not 1 <= self.session_timeout_s < math.inf:
            raise ConfigurationError(f"cluster: session_timeout_s is {self.session_timeout_s}; it must be 1 s or more")
        for name in ("owners_kept_s", "rebalance_interval_s", "rebalance_tolerance"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigurationError(f"cluster: {name} is {getattr(self, name)}; it must be a number from 0 on")


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieOptions:
    """How a hub of a cluster keeps messages on the bookies of BookKeeper.

    Raises: ConfigurationError - a value is out of its range.
    """

    zookeeper: str = option(
        "",
        "where the bookies are registered: zookeeper://host:port[,…]/ledgers; empty: the ZooKeeper of the cluster, "
        "with the root /ledgers",
    )
    ensemble: int = option(3, "bookies over which the messages of a ledger are spread")
    write_quorum: int = option(3, "bookies that get each message")
    ack_quorum: int = option(2, "bookies that must have a message before it is acknowledged")
    ledgers: str = option(
        "",
        "`shared`: the topics of a hub share one log; `per-topic`: each has ledgers of its own; empty: shared, or "
        "per-topic with `compat`",
    )
    own_ledgers: tuple[str, ...] = option(
        (), "topics with ledgers of their own although others share a log, as patterns (* and ?)"
    )
    compat: str = option("", "`4.3`: write ledgers that the original hub can read; empty: those of today")
    append_timeout_s: float = option(30.0, "how long a message may wait for its bookies, changes of them included")

    def __post_init__(self) -> None:
        if self.zookeeper:
            hosts_and_path("bookkeeper.zookeeper", self.zookeeper)
        if not self.ensemble >= self.write_quorum >= self.ack_quorum >= 1:
            raise ConfigurationError(
                f"bookkeeper: ensemble is {self.ensemble}, write_quorum {self.write_quorum}, ack_quorum "
                f"{self.ack_quorum}; none may be larger than the one before it, nor less than 1"
            )
        if self.ledgers not in _LEDGERS:
            raise ConfigurationError(f"bookkeeper: ledgers is {self.ledgers!r}; it must be shared, per-topic or empty")
        if self.compat and self.is_shared:
            raise ConfigurationError("bookkeeper: original hubs cannot read shared logs: set ledgers to per-topic")
        if self.compat not in _COMPATIBLE:
            raise ConfigurationError(f"bookkeeper: compat is {self.compat!r}; it must be 4.3 or empty")
        if not 0 < self.append_timeout_s < math.inf:
            raise ConfigurationError(f"bookkeeper: append_timeout_s is {self.append_timeout_s}; it must be above 0")

    @property
    def is_shared(self) -> bool:
        """Whether the topics of a hub share a log."""
        return self.ledgers == _SHARED or not (self.ledgers or self.compat)


def hosts_and_path(key: str, url: str) -> tuple[str, str]:
    """Return the hosts and the path that an option names. Raises: ConfigurationError - it is no path in ZooKeeper."""
    try:
        return zookeeper_address(url)
    except ConfigurationError as exc:
        raise ConfigurationError(f"{key} is {url!r}; it must be like zookeeper://host:2181/path") from exc
