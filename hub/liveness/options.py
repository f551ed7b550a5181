"""Options: how a hub proves that it is alive, and how it follows the other hubs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from hedwig.clock import Clock, SystemClock
from hedwig.errors import ConfigurationError
from hedwig.hub.liveness.boot_clock import boot_time_s
from hedwig.hub.liveness.placement import Placement
from hedwig.store_access import NO_ACCESS, ZooKeeperAccess

__all__ = ["LivenessOptions"]

_SESSION_MIN_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LivenessOptions:
    """Where ZooKeeper is, and the intervals and limits of requests to it.

    `zookeeper` is host:port[,host:port…]. `prefix` is that of the deployment, such as /hedwig/standalone; all its hubs
    share it. The hub proposes `session_timeout_s` to ZooKeeper, which may grant another within its own bounds. The
    topics of a killed hub wait that long. `operation_timeout_s` bounds each request, and `start_timeout_s` the first
    registration. The hub reads the loads of other hubs every `refresh_s`. `placement` says how it chooses a hub for a
    topic without an owner. It keeps at most `verdicts_max` dead incarnations. `access` is what it shows to ZooKeeper.

    `boot_time_s` is the clock by which this hub counts its own right to serve: seconds, also while the process or the
    machine sleeps.
    """

    zookeeper: str
    prefix: str = "/hedwig/standalone"
    session_timeout_s: float = 10.0
    operation_timeout_s: float = 5.0
    start_timeout_s: float = 60.0
    refresh_s: float = 5.0
    placement: Placement = Placement.BY_LOAD
    verdicts_max: int = 10_000
    access: ZooKeeperAccess = NO_ACCESS
    clock: Clock = field(default_factory=SystemClock)
    boot_time_s: Callable[[], float] = boot_time_s
    random: Random = field(default_factory=Random)

    def __post_init__(self) -> None:
        if self.session_timeout_s < _SESSION_MIN_S:
            raise ConfigurationError(f"a session with ZooKeeper of {self.session_timeout_s:g} s is too short to keep")
        if min(self.operation_timeout_s, self.start_timeout_s, self.refresh_s) <= 0 or self.verdicts_max < 1:
            raise ConfigurationError("timeouts, intervals and limits of liveness must be positive")
        root, *components = self.prefix.split("/")
        if root or not components or not all(components) or components[0] == "zookeeper":
            raise ConfigurationError(
                f"{self.prefix!r} cannot be the prefix of a deployment in ZooKeeper; "
                f"write for example /hedwig/standalone"
            )
