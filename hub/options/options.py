"""The options of a hub: one record, which is checked when it is made."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from itertools import combinations
from pathlib import Path
from typing import Final
from urllib.parse import quote

from hedwig.access.mechanisms import Mechanism
from hedwig.errors import ConfigurationError
from hedwig.hub.ledgers import LocalLedgerOptions
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.options.access_options import AccessMode, AccessOptions
from hedwig.hub.options.cluster_options import BookieOptions, ClusterOptions
from hedwig.hub.options.field import check_ranges, option
from hedwig.hub.options.listener_options import ListenerOptions, check_listener_names
from hedwig.wire import HUB_FRAME_BYTES_MAX

__all__ = ["HubOptions"]

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
_ANY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})
_PORT_MAX: Final = (1 << 16) - 1
_SHARED_OPERATION_S: Final = 4 * SharedLogOptions().roll_pause_s
"""The least time for an operation with shared ledgers: a release may wait for a pause, and for the end of a segment."""
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")


@dataclass(frozen=True, slots=True, kw_only=True)
class HubOptions:
    """All options of a hub. Sizes are in bytes, times in seconds; 0 turns a time limit off.

    Raises: ConfigurationError - a value is out of its range, or two values conflict.
    """

    data_directory: Path = field(
        default=Path("hedwig-data"),
        metadata={"what": "where the hub keeps its messages and, unless `metadata` says otherwise, its metadata"},
    )
    metadata: str = option("", "URL of the metadata store; empty: sqlite in the data directory")
    stores_file: str = option(
        "",
        "file with the logins and certificates that ZooKeeper asks for, see docs/how-to/secure-stores.md; empty: none",
    )
    region: str = option("standalone", "name of the region, written into every message")

    host: str = option("127.0.0.1", "address to listen on")
    port: int = option(4080, "port to listen on; -1: none, only TLS; 0: any free one")
    advertised_host: str = option("", "address that redirects and owner records name; empty: `host`")
    tls_port: int = option(
        -1, "port of the TLS listener, which speaks TLS 1.2 as the original's clients do; -1: none; 0: any free one"
    )
    tls_certificate: str = option("", "PEM file with the certificate chain of the TLS listener")
    tls_key: str = option("", "PEM file with the private key; empty: it is in the certificate's file")
    admin_host: str = option("127.0.0.1", "address of the admin endpoint")
    admin_port: int = option(4081, "port of the admin endpoint; -1: none; 0: any free one")
    admin_tls: str = option(
        "",
        "`on`: the admin endpoint speaks HTTPS, with `tls_certificate`; `off`: HTTP; empty: `off`, which only an "
        "endpoint on a loopback address may leave unsaid",
    )
    admin_token_file: str = option(
        "",
        "file with the token whose holders may do everything at the admin endpoint; empty: `admin-token` in the data "
        "directory, which the hub makes, and none if access.mode is `open`",
    )
    admin_hosts: tuple[str, ...] = option(
        (), "further names by which browsers and programs may ask the admin endpoint, as they stand in the Host header"
    )

    frame_bytes_max: int = option(HUB_FRAME_BYTES_MAX, "largest request, its length field included")
    channels_max: int = option(20_000, "connections at the same time; the hub closes further ones")
    channel_requests_max: int = option(10_000, "unanswered requests of a channel before it is not read")
    channel_bytes_max: int = option(4 * _MIB, "bytes of unanswered requests of a channel before it is not read")
    channel_unsent_bytes: int = option(256 * _KIB, "bytes not sent on a channel before its deliveries wait")
    unsent_bytes_max: int = option(
        256 * _MIB,
        "bytes not sent over all channels. A channel may have 1/64 of what is free, and at least 16 KiB. If answers "
        "are more than half, the hub closes the channel that has not taken its answers for longest",
    )
    handshake_s: float = option(10.0, "longest TLS handshake; the hub closes a connection that takes longer")
    frame_s: float = option(30.0, "longest time for a request to arrive in full; then the hub closes its connection")
    receive_bytes_max: int = option(
        256 * _MIB,
        "bytes of unfinished requests over all connections; beyond, the hub closes the connection of the oldest",
    )
    request_bytes_max: int = option(
        256 * _MIB,
        "bytes of unanswered requests in the hub, 1 KiB added for each; beyond, 502 for connections with over 64 KiB",
    )
    topic_requests_max: int = option(10_000, "requests that wait for one topic; more get 502")
    acquisitions_max: int = option(128, "topics that are acquired at once; others wait their turn")
    ledger_changes_max: int = option(128, "topics whose first or next ledger is made at once; others wait their turn")
    acquisitions_waiting_max: int = option(100_000, "topics that wait for that turn; more get 502")

    topics_max: int = option(2_000_000, "topics owned at once; beyond, those unused for longest are released")
    topic_idle_s: float = option(1800.0, "how long a hub keeps a topic that is unused and has no attached subscribers")
    topic_age_s: float = option(0.0, "maximum time a hub owns a topic, even if in use; 0: no limit")
    topic_sweep_s: float = option(10.0, "how often the hub looks for topics to release")

    standbys_max: int = option(64, "clients that wait for one subscription while another has it open; more get 406")
    message_window: int = option(0, "unconsumed messages of a subscription that sets no window; 0: no limit")
    consume_interval: int = option(50, "the hub stores a consume pointer once it is N messages ahead")
    consume_flush_s: float = option(5.0, "the hub stores a moved consume pointer within N s")
    filters: Mapping[str, str] = field(
        default_factory=dict,
        metadata={"what": "message filters by the name that clients send: `module:attribute` of a Python filter"},
    )
    non_durable_topics: tuple[str, ...] = option((), "topics whose messages are not stored, as patterns (* and ?)")
    non_durable_refuses_nobody: bool = option(False, "publishing to a non-durable topic without subscribers gets 402")

    ledger_messages_max: int = option(100_000, "messages of a ledger before the next one begins; 0: no limit")
    ledger_bytes_max: int = option(64 * _MIB, "bytes of a ledger before the next one begins; 0: no limit")
    repeat_window_s: float = option(
        300.0,
        "for how long the hub knows a message if a client with publish_once, or a publisher with a name, publishes it "
        "again. It keeps such messages though they are consumed. 0: the hub tells clients that it does not. All hubs "
        "of a cluster need the same",
    )
    repeat_window_messages: int = option(10_000, "messages of a topic that are kept for that, and read at a takeover")
    repeat_bytes_max: int = option(
        512 * _MIB, "memory for what the hub knows of recent publishes; beyond, it reads it from the logs again"
    )
    retention_interval_s: float = option(60.0, "how often the hub deletes ledgers that all subscribers have consumed")
    cache_bytes: int = option(64 * _MIB, "memory for the newest messages of topics with attached subscribers")
    read_messages_max: int = option(128, "messages of one read for a subscriber that catches up")
    read_bytes_max: int = option(1 * _MIB, "bytes of one read for a subscriber that catches up")
    reads_max: int = option(
        64, "reads at once for subscribers that catch up. Those of shared logs are not counted: they read together"
    )
    read_retry_s: float = option(1.0, "pause after a read that failed")
    damage_wait_s: float = option(
        60.0, "how long the hub reads a message again before it skips it, if all copies are damaged; 0: for ever"
    )

    operation_timeout_s: float = option(30.0, "deadline of one operation on the metadata or the ledgers")
    shutdown_s: float = option(30.0, "time for a clean shutdown; topics not released by then are taken over later")
    read_only: bool = option(False, "refuse publishes; subscribers go on")
    ledgers: LocalLedgerOptions = field(
        default_factory=LocalLedgerOptions,
        metadata={"what": "the local ledger store, see docs/reference/local-ledgers.md"},
    )
    cluster: ClusterOptions = field(
        default_factory=ClusterOptions,
        metadata={"what": "the cluster that the hub belongs to, see docs/how-to/cluster.md"},
    )
    bookkeeper: BookieOptions = field(
        default_factory=BookieOptions, metadata={"what": "the bookies of a cluster, see docs/reference/bookkeeper.md"}
    )
    access: AccessOptions = field(
        default_factory=AccessOptions, metadata={"what": "who may do what, see docs/how-to/access.md"}
    )

    listeners: Mapping[str, ListenerOptions] = field(
        default_factory=dict,
        metadata={
            "what": "named listeners, each with a port of its own and its own clients; see docs/how-to/access.md"
        },
    )

    def __post_init__(self) -> None:
        bounds = (
            ("port", -1, _PORT_MAX),
            ("tls_port", -1, _PORT_MAX),
            ("admin_port", -1, _PORT_MAX),
            ("frame_bytes_max", 1024, 64 * _MIB),
            ("channels_max", 1, 10_000_000),
            ("channel_requests_max", 1, 10_000_000),
            ("channel_bytes_max", 1, 1 << 32),
            ("channel_unsent_bytes", 1, 1 << 32),
            ("unsent_bytes_max", 1 << 20, 1 << 40),
            ("receive_bytes_max", 1, 1 << 40),
            ("request_bytes_max", 1, 1 << 40),
            ("topic_requests_max", 1, 10_000_000),
            ("acquisitions_max", 1, 100_000),
            ("ledger_changes_max", 1, 100_000),
            ("acquisitions_waiting_max", 1, 100_000_000),
            ("topics_max", 1, 1 << 40),
            ("standbys_max", 0, 100_000),
            ("message_window", 0, (1 << 32) - 1),
            ("consume_interval", 1, 1 << 32),
            ("repeat_window_messages", 1, 1 << 20),
            ("repeat_bytes_max", 1 << 10, 1 << 40),
            ("ledger_messages_max", 0, 1 << 40),
            ("ledger_bytes_max", 0, 1 << 50),
            ("cache_bytes", 0, 1 << 50),
            ("read_messages_max", 1, 100_000),
            ("read_bytes_max", 1, 1 << 32),
            ("reads_max", 1, 100_000),
        )
        check_ranges(self, bounds)
        for name in ("topic_sweep_s", "consume_flush_s", "read_retry_s", "retention_interval_s", "operation_timeout_s"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigurationError(f"{name} is {getattr(self, name)}; it must be above 0")
        for name in (
            "handshake_s",
            "frame_s",
            "topic_idle_s",
            "topic_age_s",
            "shutdown_s",
            "damage_wait_s",
            "repeat_window_s",
        ):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigurationError(f"{name} is {getattr(self, name)}; it must be a number from 0 on")
        for name in ("host", "region", "admin_host"):
            if not getattr(self, name):
                raise ConfigurationError(f"{name} is empty; it must be given")
        if ":" in (self.advertised_host or self.host):
            raise ConfigurationError(
                "an IPv6 address cannot be expressed in a redirect; give advertised_host a name or an IPv4 address"
            )
        self._check_ports()
        for host in (self.host, *(each.host for each in self.listeners.values() if each.host)):
            if not self.access.mode and not _is_loopback(host):
                raise ConfigurationError(
                    f"host is {host}, so others can reach this hub, and nothing says who may do what. Set access.mode "
                    "to rules, or to open if everybody may do everything"
                )
        self._check_listeners()
        self._check_admin()
        for name in self.admin_hosts:
            if not _HOST_NAME.fullmatch(name):
                raise ConfigurationError(
                    f"admin_hosts names {name!r}; it must be a name such as hub1.example, without scheme and port"
                )
        if any(char.isspace() or not char.isprintable() for char in self.advertised_host):
            raise ConfigurationError(f"advertised_host is {self.advertised_host!r}; it must be a name or an address")
        if self.host in _ANY_ADDRESS and not self.advertised_host:
            raise ConfigurationError(
                f"host is {self.host}, which clients cannot be sent to; give advertised_host a name or an address too"
            )
        try:
            self.region.encode()
        except UnicodeEncodeError as exc:
            raise ConfigurationError(f"region is {self.region!r}, which is not Unicode text") from exc
        if self.tls_port >= 0 and not self.tls_certificate:
            raise ConfigurationError("tls_port is set, so tls_certificate must name a PEM file")
        if self.port < 0 and self.tls_port < 0:
            raise ConfigurationError("port is -1, so tls_port must be set: owner records name one of them")
        asks = any(each.client_certificates for each in self.listeners.values())
        if self.access.client_ca and not (asks or self.tls_port >= 0 or self.has_admin_tls):
            raise ConfigurationError("access.client_ca is set, so tls_port must be: only TLS has client certificates")
        if self.ledgers.entry_bytes_max < 2 * self.frame_bytes_max:
            raise ConfigurationError("ledgers.entry_bytes_max must be at least twice frame_bytes_max")
        if self.is_clustered and self.metadata.partition(":")[0] in ("", "sqlite"):
            raise ConfigurationError(
                "cluster.zookeeper is set, so the hubs must share their metadata: metadata must be the URL of a store "
                "such as hbase://host:2181/hedwig, not of a file"
            )
        if self.is_clustered and self.bookkeeper.is_shared and self.operation_timeout_s < _SHARED_OPERATION_S:
            raise ConfigurationError(
                f"operation_timeout_s is {self.operation_timeout_s:g}; with shared ledgers it must be "
                f"{_SHARED_OPERATION_S:g} s or more, since the release of a topic waits until a segment of the log ends"
            )
        if self.bookkeeper.zookeeper and not self.is_clustered:
            raise ConfigurationError(
                "bookkeeper.zookeeper is set, and cluster.zookeeper is not: a standalone hub keeps its messages itself"
            )

    def _check_admin(self) -> None:
        if self.admin_tls not in ("", "on", "off"):
            raise ConfigurationError(f"admin_tls is {self.admin_tls!r}; it must be on or off")
        if self.has_admin_tls and not self.tls_certificate:
            raise ConfigurationError("admin_tls is on, so tls_certificate must name a PEM file")
        if self.admin_port < 0 or _is_loopback(self.admin_host):
            return
        others = f"admin_host is {self.admin_host}, so others can reach the admin endpoint"
        if not self.admin_tls:
            raise ConfigurationError(
                f"{others}, and others can read what operators send. Set admin_tls to on, or to off if only trusted "
                "programs are in that network"
            )
        if not self.are_operators_asked:
            raise ConfigurationError(
                f"{others}, and with access.mode={self.access.mode} it asks nobody. Name a file with a token in "
                "admin_token_file"
            )

    def _check_ports(self) -> None:
        """Raise ConfigurationError if two listeners would share an address."""
        listeners = (
            ("port", self.port, self.host),
            ("tls_port", self.tls_port, self.host),
            ("admin_port", self.admin_port, self.admin_host),
            *((f"listeners.{name}", each.port, each.host or self.host) for name, each in self.listeners.items()),
        )
        for (one, port, host), (other, other_port, other_host) in combinations(listeners, 2):
            if 0 < port == other_port and (host == other_host or _ANY_ADDRESS & {host, other_host}):
                raise ConfigurationError(f"{one} and {other} are both {port}; give each a port of its own")

    def _check_listeners(self) -> None:
        check_listener_names(self.listeners)
        offered = {*self.access.mechanisms, *(name for each in self.listeners.values() for name in each.mechanisms)}
        if Mechanism.TOKEN in offered and not (self.access.token_keys and self.access.token_audience):
            raise ConfigurationError(
                f"access: mechanisms names {Mechanism.TOKEN}, so token_keys must name keys, and token_audience whom "
                "tokens are meant for"
            )
        for where, names, has_tls in (
            ("access.mechanisms", self.access.mechanisms, self.tls_port >= 0),
            *((f"listeners.{name}.mechanisms", each.mechanisms, each.tls) for name, each in self.listeners.items()),
        ):
            only = {Mechanism.SCRAM_PLUS, Mechanism.TOKEN} & {*names}
            if only and not has_tls:
                raise ConfigurationError(f"{where} names {', '.join(sorted(only))}, which need TLS, and there is none")
        for name, listener in self.listeners.items():
            if listener.tls and not self.tls_certificate:
                raise ConfigurationError(f"listeners.{name}.tls is set, so tls_certificate must name a PEM file")
            if listener.client_certificates and not self.access.client_ca:
                raise ConfigurationError(
                    f"listeners.{name}.client_certificates is set, so access.client_ca must name the authorities"
                )
            host = listener.advertised_host or self.advertised_host or listener.host or self.host
            if host in _ANY_ADDRESS or ":" in host or "/" in host or any(char.isspace() for char in host):
                raise ConfigurationError(
                    f"listeners.{name}: clients cannot be sent to {host}; give its advertised_host a name or an IPv4 "
                    "address"
                )

    @property
    def is_clustered(self) -> bool:
        """Whether this is a hub of a cluster, not a standalone hub."""
        return bool(self.cluster.zookeeper)

    @property
    def is_beside_originals(self) -> bool:
        """Whether hubs of the original may be in the cluster: it has their metadata, and ledgers that they can read."""
        return bool(self.bookkeeper.compat) and self.metadata.startswith("zookeeper:")

    @property
    def has_admin_tls(self) -> bool:
        """Whether there is an admin endpoint, and it speaks HTTPS."""
        return self.admin_port >= 0 and self.admin_tls == "on"

    @property
    def are_operators_asked(self) -> bool:
        """Whether the admin endpoint refuses those who do not say who they are, or may not."""
        return self.access.mode in ("", AccessMode.RULES) or bool(self.admin_token_file)

    def admin_address(self, port: int) -> str:
        """Return the address of the admin endpoint that the hub announces, with https:// if it speaks TLS."""
        host = self.admin_host if self.admin_host not in _ANY_ADDRESS else self.advertised_host or self.host
        return f"{'https://' if self.has_admin_tls else ''}{host}:{port}"

    @property
    def admin_names(self) -> frozenset[str]:
        """The names that the admin endpoint answers to, besides localhost and addresses."""
        return frozenset({self.admin_host, self.advertised_host or self.host, *self.admin_hosts})

    @property
    def metadata_url(self) -> str:
        """The URL of the metadata store: the one given, or that of the embedded one in the data directory."""
        return self.metadata or f"sqlite://{quote(str((self.data_directory / 'metadata.db').resolve()))}"


def _is_loopback(host: str) -> bool:
    """Return whether only programs of this machine can reach an address. Of a name nothing is known."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
