"""How a hub proves that it is alive, and how it learns who else is."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from hedwig.clock import Clock, SystemClock
from hedwig.errors import ConfigurationError
from hedwig.hub.liveness.boot_clock import boot_time_s
from hedwig.hub.liveness.placement import Placement

__all__ = ["LivenessOptions"]

_SESSION_MIN_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LivenessOptions:
    """Where ZooKeeper is, and how closely it is asked.

    `zookeeper` is host:port[,host:port…]; `prefix` is that of the deployment there, such as /hedwig/standalone, which
    all of its hubs share. `session_timeout_s` is proposed to ZooKeeper, which may settle for another within its own
    bounds: topics of a hub that was killed wait that long. `operation_timeout_s` bounds each question,
    `start_timeout_s` the first registration. Loads of other hubs are read anew every `refresh_s`. `placement` says how
    a hub is chosen for a topic without an owner. `verdicts_max` bounds how many dead incarnations are remembered.

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
