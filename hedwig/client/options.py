"""The options of a client, with all defaults."""

import math
import ssl
from dataclasses import dataclass, field
from random import Random, SystemRandom
from typing import Self

from hedwig.client.credentials import Credentials
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
    """The options of a client.

    Raises: ConfigurationError - a value cannot work.
    """

    hub: HubAddress = field(default_factory=lambda: HubAddress("127.0.0.1", _PORT))
    """The hub that the client asks first. Any hub will do, since it redirects."""
    tls: ssl.SSLContext | None = None
    """With a context, every connection uses TLS and the hubs' TLS ports. (The original speaks TLS 1.2 at most.)

    If its `check_hostname` is set, certificates must name the hosts that redirects name.
    """
    credentials: Credentials | None = None
    """Who the client is. It says so on each connection, and uses none on which a hub does not take it for that."""
    connect_timeout_s: float = 5.0
    """The bound on one attempt to connect."""
    answer_timeout_s: float = 30.0
    """The bound on one request with all its redirects, and on a publish with all its attempts."""
    redirects_max: int = 4
    """The most redirects of one request. A publish is tried again after a pause."""
    publish_once: bool = False
    """Whether the client sends a publish again whose answer was lost. Hubs of this release store it once.

    Otherwise it raises UncertainAnswerError at once. This costs a few percent of the rate of publishes.
    """
    publishes_in_flight_max: int = 1024
    """The most unanswered publishes; further ones wait."""
    deliveries_queued_max: int = 100
    """The most messages of a subscription that wait for the application; at that number its channel is not read."""
    consume_every: int = 5
    """The client sends the consume pointer after every N finished messages.

    It sends it earlier when no further message has arrived, and after `consume_within_s`.
    """
    consume_within_s: float = 1.0
    """The longest time between the end of a message and its consume pointer."""
    share_channels: bool = False
    """Whether all subscriptions of one hub share one connection, instead of one each."""
    reconnect_pause_s: float = 0.05
    """The first pause before a subscription reconnects or a publish is tried again. Further ones double."""
    reconnect_pause_max_s: float = 5.0
    """The longest such pause of a subscription. That of a publish is at most a second."""
    silence_s: float = 10.0
    """The client gives up a connection on which nothing came for N seconds, and asks for a sign of life before that.

    It also sends something before that. A hub gives up a client that does not, if others wait for a subscription of it.
    """
    keepalive_s: int = 30
    """The kernel probes a connection after N seconds without traffic. If the hub is gone, it ends after 2 N seconds."""
    send_frame_bytes_max: int = HUB_FRAME_BYTES_MAX
    receive_frame_bytes_max: int = CLIENT_FRAME_BYTES_MAX
    clock: Clock = field(default_factory=SystemClock)
    random: Random = field(default_factory=SystemRandom)

    @property
    def silence_ms(self) -> int:
        """Return the longest silence of this client that a hub should expect, in milliseconds."""
        return math.ceil(self.silence_s * 1000)

    @classmethod
    def of(cls, hub: "str | ClientOptions | None") -> "ClientOptions":
        """Return `hub` if it is options, else the default options with the hub at that address.

        Raises: ConfigurationError - it is no address.
        """
        if isinstance(hub, ClientOptions):
            return hub
        return cls() if hub is None else cls(hub=HubAddress.parse(hub))

    def __post_init__(self) -> None:
        if not isinstance(self.hub, HubAddress):
            raise ConfigurationError(f"the hub of a client's options is HubAddress.parse({self.hub!r})")
        pauses = (self.consume_within_s, self.reconnect_pause_s, self.reconnect_pause_max_s)
        times = (self.connect_timeout_s, self.answer_timeout_s, self.silence_s, *pauses)
        bounds = (self.publishes_in_flight_max, self.deliveries_queued_max, self.consume_every, self.keepalive_s)
        if min(times) <= 0 or min(bounds) < 1 or self.redirects_max < 0:
            raise ConfigurationError("the timeouts, pauses and bounds of a client must be positive")
