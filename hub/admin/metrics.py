"""The metrics of a hub for Prometheus, from the counters that the hub has anyway."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from hedwig.hub.admin.load import LoadSampler
from hedwig.hub.ledgers import LedgerStoreStats, LogCounters

if TYPE_CHECKING:
    from hedwig.hub.hub import Hub

__all__ = ["CONTENT_TYPE_LATEST", "Metrics"]

_NAMESPACE: Final = "hedwig_hub"
_COUNTERS: Final[Mapping[str, str]] = {
    "published_messages": "Messages that were acknowledged to their publishers.",
    "refused_requests": "Requests that were answered with an error.",
    "delivered_messages": "Messages sent to subscribers, redeliveries included.",
    "read_messages": "Messages read from ledgers for subscribers that catch up.",
    "lost_messages": "Damaged messages that subscribers went past, counted for each subscriber.",
    "stored_consume_pointers": "Consume pointers written to the metadata.",
    "acquired_topics": "Topics that this hub became owner of.",
    "taken_over_topics": "Topics of dead hubs among these that nobody had asked this hub for.",
    "released_topics": "Topics that this hub released.",
    "deleted_messages": "Messages deleted after all subscribers had consumed them.",
    "metadata_conflicts": "Writes of metadata that were refused because another program had changed the record.",
    "left_ledgers": "Ledgers that could not be deleted, and are left to metadata repair.",
    "refused_connections": "Connections that the hub closed at once: it had no slot for them.",
    "displaced_connections": "Connections that the hub closed for others, as they had sent no request.",
    "failed_handshakes": "TLS connections that were closed: their handshake failed, took too long, or made room.",
    "late_frames": "Connections that were closed: a request took longer than frame_s to arrive.",
    "displaced_frames": "Connections that were closed: receive_bytes_max was reached, and their request was oldest.",
    "logins": "Logins with a password or a token.",
    "failed_logins": "Logins that failed.",
    "connections_over_limits": "Connections that were one too many for their user; in audit mode they stayed.",
    "makings_over_limits": "Topics and subscriptions that were not made, since by a limit there are enough.",
    "publishes_over_limits": "Messages that were over a limit of their user; in audit mode they passed.",
    "unpermitted_requests": "Requests that the rules of access control refuse, or would refuse in audit mode.",
}
_LEVELS: Final[Mapping[str, str]] = {
    "topics": "Topics that this hub owns.",
    "acquiring_topics": "Topics on their way to be owned, waiting ones included.",
    "channels": "Open connections.",
    "handshakes": "TLS connections whose handshake goes on.",
    "attached_subscriptions": "Subscriptions that a client is attached to.",
    "standbys": "Clients that wait for a subscription which another has open.",
    "unanswered_bytes": "Bytes of requests that are not answered yet, 1 KiB added for each.",
    "unfinished_bytes": "Bytes of requests that have not arrived in full, or wait for their turn.",
    "unsent_bytes": "Bytes of answers and deliveries that the sockets have not taken.",
    "cache_bytes": "Memory that the newest messages take.",
    "waiting_consume_pointers": "Consume pointers that moved and are not stored yet.",
    "waiting_ledger_deletions": "Ledgers that are to be deleted, and could not be yet.",
}
_LEDGERS: Final[Mapping[str, str]] = {
    "ledgers": "Ledgers in the local store.",
    "open_ledgers": "Ledgers that take appends.",
    "segments": "Segments: files of the local store, or those of the hub's shared log.",
    "stored_bytes": "Bytes of all segments: of the files, or of the messages in the shared log.",
    "live_bytes": "Bytes among them that rewriting would keep.",
    "queued_bytes": "Bytes of appends that wait to be written.",
    "damaged_places": "Unreadable locations that the hub met in the local store.",
    "is_full": "1 while the disk is full, or there are too few bookies.",
}
_LOG: Final[Mapping[str, str]] = {
    "batches": "Batches that the hub's shared log has acknowledged.",
    "records": "Messages in these batches.",
    "batch_bytes": "Bytes of these batches.",
    "read_batches": "Batches of shared logs that were read for subscribers that catch up.",
    "read_batch_bytes": "Bytes of the batches that were read.",
    "merged_segments": "Segments of shared logs that were merged into others.",
    "merged_bytes": "Bytes of messages that merging has written again.",
    "dead_segments": "Segments of shared logs that were deleted, since no message in them was needed any more.",
}
_LOG_TIMES: Final[Mapping[str, tuple[str, str, str]]] = {
    "roll_seconds": (
        "rolls",
        "roll_s",
        "Pauses of the hub's shared log, which goes on in its next segment then.",
    ),
    "recovery_seconds": (
        "recoveries",
        "recovery_s",
        "Recoveries of the shared logs of hubs that have ended.",
    ),
}
"""The fields of LogCounters that have the number and the sum, and what it is."""
_FIELDS: Final[Mapping[str, str]] = {"damaged_places": "damage_count"}
"""The fields of LedgerStoreStats that have another name than their metric."""


class Metrics(Collector):
    """Renders the metrics of one hub. It counts nothing twice, and nothing per message."""

    def __init__(self, hub: "Hub", load: LoadSampler) -> None:
        self._hub = hub
        self._load = load
        self._ledgers: LedgerStoreStats | None = None
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def render(self, ledgers: LedgerStoreStats) -> bytes:
        """Return all metrics in Prometheus's text format."""
        self._ledgers = ledgers
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics. Source: Prometheus's custom collectors."""
        for name, number in self._load.counters().items():
            yield CounterMetricFamily(f"{_NAMESPACE}_{name}", _COUNTERS[name], value=number)
        for name, number in self._load.levels().items():
            yield GaugeMetricFamily(f"{_NAMESPACE}_{name}", _LEVELS[name], value=number)
        yield GaugeMetricFamily(
            f"{_NAMESPACE}_read_only", "1 while publishes are refused.", value=int(self._hub.requests.is_read_only)
        )
        frozen = int(self._hub.freezing.why is not None)
        yield GaugeMetricFamily(f"{_NAMESPACE}_frozen", "1 while nothing is written to the metadata.", value=frozen)
        access = self._hub.access
        if access is not None and access.age_s is not None:
            what = "Seconds since the hub knew that its rules of access control are the newest."
            yield GaugeMetricFamily(f"{_NAMESPACE}_access_age_seconds", what, value=access.age_s)
        if (files := self._hub.listeners.files) is not None:
            what = "Days until the certificate of the TLS listeners ends."
            yield GaugeMetricFamily(f"{_NAMESPACE}_tls_days_left", what, value=files.days_left)
        hub = {"address": self._hub.me.address, "epoch": str(self._hub.me.epoch)}
        yield InfoMetricFamily(_NAMESPACE, "Which hub this is.", value=hub)
        if self._ledgers is not None:
            for name, what in _LEDGERS.items():
                value = getattr(self._ledgers, _FIELDS.get(name, name))
                if value is not None:
                    yield GaugeMetricFamily(f"{_NAMESPACE}_ledger_store_{name}", what, value=float(value))
            if self._ledgers.log is not None:
                yield from _of_log(self._ledgers.log)


def _of_log(log: LogCounters) -> Iterator[Metric]:
    for name, what in _LOG.items():
        yield CounterMetricFamily(f"{_NAMESPACE}_log_{name}", what, value=getattr(log, name))
    for name, (count, seconds, what) in _LOG_TIMES.items():
        yield SummaryMetricFamily(
            f"{_NAMESPACE}_log_{name}", what, count_value=getattr(log, count), sum_value=getattr(log, seconds)
        )
