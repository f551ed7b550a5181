"""Records as the fields that commands write."""

from collections.abc import Mapping
from typing import Any

from hedwig.model import HubInfo, LedgerRange, MessageSeqId, SubscriberId, SubscriptionData
from hedwig.names import bytes_fields, show_text
from hedwig.versions import Version, Versioned

__all__ = [
    "ledger_fields",
    "named_fields",
    "owner_fields",
    "subscription_fields",
    "text_field",
    "version_text",
]


def text_field(text: str | None) -> str | None:
    """Return a text that a client has chosen, escaped as names are."""
    return None if text is None else show_text(text)


def named_fields(values: Mapping[str, bytes]) -> dict[str, str]:
    """Return the properties of a message, or the options of a subscription. Clients choose the names of these."""
    fields: dict[str, str] = {}
    for name, value in sorted(values.items()):
        fields |= bytes_fields(show_text(name), value)
    return fields


def version_text(version: Version | None) -> str | None:
    return None if version is None else str(version)


def owner_fields(owner: Versioned[HubInfo] | None) -> dict[str, Any]:
    """Return an owner record. Each field has the prefix `owner`, since it stands among the fields of a topic."""
    hub = None if owner is None else owner.value
    return {
        "owner": None if hub is None else hub.name,
        "owner_ssl_port": None if hub is None else hub.ssl_port,
        "owner_epoch": None if hub is None else hub.epoch,
        "owner_version": None if owner is None else str(owner.version),
    }


def ledger_fields(ledger: LedgerRange) -> dict[str, Any]:
    """Return a ledger range; `end` is None while the ledger is open."""
    return {
        "ledger_id": ledger.ledger_id,
        "start": ledger.start,
        "end": None if ledger.end is None else ledger.end.local,
    }


def subscription_fields(subscriber: SubscriberId, record: Versioned[SubscriptionData]) -> dict[str, Any]:
    """Return a subscription without its topic."""
    preferences, state = record.value.preferences, record.value.state
    fields: dict[str, Any] = dict(bytes_fields("subscriber", subscriber))
    fields["consumed"] = None if state is None else state.consumed.local
    if state is not None and state.consumed.remote:
        fields["consumed_remote"] = _remote_fields(state.consumed)
    fields["message_bound"] = None if preferences is None else preferences.message_bound
    fields["message_window_size"] = None if preferences is None else preferences.message_window_size
    fields["message_filter"] = None if preferences is None else text_field(preferences.message_filter)
    fields["options"] = {} if preferences is None else named_fields(preferences.options)
    fields["version"] = str(record.version)
    return fields


def _remote_fields(position: MessageSeqId) -> list[dict[str, Any]]:
    return [bytes_fields("region", region.region) | {"seq_id": region.seq_id} for region in position.remote]
