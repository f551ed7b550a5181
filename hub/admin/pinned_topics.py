"""The topics that keep most bytes of shared logs from being deleted. The hub finds them on request."""

import asyncio
import heapq
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from hedwig.hub.logs.durable_log import DurableLog
from hedwig.hub.topics.topic import OwnedTopic
from hedwig.metadata.logs.virtual_ids import is_virtual, log_of
from hedwig.model import LedgerRange, Topic
from hedwig.names import name_fields

if TYPE_CHECKING:
    from hedwig.hub.hub import Hub

__all__ = ["pinned_topics"]

_TOPICS_MAX: Final = 10
_LEDGERS_MAX: Final = 100
"""So many ledgers of the hub's own log are looked at."""
_SLICE: Final = 2000
"""How many topics the hub visits before it lets other tasks run."""


async def pinned_topics(hub: "Hub", sees: Callable[[Topic], bool]) -> Mapping[str, Any]:
    """Return the topics with most bytes in shared logs that somebody `sees`.

    Some subscriber of theirs still needs the oldest of them. In the hub's own log it knows the bytes. A ledger there
    whose topic it does not own has a row by itself. Of other logs it knows how many messages a topic has there, and
    their mean size in the log.

    Raises: MetadataError.
    """
    ledgers = hub.ledgers
    if not isinstance(ledgers, SharedLedgerStore):
        return {"topics": []}
    own = await ledgers.largest(_LEDGERS_MAX)
    unknown = set(own)
    means: dict[int, float] = {}
    rows: list[tuple[int, Topic, OwnedTopic, int]] = []
    for index, topic in enumerate(list(hub.topics)):
        if index % _SLICE == _SLICE - 1:
            await asyncio.sleep(0)
        log, size, estimated = topic.log, 0, 0.0
        for each in log.ranges.ranges if isinstance(log, DurableLog) else ():
            if not is_virtual(each.ledger_id):
                continue
            number = log_of(each.ledger_id)
            if number == ledgers.log:
                size += own.get(each.ledger_id, 0)
                unknown.discard(each.ledger_id)
                continue
            if number not in means:
                means[number] = await ledgers.mean_bytes(number)
            estimated += means[number] * _messages(each, log.last_id)
        row = size + round(estimated), topic.name, topic, round(estimated)
        if not row[0] or not sees(topic.name):
            continue
        if len(rows) < _TOPICS_MAX:
            heapq.heappush(rows, row)
        elif row[:2] > rows[0][:2]:
            heapq.heapreplace(rows, row)
    found = [_of_topic(*row) for row in rows]
    found += [{"topic": None, "ledger_id": each, "bytes": own[each], "estimated_bytes": 0} for each in unknown]
    return {"topics": sorted(found, key=lambda row: row["bytes"], reverse=True)[:_TOPICS_MAX]}


def _of_topic(size: int, name: Topic, topic: OwnedTopic, estimated: int) -> dict[str, Any]:
    log = topic.log
    row = {"bytes": size, "estimated_bytes": estimated, "first_id": log.first_id, "last_id": log.last_id}
    return {**name_fields(name), **row}


def _messages(each: LedgerRange, last_id: int) -> int:
    return (last_id if each.end is None else each.end.local) - (each.start or 1) + 1
