"""Stored messages as the admin endpoint shows them. The read does not affect subscriptions."""

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from hedwig.errors import InvalidArgumentError
from hedwig.hub.topics.topic import OwnedTopic
from hedwig.names import show_name

if TYPE_CHECKING:
    from hedwig.hub.hub import Hub

__all__ = ["message_page"]

_BYTES_MAX: Final = 1 << 20
"""How many bytes of messages one answer holds, except for the last message."""


async def message_page(hub: "Hub", topic: OwnedTopic, first: int, limit: int) -> Mapping[str, Any]:
    """Return up to `limit` messages of `topic` from the id `first` on, or from the first one that still exists.

    It returns fewer if they are large. `next` is where the following page begins; None after the last message.

    Raises: InvalidArgumentError - the topic is not durable; LedgerError; TimeoutError.
    """
    if not topic.is_durable:
        raise InvalidArgumentError(f"topic '{show_name(topic.name)}' is not durable: its messages are not kept")
    log = topic.log
    last_id = log.last_id
    local = max(first, log.first_id)
    rows: list[Mapping[str, Any]] = []
    size = 0
    while local <= last_id and len(rows) < limit and size < _BYTES_MAX:
        entries = await hub.delivery.read(log, local, limit - len(rows), _BYTES_MAX - size)
        if not entries:
            break
        for stored in entries:
            rows.append({"id": local, "message_base64": base64.b64encode(stored).decode()})
            size += len(stored)
            local += 1
    return {
        "first_id": log.first_id,
        "last_id": last_id,
        "messages": rows,
        "next": local if local <= last_id else None,
    }
