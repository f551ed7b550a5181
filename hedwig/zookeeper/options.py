"""The options of a session with ZooKeeper."""

from dataclasses import dataclass, field

from hedwig.clock import Clock, SystemClock
from hedwig.errors import ConfigurationError
from hedwig.store_access import NO_ACCESS, ZooKeeperAccess

__all__ = ["BridgeOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeOptions:
    """The options of a session.

    `session_timeout_s` is proposed to the server, which answers with the timeout in force. It decides how soon the
    client leaves a silent server; a session that only reads and writes needs no particular value. `in_flight_max`
    bounds how many calls wait for ZooKeeper at once; further ones wait their turn here. `connect_timeout_s` bounds the
    first connection. `access` is what the session shows to the servers.
    """

    session_timeout_s: float = 10.0
    connect_timeout_s: float = 30.0
    in_flight_max: int = 1024
    access: ZooKeeperAccess = NO_ACCESS
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        if min(self.session_timeout_s, self.connect_timeout_s) <= 0 or self.in_flight_max < 1:
            raise ConfigurationError("timeouts and limits of a session with ZooKeeper must be positive")
