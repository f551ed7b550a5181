"""How a client behaves; all defaults in one place."""

import ssl
from dataclasses import dataclass, field
from random import Random, SystemRandom
from typing import Self

from hedwig.clock import Clock, SystemClock
from hedwig.errors import ConfigurationError
from hedwig.wire import CLIENT_FRAME_BYTES_MAX, HUB_FRAME_BYTES_MAX

__all__ = ["ClientOptions", "HubAddress"]

_PORT: int = 4080


@dataclass(frozen=True, slots=True)
class HubAddress:
    """Where a hub listens, as redirects spell it: `host:port[:sslport]`."""

    host: str
    port: int
    ssl_port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `host[:port[:sslport]]`, -1 for no TLS port. Raises ConfigurationError."""
        host, *ports = text.split(":")
        try:
            numbers = [int(port) for port in ports]
        except ValueError:
            numbers = [-2]
        port = numbers[0] if numbers else _PORT
        ssl_port = numbers[1] if len(numbers) > 1 else -1
        if not host or len(numbers) > 2 or not 0 < port < 65536 or not (ssl_port == -1 or 0 < ssl_port < 65536):
            raise ConfigurationError(f"a hub's address is host:port or host:port:sslport, not {text!r}")
        return cls(host, port, None if ssl_port == -1 else ssl_port)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.ssl_port is None else f"{self.host}:{self.port}:{self.ssl_port}"

    @property
    def key(self) -> bytes:
        """Return the host and the port, by which a request names the hubs that it has tried."""
        return f"{self.host}:{self.port}".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """What a client needs to know.

    Raises: ConfigurationError - a value that cannot work.
    """

    hub: HubAddress = field(default_factory=lambda: HubAddress("127.0.0.1", _PORT))
    """The hub that is asked first; any hub will do, it redirects."""
    tls: ssl.SSLContext | None = None
    """A context makes every connection a TLS connection to the hubs' TLS ports. (The original speaks TLS 1.2 at most.)

    With its `check_hostname`, certificates must name the hosts that redirects name.
    """
    connect_timeout_s: float = 5.0
    """The bound on one attempt to connect."""
    answer_timeout_s: float = 30.0
    """The bound on one request with all its redirects."""
    redirects_max: int = 4
    """How often one request may be sent on."""
    publishes_in_flight_max: int = 1024
    """How many publishes may be unanswered; more wait."""
    deliveries_queued_max: int = 100
    """How many messages of a subscription may wait for the application; then its channel is not read."""
    consume_every: int = 5
    """How many messages the application may have finished before the consume pointer is sent.

    It is sent earlier when no further message is there.
    """
    share_channels: bool = False
    """One connection to each hub for all subscriptions, in place of one each."""
    reconnect_pause_s: float = 0.05
    """The first pause before a subscription reconnects; each further one is twice as long."""
    reconnect_pause_max_s: float = 5.0
    """The longest such pause."""
    keepalive_s: int = 30
    """How long a connection may be without traffic before it is probed; without a hub it ends after twice that."""
    send_frame_bytes_max: int = HUB_FRAME_BYTES_MAX
    receive_frame_bytes_max: int = CLIENT_FRAME_BYTES_MAX
    clock: Clock = field(default_factory=SystemClock)
    random: Random = field(default_factory=SystemRandom)

    @classmethod
    def of(cls, hub: "str | ClientOptions | None") -> "ClientOptions":
        """Return the options that were given, or the default ones with the hub at that address.

        Raises: ConfigurationError - it is no address.
        """
        if isinstance(hub, ClientOptions):
            return hub
        return cls() if hub is None else cls(hub=HubAddress.parse(hub))

    def __post_init__(self) -> None:
        times = (self.connect_timeout_s, self.answer_timeout_s, self.reconnect_pause_s, self.reconnect_pause_max_s)
        bounds = (self.publishes_in_flight_max, self.deliveries_queued_max, self.consume_every, self.keepalive_s)
        if min(times) <= 0 or min(bounds) < 1 or self.redirects_max < 0:
            raise ConfigurationError("the timeouts, pauses and bounds of a client must be positive")
